package rpc_test

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
	"hindsight/internal/model"
	"hindsight/internal/model/input"
	"hindsight/internal/rpc"
)

// shop declares inputs of every kind and policy.
const shop = `[
	{"name": "load", "numeric": {}}, {"name": "price", "numeric": {"log1p": true}, "missing": "MISSING_REJECT"},
	{"name": "open", "boolean": {}}, {"name": "city", "categorical": {"max_categories": 3}},
	{"name": "ware", "categorical": {"hash_buckets": 8}}, {"name": "at", "time": {"trend": true, "cycles": ["CYCLE_HOUR_OF_DAY"]}},
	{"name": "größe", "vector": {"length": 2}}]`

// inputsOf are declarations as a client writes them.
func inputsOf(tb testing.TB, text string) []*hindsightv1.Input {
	tb.Helper()
	var spec hindsightv1.ModelSpec
	require.NoError(tb, protojson.Unmarshal([]byte(`{"inputs": `+text+`}`), &spec))
	return spec.GetInputs()
}

func schemaOf(tb testing.TB, text string) *input.Schema {
	tb.Helper()
	spec := must(rpc.SpecFromProto(&hindsightv1.ModelSpec{Inputs: inputsOf(tb, text)}))(tb)
	completed := must(input.Complete(spec.Inputs, input.Options{}))(tb)
	return input.NewSchema(completed, 0, false)
}

// object is a JSON object.
func object(tb testing.TB, text string) *structpb.Struct {
	tb.Helper()
	s := new(structpb.Struct)
	require.NoError(tb, protojson.Unmarshal([]byte(text), s), text)
	return s
}

// goodRow is a record of shop; what is given takes the place of a value.
func goodRow(tb testing.TB, given string) *structpb.Struct {
	tb.Helper()
	s := object(tb, `{"load": 2.5, "price": 10, "open": true, "city": "Oslo", "ware": 17, "at": "2026-11-21T18:00:00+01:00", "größe": [1, -2]}`)
	for name, v := range object(tb, given).GetFields() {
		s.Fields[name] = v
	}
	return s
}

// The record of a request is accepted by its schema, or there is one error that names
// the input, what came and what is wanted.
func TestRecordsOfRequests(t *testing.T) {
	schema := schemaOf(t, shop)
	for given, c := range map[string]struct {
		sentinel error
		message  string
	}{
		`{}`: {},
		`{"load": null, "open": null, "city": null, "ware": null, "at": null, "größe": null}`: {},
		`{"city": 17, "ware": true}`:        {},
		`{"city": ""}`:                      {},
		`{"open": 1}`:                       {},
		`{"open": -0.0}`:                    {},
		`{"price": null}`:                   {input.ErrMissingInput, `inputs.price: got null, want a number: missing is "reject"`},
		`{"ciyt": "Oslo"}`:                  {input.ErrUnknownInput, `inputs.ciyt: got a name that no input has, want "city", which is nearly the same`},
		`{"temperature": 1}`:                {input.ErrUnknownInput, `inputs.temperature: got a name that no input has, want one of load, price, open, city, ware, at, größe`},
		`{"load": "2.5"}`:                   {input.ErrInputType, `inputs.load: got the text "2.5", want a number`},
		`{"load": [1]}`:                     {input.ErrInputType, `inputs.load: got a list of 1 number, want a number`},
		`{"load": {"a": 1}}`:                {input.ErrInputType, `inputs.load: got an object, want a number`},
		`{"load": "NaN"}`:                   {input.ErrInputType, `inputs.load: got the text "NaN", want a number`},
		`{"load": 1e101}`:                   {model.ErrFeatureOutOfRange, `inputs.load: got 1e+101, want a magnitude of at most 1e+100`},
		`{"open": 2}`:                       {input.ErrInputType, `inputs.open: got the number 2, want true or false, or 1 or 0`},
		`{"city": ["Oslo"]}`:                {input.ErrInputType, `inputs.city: got a list whose item 0 is no number, want a text`},
		`{"at": "yesterday"}`:               {input.ErrInputType, `inputs.at: got the text "yesterday", want a time such as 2026-11-21T18:00:00Z`},
		`{"at": 1795284000}`:                {input.ErrInputType, `inputs.at: got the number 1.795284e+09, want a time such as 2026-11-21T18:00:00Z`},
		`{"größe": [1, 2, 3]}`:              {model.ErrDimensionMismatch, `inputs.größe: got a list of 3 numbers, want a list of 2 numbers`},
		`{"größe": [1, null]}`:              {input.ErrInputType, `inputs.größe: got a list whose item 1 is no number, want a list of 2 numbers`},
		`{"größe": [1, 1e200]}`:             {model.ErrFeatureOutOfRange, `inputs.größe[1]: got 1e+200, want a magnitude of at most 1e+100`},
		`{"ware": "` + long(257) + `"}`:     {input.ErrInputTooLarge, `inputs.ware: got a text of 257 bytes, want at most 256 bytes`},
		`{"` + long(500) + `": "anything"}`: {input.ErrUnknownInput, `inputs.` + long(64) + `…: got a name that no input has, want one of load, price, open, city, ware, at, größe`},
	} {
		r, err := rpc.RecordOf(schema, goodRow(t, given))
		if err == nil {
			err = schema.Accept(r)
		}
		if c.sentinel == nil {
			assert.NoError(t, err, given)
			continue
		}
		var field *model.FieldError
		assert.True(t, errors.Is(err, c.sentinel) && errors.As(err, &field) && err.Error() == c.message, "%s:\n%v, want\n%s", given, err, c.message)
	}
	left := goodRow(t, `{}`)
	delete(left.GetFields(), "open")
	if _, err := rpc.RecordOf(schema, left); !errors.Is(err, input.ErrMissingInput) || err.Error() != "inputs.open: got nothing, want true or false, or 1 or 0, or null if it is missing" {
		t.Errorf("a name that is left out: %v", err)
	}
	delete(left.GetFields(), "price")
	left.Fields["prices"] = structpb.NewNumberValue(1)
	if _, err := rpc.RecordOf(schema, left); !errors.Is(err, input.ErrUnknownInput) || !strings.Contains(err.Error(), `"price"`) {
		t.Errorf("a name in place of another: %v", err)
	}
	if r, err := rpc.RecordOf(schema, nil); r != nil || err != nil {
		t.Errorf("a request without inputs: %v, %v", r, err)
	}
	none, err := rpc.RecordOf(nil, left)
	assert.True(t, err == nil && none != nil && none.Len() == 0, "inputs of a model without any: %v, %v", none, err)
}

func long(n int) string { return strings.Repeat("x", n) }

// FuzzRecords: any inputs become a record or a rejection that names one. The bytes of a
// accepted record are read back as the same record.
func FuzzRecords(f *testing.F) {
	schema := schemaOf(f, shop)
	for _, given := range []string{`{}`, `{"load": null, "city": null}`, `{"ciyt": 1}`, `{"größe": [1, "2"]}`, `{"at": "2024-02-29T23:59:59.5-07:00"}`, `{"load": {}}`} {
		seed := must(proto.Marshal(goodRow(f, given)))(f)
		f.Add(seed)
	}
	encoder := input.NewEncoder(schema)
	f.Fuzz(func(t *testing.T, data []byte) {
		var from structpb.Struct
		if proto.Unmarshal(data, &from) != nil {
			t.Skip()
		}
		r, err := rpc.RecordOf(schema, &from)
		if err == nil {
			err = schema.Accept(r)
		}
		if err != nil {
			var field *model.FieldError
			require.True(t, errors.As(err, &field) && strings.HasPrefix(field.Field, "inputs.") && len(err.Error()) <= 1000, "%v names no input", err)
			return
		}
		written := r.Append(nil)
		var again input.Record
		rest, err := again.Decode(written)
		if err == nil {
			err = schema.Accept(&again)
		}
		if err != nil || len(rest) > 0 || !bytes.Equal(again.Append(nil), written) {
			t.Fatalf("%x became %x, %d bytes left, %v", written, again.Append(nil), len(rest), err)
		}
		x, y := encoder.Encode(nil, r), encoder.Encode(nil, &again)
		for i := range x {
			require.True(t, x[i] == y[i] && !math.IsNaN(x[i]), "%g and %g", x, y)
		}
	})
}

// twenty is a record of 20 inputs: twelve numbers, four categories, a hash, two
// booleans and a time.
func twenty(tb testing.TB) (*input.Schema, *structpb.Struct) {
	tb.Helper()
	var inputs []string
	from := &structpb.Struct{Fields: map[string]*structpb.Value{}}
	add := func(name, kind string, v *structpb.Value) {
		inputs = append(inputs, fmt.Sprintf(`{"name": %q, %s}`, name, kind))
		from.Fields[name] = v
	}
	for k := range 12 {
		add(fmt.Sprint("temperature ", k), fmt.Sprintf(`"numeric": {"log1p": %t}`, k%4 == 0), structpb.NewNumberValue(21.5+float64(k)))
	}
	for k := range 4 {
		add(fmt.Sprint("city ", k), `"categorical": {"max_categories": 16}`, structpb.NewStringValue(fmt.Sprint("Oslo ", k)))
	}
	add("shop", `"categorical": {"hash_buckets": 32}`, structpb.NewStringValue("shop 1234"))
	add("open", `"boolean": {}`, structpb.NewBoolValue(true))
	add("holiday", `"boolean": {}`, structpb.NewNullValue())
	add("at", `"time": {}`, structpb.NewStringValue("2026-11-21T18:00:00Z"))
	return schemaOf(tb, "["+strings.Join(inputs, ",")+"]"), from
}

// A request of records is counted with the memory that it takes, which is several times
// its size; one of features with its size.
func TestRecordsAreCountedInMemory(t *testing.T) {
	_, from := twenty(t)
	size := proto.Size(from)
	observation := &hindsightv1.ObserveRequest{Inputs: from}
	for _, r := range []proto.Message{
		&hindsightv1.PredictRequest{Inputs: from}, observation,
		&hindsightv1.PredictBatchRequest{Inputs: []*structpb.Struct{from}},
		&hindsightv1.ObserveBatchRequest{Observations: []*hindsightv1.ObserveRequest{{}, observation}},
	} {
		wire := must(proto.Marshal(r))(t)
		const copies = 200
		decoded := r.ProtoReflect().New().Interface()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for range copies {
			require.NoError(t, proto.Unmarshal(wire, decoded))
		}
		runtime.ReadMemStats(&after)
		taken, counted := int64(after.TotalAlloc-before.TotalAlloc)/copies, rpc.HeldBytes(decoded)
		assert.True(t, taken >= int64(3*size) && counted >= taken/2 && counted <= 2*taken, "%T: %d bytes in memory, %d counted", r, taken, counted)
	}
	plain := &hindsightv1.PredictRequest{Model: "m", Features: make([]float64, 100)}
	assert.Equal(t, int64(proto.Size(plain)), rpc.HeldBytes(plain), plain)
}

// A request without any input says what the model takes, and not that it got no numbers. An
// empty prediction id is one that was lost on its way.
func TestRequestsWithoutAnInput(t *testing.T) {
	s := serve(t)
	s.create(t, "named", &hindsightv1.ModelSpec{Inputs: inputsOf(t, `[{"name": "city", "categorical": {}}]`)})
	s.create(t, "plain", linear(2))
	for model, c := range map[string]struct{ observed, reason, predicted string }{
		"named": {`prediction_id: got nothing, want the id of a prediction, or inputs, an object such as {"city": …}`, "INVALID_REQUEST", `inputs: got nothing, want inputs, an object such as {"city": …}`},
		"plain": {"prediction_id: got nothing, want the id of a prediction, or features, 2 numbers", "DIMENSION_MISMATCH", "features: got 0 numbers, want 2 numbers"},
	} {
		rejected(t, errOf(s.Observe(t.Context(), &hindsightv1.ObserveRequest{Model: model, Target: label(1)})), codes.InvalidArgument, c.reason, c.observed)
		rejected(t, errOf(s.Predict(t.Context(), &hindsightv1.PredictRequest{Model: model})), codes.InvalidArgument, c.reason, c.predicted)
	}
	_, err := s.Observe(t.Context(), &hindsightv1.ObserveRequest{Model: "named", Features: []float64{1}, Target: label(1)})
	rejected(t, err, codes.InvalidArgument, "INVALID_REQUEST", `features: got 1 numbers, want inputs, an object such as {"city": …}: the model has named inputs`)
}

// InferSpec answers what the columns are, and the values of their cells by the inferred or by another spec.
func TestInferSpec(t *testing.T) {
	c := serve(t)
	const csv = "when;city;price;id;label\n21.11.2026;Bern;1,5;t1;up\n22.11.2026;NA;0,123;t2;down\n23.11.2026;Bern;;t3;\n"
	r, err := c.models.InferSpec(t.Context(), &hindsightv1.InferSpecRequest{Csv: csv, Values: true})
	require.NoError(t, err)
	want := []hindsightv1.InferredColumn_Kind{
		hindsightv1.InferredColumn_KIND_TIME, hindsightv1.InferredColumn_KIND_CATEGORY, hindsightv1.InferredColumn_KIND_NUMBER,
		hindsightv1.InferredColumn_KIND_CATEGORY, hindsightv1.InferredColumn_KIND_CLASS,
	}
	for i, column := range r.GetColumns() {
		assert.True(t, column.GetKind() == want[i] && column.GetReason() != "", "%v, want %v", column, want[i])
	}
	assert.True(t, r.GetRows() == 3 && len(r.GetColumns()) == 5 && len(r.GetSpec().GetInputs()) == 4 && r.GetSpec().GetClasses().GetMaxClasses() == 2, r)
	line, _, _ := strings.Cut(r.GetValues(), "\n")
	assert.Equal(t, `["2026-11-21T00:00:00Z","Bern",1.5,"t1","up"]`, line, "values %s", r.GetValues())
	spec := &hindsightv1.ModelSpec{Inputs: r.GetSpec().GetInputs()[1:2]}
	r, err = c.models.InferSpec(t.Context(), &hindsightv1.InferSpecRequest{Csv: csv, Target: "price", Spec: spec, Values: true})
	require.NoError(t, err)
	line, _, _ = strings.Cut(r.GetValues(), "\n")
	assert.Equal(t, `[null,"Bern",1.5,null,null]`, line, "values %s", r.GetValues())
	for _, head := range []string{"price;city", "y;city", "y2;y1"} { // Of files to predict, of which the last has the input y1.
		if head == "y2;y1" {
			spec.Inputs = []*hindsightv1.Input{{Name: "y1", Kind: spec.GetInputs()[0].GetKind()}}
		}
		r, err = c.models.InferSpec(t.Context(), &hindsightv1.InferSpecRequest{Csv: head + "\n;Bern\n", Spec: spec, Values: true})
		require.NoError(t, err)
		assert.Equal(t, "[null,\"Bern\"]\n", r.GetValues(), head)
	}
	digits := &hindsightv1.InferSpecRequest{Csv: "Report\n\na,b,y\n1,1,1\n2,2,2\n", Texts: []string{"b"}}
	r, err = c.models.InferSpec(t.Context(), digits)
	require.NoError(t, err)
	in := r.GetSpec().GetInputs()
	assert.True(t, in[0].GetNumeric() != nil && in[1].GetCategorical().GetMaxCategories() == 2, "%v, want a number and a category", in)
	notes := strings.Join(r.GetNotes(), " ")
	assert.True(t, strings.HasPrefix(notes, "the first line of the table is line 3: ") && strings.Contains(notes, "Is y a class?"), "notes %q", notes)
	digits.Texts = []string{"c"}
	rejected(t, errOf(c.models.InferSpec(t.Context(), digits)), codes.InvalidArgument, "INVALID_REQUEST", `there is no column "c"`)
	for csv, says := range map[string]string{
		"":              "csv: the file is empty",
		"PAR1":          "csv: the file is Parquet where CSV is expected",
		"a,b\n1,\n2,\n": "csv: column 2 (b): the target has no label",
	} {
		rejected(t, errOf(c.models.InferSpec(t.Context(), &hindsightv1.InferSpecRequest{Csv: csv})), codes.InvalidArgument, "INVALID_REQUEST", says)
	}
}

// ListLearners lists every learner that a spec may name, the default first, and describes
// every field, so that a form can be made from it.
func TestListLearners(t *testing.T) {
	s := serve(t)
	r := must(s.models.ListLearners(t.Context(), &hindsightv1.ListLearnersRequest{}))(t)
	var names []string
	fields := map[string]*hindsightv1.LearnerField{}
	for _, l := range r.GetLearners() {
		names = append(names, l.GetName())
		assert.True(t, l.GetDescription() != "" && len(l.GetFields()) != 0, "%s: described as %q, with %d fields", l.GetName(), l.GetDescription(), len(l.GetFields()))
		for _, f := range l.GetFields() {
			fields[l.GetName()+"."+f.GetName()] = f
			if f.GetType() == "" || f.GetDescription() == "" || strings.Contains(f.GetDescription(), "\n") || (f.GetType() == "enum" || f.GetType() == "Kernel") != (len(f.GetValues()) > 0) {
				t.Errorf("%s has the field %v", l.GetName(), f)
			}
		}
	}
	assert.Equal(t, model.DefaultLearner, names[0], "the first")
	want := model.LearnerNames()
	slices.Sort(names)
	slices.Sort(want)
	assert.True(t, slices.Equal(names, want), "%v, want %v", names, want)
	for name, want := range map[string]*hindsightv1.LearnerField{
		"linear_awv.lambda": {Type: "double"},
		"raker.kernels": {Type: "Kernel", Repeated: true, Values: []string{
			"KIND_GAUSSIAN", "KIND_LAPLACIAN", "KIND_MATERN_12", "KIND_MATERN_32", "KIND_MATERN_52", "KIND_CAUCHY",
			"KIND_RATIONAL_QUADRATIC", "KIND_POLYNOMIAL", "KIND_LINEAR",
		}},
		"fourier_kons.loss":  {Type: "enum", Values: []string{"LOSS_SQUARED", "LOSS_LOGISTIC", "LOSS_HINGE", "LOSS_SQUARED_HINGE"}},
		"linear_awv.lambdas": {Type: "double", Repeated: true},
	} {
		f := fields[name]
		assert.True(t, f.GetType() == want.GetType() && f.GetRepeated() == want.GetRepeated() && slices.Equal(f.GetValues(), want.GetValues()), "%s is %v, want %v", name, f, want)
	}
}
