package rpc_test

import (
	"math"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"google.golang.org/protobuf/proto"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
)

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
