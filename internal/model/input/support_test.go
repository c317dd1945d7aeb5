package input_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/structpb"

	"hindsight/internal/model"
	"hindsight/internal/model/input"
)

func ptr[T any](v T) *T { return &v }

// declared are inputs of every kind and policy.
func declared() []*model.Input {
	return []*model.Input{
		{Name: "load", Numeric: &model.NumericInput{}},
		{Name: "price", Numeric: &model.NumericInput{Log1p: ptr(true), Clip: &model.Clip{Low: ptr(-10.0), High: ptr(1000.0)}}},
		{Name: "size", Numeric: &model.NumericInput{}, Missing: model.MissingReject},
		{Name: "open", Boolean: &model.BooleanInput{}},
		{Name: "city", Categorical: &model.CategoricalInput{MaxCategories: ptr(5)}},
		{Name: "shop", Categorical: &model.CategoricalInput{HashBuckets: ptr(7)}},
		{Name: "grade", Categorical: &model.CategoricalInput{MaxCategories: ptr(3)}, Missing: model.MissingReject},
		{Name: "at", Time: &model.TimeInput{}},
		{Name: "since", Time: &model.TimeInput{Cycles: []string{model.CycleDayOfWeek}, Trend: ptr(true)}},
		{Name: "sensors", Vector: &model.VectorInput{Length: ptr(3)}},
	}
}

func schemaOf(tb testing.TB, inputs []*model.Input) *input.Schema {
	tb.Helper()
	completed, err := input.Complete(inputs, false)
	require.NoError(tb, err)
	return input.NewSchema(completed, 0, false)
}

// keyed are the declared inputs with keys, and one that has its key alone.
func keyed(tb testing.TB) *input.Schema {
	tb.Helper()
	return keysOf(tb, append(declared(), &model.Input{Name: "user", Categorical: &model.CategoricalInput{Key: true}}), 40)
}

func keysOf(tb testing.TB, inputs []*model.Input, keys int) *input.Schema {
	tb.Helper()
	completed, err := input.Complete(inputs, true)
	require.NoError(tb, err)
	return input.NewSchema(completed, keys, false)
}

// keyedRows are rows with users, some of which come again.
func keyedRows(seed uint64, n int) []row {
	rng := rand.New(rand.NewPCG(seed, 6))
	out := rows(seed, n)
	for _, m := range out {
		m["user"] = float64(1_000_000 + int(30*rng.ExpFloat64()))
		if rng.IntN(6) == 0 {
			m["user"] = nil
		}
	}
	return out
}

// fromStruct makes a record of a Struct, as a translator at the edge does.
func fromStruct(s *input.Schema, r *input.Record, from *structpb.Struct) error {
	r.Reset(s.Len())
	known := 0
	for i := range s.Len() {
		if v, ok := from.GetFields()[s.Name(i)]; ok {
			setValue(r, i, v)
			known++
		}
	}
	if known < s.Len() || known < len(from.GetFields()) {
		return s.Check(r, maps.Keys(from.GetFields()))
	}
	return s.Settle(r)
}

func setValue(r *input.Record, i int, v *structpb.Value) {
	switch k := v.GetKind().(type) {
	case nil, *structpb.Value_NullValue:
	case *structpb.Value_NumberValue:
		r.SetNumber(i, k.NumberValue)
	case *structpb.Value_BoolValue:
		r.SetBoolean(i, k.BoolValue)
	case *structpb.Value_StringValue:
		r.SetText(i, k.StringValue)
	case *structpb.Value_ListValue:
		list := r.SetNumbers(i, len(k.ListValue.GetValues()))
		for n, item := range k.ListValue.GetValues() {
			number, ok := item.GetKind().(*structpb.Value_NumberValue)
			if !ok {
				r.SetOther(i, fmt.Sprintf("a list whose item %d is no number", n))
				return
			}
			list[n] = number.NumberValue
		}
	default:
		r.SetOther(i, "an object")
	}
}

// row is a record as JSON has it.
type row = map[string]any

// record is the settled record of a row.
func record(tb testing.TB, s *input.Schema, m row) *input.Record {
	tb.Helper()
	from, err := structpb.NewStruct(m)
	require.NoError(tb, err)
	var r input.Record
	require.NoError(tb, fromStruct(s, &r, from))
	return &r
}

// rows are n random rows for the declared inputs.
func rows(seed uint64, n int) []row {
	rng := rand.New(rand.NewPCG(seed, 5))
	out := make([]row, n)
	for i := range out {
		m := row{
			"load":    1e6 + rng.NormFloat64(),
			"price":   float64(200*rng.ExpFloat64()) - 50,
			"size":    float64(rng.IntN(40)),
			"open":    rng.IntN(3) == 0,
			"city":    fmt.Sprint("city ", int(3*rng.ExpFloat64())),
			"shop":    fmt.Sprint("shop ", rng.IntN(30)),
			"grade":   float64(rng.IntN(4)) / 2,
			"at":      moment(rng),
			"since":   moment(rng),
			"sensors": []any{rng.NormFloat64(), rng.Float64(), -3.0},
		}
		for _, name := range []string{"load", "price", "open", "city", "shop", "at", "since", "sensors"} {
			if rng.IntN(6) == 0 {
				m[name] = nil
			}
		}
		out[i] = m
	}
	return out
}

func moment(rng *rand.Rand) string {
	text := fmt.Sprintf("%04d-%02d-%02dT%02d:%02d:%02d", 1890+rng.IntN(220), 1+rng.IntN(12), 1+rng.IntN(28), rng.IntN(24), rng.IntN(60), rng.IntN(60))
	if rng.IntN(2) == 0 {
		text += fmt.Sprintf(".%03d", rng.IntN(1000))
	}
	if rng.IntN(2) == 0 {
		return text + "Z"
	}
	return text + fmt.Sprintf("%+03d:%02d", rng.IntN(24)-12, 15*rng.IntN(4))
}

func state(tb testing.TB, e *input.Encoder) []byte {
	tb.Helper()
	b, err := e.AppendBinary(nil)
	require.NoError(tb, err)
	return b
}

func same(t *testing.T, what string, got, want []byte) {
	t.Helper()
	require.Equal(t, want, got, what)
}
