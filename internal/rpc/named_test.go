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
	rejected(t, errOf(s.models.CreateModel(t.Context(), &hindsightv1.CreateModelRequest{Id: "m", Spec: other})), codes.AlreadyExists, "MODEL_EXISTS")
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
		assert.NoError(t, errOf(s.models.GetModelStats(t.Context(), &hindsightv1.GetModelStatsRequest{Model: name, IncludeImportances: true})), name)
	}
}

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

// The part of a key is its effect: of 20 users the means of the labels differ by more than the noise. The slope of a
// shop multiplies the effect of the user, so a shop without an effect has a small part.
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
	assert.True(t, math.Abs(d-4) < 0.6 && math.Abs(high["shop"]) < high["user"]/4 && len(high) == 2, "users whose labels differ by 4: %v, %v", high, low)
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
