package rpc_test

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

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
