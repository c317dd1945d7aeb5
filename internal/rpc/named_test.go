package rpc_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

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

func (s *service) digest(tb testing.TB, id string) string {
	tb.Helper()
	r := must(s.models.GetModelStats(tb.Context(), &hindsightv1.GetModelStatsRequest{Model: id}))(tb)
	return r.GetStats().GetStateDigest()
}

// observes teaches a record and a label.
func (s *service) observes(tb testing.TB, id string, row *structpb.Struct, y float64) *hindsightv1.Outcome {
	tb.Helper()
	r := must(s.Observe(tb.Context(), &hindsightv1.ObserveRequest{Model: id, Inputs: row, Target: label(y)}))(tb)
	return r.GetOutcome()
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
	if d := m.GetSpec().GetDimension(); d != dimension || m.GetSpec().GetInputs()[3].GetCategorical().GetMaxCategories() != 3 {
		t.Fatalf("dimension %d, want %d: %v", d, dimension, m)
	}
	for n, city := range []string{`"Malmö"`, `"Oslo"`, `"Malmö"`, `null`} {
		s.observes(t, "m", goodRow(t, fmt.Sprintf(`{"city": %s, "load": %d, "größe": null}`, city, 2*n)), 1)
	}
	r, err := s.models.GetModel(t.Context(), &hindsightv1.GetModelRequest{Model: "m"})
	if err != nil {
		t.Fatal(err)
	}
	inputs := r.GetModel().GetInputs()
	if len(inputs) != 7 {
		t.Fatal(inputs)
	}
	load, city, at, list := inputs[0], inputs[3], inputs[5], inputs[6]
	if load.GetName() != "load" || load.GetMean() != 3 || math.Abs(load.GetDeviation()-math.Sqrt(5)) > 1e-12 || !slices.Equal(load.GetFeatures(), []string{"load", "load.missing"}) {
		t.Errorf("%v", load)
	}
	if !slices.Equal(city.GetFeatures(), []string{"city=Malmö", "city=Oslo", "city[2]", "city.other", "city.missing"}) || city.Mean != nil ||
		len(city.GetCategories()) != 2 || city.GetCategories()[0].GetName() != "Malmö" || city.GetCategories()[0].GetObservations() != 2 {
		t.Errorf("%v", city)
	}
	if at.Mean != nil || len(at.GetFeatures()) != 4 {
		t.Errorf("%v", at)
	}
	if list.Mean != nil || !slices.Equal(list.GetFeatures(), []string{"größe[0]", "größe[1]", "größe.missing"}) {
		t.Errorf("%v", list)
	}
	all, err := s.models.ListModels(t.Context(), &hindsightv1.ListModelsRequest{})
	if err != nil || len(all.GetModels()) != 1 || len(all.GetModels()[0].GetInputs()) != 0 {
		t.Errorf("%v, %v", all, err)
	}
}

// The order of the declarations gives the features; that of the columns of a record
// does not matter, nor whether records come one by one or in batches.
func TestRecordsByAnyWayGiveOneState(t *testing.T) {
	s := serve(t)
	rows, labels := sales(t, 1, 60)
	for _, id := range []string{"one", "batch", "json"} {
		s.create(t, id, named(t, shop))
	}
	var batch []*hindsightv1.ObserveRequest
	for n, row := range rows {
		s.observes(t, "one", row, labels[n])
		batch = append(batch, &hindsightv1.ObserveRequest{Inputs: row, Target: label(labels[n])})
		// The same columns, the last one first.
		names := slices.Sorted(func(yield func(string) bool) {
			for name := range row.GetFields() {
				if !yield(name) {
					return
				}
			}
		})
		slices.Reverse(names)
		var text []string
		for _, name := range names {
			value := must(row.GetFields()[name].MarshalJSON())(t)
			text = append(text, fmt.Sprintf("%q: %s", name, value))
		}
		s.observes(t, "json", object(t, "{"+strings.Join(text, ",")+"}"), labels[n])
	}
	must(s.ObserveBatch(t.Context(), &hindsightv1.ObserveBatchRequest{Model: "batch", Observations: batch}))(t)
	want := s.digest(t, "one")
	for _, id := range []string{"batch", "json"} {
		if got := s.digest(t, id); got != want {
			t.Errorf("%s: %s, one by one %s", id, got, want)
		}
	}
	predictions := must(s.PredictBatch(t.Context(), &hindsightv1.PredictBatchRequest{Model: "one", Inputs: rows, Remember: proto.Bool(false)}))(t)
	for n, p := range predictions.GetPredictions() {
		if one := s.predicts(t, "one", rows[n]); !proto.Equal(one, p) {
			t.Fatalf("row %d: %v in a batch, %v alone", n, p, one)
		}
	}
}

// A category is "other" until it has been observed: Predict learns no name, and what
// is learned of the record that brings a category is learned of "other".
func TestACategoryIsOtherUntilItIsObserved(t *testing.T) {
	s := serve(t)
	s.create(t, "m", named(t, `[{"name": "city", "categorical": {"max_categories": 4}}]`))
	city := func(name string) *structpb.Struct { return object(t, fmt.Sprintf(`{"city": %q}`, name)) }
	s.observes(t, "m", city("Oslo"), 1)
	before := s.digest(t, "m")
	bergen, vigo := s.predicts(t, "m", city("Bergen")), s.predicts(t, "m", city("Vigo"))
	if !proto.Equal(bergen, vigo) || s.digest(t, "m") != before {
		t.Errorf("%v and %v, both are other", bergen, vigo)
	}
	if out := s.observes(t, "m", city("Bergen"), 9); math.Abs(out.GetPrediction()-bergen.GetValue()) > 1e-12 { // They round otherwise.
		t.Errorf("learned with %v, predicted %v", out, bergen)
	}
	if now, other := s.predicts(t, "m", city("Bergen")), s.predicts(t, "m", city("Vigo")); now.GetValue() >= other.GetValue() {
		t.Errorf("%v, which has learned nothing but the constant, and %v of the other", now, other)
	}
	s.observes(t, "m", city("Bergen"), -9)
	if now, other := s.predicts(t, "m", city("Bergen")), s.predicts(t, "m", city("Vigo")); now.GetValue() >= other.GetValue() {
		t.Errorf("%v, and %v of the other", now, other)
	}
}

// A label that comes late is learned of the record that was predicted, once, however
// many categories have appeared since.
func TestLateLabelsOfRecords(t *testing.T) {
	s := serve(t)
	s.create(t, "m", named(t, shop))
	s.create(t, "again", named(t, shop))
	rows, labels := sales(t, 4, 40)
	var ids []string
	for n, row := range rows {
		id := fmt.Sprint("p", n)
		if n%2 == 1 {
			id = "" // The server chooses.
		}
		p := must(s.Predict(t.Context(), &hindsightv1.PredictRequest{Model: "m", Inputs: row, PredictionId: id}))(t)
		ids = append(ids, p.GetPrediction().GetPredictionId())
	}
	p, err := s.Predict(t.Context(), &hindsightv1.PredictRequest{Model: "m", Inputs: rows[0], PredictionId: "p0"})
	if err != nil || p.GetPrediction().GetPredictionId() != "p0" {
		t.Errorf("again: %v, %v", p, err)
	}
	_, err = s.Predict(t.Context(), &hindsightv1.PredictRequest{Model: "m", Inputs: rows[1], PredictionId: "p0"})
	refused(t, err, codes.AlreadyExists, "OBSERVATION_CONFLICT", "p0")
	for n := len(rows) - 1; n >= 0; n-- {
		o, err := s.Observe(t.Context(), &hindsightv1.ObserveRequest{Model: "m", PredictionId: ids[n], Target: label(labels[n])})
		if err != nil || o.GetOutcome().ServedLoss == nil {
			t.Fatal(o, err)
		}
		want := s.observes(t, "again", rows[n], labels[n])
		if o.GetOutcome().GetPrediction() != want.GetPrediction() || o.GetOutcome().GetDuplicate() {
			t.Fatalf("late: %v\nby its record: %v", o, want)
		}
		// The same late label, by its record.
		twice, err := s.Observe(t.Context(), &hindsightv1.ObserveRequest{Model: "m", ObservationId: ids[n], Inputs: rows[n], Target: label(labels[n])})
		if err != nil || !twice.GetOutcome().GetDuplicate() || twice.GetOutcome().GetSequence() != o.GetOutcome().GetSequence() {
			t.Fatal(twice, err)
		}
		_, err = s.Observe(t.Context(), &hindsightv1.ObserveRequest{Model: "m", ObservationId: ids[n], Inputs: goodRow(t, `{"load": -77}`), Target: label(labels[n])})
		refused(t, err, codes.AlreadyExists, "OBSERVATION_CONFLICT", ids[n])
	}
}

// Missing values: one that is refused, a mean, a category.
func TestMissingValues(t *testing.T) {
	s := serve(t)
	s.create(t, "m", named(t, shop))
	for range 3 {
		s.observes(t, "m", goodRow(t, `{"load": 4}`), 2)
	}
	_, err := s.Predict(t.Context(), &hindsightv1.PredictRequest{Model: "m", Inputs: goodRow(t, `{"price": null}`)})
	refused(t, err, codes.InvalidArgument, "MISSING_INPUT", "inputs.price", "refuse")
	mean, four := s.predicts(t, "m", goodRow(t, `{"load": null}`)), s.predicts(t, "m", goodRow(t, `{"load": 4}`))
	// The weight of the indicator is 0 before the first missing value.
	if math.Abs(mean.GetValue()*(1-four.GetLeverage())-four.GetValue()*(1-mean.GetLeverage())) > 1e-9 || mean.GetLeverage() <= four.GetLeverage() {
		t.Errorf("%v of the mean, %v of a number that is the mean", mean, four)
	}
	missing, other := s.predicts(t, "m", goodRow(t, `{"city": null}`)), s.predicts(t, "m", goodRow(t, `{"city": "Vigo"}`))
	if missing.GetValue() == other.GetValue() {
		t.Errorf("%v is that of a missing city and of an unknown one", missing)
	}
}

// Every refusal says which field, of which row, and which field to use.
func TestRefusalsOfInputs(t *testing.T) {
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

	refused(t, predict(&hindsightv1.PredictRequest{Model: "m", Inputs: bad}), invalid, "UNKNOWN_INPUT", "inputs.ciyt:", `"city"`)
	refused(t, predict(&hindsightv1.PredictRequest{Model: "m", Inputs: object(t, `{}`)}), invalid, "MISSING_INPUT", "inputs.load:", "null")
	refused(t, predict(&hindsightv1.PredictRequest{Model: "m"}), invalid, "INVALID_REQUEST", "inputs: got nothing")
	refused(t, predict(&hindsightv1.PredictRequest{Model: "m", Features: x}), invalid, "INVALID_REQUEST", "features", "inputs")
	refused(t, predict(&hindsightv1.PredictRequest{Model: "m", Features: x, Inputs: good}), invalid, "INVALID_REQUEST", "features", "inputs alone")
	refused(t, predict(&hindsightv1.PredictRequest{Model: "plain", Inputs: good}), invalid, "INVALID_REQUEST", "inputs", "features", "2 numbers")
	refused(t, predict(&hindsightv1.PredictRequest{Model: "plain", Inputs: good, Features: x}), invalid, "INVALID_REQUEST", "inputs", "features", "2 numbers")
	refused(t, predict(&hindsightv1.PredictRequest{Model: "none", Inputs: good}), codes.NotFound, "MODEL_NOT_FOUND")

	refused(t, batch(&hindsightv1.PredictBatchRequest{Model: "m", Inputs: rows(good, good, bad)}), invalid, "UNKNOWN_INPUT", "inputs[2].ciyt:")
	refused(t, batch(&hindsightv1.PredictBatchRequest{Model: "m", Inputs: rows(good, goodRow(t, `{"at": 3}`))}), invalid, "INPUT_TYPE", "inputs[1].at:")
	refused(t, batch(&hindsightv1.PredictBatchRequest{Model: "m", Inputs: rows(good), Rows: []*hindsightv1.Row{{Features: x}}}), invalid, "INVALID_REQUEST", "rows:", "inputs")
	refused(t, batch(&hindsightv1.PredictBatchRequest{Model: "m", Rows: []*hindsightv1.Row{{Features: x}}}), invalid, "INVALID_REQUEST", "rows[0].features:", "inputs")
	refused(t, batch(&hindsightv1.PredictBatchRequest{Model: "plain", Inputs: rows(good)}), invalid, "INVALID_REQUEST", "inputs[0]:", "features")
	refused(t, batch(&hindsightv1.PredictBatchRequest{Model: "m", Inputs: make([]*structpb.Struct, 101)}), invalid, "BATCH_TOO_LARGE", "inputs:", "101")
	refused(t, batch(&hindsightv1.PredictBatchRequest{Model: "m", Inputs: rows(good, good), PredictionIds: []string{"a"}}), invalid, "INVALID_REQUEST", "prediction_ids", "2 rows")

	refused(t, observe(&hindsightv1.ObserveRequest{Model: "m", Inputs: bad, Target: label(1)}), invalid, "UNKNOWN_INPUT", "inputs.ciyt:")
	refused(t, observe(&hindsightv1.ObserveRequest{Model: "m", Features: x, Target: label(1)}), invalid, "INVALID_REQUEST", "features:", "inputs")
	refused(t, observe(&hindsightv1.ObserveRequest{Model: "m", Inputs: good, PredictionId: "p", Target: label(1)}), invalid, "INVALID_REQUEST", "inputs:", "observation_id")
	refused(t, observe(&hindsightv1.ObserveRequest{Model: "m", Inputs: good, Target: &hindsightv1.ObserveRequest_Class{Class: "a"}}), invalid, "LABEL_KIND", "class:")
	_, err := s.ObserveBatch(t.Context(), &hindsightv1.ObserveBatchRequest{Model: "m", Observations: []*hindsightv1.ObserveRequest{
		{Inputs: good, Target: label(1)}, {Inputs: goodRow(t, `{"größe": [1]}`), Target: label(2)},
	}})
	refused(t, err, invalid, "DIMENSION_MISMATCH", "observations[1].inputs.größe:")
	if stats := s.digest(t, "m"); stats == "" || s.create(t, "m", named(t, shop)).GetSequence() != 0 {
		t.Error("a refused batch was learned in part")
	}
	limited := named(t, `[{"name": "x", "numeric": {}}]`)
	limited.Learner = &hindsightv1.ModelSpec_KernelAwv{KernelAwv: &hindsightv1.KernelAwv{Kernel: &hindsightv1.Kernel{Kind: hindsightv1.Kernel_KIND_LINEAR}}}
	s.create(t, "limited", limited)
	refused(t, predict(&hindsightv1.PredictRequest{Model: "limited", Inputs: object(t, `{"x": 1e9}`)}), invalid, "FEATURE_OUT_OF_RANGE", "inputs.x:")
	refused(t, batch(&hindsightv1.PredictBatchRequest{Model: "limited", Inputs: rows(object(t, `{"x": 1}`), object(t, `{"x": 1e9}`))}), invalid, "FEATURE_OUT_OF_RANGE", "inputs[1].x:")
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
	refused(t, err, codes.AlreadyExists, "MODEL_EXISTS")
	valid, err := s.models.ValidateSpec(t.Context(), &hindsightv1.ValidateSpecRequest{Spec: named(t, shop)})
	if err != nil || !proto.Equal(valid.GetSpec(), m.GetSpec()) || valid.GetFeatures() != m.GetSpec().GetDimension()+1 {
		t.Errorf("%v, %v", valid, err)
	}
	spec := named(t, shop)
	spec.Dimension = 3
	_, err = s.models.ValidateSpec(t.Context(), &hindsightv1.ValidateSpecRequest{Spec: spec})
	refused(t, err, codes.InvalidArgument, "INVALID_SPEC", "spec.dimension", "got 3", "26")
}

// Two declarations that differ in a name alone, and the categories of which are other
// texts, learn the same numbers.
func TestNamesAreNamesAlone(t *testing.T) {
	s := serve(t)
	const plain, renamed = `[{"name": "city", "categorical": {"max_categories": 3}}, {"name": "x", "numeric": {}}]`,
		`[{"name": "都市 №1", "categorical": {"max_categories": 3}}, {"name": "x.y[0]=ü", "numeric": {}}]`
	s.create(t, "plain", named(t, plain))
	s.create(t, "renamed", named(t, renamed))
	rng := rand.New(rand.NewPCG(8, 8))
	for range 60 {
		k, x, y := rng.IntN(5), rng.NormFloat64(), rng.NormFloat64()
		a := s.observes(t, "plain", object(t, fmt.Sprintf(`{"city": "c%d", "x": %g}`, k, x)), y)
		b := s.observes(t, "renamed", object(t, fmt.Sprintf(`{"都市 №1": "東京 %d", "x.y[0]=ü": %g}`, k, x)), y)
		if !proto.Equal(a, b) {
			t.Fatalf("%v\n%v", a, b)
		}
	}
	r, err := s.models.GetModel(t.Context(), &hindsightv1.GetModelRequest{Model: "renamed"})
	if err != nil || !strings.HasPrefix(r.GetModel().GetInputs()[0].GetFeatures()[0], "都市 №1=東京 ") {
		t.Errorf("%v, %v", r, err)
	}
}

// GetModelStats has the weights of a linear model by the names of its features. They are
// those of the function whose value over 1 + q is predicted.
func TestWeightsByName(t *testing.T) {
	s := serve(t)
	spec := named(t, `[{"name": "load", "numeric": {}}, {"name": "city", "categorical": {"max_categories": 2}}]`)
	s.create(t, "m", spec)
	rng := rand.New(rand.NewPCG(5, 9))
	cities := []string{"Oslo", "Vigo", "Bergen"}
	for range 200 {
		k, x := rng.IntN(3), rng.NormFloat64()
		s.observes(t, "m", object(t, fmt.Sprintf(`{"city": %q, "load": %g}`, cities[k], x)), 2*x+5*float64(k))
	}
	r, err := s.models.GetModelStats(t.Context(), &hindsightv1.GetModelStatsRequest{Model: "m"})
	if err != nil {
		t.Fatal(err)
	}
	weights := map[string]float64{}
	for _, w := range r.GetStats().GetWeights() {
		weights[w.GetFeature()] = w.GetWeight()
	}
	// The first two that came have columns.
	model, err := s.models.GetModel(t.Context(), &hindsightv1.GetModelRequest{Model: "m"})
	if err != nil || len(weights) != 2+4+1 {
		t.Fatal(weights, err)
	}
	columns := model.GetModel().GetInputs()[1].GetFeatures()[:2]
	for k, city := range cities {
		feature := "city=" + city
		if !slices.Contains(columns, feature) {
			feature = "city.other"
		}
		p := s.predicts(t, "m", object(t, fmt.Sprintf(`{"city": %q, "load": -1.5}`, city)))
		value := weights[""] - 1.5*weights["load"] + weights[feature]
		if got := p.GetValue() / (1 - p.GetLeverage()); math.Abs(got-value) > 1e-9 || math.Abs(value-(5*float64(k)-3)) > 0.5 {
			t.Errorf("%s: the weights give %g, predicted is %v", city, value, p)
		}
	}
}
