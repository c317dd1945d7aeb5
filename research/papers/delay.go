package papers

import (
	"context"
	"errors"
	"fmt"
	"math"

	"golang.org/x/sync/errgroup"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
)

// Delays are the numbers of rounds that the labels of the second table are late.
func Delays() []int { return []int{1, 10, 100} }

// Late is what auto served on a stream whose labels came late.
type Late struct {
	// Delay is how many rounds late they came, Rows the number of rows used.
	Delay, Rows int
	// Loss is the mean loss of what was served, RunningMean and LastLabel those of
	// the baselines at the moment of each prediction. ErrorRate is known if the
	// labels are signs.
	Loss, RunningMean, LastLabel, ErrorRate float64
	// Skill is that of what was served.
	Skill float64
}

// lateRows is how many rows of a stream are sent with late labels, 0 for none:
// the streams of which the most is lost when labels are late.
func lateRows(s Stream, rows int) int {
	switch s.Name {
	case "air", "bike", "energy_appliances":
		return rows
	case "elec2":
		return min(rows, 20_000)
	default:
		return 0
	}
}

// late takes a stream through auto once for every delay, side by side.
func (b *Bench) late(ctx context.Context, s Stream, t *Table) ([]Late, error) {
	rows := lateRows(s, len(t.Y))
	if rows == 0 {
		return nil, nil
	}
	results := make([]Late, len(Delays()))
	group, ctx := errgroup.WithContext(ctx)
	for n, delay := range Delays() {
		group.Go(func() (err error) {
			results[n], err = b.delayed(ctx, s, t, rows, delay)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	for _, r := range results {
		b.Report("%-18s auto, labels %d rounds late: loss %.4g", s.Name, r.Delay, r.Loss)
	}
	return results, nil
}

// delayed takes rows of a table through a model of auto. The label of a round is
// sent after the prediction delay rounds later and before the next one.
func (b *Bench) delayed(ctx context.Context, s Stream, t *Table, rows, delay int) (r Late, err error) {
	r = Late{Delay: delay, Rows: rows, ErrorRate: math.NaN()}
	auto := Learner{Name: NameAuto, Defaults: true}
	id := fmt.Sprintf("%s-%s-late-%d", b.Run, s.Name, delay)
	if _, err := b.Create(ctx, id, auto.Spec(s, t.Dimension(), t.Sigma)); err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, b.Remove(ctx, id)) }()
	wrong := 0
	for i := range rows + delay {
		if i < rows {
			served, err := b.predict(ctx, id, rowID(i), t.Inputs(i, auto))
			if err != nil {
				return r, err
			}
			if served*t.Y[i] <= 0 {
				wrong++
			}
		}
		if i >= delay {
			if err := b.observe(ctx, id, rowID(i-delay), t.Y[i-delay]); err != nil {
				return r, err
			}
		}
	}
	stats, err := b.Stats(ctx, id)
	if err != nil {
		return r, err
	}
	served := stats.GetPerformance().GetServed()
	r.Loss, r.RunningMean, r.LastLabel = served.GetMeanLoss(), served.GetRunningMeanLoss(), served.GetLastLabelLoss()
	r.Skill = skill(served)
	if s.Signs {
		r.ErrorRate = float64(wrong) / float64(rows)
	}
	return r, nil
}

// rowID is the prediction id of a row.
func rowID(row int) string { return fmt.Sprintf("row-%d", row) }

// predict asks for a prediction that waits for its label.
func (b *Bench) predict(ctx context.Context, id, row string, x []float64) (value float64, err error) {
	err = b.Call(ctx, func(ctx context.Context) error {
		answer, err := b.Predictions.Predict(ctx, &hindsightv1.PredictRequest{Model: id, PredictionId: row, Features: x})
		value = answer.GetPrediction().GetValue()
		return err
	})
	return value, err
}

// observe sends the label of a prediction.
func (b *Bench) observe(ctx context.Context, id, row string, y float64) error {
	return b.Call(ctx, func(ctx context.Context) error {
		_, err := b.Predictions.Observe(ctx, &hindsightv1.ObserveRequest{
			Model: id, PredictionId: row, Target: &hindsightv1.ObserveRequest_Label{Label: y},
		})
		return err
	})
}
