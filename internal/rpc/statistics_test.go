package rpc_test

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
	"hindsight/internal/engine"
	"hindsight/internal/engine/account"
	"hindsight/internal/engine/account/classes"
	"hindsight/internal/model"
	"hindsight/internal/model/input"
	"hindsight/internal/rpc"
)

// wantMessage compares a message with its JSON, in which what is absent has no name.
func wantMessage(t *testing.T, name string, got proto.Message, want string) {
	t.Helper()
	expected := got.ProtoReflect().New().Interface()
	require.NoError(t, protojson.Unmarshal([]byte(want), expected))
	if !proto.Equal(got, expected) {
		t.Errorf("%s is\n%s, want\n%s", name, protojson.Format(got), protojson.Format(expected))
	}
}

// A figure that a model does not have is absent, and never 0. Only a certificate that
// failed is told of a model that is not certified.
func TestStatsThatDoNotApply(t *testing.T) {
	known := engine.Stats{Stats: model.Stats{
		Observations: 2, Loss: 4, Regret: 1, HindsightLoss: 3, RegretBound: 3, CertificateOK: true, Certified: true,
		LogDeterminant: 0.5, LabelBound: 7,
	}}
	known.Predicted, known.KnownCertificate = 1, 2
	known.Whole = account.Performance{Observations: 2, Prequential: account.Figures{Loss: 3}}
	wantFigures := func(s engine.Stats, want string) {
		t.Helper()
		if !s.Certified {
			s.KnownCertificate = math.NaN()
		}
		p := rpc.StatsToProto(s)
		wantMessage(t, "what is told", &hindsightv1.ModelStats{
			MeanLoss: p.MeanLoss, RegretBound: p.RegretBound, Certificate: p.Certificate, CertificateOk: p.CertificateOk,
			LogDeterminant: p.LogDeterminant, LabelBound: p.LabelBound, ServedLossSum: p.ServedLossSum,
		}, want)
	}
	wantFigures(known, `{"meanLoss": 1.5, "regretBound": 3, "certificate": 2, "certificateOk": true, "logDeterminant": 0.5, "labelBound": 7, "servedLossSum": 0}`)
	wantFigures(engine.Stats{Stats: model.Stats{CertificateOK: true}}, `{}`)
	wantFigures(engine.Stats{Stats: model.Stats{Observations: 2, CertificateOK: false}}, `{"certificateOk": false}`)
}

// What is not known of an input is absent: the numbers of categories and before the
// first value, the shift before the first window.
func TestStatsOfInputs(t *testing.T) {
	s := rpc.StatsToProto(engine.Stats{Inputs: []engine.InputStatistics{
		{Name: "load", Statistics: input.Statistics{
			Seen: 8, Missing: 2, Outside: 4, Low: -1, High: 3, Mean: 0.5, Deviation: 0.25, NumbersKnown: true, Shift: 0.125, ShiftKnown: true,
		}},
		{Name: "new", Statistics: input.Statistics{Missing: 10}},
		{Name: "city", Statistics: input.Statistics{Seen: 10, Outside: 3, Categories: 3, ShiftKnown: true}},
		{Name: "still", Statistics: input.Statistics{Seen: 10, NumbersKnown: true}},
	}})
	for i, want := range []string{
		`{"name": "load", "seen": 8, "missing": 2, "outside": 4, "outsideShare": 0.5, "low": -1, "high": 3, "mean": 0.5, "deviation": 0.25, "shift": 0.125}`,
		`{"name": "new", "missing": 10}`,
		`{"name": "city", "seen": 10, "outside": 3, "outsideShare": 0.3, "categories": 3, "shift": 0}`,
		`{"name": "still", "seen": 10, "outsideShare": 0, "low": 0, "high": 0, "mean": 0, "deviation": 0}`,
	} {
		wantMessage(t, fmt.Sprint("input ", i), s.GetInputs()[i], want)
	}
}

// classifier is the statistics of a classifier that has seen eight observations.
func classifier() engine.Stats {
	figures := classes.Figures{Errors: 2, LogLoss: 4, Brier: 1, Majority: 4, Last: 8}
	told := classes.Figures{Errors: 4, LogLoss: 8, Brier: 2, Majority: 0, Last: 8}
	c := &engine.ClassStatistics{
		Names: []string{"cat", "dog", "eel"},
		Summary: classes.Summary{
			Whole:   classes.Performance{Observations: 8, Prequential: figures, Served: told},
			Classes: []classes.Class{{Observed: 5, Errors: 1, Predicted: 6, Expected: 5.5}, {Observed: 3, Errors: 1, Predicted: 2, Expected: 2.5}},
		},
	}
	c.Reliability[7] = classes.Bin{Members: 4, Found: 3, Expected: 2.875}
	return engine.Stats{
		Stats: model.Stats{Observations: 8, Loss: 4},
		Summary: account.Summary{Sums: account.Sums{
			Whole: account.Performance{Observations: 8, Prequential: account.Figures{Loss: 4}, Served: account.Figures{Loss: 6}},
		}},
		ClassAccount: c,
	}
}

func TestStatsOfClasses(t *testing.T) {
	s := rpc.StatsToProto(classifier())
	c := s.GetClasses()
	wantMessage(t, "the performance", c.GetPerformance(), `{
		"observations": 8,
		"prequential": {"errorRate": 0.25, "logLoss": 0.5, "brierScore": 0.125, "majorityErrorRate": 0.5, "lastClassErrorRate": 1, "skill": 0.5},
		"served": {"errorRate": 0.5, "logLoss": 1, "brierScore": 0.25, "lastClassErrorRate": 1}
	}`)
	wantMessage(t, "the recent performance of nothing", c.GetRecent(), `{}`)
	for i, want := range []string{
		`{"class": "cat", "observed": 5, "errors": 1, "predicted": 6, "expected": 5.5}`,
		`{"class": "dog", "observed": 3, "errors": 1, "predicted": 2, "expected": 2.5}`,
		`{"class": "eel"}`,
	} {
		wantMessage(t, fmt.Sprint("class ", i), c.GetClasses()[i], want)
	}
	require.Equal(t, 10, len(c.GetReliability()))
	wantMessage(t, "bin 0", c.GetReliability()[0], `{"high": 0.1}`)
	wantMessage(t, "bin 7", c.GetReliability()[7], `{"low": 0.7, "high": 0.8, "members": 4, "predicted": 0.71875, "found": 0.75}`)
	wantMessage(t, "bin 9", c.GetReliability()[9], `{"low": 0.9, "high": 1}`)
	other := rpc.StatsToProto(engine.Stats{})
	assert.True(t, other.GetClasses() == nil && len(other.GetInputs())+len(other.GetWeights()) <= 0, "a model of neither has %v", other)
}

// The loss of a classifier is the learner's own, which no class that is always told has.
func TestStatsOfAClassifierHaveNoBaselines(t *testing.T) {
	s := classifier()
	wantMessage(t, "the performance", rpc.StatsToProto(s).GetPerformance(),
		`{"observations": 8, "prequential": {"meanLoss": 0.5}, "served": {"meanLoss": 0.75}}`)
	s.ClassAccount = nil
	wantMessage(t, "the performance with baselines", rpc.StatsToProto(s).GetPerformance(), `{
		"observations": 8,
		"prequential": {"meanLoss": 0.5, "runningMeanLoss": 0, "lastLabelLoss": 0},
		"served": {"meanLoss": 0.75, "runningMeanLoss": 0, "lastLabelLoss": 0}
	}`)
}

// order writes the weights of a model, one after the other.
func order(weights []*hindsightv1.FeatureWeight) string {
	var all []string
	for _, w := range weights {
		all = append(all, fmt.Sprintf("%d:%s=%g", w.GetOutput(), w.GetFeature(), w.GetWeight()))
	}
	return strings.Join(all, " ")
}

// Weights with known effects come first, by their effects, then the others by their
// size. Equal ones keep their order.
func TestStatsOfWeights(t *testing.T) {
	nan := math.NaN()
	s := engine.Stats{}
	s.FeatureNames = []string{"load", "city=Oslo"}
	s.Weights = []model.Weight{
		{Input: 0, Value: 1, Effect: 0.5},
		{Input: 1, Value: 0.1, Effect: -2},
		{Input: 2, Value: -3, Effect: nan},
		{Input: model.NoInput, Value: 4, Effect: nan},
		{Output: 1, Input: 0, Value: -1, Effect: -0.5},
		{Output: 1, Input: 1, Value: 0, Effect: 0},
		{Output: 1, Input: 2, Value: 4, Effect: nan},
	}
	got := rpc.StatsToProto(s).GetWeights()
	assert.Equal(t, "0:city=Oslo=0.1 0:load=1 1:load=-1 1:city=Oslo=0 0:=4 1:x[2]=4 0:x[2]=-3", order(got))
	wantMessage(t, "a weight with an effect", got[0], `{"feature": "city=Oslo", "weight": 0.1, "effect": -2}`)
	wantMessage(t, "a constant", got[4], `{"weight": 4}`)
	many := engine.Stats{}
	for i := range 250 {
		many.Weights = append(many.Weights, model.Weight{Input: i, Value: float64(i % 125), Effect: nan})
	}
	got = rpc.StatsToProto(many).GetWeights()
	if len(got) != 100 || got[0].GetFeature() != "x[124]" || got[1].GetFeature() != "x[249]" || got[99].GetWeight() != 75 {
		t.Errorf("%d weights: %s", len(got), order(got))
	}
}

// Effects have the category of the key, if the model still knows its text.
func TestEffects(t *testing.T) {
	s := engine.Stats{}
	s.Effects = []engine.KeyEffect{
		{Input: "user", Key: input.Key{Text: "u7", Known: true}, Effect: model.Effect{Value: -2.5, Observations: 40, Output: 1}},
		{Input: "user", Key: input.Key{Text: "", Known: true}, Effect: model.Effect{Value: 2}},
		{Input: "user", Key: input.Key{Known: true, Missing: true}, Effect: model.Effect{Value: 1, Observations: 3}},
		{Input: "shop", Key: input.Key{Input: 1}, Effect: model.Effect{Value: 0.5, Observations: 1}},
	}
	wantMessage(t, "effects", &hindsightv1.ModelStats{Effects: rpc.StatsToProto(s).GetEffects()}, `{"effects": [
		{"input": "user", "category": "u7", "effect": -2.5, "observations": 40, "output": 1}, {"input": "user", "category": "", "effect": 2},
		{"input": "user", "missing": true, "effect": 1, "observations": 3}, {"input": "shop", "effect": 0.5, "observations": 1}]}`)
}

func class(name string) *hindsightv1.ObserveRequest_Class {
	return &hindsightv1.ObserveRequest_Class{Class: name}
}

// classifiers are a classifier of at most three classes over named inputs and one of two
// over vectors.
func classifiers(t *testing.T, s *service) {
	t.Helper()
	limit := int32(3)
	named := &hindsightv1.ModelSpec{
		Inputs:  inputsOf(t, `[{"name": "x", "numeric": {}}, {"name": "größe", "categorical": {}}]`),
		Classes: &hindsightv1.Classes{MaxClasses: &limit}, Scaling: unscaled(),
		Learner: &hindsightv1.ModelSpec_Rlsc{Rlsc: &hindsightv1.Rlsc{}},
	}
	two := linear(2)
	two.Classes = &hindsightv1.Classes{}
	s.create(t, "named", named)
	s.create(t, "two", two)
}

// said checks that a prediction is that of a classifier: a class and probabilities.
func said(t *testing.T, p *hindsightv1.Prediction, classes ...string) {
	t.Helper()
	sum := 0.0
	for name, score := range p.GetScores() {
		sum += score
		assert.True(t, slices.Contains(classes, name), "a score of %q", name)
	}
	assert.True(t, p.Value == nil && p.Values == nil && p.StandardError == nil && p.StandardErrors == nil && p.Probability == nil && p.Intervals == nil, "%v has what is of real labels", p)
	switch {
	case len(p.GetScores()) != len(classes):
		t.Errorf("%v, want scores of %q", p, classes)
	case len(classes) == 0:
		assert.Equal(t, "", p.GetClass(), p)
	case !slices.Contains(classes, p.GetClass()) || math.Abs(sum-1) > 1e-12:
		t.Errorf("%v, want one of %q and scores of the sum 1, not %g", p, classes, sum)
	}
}

// Classes go in as texts and come out as a class with scores, by all calls; they appear
// in the order of their observation, also those that are learned late.
func TestClasses(t *testing.T) {
	s := serve(t)
	classifiers(t, s)
	row := func(n int) string { return fmt.Sprintf(`{"x": %d, "größe": "%d"}`, n%3-1, n%3) }
	names := []string{"rød", "blå", "grønn"}
	said(t, s.predicts(t, "named", object(t, row(0))))
	first := must(s.Predict(t.Context(), &hindsightv1.PredictRequest{Model: "named", Inputs: object(t, row(0)), PredictionId: "early"}))(t)
	said(t, first.GetPrediction())
	for n := range 60 {
		r := must(s.Observe(t.Context(), &hindsightv1.ObserveRequest{Model: "named", Inputs: object(t, row(n)), Target: class(names[n%3])}))(t)
		o := r.GetOutcome()
		require.True(t, o.Prediction == nil && o.Predictions == nil && o.ServedPrediction == nil && (n == 0) == (o.GetClass() == "") && o.GetServedClass() == "", "outcome %d: %v", n, o)
	}
	for n := range 3 {
		p := s.predicts(t, "named", object(t, row(n)))
		said(t, p, names...)
		assert.True(t, p.GetClass() == names[n] && p.Leverage != nil, "row %d: %v, want %q", n, p, names[n])
	}
	batch, err := s.PredictBatch(t.Context(), &hindsightv1.PredictBatchRequest{
		Model: "named", Inputs: []*structpb.Struct{object(t, row(0)), object(t, row(1))}, PredictionIds: []string{"a", "b"},
	})
	require.True(t, err == nil && batch.GetPredictions()[1].GetClass() == "blå", "%v %v", batch, err)
	again, err := s.Predict(t.Context(), &hindsightv1.PredictRequest{Model: "named", Inputs: object(t, row(1)), PredictionId: "b"})
	assert.True(t, err == nil && proto.Equal(again.GetPrediction(), batch.GetPredictions()[1]), "asked again: %v, %v, want %v", again, err, batch.GetPredictions()[1])
	late := must(s.ObserveBatch(t.Context(), &hindsightv1.ObserveBatchRequest{Model: "named", Observations: []*hindsightv1.ObserveRequest{
		{PredictionId: "b", Target: class("rød")}, {PredictionId: "early", Target: class("rød")}, {PredictionId: "b", Target: class("rød")},
	}}))(t)
	if o := late.GetOutcomes(); o[0].GetServedClass() != "blå" || o[0].ServedLoss == nil || o[1].GetServedClass() != "" || o[1].ServedLoss == nil ||
		!o[2].GetDuplicate() || o[2].GetServedClass() != "blå" {
		t.Errorf("%v", o)
	}
	m, err := s.models.GetModel(t.Context(), &hindsightv1.GetModelRequest{Model: "named"})
	assert.True(t, err == nil && slices.Equal(m.GetModel().GetClasses(), names), "%v, %v", m, err)
}

// A label of another kind, a class too many and a bad class are rejected, and another
// class under the same id is a conflict.
func TestRejectionsOfClasses(t *testing.T) {
	s := serve(t)
	classifiers(t, s)
	x := []float64{1, 2}
	observe := func(r *hindsightv1.ObserveRequest) error {
		r.Model, r.Features = "two", x
		return errOf(s.Observe(t.Context(), r))
	}
	invalid := codes.InvalidArgument
	rejected(t, observe(&hindsightv1.ObserveRequest{Target: label(1)}), invalid, "LABEL_KIND", "label", "class")
	rejected(t, observe(&hindsightv1.ObserveRequest{}), invalid, "LABEL_MISSING", "class")
	rejected(t, observe(&hindsightv1.ObserveRequest{Target: class("")}), invalid, "INVALID_CLASS", "class")
	rejected(t, observe(&hindsightv1.ObserveRequest{Target: class(long(257))}), invalid, "INVALID_CLASS", "class", "257")
	for _, name := range []string{"b", "a"} {
		require.NoError(t, observe(&hindsightv1.ObserveRequest{Target: class(name), ObservationId: name}))
	}
	rejected(t, observe(&hindsightv1.ObserveRequest{Target: class("c")}), codes.FailedPrecondition, "CLASS_LIMIT", "class")
	rejected(t, observe(&hindsightv1.ObserveRequest{Target: class("a"), ObservationId: "b"}), codes.AlreadyExists, "OBSERVATION_CONFLICT", `"b"`)
	p := must(s.Predict(t.Context(), &hindsightv1.PredictRequest{Model: "two", Features: x}))(t)
	said(t, p.GetPrediction(), "a", "b")
}

// A classifier of -1 and 1 says nothing of real labels before its first class either.
func TestAClassifierBeforeItsFirstClass(t *testing.T) {
	s := serve(t)
	classifiers(t, s)
	for range 2 { // Given, and given again.
		p := must(s.Predict(t.Context(), &hindsightv1.PredictRequest{Model: "two", Features: []float64{1, 2}, PredictionId: "p"}))(t)
		said(t, p.GetPrediction())
	}
}

// A classifier whose classes nobody knows takes 64 of them. The spec says so before the model
// is made, and the rejection of one more says what to do.
func TestClassesThatNobodyKnows(t *testing.T) {
	const most = 64
	s := serve(t)
	spec := &hindsightv1.ModelSpec{Dimension: 2, Classes: &hindsightv1.Classes{}}
	price := func(given *hindsightv1.ModelSpec) *hindsightv1.ValidateSpecResponse {
		t.Helper()
		return must(s.models.ValidateSpec(t.Context(), &hindsightv1.ValidateSpecRequest{Spec: given}))(t)
	}
	// The default budget spends on two classes what 64 classes leave no time for.
	rich := &hindsightv1.ModelSpec_Auto{Auto: &hindsightv1.Auto{MaxMicroseconds: new(1e5)}}
	all := price(&hindsightv1.ModelSpec{Dimension: 2, Classes: &hindsightv1.Classes{}, Learner: rich})
	few := price(&hindsightv1.ModelSpec{Dimension: 2, Classes: &hindsightv1.Classes{MaxClasses: new(int32(2))}, Learner: rich})
	if got := all.GetSpec().GetClasses().GetMaxClasses(); got != most || all.GetStateBytes() < 4*few.GetStateBytes() || all.GetObserveFlops() < 4*few.GetObserveFlops() {
		t.Errorf("%d classes: %d bytes, %d operations; two: %d bytes, %d operations", got, all.GetStateBytes(), all.GetObserveFlops(), few.GetStateBytes(), few.GetObserveFlops())
	}
	s.create(t, "m", spec)
	batch := &hindsightv1.ObserveBatchRequest{Model: "m"}
	for n := range most {
		batch.Observations = append(batch.Observations, &hindsightv1.ObserveRequest{
			Features: []float64{float64(n % 8), float64(n / 8)}, Target: class(fmt.Sprint("class ", n)),
		})
	}
	must(s.ObserveBatch(t.Context(), batch))(t)
	_, err := s.Observe(t.Context(), &hindsightv1.ObserveRequest{Model: "m", Features: []float64{1, 2}, Target: class("another")})
	rejected(t, err, codes.FailedPrecondition, "CLASS_LIMIT", "max_classes is 64 and does not change; create a model with more")
}

// A label that cannot be right is set aside and counted, and a retry gets the same answer.
func TestLabelsSetAside(t *testing.T) {
	s := serve(t)
	s.create(t, "m", &hindsightv1.ModelSpec{Dimension: 1})
	observe := func(n int, y float64) *hindsightv1.Outcome {
		r := must(s.Observe(t.Context(), &hindsightv1.ObserveRequest{
			Model: "m", ObservationId: strconv.Itoa(n), Features: []float64{math.Sin(float64(n))}, Target: label(y),
		}))(t)
		return r.GetOutcome()
	}
	const bad = 200
	for n := range bad {
		o := observe(n, math.Sin(3*math.Sin(float64(n)))+0.1*math.Cos(float64(n*n)))
		require.False(t, o.GetSetAside(), "observation %d: %v", n, o)
	}
	first, again := observe(bad, 1e6), observe(bad, 1e6)
	assert.False(t, !first.GetSetAside() || first.GetSequence() != bad+1 || first.GetLoss() < 0.9e12 || first.GetDuplicate() || !again.GetDuplicate(), "%v, then %v", first, again)
	again.Duplicate = false
	assert.True(t, proto.Equal(first, again), "%v, then %v", first, again)
	r := must(s.models.GetModelStats(t.Context(), &hindsightv1.GetModelStatsRequest{Model: "m"}))(t)
	g := r.GetStats().GetLabelGate()
	assert.False(t, g.GetSetAside() != 1 || g.GetLastSetAside() != bad+1 || g.GetShare() != 1./(bad+1) || g.GetSetAsideLoss() < 0.9e12 || g.GetStarts() != 0 || g.RegretBeside == nil, g)
}

// path asks for the statistics with the losses in hindsight of the first features.
func (s *service) path(t *testing.T, id string) *hindsightv1.ModelStats {
	t.Helper()
	r := must(s.models.GetModelStats(t.Context(), &hindsightv1.GetModelStatsRequest{Model: id, IncludeHindsightPath: true}))(t)
	return r.GetStats()
}

// The regret against the kernel's space, between the regret and the loss, and the losses in hindsight are there for
// those who ask.
func TestFiguresThatAreAskedFor(t *testing.T) {
	s := serve(t)
	s.create(t, "m", &hindsightv1.ModelSpec{
		Dimension: 2, Scaling: unscaled(), Learner: &hindsightv1.ModelSpec_PkawvTaylor{PkawvTaylor: &hindsightv1.PkawvTaylor{}},
	})
	for n := range 40 {
		x := []float64{math.Sin(float64(n)), math.Cos(float64(n * n))}
		must(s.Observe(t.Context(), &hindsightv1.ObserveRequest{Model: "m", Features: x, Target: label(x[0] - 2*x[1])}))(t)
	}
	asked := must(s.models.GetModelStats(t.Context(), &hindsightv1.GetModelStatsRequest{Model: "m", IncludeRegretRkhs: true}))(t).GetStats()
	r := asked.RegretRkhs
	assert.False(t, r == nil || *r < asked.GetRegret() || *r > asked.GetLossSum(), "%v: the regret is %g, the loss %g", r, asked.GetRegret(), asked.GetLossSum())
	if st := s.path(t, "m"); st.RegretRkhs != nil || len(st.GetHindsightPath()) != int(st.GetFeatures())+1 || len(asked.GetHindsightPath()) > 0 {
		t.Errorf("not asked for: %v, %v; asked for: %v", st.RegretRkhs, asked.GetHindsightPath(), st.GetHindsightPath())
	}
}

// A prediction that is asked for again under its id is told again with what the
// parametric part said, in batches and with several outputs too. Neither a classifier nor
// another learner has that.
func TestWhatTheParametricPartSaid(t *testing.T) {
	s := serve(t)
	semiparametric := func() *hindsightv1.ModelSpec {
		spec := linear(2)
		spec.Learner = &hindsightv1.ModelSpec_SemiparametricAwv{SemiparametricAwv: &hindsightv1.SemiparametricAwv{}}
		return spec
	}
	two, classes := semiparametric(), semiparametric()
	two.Outputs, classes.Classes = 2, &hindsightv1.Classes{}
	s.create(t, "one", semiparametric())
	s.create(t, "two", two)
	s.create(t, "classes", classes)
	s.create(t, "linear", linear(2))
	learn := func() {
		t.Helper()
		for n := range 10 {
			x := []float64{math.Sin(float64(n)), math.Cos(float64(n * n))}
			y := 3*x[0] - x[1] + x[0]*x[1]
			for _, o := range []*hindsightv1.ObserveRequest{
				{Model: "one", Target: label(y)},
				{Model: "linear", Target: label(y)},
				{Model: "two", Target: &hindsightv1.ObserveRequest_Labels{Labels: &hindsightv1.Labels{Values: []float64{y, -y}}}},
				{Model: "classes", Target: &hindsightv1.ObserveRequest_Class{Class: strconv.FormatBool(y > 0)}},
			} {
				o.Features = x
				must(s.Observe(t.Context(), o))(t)
			}
		}
	}
	ask := func(model, id string) *hindsightv1.Prediction {
		t.Helper()
		r := must(s.PredictBatch(t.Context(), &hindsightv1.PredictBatchRequest{
			Model: model, Rows: []*hindsightv1.Row{{Features: []float64{1, -1}}}, PredictionIds: []string{id},
		}))(t)
		return r.GetPredictions()[0]
	}
	learn()
	for model, has := range map[string]int{"one": 1, "two": 2, "classes": 0, "linear": 0} {
		said := ask(model, "p")
		values := said.GetParametricValues()
		if said.ParametricValue != nil {
			values = append(values, said.GetParametricValue())
		}
		assert.False(t, len(values) != has || has == 2 && math.Abs(values[0]+values[1]) > 1e-12 || has > 0 && math.Abs(values[0]) < 1, "%s: the parametric part says %v", model, values)
		learn()
		again := ask(model, "p")
		assert.True(t, proto.Equal(again, said), "%s: said %v, then %v", model, said, again)
		now := ask(model, "q")
		assert.True(t, has != 1 || now.GetParametricValue() != said.GetParametricValue(), "%s: %v after it has learned", model, now)
	}
}
