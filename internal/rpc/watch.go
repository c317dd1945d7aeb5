package rpc

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"time"

	"golang.org/x/time/rate"
	"google.golang.org/grpc"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
	"hindsight/internal/engine"
)

// Bounds of a watch.
const (
	defaultOutcomes = 10
	maxOutcomes     = 100
	minInterval     = time.Second
	// The longest time between two outcomes in seconds, so that every rate has a Duration.
	maxPeriod = 365 * 24 * 3600.0
)

func watchOptions(r *hindsightv1.WatchModelRequest) (outcomes float64, interval time.Duration, err error) {
	outcomes, interval = r.GetMaxOutcomesPerSecond(), minInterval
	if outcomes == 0 {
		outcomes = defaultOutcomes
	}
	if !(outcomes > 0 && outcomes <= maxOutcomes) {
		return 0, 0, engine.Invalid("max_outcomes_per_second", strconv.FormatFloat(outcomes, 'g', -1, 64),
			fmt.Sprintf("above 0 and at most %d; 0 is %d", maxOutcomes, defaultOutcomes))
	}
	if given := r.GetStatsInterval(); given != nil {
		if interval = given.AsDuration(); given.CheckValid() != nil || interval < minInterval {
			return 0, 0, engine.Invalid("stats_interval", durationText(given), fmt.Sprintf("at least %s", minInterval))
		}
	}
	return outcomes, interval, nil
}

// WatchModel streams outcomes, statistics and history. It ends with MODEL_NOT_FOUND when the
// model is deleted, and with SHUTTING_DOWN when the server drains.
func (m *models) WatchModel(r *hindsightv1.WatchModelRequest, stream grpc.ServerStreamingServer[hindsightv1.WatchModelResponse]) error {
	outcomes, interval, err := watchOptions(r)
	if err != nil {
		return err
	}
	ctx := stream.Context()
	burst := int(math.Ceil(outcomes))
	watched, err := m.groups.engine(r.GetModel()).Watch(ctx, r.GetModel(), burst)
	if err != nil {
		return err
	}
	defer watched.Close()
	w := watch{
		Watcher: watched, stream: stream, interval: interval,
		pace: rate.NewLimiter(rate.Limit(outcomes), burst), again: time.NewTimer(0), due: time.NewTimer(interval), inputs: r.GetIncludeInputs(),
	}
	defer w.again.Stop()
	defer w.due.Stop()
	if err := w.statistics(ctx); err != nil {
		return err
	}
	for {
		select {
		case <-ctx.Done():
			return fmt.Errorf("rpc: watch: %w", context.Cause(ctx))
		case <-m.draining:
			return engine.ErrClosed
		case <-w.Changed():
			if err := w.Err(); err != nil {
				return err
			}
			w.changed = true
		case <-w.again.C:
		case <-w.due.C:
			w.rested = true
		}
		if err := w.sendDue(ctx); err != nil {
			return err
		}
	}
}

type watch struct {
	*engine.Watcher
	stream grpc.ServerStreamingServer[hindsightv1.WatchModelResponse]
	// pace admits outcomes. After it has admitted none, again fires when it admits the next.
	pace  *rate.Limiter
	again *time.Timer
	// due fires when the interval since the last statistics is over, which sets rested. changed:
	// the model has learned since.
	due             *time.Timer
	interval        time.Duration
	rested, changed bool
	inputs          bool // Outcomes have the input.
}

func (w *watch) sendDue(ctx context.Context) error {
	for w.pace.Tokens() >= 1 {
		learned, ok := w.Next()
		if !ok {
			break
		}
		w.pace.Allow()
		event := learnedToProto(&learned, w.Levels())
		if err := w.addInput(event, &learned); err != nil {
			return err
		}
		if err := w.send(&hindsightv1.WatchModelResponse{Event: &hindsightv1.WatchModelResponse_Outcome{Outcome: event}}); err != nil {
			return err
		}
	}
	if missing := 1 - w.pace.Tokens(); missing > 0 {
		w.again.Reset(1 + time.Duration(min(missing/float64(w.pace.Limit()), maxPeriod)*float64(time.Second)))
	}
	if !w.rested || !w.changed {
		return nil
	}
	w.rested, w.changed = false, false
	w.due.Reset(w.interval)
	if err := w.statistics(ctx); err != nil {
		return err
	}
	points, err := w.Points(ctx)
	if err != nil {
		return err
	}
	for n := range points {
		event := &hindsightv1.WatchModelResponse_History{History: pointToProto(&points[n])}
		if err := w.send(&hindsightv1.WatchModelResponse{Event: event}); err != nil {
			return err
		}
	}
	return nil
}

func (w *watch) statistics(ctx context.Context) error {
	stats, err := w.Statistics(ctx)
	if err != nil {
		return err
	}
	return w.send(&hindsightv1.WatchModelResponse{Event: &hindsightv1.WatchModelResponse_Stats{Stats: statsToProto(stats)}})
}

func (w *watch) send(event *hindsightv1.WatchModelResponse) error {
	if err := w.stream.Send(event); err != nil {
		return fmt.Errorf("rpc: watch: %w", err)
	}
	return nil
}

func (w *watch) addInput(event *hindsightv1.OutcomeEvent, l *engine.Learned) (err error) {
	if !w.inputs {
		return nil
	}
	if l.Inputs != nil {
		event.Inputs, err = recordToProto(w.Schema(), l.Inputs)
		return err
	}
	event.Features = l.Features
	return nil
}

func learnedToProto(l *engine.Learned, levels []float64) *hindsightv1.OutcomeEvent {
	event := &hindsightv1.OutcomeEvent{
		Outcome: outcomeToProto(l.Answer), Labels: l.Labels, Class: l.Class, Time: momentToProto(l.Time), Omitted: l.Omitted,
	}
	if l.Served && l.Class == "" {
		var p engine.Prediction
		p.Values, p.Notes, p.Levels = l.ServedPredictions, l.Notes, levels
		event.Intervals = intervalsToProto(&p)
	}
	return event
}
