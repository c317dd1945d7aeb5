package rpc_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/structpb"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
)

// alias sets the alias "live".
func (s *service) alias(t *testing.T, model string) *hindsightv1.Alias {
	t.Helper()
	r := must(s.models.SetAlias(t.Context(), &hindsightv1.SetAliasRequest{Alias: "live", Model: model}))(t)
	return r.GetAlias()
}

// A batch by an alias has labels of predictions of both models.
func TestCallsByAlias(t *testing.T) {
	s := serve(t)
	ctx := t.Context()
	s.create(t, "a", linear(1))
	s.create(t, "b", linear(1))
	s.alias(t, "a")
	predict := func(name string) *hindsightv1.Prediction {
		t.Helper()
		r := must(s.Predict(ctx, &hindsightv1.PredictRequest{Model: name, Features: []float64{1}}))(t)
		return r.GetPrediction()
	}
	p := predict("a")
	assert.Equal(t, "", p.GetModel(), p)
	ofA := predict("live")
	set := s.alias(t, "b")
	assert.True(t, set.GetPreviousModel() == "a" && set.GetUpdateTime() != nil, "set %v", set)
	ofB, err := s.PredictBatch(ctx, &hindsightv1.PredictBatchRequest{Model: "live", Rows: []*hindsightv1.Row{{Features: []float64{1}}}})
	require.True(t, err == nil && ofA.GetModel() == "a" && ofB.GetPredictions()[0].GetModel() == "b", "predicted %v and %v, %v", ofA, ofB, err)
	batch := &hindsightv1.ObserveBatchRequest{Model: "live", Observations: []*hindsightv1.ObserveRequest{
		{PredictionId: ofB.GetPredictions()[0].GetPredictionId(), Target: label(1)},
		{PredictionId: ofA.GetPredictionId(), Target: label(1), Model: "live"},
		{ObservationId: "o", Features: []float64{1}, Target: label(1)},
	}}
	for _, duplicate := range []bool{false, true} {
		r := must(s.ObserveBatch(ctx, batch))(t)
		for n, want := range []string{"b", "a", "b"} {
			o := r.GetOutcomes()[n]
			assert.True(t, o.GetModel() == want && o.GetDuplicate() == duplicate, "outcome %d: %v, want one of %s", n, o, want)
		}
	}
	batch.Observations[1] = &hindsightv1.ObserveRequest{PredictionId: ofA.GetPredictionId(), Target: label(2)}
	rejected(t, errOf(s.ObserveBatch(ctx, batch)), codes.AlreadyExists, "OBSERVATION_CONFLICT")

	for n, o := range []*hindsightv1.ObserveRequest{
		{Model: "live", ObservationId: "s", Features: []float64{1}, Target: label(1)},
		{Model: "live", PredictionId: ofA.GetPredictionId(), Target: label(1)},
	} {
		r, err := s.Observe(ctx, o)
		assert.True(t, err == nil && r.GetOutcome().GetModel() == []string{"b", "a"}[n], "alone: %v, %v", r, err)
	}

	list, err := s.models.ListAliases(ctx, &hindsightv1.ListAliasesRequest{})
	assert.True(t, err == nil && len(list.GetAliases()) == 1, "aliases %v, %v", list, err)
	got, err := s.models.GetModel(ctx, &hindsightv1.GetModelRequest{Model: "live"})
	assert.True(t, err == nil && got.GetModel().GetId() == "b" && slices.Equal(got.GetModel().GetAliases(), []string{"live"}), "the model %v, %v", got, err)
	rejected(t, errOf(s.models.SetAlias(ctx, &hindsightv1.SetAliasRequest{Alias: "live", Model: "a", ExpectedModel: "-"})), codes.Aborted, "ALIAS_MISMATCH")
	must(s.models.DeleteAlias(ctx, &hindsightv1.DeleteAliasRequest{Alias: "live"}))(t)
	rejected(t, errOf(s.models.DeleteAlias(ctx, &hindsightv1.DeleteAliasRequest{Alias: "live"})), codes.NotFound, "ALIAS_NOT_FOUND")
}

// Records of an alias are read by the inputs of the model that learns them.
func TestNamedInputsByAlias(t *testing.T) {
	s := serve(t)
	inputs := func(names ...string) *hindsightv1.ModelSpec {
		spec := &hindsightv1.ModelSpec{Scaling: unscaled(), Learner: &hindsightv1.ModelSpec_LinearAwv{LinearAwv: &hindsightv1.LinearAwv{}}}
		for _, name := range names {
			spec.Inputs = append(spec.Inputs, &hindsightv1.Input{Name: name, Kind: &hindsightv1.Input_Numeric{Numeric: &hindsightv1.NumericInput{}}})
		}
		return spec
	}
	s.create(t, "a", inputs("x", "y"))
	s.create(t, "b", inputs("y", "x", "z"))
	s.alias(t, "a")
	record := func(names ...string) *structpb.Struct {
		out := &structpb.Struct{Fields: map[string]*structpb.Value{}}
		for n, name := range names {
			out.Fields[name] = structpb.NewNumberValue(float64(n))
		}
		return out
	}
	of := &hindsightv1.ObserveRequest{Model: "live", ObservationId: "o", Inputs: record("x", "y"), Target: label(1)}
	must(s.Observe(t.Context(), of))(t)
	s.alias(t, "b")
	again, err := s.Observe(t.Context(), of)
	assert.True(t, err == nil && again.GetOutcome().GetDuplicate() && again.GetOutcome().GetModel() == "a", "the same again: %v, %v", again, err)
	r, err := s.Observe(t.Context(), &hindsightv1.ObserveRequest{Model: "live", ObservationId: "p", Inputs: record("x", "y", "z"), Target: label(1)})
	assert.True(t, err == nil && r.GetOutcome().GetModel() == "b", "a new one: %v, %v", r, err)
}

func TestCompareModels(t *testing.T) {
	s := serve(t)
	ctx := t.Context()
	classes := func(dimension int32) *hindsightv1.ModelSpec {
		spec := linear(dimension)
		spec.Classes = &hindsightv1.Classes{}
		return spec
	}
	for _, kind := range []string{"labels", "classes"} {
		spec, leader := linear, kind
		if kind == "classes" {
			spec = classes
		}
		s.create(t, leader, spec(1))
		for n := range 30 {
			if n == 10 {
				must(s.models.CreateModel(ctx, &hindsightv1.CreateModelRequest{Id: leader + "-shadow", Spec: spec(1), Follows: leader}))(t)
			}
			o := &hindsightv1.ObserveRequest{Model: leader, Features: []float64{float64(n%2) - 0.5}, Target: label(float64(n % 2))}
			if kind == "classes" {
				o.Target = &hindsightv1.ObserveRequest_Class{Class: fmt.Sprint("c", n%2)}
			}
			must(s.Observe(ctx, o))(t)
		}
		r, err := s.models.CompareModels(ctx, &hindsightv1.CompareModelsRequest{Model: leader + "-shadow"})
		require.True(t, err == nil && len(r.GetComparisons()) == 2, "%v %v", r, err)
		first, shadow := r.GetComparisons()[0], r.GetComparisons()[1]
		assert.True(t, first.GetModel() == leader && first.GetFollowed() == nil && shadow.GetObservations() == 20 && shadow.GetBehind() == 0 && shadow.GetLearner() == "linear_awv", "compared %v", r)
		if shadow.GetPerformance().GetObservations() != 19 || // The first that it learned is not scored.
			shadow.GetFollowed().GetObservations() != 20 || (shadow.GetFollowedClasses() != nil) != (kind == "classes") {
			t.Errorf("compared %v", shadow)
		}
		assert.True(t, kind != "classes" || shadow.GetFollowedClasses().GetObservations() == 20, "classes %v", shadow)
		_, err = s.Observe(ctx, &hindsightv1.ObserveRequest{Model: leader + "-shadow", Features: []float64{1}, Target: label(1)})
		rejected(t, err, codes.FailedPrecondition, "MODEL_FOLLOWS")
	}
	rejected(t, errOf(s.models.CreateModel(ctx, &hindsightv1.CreateModelRequest{Id: "x", Spec: linear(2), Follows: "labels"})), codes.InvalidArgument, "INVALID_REQUEST")
}
