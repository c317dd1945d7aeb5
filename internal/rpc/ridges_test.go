package rpc_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
)

// A model of several ridges is certified by its range, and its ridges are its experts.
func TestRidgesAreExperts(t *testing.T) {
	s := serve(t)
	spec := linear(2)
	spec.GetLinearAwv().Lambdas = []float64{0.01, 1, 100}
	spec.GetLinearAwv().Range = []float64{-1, 1}
	m := s.create(t, "m", spec)
	if got := m.GetSpec().GetLinearAwv(); got.Lambda != nil || len(got.GetLambdas()) != 3 || len(got.GetRange()) != 2 {
		t.Errorf("stored %v", got)
	}
	rng := rand.New(rand.NewPCG(7, 1))
	for range 60 {
		x := []float64{rng.NormFloat64(), rng.NormFloat64()}
		y := math.Tanh(x[0] - 2*x[1])
		if _, err := s.Observe(t.Context(), &hindsightv1.ObserveRequest{Model: "m", Features: x, Target: label(y)}); err != nil {
			t.Fatal(err)
		}
	}
	r, err := s.models.GetModelStats(t.Context(), &hindsightv1.GetModelStatsRequest{Id: "m"})
	if err != nil {
		t.Fatal(err)
	}
	st := r.GetStats()
	if !st.GetCertified() || !st.GetCertificateOk() || st.GetRegret() > st.GetCertificate() || st.GetCertificate() > st.GetRegretBound() {
		t.Errorf("%v", st)
	}
	var names []string
	weight, least := 0.0, math.Inf(1)
	for _, e := range st.GetExperts() {
		names = append(names, e.GetName())
		weight += e.GetWeight()
		least = math.Min(least, e.GetLossSum())
	}
	if !slices.Equal(names, []string{"lambda_0.01", "lambda_1", "lambda_100"}) || math.Abs(weight-1) > 1e-12 || st.GetLossSum() > least+8*math.Log(3) {
		t.Errorf("experts %v of a loss of %g", st.GetExperts(), st.GetLossSum())
	}
	spec.GetLinearAwv().Lambda = proto.Float64(1)
	_, err = s.models.CreateModel(t.Context(), &hindsightv1.CreateModelRequest{Id: "n", Spec: spec})
	refused(t, err, codes.InvalidArgument, "INVALID_SPEC", "spec.linear_awv.lambda", "lambdas")
}

// The parametric part of a semiparametric model is told by the names of its features, in
// the caller's units.
func TestTheParametricPartByName(t *testing.T) {
	s := serve(t)
	spec := named(t, `[{"name": "load", "numeric": {}}, {"name": "price", "numeric": {"log1p": true}}, {"name": "noise", "numeric": {}}]`)
	spec.Scaling = nil // Running.
	// Features 2 and 4 are those of price and of noise: each is followed by one that says
	// that it is missing.
	spec.Learner = &hindsightv1.ModelSpec_SemiparametricAwv{SemiparametricAwv: &hindsightv1.SemiparametricAwv{
		Parametric: []int32{2, 4}, ParametricLambda: proto.Float64(1e-6),
	}}
	s.create(t, "m", spec)
	rng := rand.New(rand.NewPCG(7, 2))
	for range 400 {
		load, price, noise := rng.NormFloat64(), rng.ExpFloat64(), rng.NormFloat64()
		row := object(t, fmt.Sprintf(`{"load": %g, "price": %g, "noise": %g}`, load, price, noise))
		s.observes(t, "m", row, 10*math.Log1p(price)+math.Sin(load)+3)
	}
	r, err := s.models.GetModelStats(t.Context(), &hindsightv1.GetModelStatsRequest{Id: "m"})
	if err != nil {
		t.Fatal(err)
	}
	// It leaves sin(load), whose variance is 0.43 beside 26 of 10 log(1 + price).
	if share := r.GetStats().ParametricShare; share == nil || *share < 0.95 || *share > 1 {
		t.Errorf("it explains %v", r.GetStats())
	}
	weights := map[string]float64{}
	for _, w := range r.GetStats().GetWeights() {
		weights[w.GetFeature()] = w.GetWeight()
	}
	if len(weights) != 3 || math.Abs(weights["price"]-10) > 0.5 || math.Abs(weights["noise"]) > 0.5 || math.Abs(weights[""]-3) > 1 {
		t.Errorf("weights %v", weights)
	}
}
