package rpc_test

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
)

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
		_, err := s.Observe(t.Context(), r)
		return err
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
