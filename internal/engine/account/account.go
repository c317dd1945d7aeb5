// Package account keeps the account of a model beside the account of its learner: the served
// losses, the losses of two baselines that ignore the inputs, prediction intervals, and
// changes of the loss. It is part of the model's state: the same rounds give the same
// account, bit for bit.
package account

import (
	"math"

	"hindsight/internal/engine/account/confidence"
	"hindsight/internal/engine/account/drift"
	"hindsight/internal/engine/account/interval"
	"hindsight/internal/model"
)

// Account is the account of one model.
type Account struct {
	// Time is the time of the newest record, in nanoseconds since 1970.
	Time int64
	// predicted counts the scored observations with a served prediction, served sums the
	// losses of these predictions, without errors.
	predicted uint64
	served    Figures
	labels    labels
	// whole is over all scored observations, recent has the newest scored observations.
	whole  Performance
	recent window
	// excess is the loss of the served predictions minus the loss of the prequential ones of
	// the same observations, over all that were learned: the regret counts the first one.
	excess float64
	// pairs sum up prequential loss − prequential loss of the leader, over the scored observations
	// with both.
	pairs  confidence.Moments
	levels []float64
	// intervals has an entry each output, and none without levels.
	intervals []*interval.State
	drift     *drift.Detector
	// possible are the possible labels, nil for all.
	possible *model.Label
}

// labels are the trivial predictors: the weighted means and the newest labels, an entry each
// output. All are 0 before the first observation.
type labels struct {
	weight      float64
	means, last []float64
}

// New returns the account of a model that has learned nothing. Levels are the ascending
// coverages of its prediction intervals, or none. Possible says which labels can
// come, nil for all. The account of a classifier has no outputs; its baselines have no loss.
func New(outputs int, levels []float64, possible *model.Label) *Account {
	a := &Account{
		labels: labels{means: make([]float64, outputs), last: make([]float64, outputs)},
		levels: levels, drift: drift.New(), possible: possible,
	}
	if len(levels) > 0 {
		a.intervals = make([]*interval.State, outputs)
		for j := range a.intervals {
			a.intervals[j] = interval.New(levels)
		}
	}
	return a
}

// Loss is the loss of a prediction under a label.
type Loss func(prediction, label float64) float64

// Round is one observation, once it is learned.
type Round struct {
	// Labels and Predictions, the prequential ones, have an entry each output.
	Labels, Predictions []float64
	Weight              float64
	// Loss is the loss of Predictions, times the weight.
	Loss float64
	// Served is the prediction that the client received, nil if none, ServedLoss its
	// loss, times the weight. Notes are the result of AppendNotes at that time. Notes that no
	// account gives are ignored.
	Served, Notes []float64
	ServedLoss    float64
	// SquaredLoss is true if Loss is the squared loss: then the errors count.
	SquaredLoss bool
	// SetAside is true if the learner did not learn the observation. Then the baselines do
	// not learn it, and all sums leave it out: one outlier would decide every skill.
	SetAside bool
}

// Observe takes one observation. It returns the observation's performance, and whether the
// observation shows a change of the loss. It costs O(outputs · levels).
//
// Observe scores every observation but those set aside and the first that is learned: the
// performance of these is the zero value. The model and the baselines answer the first
// observation before any label, with 0, so that its loss is the square of the label's level
// and would outweigh the losses of thousands of observations.
func (a *Account) Observe(r Round, loss Loss) (round Performance, changed bool) {
	now := Figures{Loss: r.Loss}
	now.RunningMean, now.LastLabel = total(a.labels.means, r, loss), total(a.labels.last, r, loss)
	now.err(&r, r.Predictions)
	served := now
	notes := a.read(r.Notes)
	if r.Served != nil {
		served.Loss = r.ServedLoss
		served.err(&r, r.Served)
		if notes != nil {
			k := len(r.Labels)
			served.RunningMean, served.LastLabel = total(notes[:k], r, loss), total(notes[k:2*k], r, loss)
		}
	}
	a.checkIntervals(r, notes)
	changed = a.drift.Observe(served.Loss / r.Weight)
	if r.SetAside {
		return Performance{}, changed
	}
	if r.Served != nil {
		a.excess += r.ServedLoss - r.Loss
	}
	if a.labels.weight == 0 { // The first: every weight is above 0.
		a.learn(r)
		return Performance{}, changed
	}
	if r.Served != nil {
		a.predicted++
		a.served.add(&Figures{Loss: served.Loss, RunningMean: served.RunningMean, LastLabel: served.LastLabel}, 1)
	}
	round = Performance{Observations: 1, Prequential: now, Served: served}
	if r.SquaredLoss {
		round.Weight = r.Weight * float64(len(r.Labels))
	}
	a.whole.Add(round)
	a.recent.Add(round)
	a.learn(r)
	return round, changed
}

func (f *Figures) err(r *Round, predictions []float64) {
	f.Squared, f.Absolute = 0, 0
	if !r.SquaredLoss {
		return
	}
	for j, y := range r.Labels {
		miss := y - predictions[j]
		f.Squared += float64(r.Weight * float64(miss*miss))
		f.Absolute += float64(r.Weight * math.Abs(miss))
	}
}

// Pair takes the prequential loss of an observation minus the loss of the leader.
func (a *Account) Pair(difference float64) { a.pairs.Add(difference) }

func total(predictions []float64, r Round, loss Loss) (sum float64) {
	for j, y := range r.Labels {
		sum += float64(r.Weight * loss(predictions[j], y))
	}
	return sum
}

// checkIntervals shows the labels to the intervals. An observation without a served prediction is
// scored by the present interval.
func (a *Account) checkIntervals(r Round, notes []float64) {
	var outputs [1 + maxLevels]float64
	for j, s := range a.intervals {
		value, of := r.Predictions[j], outputs[:0]
		if r.Served != nil && notes != nil {
			value, of = r.Served[j], a.intervalNotes(notes, j)
		} else {
			of = appendInterval(of, s, value, len(a.levels))
		}
		s.Observe(interval.Round{Label: r.Labels[j], Served: value, Scale: of[0], Radii: of[1:], Possible: a.possible})
	}
}

func (a *Account) learn(r Round) {
	a.labels.weight += r.Weight
	share := r.Weight / a.labels.weight
	for j, y := range r.Labels {
		a.labels.means[j] += float64(share * (y - a.labels.means[j]))
		a.labels.last[j] = y
	}
}

// Recent returns the performance over the newest observations, at a cost of some 150
// additions.
func (a *Account) Recent() Performance { return a.recent.Total() }

// Summary sums up an account.
type Summary struct {
	Sums
	Pairs confidence.Moments
	// Intervals has an entry each level, over all outputs.
	Intervals []interval.Statistics
	// Drift describes changes of the loss. Its sequences count the observations of
	// this account.
	Drift drift.Statistics
}

// Sums are the part of a Summary that every model has.
type Sums struct {
	// Predicted counts the scored observations with a served prediction: see Observe. Served
	// sums the losses of these predictions and of the baselines at their time.
	Predicted uint64
	Served    Figures
	// Excess is the loss of the served predictions minus the loss of the prequential ones of
	// the same observations, the first one included.
	Excess float64
	// Whole is the performance over all scored observations, Recent over the newest ones.
	Whole, Recent Performance
}

// Summary returns the summary, at a cost of O(outputs · levels).
func (a *Account) Summary() Summary {
	s := Summary{
		Sums: Sums{
			Predicted: a.predicted, Served: a.served, Excess: a.excess,
			Whole: a.whole, Recent: a.recent.Total(),
		},
		Pairs: a.pairs, Drift: a.drift.Statistics(),
	}
	if len(a.levels) == 0 {
		return s
	}
	s.Intervals = make([]interval.Statistics, len(a.levels))
	for level := range s.Intervals {
		s.Intervals[level] = a.overOutputs(level)
	}
	return s
}

// overOutputs returns the statistics of a level over all outputs: means, and the smallest
// LeastCoverage.
func (a *Account) overOutputs(level int) interval.Statistics {
	sum := a.intervals[0].Statistics(level)
	for _, s := range a.intervals[1:] {
		next := s.Statistics(level)
		sum.Coverage += next.Coverage
		sum.RecentCoverage += next.RecentCoverage
		sum.LeastCoverage = math.Min(sum.LeastCoverage, next.LeastCoverage)
		sum.MeanWidth += next.MeanWidth
		sum.MeanScore += next.MeanScore
	}
	k := float64(len(a.intervals))
	sum.Coverage /= k
	sum.RecentCoverage /= k
	sum.MeanWidth /= k
	sum.MeanScore /= k
	return sum
}

// Counts appends the number of intervals that were scored of a level and, for each level,
// the number of these that contained their label, over all outputs. Without levels it
// appends nothing. It costs O(outputs · levels) and allocates nothing when dst has room.
func (a *Account) Counts(dst []uint64) []uint64 {
	if len(a.levels) == 0 {
		return dst
	}
	scored := uint64(0)
	for _, s := range a.intervals {
		scored += s.Scored()
	}
	dst = append(dst, scored)
	for level := range a.levels {
		covered := uint64(0)
		for _, s := range a.intervals {
			covered += s.Covered(level)
		}
		dst = append(dst, covered)
	}
	return dst
}

// Change returns the statistics of changes of the loss. They count the observations of this
// account.
func (a *Account) Change() drift.Statistics { return a.drift.Statistics() }

// Intervals returns the statistics of each output, an entry each level.
func (a *Account) Intervals() [][]interval.Statistics {
	all := make([][]interval.Statistics, len(a.intervals))
	for j, s := range a.intervals {
		for level := range a.levels {
			all[j] = append(all[j], s.Statistics(level))
		}
	}
	return all
}
