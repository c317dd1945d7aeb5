package input_test

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
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
	completed, err := input.Complete(inputs, input.Options{})
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
	completed, err := input.Complete(inputs, input.Options{Keys: true})
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
	return s.Accept(r)
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

// record is the accepted record of a row.
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

func same(t *testing.T, what string, got, want []byte) {
	t.Helper()
	require.Equal(t, want, got, what)
}

// The index is small as long as nothing changes, and large after a change, of values
// and of how many are missing.
func TestShift(t *testing.T) {
	inputs := []*model.Input{
		{Name: "x", Numeric: &model.NumericInput{}},
		{Name: "c", Categorical: &model.CategoricalInput{}},
		{Name: "h", Categorical: &model.CategoricalInput{HashBuckets: ptr(16)}},
		{Name: "b", Boolean: &model.BooleanInput{}},
		{Name: "v", Vector: &model.VectorInput{Length: ptr(2)}},
		{Name: "gaps", Numeric: &model.NumericInput{}},
	}
	s := schemaOf(t, inputs)
	e := input.NewEncoder(s)
	rng := rand.New(rand.NewPCG(8, 8))
	take := func(n int, by float64) {
		for range n {
			m := row{
				"x": rng.NormFloat64() + by, "c": strconv.Itoa(int(2*rng.ExpFloat64() + by)), "h": strconv.Itoa(rng.IntN(8) + int(3*by)),
				"b": rng.Float64() < 0.5+0.3*by, "v": []any{rng.NormFloat64() + by, rng.NormFloat64() + by}, "gaps": rng.ExpFloat64(),
			}
			if rng.Float64() < 0.1+0.4*by {
				m["gaps"] = nil
			}
			e.Learn(record(t, s, m))
		}
	}
	take(1000, 0)
	assert.False(t, e.Statistics(1).ShiftKnown, "a shift is known before two windows")
	take(9000, 0)
	for i := range s.Len() {
		if got := e.Statistics(i); !got.ShiftKnown || got.Shift > 0.1 {
			t.Errorf("%s: a shift of %g without a change", s.Name(i), got.Shift)
		}
	}
	take(1024, 1)
	for i := range s.Len() {
		if got := e.Statistics(i); !(got.Shift > 0.25) || math.IsInf(got.Shift, 0) {
			t.Errorf("%s: a shift of %g after a change", s.Name(i), got.Shift)
		}
	}
}

// The index is of the last 512 records at every record, not at every 512th alone.
func TestShiftFollowsEveryRecord(t *testing.T) {
	s := schemaOf(t, []*model.Input{{Name: "x", Numeric: &model.NumericInput{}}, {Name: "b", Boolean: &model.BooleanInput{}}})
	for _, before := range []int{10 * 512, 10*512 + 1, 10*512 + 200, 11*512 - 1} {
		e := input.NewEncoder(s)
		rng := rand.New(rand.NewPCG(uint64(before), 9))
		take := func(n int, by float64, want func(n int, name string, psi float64)) {
			for k := range n {
				e.Learn(record(t, s, row{"x": rng.NormFloat64() + by, "b": rng.Float64() < 0.2+by/200}))
				for i := range s.Len() {
					if got := e.Statistics(i); got.ShiftKnown {
						want(k+1, s.Name(i), got.Shift)
					}
				}
			}
		}
		take(before, 0, func(n int, name string, psi float64) {
			assert.LessOrEqual(t, psi, 0.1, "seed %d, record %d: %s has a shift of %g without a change", before, n, name, psi)
		})
		take(511, 100, func(n int, name string, psi float64) {
			assert.False(t, n >= 256 && psi < 0.25 || math.IsInf(psi, 0) || math.IsNaN(psi), "seed %d: %s has a shift of %g after %d records at 100 deviations", before, name, psi, n)
			if n == 511 {
				t.Logf("after %d records and 511 at 100 deviations: %s has a shift of %.3g", before, name, psi)
			}
		})
	}
}

// Of values that do not change within a window the index is that of the formula.
func TestShiftIsTheFormula(t *testing.T) {
	s := schemaOf(t, []*model.Input{{Name: "b", Boolean: &model.BooleanInput{}}})
	e := input.NewEncoder(s)
	var all []bool
	for n := range 3000 {
		b := n >= 1536
		all = append(all, b)
		e.Learn(record(t, s, row{"b": b}))
		got := e.Statistics(0)
		if !got.ShiftKnown {
			require.Less(t, n, 1023, "no shift is known after %d records", n+1)
			continue
		}
		part := func(values []bool) (bins [11]float64) {
			for _, v := range values {
				if v {
					bins[1]++
				} else {
					bins[0]++
				}
			}
			for i := range bins {
				bins[i] = (bins[i] + 0.5) / (float64(len(values)) + 5.5)
			}
			return bins
		}
		p, q, want := part(all[len(all)-512:]), part(all[:len(all)-512]), 0.0
		for i := range p {
			want += (p[i] - q[i]) * math.Log(p[i]/q[i])
		}
		require.InDelta(t, want, got.Shift, 1e-12*max(1, want), "after %d records: a shift of %.17g, want %.17g", n+1, got.Shift, want)
	}
}
