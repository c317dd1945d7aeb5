package rpc_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
)

// The explanation of a prediction adds up to its value, and the named inputs are those of the
// request.
func TestExplain(t *testing.T) {
	s := serve(t)
	s.create(t, "auto", &hindsightv1.ModelSpec{Inputs: inputsOf(t, shop)})
	rows, labels := sales(t, 3, 300)
	for n, row := range rows {
		s.observes(t, "auto", row, labels[n])
	}
	r := must(s.Predict(t.Context(), &hindsightv1.PredictRequest{Model: "auto", Inputs: rows[0], Explain: true, PredictionId: "p"}))(t)
	weight, value := 0.0, 0.0
	var families []string
	for _, f := range r.GetPrediction().GetExplanation() {
		families = append(families, f.GetFamily())
		weight += f.GetWeights()[0]
		value += f.GetContributions()[0]
	}
	want := r.GetPrediction().GetValue()
	assert.False(t, math.Abs(value-want) > 1e-9*math.Abs(want) || math.Abs(weight-1) > 1e-9, "contributions of %g in %g, weights of %g", value, want, weight)
	assert.True(t, slices.Contains(families, "trees") && slices.Contains(families, "crosses") && families[len(families)-1] == "rest", "families %v", families)
	again, err := s.Predict(t.Context(), &hindsightv1.PredictRequest{Model: "auto", Inputs: rows[0], Explain: true, PredictionId: "p"})
	assert.True(t, err == nil && proto.Equal(again, r), "a remembered prediction: %v, %v", again, err)
	silent := s.predicts(t, "auto", rows[0]).GetExplanation()
	assert.LessOrEqual(t, len(silent), 0, "an explanation that nobody asked for: %v", silent)
	stats := must(s.models.GetModelStats(t.Context(), &hindsightv1.GetModelStatsRequest{Model: "auto", IncludeImportances: true}))(t)
	var names []string
	for _, i := range stats.GetStats().GetImportances() {
		names = append(names, i.GetInput())
	}
	slices.Sort(names)
	if want := []string{
		"at.hour_of_day", "at.missing", "at.trend", "city", "größe.missing", "größe[0]", "größe[1]", "level_1",
		"load", "load.missing", "open", "open.missing", "past_labels", "price", "ware",
	}; !slices.Equal(slices.Compact(names), want) {
		t.Errorf("importances of %v, want %v", names, want)
	}
	assert.Equal(t, len(families)-1, len(stats.GetStats().GetFamilies()))
	s.create(t, "linear", linear(1))
	_, err = s.Predict(t.Context(), &hindsightv1.PredictRequest{Model: "linear", Features: []float64{1}, Explain: true, Remember: proto.Bool(false)})
	rejected(t, err, codes.InvalidArgument, "INVALID_REQUEST", "explain", "auto")
}

// The part of a key is its effect: of 20 users the means of the labels differ by more than the noise.
// A user that was never seen has no part, a missing one has, and the row stays as it was.
func TestExplainKeys(t *testing.T) {
	s := serve(t)
	s.create(t, "m", &hindsightv1.ModelSpec{Inputs: inputsOf(t, `[{"name": "load", "numeric": {}}, {"name": "user", "categorical": {"key": true}},
		{"name": "shop", "categorical": {"key": true}}]`)})
	rng := rand.New(rand.NewPCG(1, 36))
	row := func(user int) *structpb.Struct {
		return object(t, fmt.Sprintf(`{"load": %g, "user": "u%d", "shop": %d}`, rng.NormFloat64(), user, rng.IntN(5)))
	}
	nobody := func() *structpb.Struct {
		return object(t, fmt.Sprintf(`{"load": 0, "user": null, "shop": %d}`, rng.IntN(5)))
	}
	for n := range 900 {
		if n%10 == 0 {
			s.observes(t, "m", nobody(), 2)
		}
		user := rng.IntN(20)
		s.observes(t, "m", row(user), 10+float64(user%5)+0.1*rng.NormFloat64())
	}
	parts := func(row *structpb.Struct) map[string]float64 {
		t.Helper()
		r := must(s.Predict(t.Context(), &hindsightv1.PredictRequest{Model: "m", Inputs: row, Explain: true, Remember: proto.Bool(false)}))(t)
		of := map[string]float64{}
		for _, f := range r.GetPrediction().GetExplanation() {
			for _, k := range f.GetKeys() {
				assert.True(t, f.GetFamily() == "keys" && len(k.GetContributions()) == 1, "%v of %s", k, f.GetFamily())
				of[k.GetInput()] = k.GetContributions()[0]
			}
		}
		return of
	}
	high, low, unknown, missing := parts(row(4)), parts(row(5)), parts(row(99)), parts(nobody())
	t.Log(high, low, unknown, missing)
	d := high["user"] - low["user"]
	assert.True(t, math.Abs(d-4) < 0.6 && math.Abs(high["shop"]) < 0.5 && len(high) == 2, "users whose labels differ by 4: %v, %v", high, low)
	assert.EqualValues(t, 0, unknown["user"], unknown)
	assert.True(t, missing["user"] < -3, "the part of a missing user, whose labels are 8 lower, is %v", missing)
}

// A classifier explains its raw scores.
func TestExplainClasses(t *testing.T) {
	s := serve(t)
	s.create(t, "kinds", &hindsightv1.ModelSpec{Dimension: 1, Classes: &hindsightv1.Classes{}})
	for n := range 200 {
		class := []string{"low", "high"}[n%2]
		must(s.Observe(t.Context(), &hindsightv1.ObserveRequest{
			Model: "kinds", Features: []float64{float64(n%2) + 0.1*float64(n%5)}, Target: &hindsightv1.ObserveRequest_Class{Class: class},
		}))(t)
	}
	r := must(s.Predict(t.Context(), &hindsightv1.PredictRequest{Model: "kinds", Features: []float64{1}, Explain: true}))(t)
	score := 0.0
	for _, f := range r.GetPrediction().GetExplanation() {
		score += f.GetContributions()[1] // That of high.
		assert.Equal(t, 2, len(f.GetWeights()), "weights of %s", f.GetFamily())
	}
	assert.True(t, score > 0.5 && r.GetPrediction().GetClass() == "high", "the score %g of %v", score, r.GetPrediction())
}
