package rpc_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
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
		must(s.Observe(t.Context(), &hindsightv1.ObserveRequest{Model: "m", Features: x, Target: label(y)}))(t)
	}
	r, err := s.models.GetModelStats(t.Context(), &hindsightv1.GetModelStatsRequest{Model: "m"})
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
	if p := s.predicts(t, "m", object(t, `{"load": 1, "price": 2, "noise": 3}`)); p.Value == nil || p.ParametricValue != nil {
		t.Errorf("before a scaling is known: %v", p)
	}
	rng := rand.New(rand.NewPCG(7, 2))
	for range 400 {
		load, price, noise := rng.NormFloat64(), rng.ExpFloat64(), rng.NormFloat64()
		row := object(t, fmt.Sprintf(`{"load": %g, "price": %g, "noise": %g}`, load, price, noise))
		s.observes(t, "m", row, 10*math.Log1p(price)+math.Sin(load)+3)
	}
	r := must(s.models.GetModelStats(t.Context(), &hindsightv1.GetModelStatsRequest{Model: "m"}))(t)
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
	for _, x := range [][2]float64{{0, 0}, {3, -1}, {8, 2}} {
		row := object(t, fmt.Sprintf(`{"load": 1, "price": %g, "noise": %g}`, x[0], x[1]))
		want := weights[""] + weights["price"]*math.Log1p(x[0]) + weights["noise"]*x[1]
		p := s.predicts(t, "m", row)
		if p.ParametricValue == nil || math.Abs(p.GetParametricValue()-want) > 1e-9*math.Abs(want) {
			t.Errorf("at %v the parametric part says %v, its weights %g", x, p.ParametricValue, want)
		}
		if math.Abs(p.GetParametricValue()-p.GetValue()) < 1e-3 {
			t.Errorf("at %v the parametric part says what the model says, %g", x, p.GetValue())
		}
	}
}

// Inputs of the parametric part are given by their names: all features of each. The model
// keeps the names. The same spec, in another order too, is that of the same model.
func TestParametricInputs(t *testing.T) {
	s := serve(t)
	spec := func(names ...string) *hindsightv1.ModelSpec {
		spec := named(t, `[{"name": "load", "numeric": {}}, {"name": "price", "numeric": {}}, {"name": "city", "categorical": {"maxCategories": 2}}]`)
		spec.Learner = &hindsightv1.ModelSpec_SemiparametricAwv{SemiparametricAwv: &hindsightv1.SemiparametricAwv{ParametricInputs: names}}
		return spec
	}
	for _, names := range [][]string{{"city", "load"}, {"load", "city"}} {
		m := s.create(t, "m", spec(names...)) // The second time the model exists.
		got := m.GetSpec().GetSemiparametricAwv()
		if !slices.Equal(got.GetParametricInputs(), []string{"load", "city"}) || len(got.GetParametric()) > 0 {
			t.Errorf("created %v", got)
		}
	}
	_, err := s.models.CreateModel(t.Context(), &hindsightv1.CreateModelRequest{Id: "m", Spec: spec("load")})
	refused(t, err, codes.AlreadyExists, "MODEL_EXISTS")
	for n := range 30 {
		row := object(t, fmt.Sprintf(`{"load": %d, "price": %d, "city": "c%d"}`, n%7, n%5, n%2))
		s.observes(t, "m", row, 3*float64(n%7)+10*float64(n%2)+math.Sin(float64(n%5)))
	}
	r := must(s.models.GetModelStats(t.Context(), &hindsightv1.GetModelStatsRequest{Model: "m"}))(t)
	var features []string
	for _, w := range r.GetStats().GetWeights() {
		features = append(features, w.GetFeature())
	}
	slices.Sort(features)
	if want := []string{"", "city.missing", "city.other", "city=c0", "city=c1", "load", "load.missing"}; !slices.Equal(features, want) {
		t.Errorf("weights of %q, want %q", features, want)
	}
	given := must(s.models.GetModel(t.Context(), &hindsightv1.GetModelRequest{Model: "m"}))(t)
	again, err := s.models.CreateModel(t.Context(), &hindsightv1.CreateModelRequest{Id: "m", Spec: given.GetModel().GetSpec()})
	if err != nil || again.GetModel().GetSequence() != 30 {
		t.Errorf("of its own spec: %v, %v", again, err)
	}

	create := func(spec *hindsightv1.ModelSpec) error {
		_, err := s.models.CreateModel(t.Context(), &hindsightv1.CreateModelRequest{Id: "n", Spec: spec})
		return err
	}
	const at = "spec.semiparametric_awv.parametric_inputs"
	refused(t, create(spec("price", "laod")), codes.InvalidArgument, "INVALID_SPEC", at+"[1]", `"laod"`, `"load", which is nearly the same`)
	refused(t, create(spec("temperature")), codes.InvalidArgument, "INVALID_SPEC", at+"[0]", "load, price, city")
	refused(t, create(spec("load", "load")), codes.InvalidArgument, "INVALID_SPEC", at+"[1]", "other than that of parametric_inputs[0]")
	both := spec("load")
	both.GetSemiparametricAwv().Parametric = []int32{1}
	refused(t, create(both), codes.InvalidArgument, "INVALID_SPEC", at, "one of the two fields")
	unnamed := spec("load")
	unnamed.Inputs, unnamed.Dimension = nil, 3
	refused(t, create(unnamed), codes.InvalidArgument, "INVALID_SPEC", at, "the spec has no inputs")
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
		if len(values) != has || has == 2 && math.Abs(values[0]+values[1]) > 1e-12 || has > 0 && math.Abs(values[0]) < 1 {
			t.Errorf("%s: the parametric part says %v", model, values)
		}
		learn()
		if again := ask(model, "p"); !proto.Equal(again, said) {
			t.Errorf("%s: said %v, then %v", model, said, again)
		}
		if now := ask(model, "q"); has == 1 && now.GetParametricValue() == said.GetParametricValue() {
			t.Errorf("%s: %v after it has learned", model, now)
		}
	}
}
