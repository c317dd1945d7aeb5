package rpc_test

import (
	"context"
	"errors"
	"io"
	"math"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
	"hindsight/internal/rpc"
)

// learn lets a model learn batches of rows.
func (s *service) learn(t *testing.T, id string, rows int) {
	t.Helper()
	for from := 0; from < rows; from += 100 {
		batch := &hindsightv1.ObserveBatchRequest{Model: id}
		for n := from; n < min(from+100, rows); n++ {
			x := float64(n % 7)
			batch.Observations = append(batch.Observations, &hindsightv1.ObserveRequest{Features: []float64{x}, Target: label(2*x + float64(n%3))})
		}
		must(s.ObserveBatch(t.Context(), batch))(t)
	}
}

func (s *service) history(t *testing.T, id string) *hindsightv1.GetModelHistoryResponse {
	t.Helper()
	return must(s.models.GetModelHistory(t.Context(), &hindsightv1.GetModelHistoryRequest{Model: id}))(t)
}

// The points of a history add up to the statistics, and the last one has the figures of
// now.
func TestGetModelHistory(t *testing.T) {
	s := serve(t)
	spec := linear(1)
	spec.Coverage = []float64{0.5, 0.9}
	s.create(t, "m", spec)
	if h := s.history(t, "m"); len(h.GetPoints())+len(h.GetExperts())+len(h.GetDrifts()) != 0 {
		t.Fatalf("of nothing: %v", h)
	}
	s.learn(t, "m", 1301)
	h := s.history(t, "m")
	r, err := s.models.GetModelStats(t.Context(), &hindsightv1.GetModelStatsRequest{Model: "m"})
	require.NoError(t, err)
	stats := r.GetStats()
	const digits = 1e-5
	near := func(got, want float64) bool { return math.Abs(got-want) <= digits*math.Abs(want) }
	observations, loss, mean := 0.0, 0.0, 0.0
	for n, p := range h.GetPoints() {
		n, served := float64(n), p.GetPerformance().GetServed()
		count := p.GetPerformance().GetObservations()
		assert.True(t, observations != 0 || count == 7, "the first point is of %g scored observations, want 7: the first is not", count)
		observations, loss, mean = observations+count, loss+count*served.GetMeanLoss(), mean+count*served.GetRunningMeanLoss()
		require.True(t, p.GetSequence() == uint64(observations)+1 && !p.GetTime().AsTime().Before(time.Now().Add(-time.Hour)) && p.Dictionary == nil && p.GetClasses() == nil, "point %g is %v", n, p)
		scored := len(p.GetRealised())
		require.True(t, scored == 0 || scored == 2, "point %g has %d coverages", n, scored)
	}
	last := h.GetPoints()[len(h.GetPoints())-1]
	if len(h.GetPoints()) != 163 || observations != 1300 || !near(loss, 1300*stats.GetPerformance().GetServed().GetMeanLoss()) ||
		!near(mean, 1300*stats.GetPerformance().GetServed().GetRunningMeanLoss()) {
		t.Errorf("%d points of %g observations, loss %g, of the mean %g; want %v", len(h.GetPoints()), observations, loss, mean, stats.GetPerformance())
	}
	if !near(last.GetRegret(), stats.GetRegret()) || !near(last.GetRegretBound(), stats.GetRegretBound()) || len(last.GetRealised()) != 2 {
		t.Errorf("the last point is %v, want regret %g and bound %g", last, stats.GetRegret(), stats.GetRegretBound())
	}
	rejected(t, errOf(s.models.GetModelHistory(t.Context(), &hindsightv1.GetModelHistoryRequest{Model: "missing"})), codes.NotFound, "MODEL_NOT_FOUND")
}

// What a learner does not know is absent: of one whose regret is solved for the
// regret, of a classifier the baselines of losses, of all but some the dictionary and
// the experts.
func TestHistoryLeavesOutWhatIsNotKnown(t *testing.T) {
	s := serve(t)
	s.create(t, "ada", &hindsightv1.ModelSpec{
		Dimension: 1, Scaling: unscaled(), Learner: &hindsightv1.ModelSpec_AdaRaker{AdaRaker: &hindsightv1.AdaRaker{}},
	})
	s.create(t, "auto", &hindsightv1.ModelSpec{Dimension: 1, Learner: &hindsightv1.ModelSpec_Auto{Auto: &hindsightv1.Auto{}}})
	s.create(t, "nystrom", &hindsightv1.ModelSpec{
		Dimension: 1, Scaling: unscaled(), Learner: &hindsightv1.ModelSpec_PkawvNystrom{PkawvNystrom: &hindsightv1.PkawvNystrom{}},
	})
	two := linear(1)
	two.Classes = &hindsightv1.Classes{}
	s.create(t, "classes", two)
	for _, id := range []string{"ada", "auto", "nystrom"} {
		s.learn(t, id, 60)
	}
	for n := range 60 {
		must(s.Observe(t.Context(), &hindsightv1.ObserveRequest{Model: "classes", Features: []float64{float64(n % 5)}, Target: class(strconv.Itoa(n % 2))}))(t)
	}
	for id, has := range map[string]struct{ regret, bound, dictionary, baselines, classes, experts bool }{
		"ada":     {baselines: true, experts: true},
		"auto":    {regret: true, bound: true, baselines: true, experts: true},
		"nystrom": {regret: true, bound: true, dictionary: true, baselines: true},
		"classes": {regret: true, bound: true, classes: true},
	} {
		h := s.history(t, id)
		p := h.GetPoints()[len(h.GetPoints())-1]
		served := p.GetPerformance().GetServed()
		if len(h.GetPoints()) != 60 || (p.Regret != nil) != has.regret || (p.RegretBound != nil) != has.bound || (p.Dictionary != nil) != has.dictionary ||
			(served.RunningMeanLoss != nil) != has.baselines || (p.GetClasses() != nil) != has.classes || (len(p.GetExpertWeights()) > 0) != has.experts {
			t.Errorf("%s: %d points, the last is %v", id, len(h.GetPoints()), p)
		}
		assert.Equal(t, len(p.GetExpertWeights()), len(h.GetExperts()), id)
	}
}

// watching is a stream of WatchModel, after its first event, the statistics.
func (s *service) watching(t *testing.T, r *hindsightv1.WatchModelRequest) (next func() (*hindsightv1.WatchModelResponse, error), first *hindsightv1.ModelStats) {
	t.Helper()
	stream := must(s.models.WatchModel(t.Context(), r))(t)
	e, err := stream.Recv()
	require.True(t, err == nil && e.GetStats() != nil, "%v, %v; want statistics", e, err)
	return stream.Recv, e.GetStats()
}

// outcomes waits for so many outcomes, and says how many observations they stand for.
func outcomes(t *testing.T, next func() (*hindsightv1.WatchModelResponse, error), n int) (all []*hindsightv1.OutcomeEvent, stand uint64) {
	t.Helper()
	for len(all) < n {
		e := must(next())(t)
		if o := e.GetOutcome(); o != nil {
			all, stand = append(all, o), stand+1+o.GetOmitted()
		}
	}
	return all, stand
}

// A watcher is told the statistics, what is learned, the statistics again and the
// points of the history that are complete.
func TestWatchModel(t *testing.T) {
	s := serve(t)
	s.create(t, "m", linear(1))
	s.learn(t, "m", 5)
	next, first := s.watching(t, &hindsightv1.WatchModelRequest{Model: "m"})
	require.True(t, first.GetObservations() == 5 && first.Regret != nil && first.GetStateDigest() == "", "%v", first)
	s.learn(t, "m", 4)
	all, stand := outcomes(t, next, 4)
	for n, o := range all {
		if o.GetOutcome().GetSequence() != uint64(6+n) || len(o.GetLabels()) != 1 || o.GetLabels()[0] != float64(2*n+n%3) || o.GetOmitted() != 0 || o.GetTime() == nil {
			t.Errorf("outcome %d is %v", n, o)
		}
	}
	assert.EqualValues(t, 4, stand)
	e, err := next()
	require.True(t, err == nil && e.GetStats().GetObservations() == 9, "%v, %v; want statistics", e, err)
	for n := range 4 {
		e, err := next()
		require.True(t, err == nil && e.GetHistory().GetSequence() == uint64(6+n), "%v, %v; want point %d", e, err, 6+n)
	}
}

// An outcome has the input as Predict and Observe took it, if the watcher asks for inputs.
func TestWatchedInputs(t *testing.T) {
	s := serve(t)
	s.create(t, "features", linear(2))
	s.create(t, "named", named(t, `[{"name": "age", "numeric": {}}, {"name": "member", "boolean": {}}, {"name": "city", "categorical": {}},
		{"name": "at", "time": {}}, {"name": "shape", "vector": {"length": 2}}]`))
	row := must(structpb.NewStruct(map[string]any{"age": 0.1, "member": true, "city": "Bern", "at": "2026-11-29T14:05:06.5+01:00", "shape": []any{1.0, -2.5}}))(t)
	empty := must(structpb.NewStruct(map[string]any{"age": nil, "member": nil, "city": nil, "at": nil, "shape": nil}))(t)
	for _, asked := range []bool{false, true} {
		features, _ := s.watching(t, &hindsightv1.WatchModelRequest{Model: "features", IncludeInputs: asked})
		named, _ := s.watching(t, &hindsightv1.WatchModelRequest{Model: "named", IncludeInputs: asked})
		p := must(s.Predict(t.Context(), &hindsightv1.PredictRequest{Model: "features", Features: []float64{3, -4}, Remember: proto.Bool(true)}))(t).GetPrediction()
		must(s.Observe(t.Context(), &hindsightv1.ObserveRequest{Model: "features", PredictionId: p.GetPredictionId(), Target: label(1)}))(t)
		p = must(s.Predict(t.Context(), &hindsightv1.PredictRequest{Model: "named", Inputs: row, Remember: proto.Bool(true)}))(t).GetPrediction()
		must(s.Observe(t.Context(), &hindsightv1.ObserveRequest{Model: "named", PredictionId: p.GetPredictionId(), Target: label(1)}))(t)
		must(s.Observe(t.Context(), &hindsightv1.ObserveRequest{Model: "named", Inputs: empty, Target: label(1)}))(t)
		numbers, _ := outcomes(t, features, 1)
		rows, _ := outcomes(t, named, 2)
		if !asked {
			assert.True(t, numbers[0].Features == nil && rows[0].GetInputs() == nil, "not asked for: %v, %v", numbers[0], rows[0])
			continue
		}
		assert.True(t, slices.Equal(numbers[0].GetFeatures(), []float64{3, -4}) && numbers[0].GetInputs() == nil, "the features are %v", numbers[0])
		if !proto.Equal(rows[0].GetInputs(), row) || !proto.Equal(rows[1].GetInputs(), empty) || rows[0].Features != nil {
			t.Errorf("the inputs are %v and %v, want %v and %v", rows[0].GetInputs(), rows[1].GetInputs(), row, empty)
		}
	}
}

// An outcome has the intervals of the prediction that was served, and none without one.
func TestWatchedIntervals(t *testing.T) {
	s := serve(t)
	for id, outputs := range map[string]int32{"one": 1, "two": 2} {
		spec := linear(1)
		spec.Coverage, spec.Outputs = []float64{0.5, 0.9}, outputs
		s.create(t, id, spec)
		observe := func(r *hindsightv1.ObserveRequest) {
			r.Model, r.Target = id, label(3)
			if outputs == 2 {
				r.Target = &hindsightv1.ObserveRequest_Labels{Labels: &hindsightv1.Labels{Values: []float64{3, 4}}}
			}
			must(s.Observe(t.Context(), r))(t)
		}
		for n := range 40 {
			observe(&hindsightv1.ObserveRequest{Features: []float64{float64(n % 7)}})
		}
		next, _ := s.watching(t, &hindsightv1.WatchModelRequest{Model: id})
		r := must(s.Predict(t.Context(), &hindsightv1.PredictRequest{Model: id, Features: []float64{2}}))(t)
		observe(&hindsightv1.ObserveRequest{Features: []float64{5}})
		observe(&hindsightv1.ObserveRequest{PredictionId: r.GetPrediction().GetPredictionId()})
		all, _ := outcomes(t, next, 2)
		assert.Nil(t, all[0].GetIntervals(), id)
		got, want := all[1], r.GetPrediction()
		if len(want.GetIntervals()) != 2 || !proto.Equal(&hindsightv1.Prediction{Intervals: got.GetIntervals()}, &hindsightv1.Prediction{Intervals: want.GetIntervals()}) {
			t.Errorf("%s: the outcome has %v, the prediction had %v", id, got.GetIntervals(), want.GetIntervals())
		}
	}
}

// A watch ends with its model, and with the server. Neither is an error of the server.
func TestWatchEnds(t *testing.T) {
	core, lines := observer.New(zap.ErrorLevel)
	s := serve(t, func(o *rpc.Options) { o.Log = zap.New(core) })
	s.create(t, "m", linear(1))
	s.create(t, "n", linear(1))
	one, _ := s.watching(t, &hindsightv1.WatchModelRequest{Model: "m"})
	other, _ := s.watching(t, &hindsightv1.WatchModelRequest{Model: "n"})
	must(s.models.DeleteModel(t.Context(), &hindsightv1.DeleteModelRequest{Model: "m"}))(t)
	rejected(t, errOf(one()), codes.NotFound, "MODEL_NOT_FOUND")
	limit, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		s.server.Drain(limit)
	}()
	rejected(t, errOf(other()), codes.Unavailable, "SHUTTING_DOWN")
	<-drained
	assert.NoError(t, limit.Err(), "a watcher held up the end")
	for _, line := range lines.All() {
		t.Errorf("the log has an error: %s %v", line.Message, line.ContextMap())
	}
}

func TestWatchRejects(t *testing.T) {
	s := serve(t)
	s.create(t, "m", linear(1))
	first := func(r *hindsightv1.WatchModelRequest) error {
		stream, err := s.models.WatchModel(t.Context(), r)
		require.NoError(t, err)
		_, err = stream.Recv()
		require.False(t, errors.Is(err, io.EOF), "it ended")
		return err
	}
	for _, rate := range []float64{-1, 101, math.NaN(), math.Inf(1)} {
		rejected(t, first(&hindsightv1.WatchModelRequest{Model: "m", MaxOutcomesPerSecond: rate}), codes.InvalidArgument, "INVALID_REQUEST", "max_outcomes_per_second")
	}
	for _, interval := range []time.Duration{0, -time.Second, time.Second - 1} {
		rejected(t, first(&hindsightv1.WatchModelRequest{Model: "m", StatsInterval: durationpb.New(interval)}), codes.InvalidArgument, "INVALID_REQUEST", "stats_interval")
	}
	rejected(t, first(&hindsightv1.WatchModelRequest{Model: "missing"}), codes.NotFound, "MODEL_NOT_FOUND")
	ctx, cancel := context.WithCancel(t.Context())
	stream, err := s.models.WatchModel(ctx, &hindsightv1.WatchModelRequest{Model: "m"})
	if err == nil {
		_, err = stream.Recv()
	}
	require.NoError(t, err)
	cancel()
	_, err = stream.Recv()
	assert.Equal(t, codes.Canceled, status.Code(err), "given up: %v", err)
}
