package rpc_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
)

// named is a linear model of named inputs.
func named(tb testing.TB, inputs string) *hindsightv1.ModelSpec {
	tb.Helper()
	spec := linear(0)
	spec.Inputs = inputsOf(tb, inputs)
	return spec
}

// digest is that of the state of m.
func (s *service) digest(tb testing.TB) string {
	tb.Helper()
	r := must(s.models.GetModelStats(tb.Context(), &hindsightv1.GetModelStatsRequest{Model: "m"}))(tb)
	return r.GetStats().GetStateDigest()
}

// observes teaches a record and a label.
func (s *service) observes(tb testing.TB, id string, row *structpb.Struct, y float64) {
	tb.Helper()
	must(s.Observe(tb.Context(), &hindsightv1.ObserveRequest{Model: id, Inputs: row, Target: label(y)}))(tb)
}

// predicts a record without being remembered.
func (s *service) predicts(tb testing.TB, id string, row *structpb.Struct) *hindsightv1.Prediction {
	tb.Helper()
	r := must(s.Predict(tb.Context(), &hindsightv1.PredictRequest{Model: id, Inputs: row, Remember: proto.Bool(false)}))(tb)
	return r.GetPrediction()
}

// sales are records of shop with their labels.
func sales(tb testing.TB, seed uint64, n int) (rows []*structpb.Struct, labels []float64) {
	tb.Helper()
	rng := rand.New(rand.NewPCG(seed, 2))
	for range n {
		row := goodRow(tb, fmt.Sprintf(`{"load": %g, "price": %d, "open": %t, "city": "ville %d", "ware": %d, "at": "2026-%02d-%02dT%02d:00:00Z"}`,
			rng.NormFloat64(), rng.IntN(100), rng.IntN(2) == 0, rng.IntN(5), rng.IntN(30), 1+rng.IntN(12), 1+rng.IntN(28), rng.IntN(24)))
		for _, name := range []string{"load", "open", "city", "ware", "at", "größe"} {
			if rng.IntN(6) == 0 {
				row.Fields[name] = structpb.NewNullValue()
			}
		}
		rows, labels = append(rows, row), append(labels, rng.NormFloat64())
	}
	return rows, labels
}

// The dimension follows from the inputs, and GetModel shows what was learned of them;
// ListModels does not.
func TestGetModelShowsWhatWasLearnedOfInputs(t *testing.T) {
	s := serve(t)
	m := s.create(t, "m", named(t, shop))
	const dimension = 2 + 1 + 2 + (3 + 1 + 1) + (8 + 1) + (2 + 1 + 1) + 3
	d := m.GetSpec().GetDimension()
	require.True(t, d == dimension && m.GetSpec().GetInputs()[3].GetCategorical().GetMaxCategories() == 3, "dimension %d, want %d: %v", d, dimension, m)
	for n, city := range []string{`"Malmö"`, `"Oslo"`, `"Malmö"`, `null`} {
		s.observes(t, "m", goodRow(t, fmt.Sprintf(`{"city": %s, "load": %d, "größe": null}`, city, 2*n)), 1)
	}
	r := must(s.models.GetModel(t.Context(), &hindsightv1.GetModelRequest{Model: "m"}))(t)
	inputs := r.GetModel().GetInputs()
	require.Len(t, inputs, 7)
	load, city, at, list := inputs[0], inputs[3], inputs[5], inputs[6]
	if load.GetName() != "load" || load.GetMean() != 3 || math.Abs(load.GetDeviation()-math.Sqrt(5)) > 1e-12 || !slices.Equal(load.GetFeatures(), []string{"load", "load.missing"}) {
		t.Errorf("%v", load)
	}
	if !slices.Equal(city.GetFeatures(), []string{"city=Malmö", "city=Oslo", "city[2]", "city.other", "city.missing"}) || city.Mean != nil ||
		len(city.GetCategories()) != 2 || city.GetCategories()[0].GetName() != "Malmö" || city.GetCategories()[0].GetObservations() != 2 {
		t.Errorf("%v", city)
	}
	assert.True(t, at.Mean == nil && len(at.GetFeatures()) == 4, "%v", at)
	assert.True(t, list.Mean == nil && slices.Equal(list.GetFeatures(), []string{"größe[0]", "größe[1]", "größe.missing"}), "%v", list)
	all, err := s.models.ListModels(t.Context(), &hindsightv1.ListModelsRequest{})
	assert.True(t, err == nil && len(all.GetModels()) == 1 && len(all.GetModels()[0].GetInputs()) == 0, "%v, %v", all, err)
}

// Every rejection says which field, of which row, and which field to use.
func TestRejectionsOfInputs(t *testing.T) {
	s := serve(t)
	s.create(t, "m", named(t, shop))
	s.create(t, "plain", linear(2))
	good, bad := goodRow(t, `{}`), goodRow(t, `{"ciyt": "Oslo"}`)
	x := []float64{1, 2}
	rows := func(all ...*structpb.Struct) []*structpb.Struct { return all }
	predict := func(r *hindsightv1.PredictRequest) error { _, err := s.Predict(t.Context(), r); return err }
	batch := func(r *hindsightv1.PredictBatchRequest) error { _, err := s.PredictBatch(t.Context(), r); return err }
	observe := func(r *hindsightv1.ObserveRequest) error { _, err := s.Observe(t.Context(), r); return err }
	invalid := codes.InvalidArgument

	rejected(t, predict(&hindsightv1.PredictRequest{Model: "m", Inputs: bad}), invalid, "UNKNOWN_INPUT", "inputs.ciyt:", `"city"`)
	rejected(t, predict(&hindsightv1.PredictRequest{Model: "m", Inputs: object(t, `{}`)}), invalid, "MISSING_INPUT", "inputs.load:", "null")
	rejected(t, predict(&hindsightv1.PredictRequest{Model: "m"}), invalid, "INVALID_REQUEST", "inputs: got nothing")
	rejected(t, predict(&hindsightv1.PredictRequest{Model: "m", Features: x}), invalid, "INVALID_REQUEST", "features", "inputs")
	rejected(t, predict(&hindsightv1.PredictRequest{Model: "m", Features: x, Inputs: good}), invalid, "INVALID_REQUEST", "features", "inputs alone")
	rejected(t, predict(&hindsightv1.PredictRequest{Model: "plain", Inputs: good}), invalid, "INVALID_REQUEST", "inputs", "features", "2 numbers")
	rejected(t, predict(&hindsightv1.PredictRequest{Model: "plain", Inputs: good, Features: x}), invalid, "INVALID_REQUEST", "inputs", "features", "2 numbers")
	rejected(t, predict(&hindsightv1.PredictRequest{Model: "none", Inputs: good}), codes.NotFound, "MODEL_NOT_FOUND")

	rejected(t, batch(&hindsightv1.PredictBatchRequest{Model: "m", Inputs: rows(good, good, bad)}), invalid, "UNKNOWN_INPUT", "inputs[2].ciyt:")
	rejected(t, batch(&hindsightv1.PredictBatchRequest{Model: "m", Inputs: rows(good, goodRow(t, `{"at": 3}`))}), invalid, "INPUT_TYPE", "inputs[1].at:")
	rejected(t, batch(&hindsightv1.PredictBatchRequest{Model: "m", Inputs: rows(good), Rows: []*hindsightv1.Row{{Features: x}}}), invalid, "INVALID_REQUEST", "rows:", "inputs")
	rejected(t, batch(&hindsightv1.PredictBatchRequest{Model: "m", Rows: []*hindsightv1.Row{{Features: x}}}), invalid, "INVALID_REQUEST", "rows[0].features:", "inputs")
	rejected(t, batch(&hindsightv1.PredictBatchRequest{Model: "plain", Inputs: rows(good)}), invalid, "INVALID_REQUEST", "inputs[0]:", "features")
	rejected(t, batch(&hindsightv1.PredictBatchRequest{Model: "m", Inputs: make([]*structpb.Struct, 101)}), invalid, "BATCH_TOO_LARGE", "inputs:", "101")
	rejected(t, batch(&hindsightv1.PredictBatchRequest{Model: "m", Inputs: rows(good, good), PredictionIds: []string{"a"}}), invalid, "INVALID_REQUEST", "prediction_ids", "2 rows")

	rejected(t, observe(&hindsightv1.ObserveRequest{Model: "m", Inputs: bad, Target: label(1)}), invalid, "UNKNOWN_INPUT", "inputs.ciyt:")
	rejected(t, observe(&hindsightv1.ObserveRequest{Model: "m", Features: x, Target: label(1)}), invalid, "INVALID_REQUEST", "features:", "inputs")
	rejected(t, observe(&hindsightv1.ObserveRequest{Model: "m", Inputs: good, PredictionId: "p", Target: label(1)}), invalid, "INVALID_REQUEST", "inputs:", "observation_id")
	rejected(t, observe(&hindsightv1.ObserveRequest{Model: "m", Inputs: good, Target: &hindsightv1.ObserveRequest_Class{Class: "a"}}), invalid, "LABEL_KIND", "class:")
	_, err := s.ObserveBatch(t.Context(), &hindsightv1.ObserveBatchRequest{Model: "m", Observations: []*hindsightv1.ObserveRequest{
		{Inputs: good, Target: label(1)}, {Inputs: goodRow(t, `{"größe": [1]}`), Target: label(2)},
	}})
	rejected(t, err, invalid, "DIMENSION_MISMATCH", "observations[1].inputs.größe:")
	_, err = s.ObserveBatch(t.Context(), &hindsightv1.ObserveBatchRequest{Model: "m", Observations: []*hindsightv1.ObserveRequest{
		{Inputs: bad, Target: label(1)}, {Inputs: good, Target: label(1)}, {Inputs: good}, {Inputs: goodRow(t, `{"at": 3}`), Target: label(2)},
	}})
	rejected(t, err, invalid, "UNKNOWN_INPUT", "observations[0].inputs.ciyt:", "observations[2].label:")
	_, err = s.ObserveBatch(t.Context(), &hindsightv1.ObserveBatchRequest{Model: "m", Observations: []*hindsightv1.ObserveRequest{
		{Inputs: goodRow(t, `{"größe": [1]}`), Target: label(1)}, {Inputs: good, Target: label(1)}, {Inputs: goodRow(t, `{"at": 3}`), Target: label(2)},
	}})
	rejected(t, err, invalid, "DIMENSION_MISMATCH", "observations[0].inputs.größe:", "observations[2].inputs.at:")
	many := make([]*structpb.Struct, 100)
	for n := range many {
		many[n] = bad
	}
	rejected(t, batch(&hindsightv1.PredictBatchRequest{Model: "m", Inputs: many}), invalid, "UNKNOWN_INPUT", "inputs[0].ciyt:", "inputs[4].ciyt:", "and 11 fields more")
	assert.True(t, s.digest(t) != "" && s.create(t, "m", named(t, shop)).GetSequence() == 0, "a rejected batch was learned in part")
	limited := named(t, `[{"name": "x", "numeric": {}}]`)
	limited.Learner = &hindsightv1.ModelSpec_KernelAwv{KernelAwv: &hindsightv1.KernelAwv{Kernel: &hindsightv1.Kernel{Kind: hindsightv1.Kernel_KIND_LINEAR}}}
	s.create(t, "limited", limited)
	rejected(t, predict(&hindsightv1.PredictRequest{Model: "limited", Inputs: object(t, `{"x": 1e9}`)}), invalid, "FEATURE_OUT_OF_RANGE", "inputs.x:")
	rejected(t, batch(&hindsightv1.PredictBatchRequest{Model: "limited", Inputs: rows(object(t, `{"x": 1}`), object(t, `{"x": 1e9}`))}), invalid, "FEATURE_OUT_OF_RANGE", "inputs[1].x:")
}

// A model created again with its inputs as they were given, or as GetModel shows them,
// is the same model; with others it is another.
func TestInputsOfAModelThatExists(t *testing.T) {
	s := serve(t)
	m := s.create(t, "m", named(t, shop))
	s.create(t, "m", named(t, shop))
	s.create(t, "m", m.GetSpec())
	other := named(t, strings.Replace(shop, `"city"`, `"town"`, 1))
	_, err := s.models.CreateModel(t.Context(), &hindsightv1.CreateModelRequest{Id: "m", Spec: other})
	rejected(t, err, codes.AlreadyExists, "MODEL_EXISTS")
	valid, err := s.models.ValidateSpec(t.Context(), &hindsightv1.ValidateSpecRequest{Spec: named(t, shop)})
	assert.True(t, err == nil && proto.Equal(valid.GetSpec(), m.GetSpec()) && valid.GetFeatures() == m.GetSpec().GetDimension()+1, "%v, %v", valid, err)
	spec := named(t, shop)
	spec.Dimension = 3
	_, err = s.models.ValidateSpec(t.Context(), &hindsightv1.ValidateSpecRequest{Spec: spec})
	rejected(t, err, codes.InvalidArgument, "INVALID_SPEC", "spec.dimension", "got 3", "26")
}

// A snapshot of a model of texts, whose rows have tokens where auto learns classes, is read back.
func TestTextsAreRestored(t *testing.T) {
	s := serve(t)
	for name, classes := range map[string]*hindsightv1.Classes{
		"numbers": nil, "classes": {MaxClasses: proto.Int32(3)}, "many": {MaxClasses: proto.Int32(300)},
	} {
		s.create(t, name, &hindsightv1.ModelSpec{Inputs: inputsOf(t, `[{"name": "age", "numeric": {}}, {"name": "note", "text": {}}]`), Classes: classes})
		for n := range 60 {
			row := object(t, fmt.Sprintf(`{"age": %d, "note": "order %d is late"}`, n%7, n%9))
			observed := &hindsightv1.ObserveRequest{Model: name, Inputs: row, Target: label(float64(n % 9))}
			if classes != nil {
				observed.Target = class(strconv.Itoa(n % 3))
			}
			must(s.Observe(t.Context(), observed))(t)
		}
		_, err := s.models.GetModelStats(t.Context(), &hindsightv1.GetModelStatsRequest{Model: name, IncludeImportances: true})
		assert.NoError(t, err, name)
	}
}
