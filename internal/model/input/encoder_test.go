package input_test

import (
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"hindsight/internal/model"
	"hindsight/internal/model/codec"
	"hindsight/internal/model/input"
	"hindsight/internal/model/modeltest"
)

// oracle encodes a row from all rows before it, with no state but them.
type oracle struct{ past []row }

func (o oracle) encode(inputs []*model.Input, m row) []float64 {
	var x []float64
	for _, in := range inputs {
		v := m[in.Name]
		values := o.values(in, m)
		if v == nil {
			values = o.mean(in)
		}
		x = append(x, values...)
		if in.Missing != model.MissingReject {
			flag := 0.0
			if v == nil {
				flag = 1
			}
			x = append(x, flag)
		}
	}
	return x
}

// mean is the mean of each feature over the rows before that have a value.
func (o oracle) mean(in *model.Input) []float64 {
	var sum []float64
	n := 0.0
	for i, m := range o.past {
		if m[in.Name] == nil {
			continue
		}
		n++
		for k, v := range (oracle{o.past[:i]}).values(in, m) {
			if sum == nil {
				sum = make([]float64, 100)
			}
			sum[k] += v
		}
	}
	width := len(o.values(in, nil))
	out := make([]float64, width)
	for k := range out {
		if n > 0 && in.Categorical == nil {
			out[k] = sum[k] / n
		}
	}
	return out
}

// values are the features of a value, all 0 for one that is missing.
func (o oracle) values(in *model.Input, m row) []float64 {
	v := m[in.Name]
	switch {
	case in.Numeric != nil:
		number, _ := v.(float64)
		if c := in.Numeric.Clip; c != nil {
			number = math.Max(*c.Low, math.Min(*c.High, number))
		}
		if *in.Numeric.Log1p {
			number = math.Copysign(math.Log1p(math.Abs(number)), number)
		}
		return []float64{number}
	case in.Boolean != nil:
		if v == true {
			return []float64{1}
		}
		return []float64{0}
	case in.Vector != nil:
		out := make([]float64, *in.Vector.Length)
		if list, ok := v.([]any); ok {
			for k := range out {
				out[k] = list[k].(float64)
			}
		}
		return out
	case in.Time != nil:
		return o.times(in, v)
	case in.Categorical.HashBuckets != nil:
		out := make([]float64, *in.Categorical.HashBuckets)
		if v != nil {
			h := input.Hash(fmt.Sprint(v))
			out[(h>>1)%uint64(len(out))] = 1 - 2*float64(h&1)
		}
		return out
	default:
		out := make([]float64, *in.Categorical.MaxCategories+1)
		if v == nil {
			return out
		}
		k := slices.Index(o.categories(in), fmt.Sprint(v))
		if k < 0 || k >= len(out)-1 {
			k = len(out) - 1
		}
		out[k] = 1
		return out
	}
}

func (o oracle) categories(in *model.Input) []string {
	var names []string
	for _, m := range o.past {
		if v := m[in.Name]; v != nil && !slices.Contains(names, fmt.Sprint(v)) {
			names = append(names, fmt.Sprint(v))
		}
	}
	return names
}

func (o oracle) times(in *model.Input, v any) []float64 {
	var out []float64
	var at time.Time
	if v != nil {
		at, _ = time.Parse(time.RFC3339Nano, v.(string))
	}
	year := time.Date(at.Year(), 1, 1, 0, 0, 0, 0, time.UTC)
	local := time.Date(at.Year(), at.Month(), at.Day(), at.Hour(), at.Minute(), at.Second(), at.Nanosecond(), time.UTC)
	hours := local.Sub(year).Hours()
	day := math.Mod(hours, 24) / 24
	for _, c := range in.Time.Cycles {
		var part float64
		switch c {
		case model.CycleHourOfDay:
			part = day
		case model.CycleDayOfWeek:
			part = (float64((int(local.Weekday())+6)%7) + day) / 7
		case model.CycleDayOfYear:
			part = hours / year.AddDate(1, 0, 0).Sub(year).Hours()
		}
		out = append(out, math.Sin(2*math.Pi*part), math.Cos(2*math.Pi*part))
	}
	if !*in.Time.Trend {
		return out
	}
	trend := 0.0
	for _, m := range o.past {
		if first := m[in.Name]; first != nil && v != nil {
			since, _ := time.Parse(time.RFC3339Nano, first.(string))
			trend = (float64(at.Unix()-since.Unix()) + float64(at.Nanosecond()-since.Nanosecond())/1e9) / 86400
			break
		}
	}
	return append(out, trend)
}

func TestFeaturesAreThoseOfTheOracle(t *testing.T) {
	inputs, err := input.Complete(declared(), input.Options{})
	require.NoError(t, err)
	s := input.NewSchema(inputs, 0, false)
	e := input.NewEncoder(s)
	var o oracle
	for n, m := range rows(1, 250) {
		r := record(t, s, m)
		got, want := e.Encode(nil, r), o.encode(inputs, m)
		if len(got) != len(want) || len(got) != s.Dimension() || len(got) != len(e.Names()) {
			t.Fatalf("%d features and %d names, want %d", len(got), len(e.Names()), len(want))
		}
		for k := range got {
			require.True(t, math.Abs(got[k]-want[k]) <= 1e-9*math.Max(1, math.Abs(want[k])), "row %d, %s: %.17g, want %.17g (%v)", n, e.Names()[k], got[k], want[k], m)
		}
		e.Learn(r)
		o.past = append(o.past, m)
	}
}

func TestNamesOfTheFeatures(t *testing.T) {
	s := schemaOf(t, []*model.Input{
		{Name: "load", Numeric: &model.NumericInput{}},
		{Name: "city", Categorical: &model.CategoricalInput{MaxCategories: ptr(3)}},
		{Name: "at", Time: &model.TimeInput{Cycles: []string{model.CycleDayOfYear, model.CycleHourOfDay}, Trend: ptr(true)}, Missing: model.MissingReject},
		{Name: "v", Vector: &model.VectorInput{Length: ptr(2)}},
		{Name: "id", Categorical: &model.CategoricalInput{HashBuckets: ptr(2)}, Missing: model.MissingReject},
	})
	e := input.NewEncoder(s)
	for _, city := range []any{"Oslo", nil, 17.0, "Oslo"} {
		e.Learn(record(t, s, row{"load": 1.0, "city": city, "at": "2026-11-21T18:00:00Z", "v": []any{1.0, 2.0}, "id": true}))
	}
	want := "load load.missing city=Oslo city=17 city[2] city.other city.missing" +
		" at.hour_of_day.sin at.hour_of_day.cos at.day_of_year.sin at.day_of_year.cos at.trend v[0] v[1] v.missing id#0 id#1"
	assert.Equal(t, want, strings.Join(e.Names(), " "))
	name, count := e.Category(1, 0)
	assert.True(t, name == "Oslo" && count == 2, "category %q, %d times", name, count)
}

// What a learner is taught is what Predict asked: a category is other in the record
// in which it appears first.
func TestACategoryIsOtherUntilItWasObserved(t *testing.T) {
	s := schemaOf(t, []*model.Input{{Name: "c", Categorical: &model.CategoricalInput{MaxCategories: ptr(2)}, Missing: model.MissingReject}})
	e := input.NewEncoder(s)
	for n, c := range []struct {
		category string
		want     []float64
	}{
		{"b", []float64{0, 0, 1}},
		{"b", []float64{1, 0, 0}},
		{"a", []float64{0, 0, 1}},
		{"a", []float64{0, 1, 0}},
		{"z", []float64{0, 0, 1}},
		{"z", []float64{0, 0, 1}},
		{"b", []float64{1, 0, 0}},
	} {
		r := record(t, s, row{"c": c.category})
		before := modeltest.State(t, e.Visit)
		assert.Equal(t, c.want, e.Encode(nil, r), n)
		same(t, "Encode changed the state", modeltest.State(t, e.Visit), before)
		e.Learn(r)
	}
	got := e.Statistics(0)
	assert.True(t, got.Outside == 4 && got.Seen == 7 && got.Categories == 2 && !got.NumbersKnown, "%+v", got)
}

func TestRestoreContinuesBitForBit(t *testing.T) {
	t.Run("without keys", func(t *testing.T) { testRestore(t, schemaOf(t, declared()), rows(2, 1500)) })
	t.Run("with keys", func(t *testing.T) { testRestore(t, keyed(t), keyedRows(2, 1500)) })
}

func testRestore(t *testing.T, s *input.Schema, all []row) {
	t.Helper()
	whole := input.NewEncoder(s)
	cuts := map[int][]byte{}
	for n, m := range all {
		if n < 12 || n%97 == 0 || n == 511 || n == 512 || n == 1024 {
			cuts[n] = modeltest.State(t, whole.Visit)
		}
		whole.Learn(record(t, s, m))
	}
	for at, cut := range cuts {
		second := input.NewEncoder(s)
		require.NoError(t, codec.Read(cut, second.Visit), at)
		same(t, fmt.Sprint("restored at ", at), modeltest.State(t, second.Visit), cut)
		for _, m := range all[at:] {
			second.Learn(record(t, s, m))
		}
		same(t, fmt.Sprint("continued from ", at), modeltest.State(t, second.Visit), modeltest.State(t, whole.Visit))
		assert.True(t, second.Size() == whole.Size() && second.Observations() == 1500, "restored at %d it has %d bytes, want %d", at, second.Size(), whole.Size())
		for i := range s.Len() {
			assert.True(t, second.Statistics(i) == whole.Statistics(i), "restored at %d: %+v, want %+v", at, second.Statistics(i), whole.Statistics(i))
		}
	}
}

func TestRestoreRejects(t *testing.T) {
	s := keyed(t)
	e := input.NewEncoder(s)
	for _, m := range keyedRows(3, 700) {
		e.Learn(record(t, s, m))
	}
	good := modeltest.State(t, e.Visit)
	bad := map[string][]byte{"nothing": nil, "long": append(slices.Clone(good), 0), "zeros": make([]byte, len(good)), "ones": slices.Repeat([]byte{255}, len(good))}
	for n := range good {
		bad[fmt.Sprint("cut at ", n)] = good[:n]
	}
	for name, b := range bad {
		assert.Error(t, codec.Read(b, input.NewEncoder(s).Visit), name)
	}
	for _, n := range []int{0, 30, 99, 100, 512, 699} {
		short := input.NewEncoder(s)
		for _, m := range keyedRows(3, n) {
			short.Learn(record(t, s, m))
		}
		other := modeltest.State(t, short.Visit)
		other[1]++ // One record more than there are values.
		assert.ErrorIs(t, codec.Read(other, input.NewEncoder(s).Visit), codec.ErrCorrupt, n)
	}
}

// The digest knows no order of columns: a Struct has none, and a record has that of
// the declarations.
func TestColumnsInAnotherOrderAndBytesBetween(t *testing.T) {
	s := schemaOf(t, declared())
	a, b := input.NewEncoder(s), input.NewEncoder(s)
	var again input.Record
	for n, m := range rows(4, 300) {
		other := row{}
		for i := s.Len(); i > 0; i-- {
			other[s.Name(i-1)] = m[s.Name(i-1)]
		}
		first := record(t, s, m)
		bytes := first.Append(nil)
		rest, err := again.Decode(append(record(t, s, other).Append(nil), 7))
		require.True(t, err == nil && len(rest) == 1 && s.Accept(&again) == nil, "row %d: %v, %d bytes are left", n, err, len(rest))
		same(t, "bytes of the same record", again.Append(nil), bytes)
		x, y := a.Encode(nil, first), b.Encode(nil, &again)
		require.True(t, slices.Equal(x, y), "row %d: %v and %v", n, x, y)
		a.Learn(first)
		b.Learn(&again)
	}
	same(t, "another order", modeltest.State(t, a.Visit), modeltest.State(t, b.Visit))
}

// A category of another name has the same features; names alone differ.
func TestARenamedCategoryChangesNamesAlone(t *testing.T) {
	s := schemaOf(t, declared())
	a, b := input.NewEncoder(s), input.NewEncoder(s)
	for _, m := range rows(5, 300) {
		r := record(t, s, m)
		if m["city"] != nil {
			m["city"] = strings.ReplaceAll(m["city"].(string), "city 1", "Ålesund")
		}
		renamed := record(t, s, m)
		x, y := a.Encode(nil, r), b.Encode(nil, renamed)
		require.True(t, slices.Equal(x, y), "%v and %v", x, y)
		a.Learn(r)
		b.Learn(renamed)
	}
	x, y := a.Names(), b.Names()
	for k := range x {
		assert.Equal(t, strings.ReplaceAll(x[k], "city 1", "Ålesund"), y[k], x[k])
	}
	for i := range s.Len() {
		assert.True(t, a.Statistics(i) == b.Statistics(i), "%s: %+v and %+v", s.Name(i), a.Statistics(i), b.Statistics(i))
	}
}

func TestReadersMayRunTogether(t *testing.T) {
	s := keyed(t)
	e := input.NewEncoder(s)
	all := keyedRows(6, 100)
	for _, m := range all {
		e.Learn(record(t, s, m))
	}
	before := modeltest.State(t, e.Visit)
	var group sync.WaitGroup
	for k := range 4 {
		group.Go(func() {
			var x []float64
			for n := range 50 {
				r := record(t, s, all[(7*k+n)%100])
				x = e.Encode(x[:0], r)
				_, _ = e.Statistics(n%s.Len()), e.Size()
			}
		})
	}
	group.Wait()
	same(t, "readers changed the state", modeltest.State(t, e.Visit), before)
}

func TestStatistics(t *testing.T) {
	inputs := []*model.Input{
		{Name: "x", Numeric: &model.NumericInput{Log1p: ptr(true)}},
		{Name: "v", Vector: &model.VectorInput{Length: ptr(2)}},
		{Name: "b", Boolean: &model.BooleanInput{}},
		{Name: "at", Time: &model.TimeInput{}},
	}
	s := schemaOf(t, inputs)
	e := input.NewEncoder(s)
	for _, m := range []row{
		{"x": 4.0, "v": []any{1.0, 5.0}, "b": true, "at": "1970-01-01T00:00:10Z"},
		{"x": nil, "v": nil, "b": nil, "at": nil},
		{"x": 8.0, "v": []any{3.0, 3.0}, "b": false, "at": "1970-01-01T01:00:20+01:00"},
		{"x": 6.0, "v": []any{0.0, 6.0}, "b": true, "at": "1970-01-01T00:00:15Z"},
	} {
		e.Learn(record(t, s, m))
	}
	for i, want := range []input.Statistics{
		{Outside: 1, Low: 4, High: 8, Mean: 6, Deviation: math.Sqrt(8.0 / 3)},
		{Outside: 1, Low: 0, High: 6, Mean: 3, Deviation: math.Sqrt(26.0 / 6)},
		{Low: 0, High: 1, Mean: 2.0 / 3, Deviation: math.Sqrt(2.0 / 9)},
		{Low: 10, High: 20, Mean: 15, Deviation: math.Sqrt(50.0 / 3)},
	} {
		got := e.Statistics(i)
		assert.True(t, math.Abs(got.Deviation-want.Deviation) <= 1e-12 && math.Abs(got.Mean-want.Mean) <= 1e-12, "%s: %+v, want %+v", s.Name(i), got, want)
		want.Seen, want.Missing, want.Deviation, want.Mean, want.NumbersKnown = 3, 1, got.Deviation, got.Mean, true
		assert.True(t, got == want, "%s: %+v, want %+v", s.Name(i), got, want)
	}
	assert.EqualValues(t, 1.0/3, e.Statistics(0).OutsideShare())
}

// Numbers at the ends of the range break no sum.
func TestHardNumbers(t *testing.T) {
	s := schemaOf(t, []*model.Input{{Name: "x", Numeric: &model.NumericInput{}}, {Name: "v", Vector: &model.VectorInput{Length: ptr(2)}}})
	e := input.NewEncoder(s)
	for n := range 3000 {
		side := float64(1 - 2*(n%2))
		m := row{"x": side * 1e100, "v": []any{1e100, -side * 1e100}}
		if n%7 == 0 {
			m = row{"x": nil, "v": nil}
		}
		r := record(t, s, m)
		for _, v := range e.Encode(nil, r) {
			require.True(t, math.Abs(v) <= model.MaxMagnitude, "record %d: %g", n, v)
		}
		e.Learn(r)
	}
	require.NoError(t, codec.Read(modeltest.State(t, e.Visit), input.NewEncoder(s).Visit))
	for i := range 2 {
		got := e.Statistics(i)
		assert.True(t, !math.IsNaN(got.Deviation) && !math.IsInf(got.Deviation, 0) && got.ShiftKnown, "%+v", got)
	}
}

func TestNothingIsAllocated(t *testing.T) {
	if modeltest.RaceDetector {
		t.Skip("the race detector allocates")
	}
	s := keyed(t)
	e := input.NewEncoder(s)
	all := keyedRows(9, 700)
	for _, m := range all {
		e.Learn(record(t, s, m))
	}
	r := record(t, s, all[4])
	bytes := r.Append(nil)
	x, buffer, v := e.Encode(nil, r), modeltest.State(t, e.Visit), codec.Appending(nil)
	for name, f := range map[string]func(){
		"Accept":     func() { _ = s.Accept(r) },
		"Encode":     func() { x = e.Encode(x[:0], r) },
		"Learn":      func() { e.Learn(r) },
		"Append":     func() { bytes = r.Append(bytes[:0]) },
		"Visit":      func() { v = codec.Appending(buffer[:0]); e.Visit(&v) },
		"Statistics": func() { _ = e.Statistics(4) },
	} {
		n := testing.AllocsPerRun(100, f)
		assert.True(t, n == 0, "%s allocates %g times", name, n)
	}
}

// Size is near the memory that encoders take.
func TestSizeIsTheMemory(t *testing.T) {
	if modeltest.RaceDetector {
		t.Skip("the race detector takes memory")
	}
	inputs := []*model.Input{
		{Name: "x", Numeric: &model.NumericInput{}},
		{Name: "c", Categorical: &model.CategoricalInput{MaxCategories: ptr(2000)}},
		{Name: "at", Time: &model.TimeInput{}},
		{Name: "v", Vector: &model.VectorInput{Length: ptr(100)}},
	}
	t.Run("without keys", func(t *testing.T) { testSize(t, schemaOf(t, inputs)) })
	inputs[1].Categorical = &model.CategoricalInput{Key: true}
	t.Run("with keys", func(t *testing.T) { testSize(t, keysOf(t, inputs, 2000)) })
	t.Run("with fewer keys", func(t *testing.T) { testSize(t, keysOf(t, inputs, 500)) })
}

func testSize(t *testing.T, s *input.Schema) {
	t.Helper()
	for _, n := range []int{0, 50, 1500} {
		var all []*input.Record
		for k := range n {
			list := make([]any, 100)
			for i := range list {
				list[i] = float64(k)
			}
			all = append(all, record(t, s, row{"x": float64(k), "c": float64(1000000 + k), "at": "2026-11-21T18:00:00Z", "v": list}))
		}
		const many = 20
		encoders := make([]*input.Encoder, many)
		var before, after runtime.MemStats
		runtime.GC()
		runtime.GC() // The first leaves what sync.Pool has.
		runtime.ReadMemStats(&before)
		for i := range encoders {
			encoders[i] = input.NewEncoder(s)
			for _, r := range all {
				encoders[i].Learn(r)
			}
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		measured := float64(after.HeapAlloc-before.HeapAlloc) / many
		if ratio := float64(encoders[0].Size()) / measured; !(ratio > 0.6 && ratio < 1.5) {
			t.Errorf("%d records: Size says %d, measured are %.0f", n, encoders[0].Size(), measured)
		}
		runtime.KeepAlive(encoders)
		runtime.KeepAlive(all)
	}
}
