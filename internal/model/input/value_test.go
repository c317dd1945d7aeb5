package input_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"hash/fnv"
	"math"
	"math/big"
	"math/rand/v2"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/structpb"

	"hindsight/internal/model"
	"hindsight/internal/model/codec"
	"hindsight/internal/model/input"
	"hindsight/internal/model/modeltest"
)

func TestErrorsNameTheInput(t *testing.T) {
	s := schemaOf(t, declared())
	for name, c := range map[string]struct {
		change func(m row)
		err    error
		says   string
	}{
		"unknown": {
			func(m row) { m["humidity"] = 1.0 }, input.ErrUnknownInput,
			"inputs.humidity: got a name that no input has, want one of load, price, size, open, city, shop, grade, at, since, sensors",
		},
		"nearly": {func(m row) { delete(m, "price"); m["prcie"] = 1.0 }, input.ErrUnknownInput, `inputs.prcie: got a name that no input has, want "price", which is nearly the same`},
		"all at once": {
			func(m row) { m["zz"], m["lod"], m["open"] = 1.0, 2.0, 3.0; delete(m, "city") }, input.ErrInputType,
			`inputs.lod: got a name that no input has, want "load", which is nearly the same; inputs.zz: got a name that no input has, want one of load, price, size, open, city, shop, grade, at, since, sensors; ` +
				`inputs.open: got the number 3, want true or false, or 1 or 0; inputs.city: got nothing, want a text, or null if it is missing`,
		},
		"case":   {func(m row) { delete(m, "city"); m["City"] = "Oslo" }, input.ErrUnknownInput, `want "city"`},
		"absent": {func(m row) { delete(m, "load") }, input.ErrMissingInput, "inputs.load: got nothing, want a number, or null if it is missing"},
		"absent, rejected": {
			func(m row) { delete(m, "size") }, input.ErrMissingInput, "inputs.size: got nothing, want a number",
		},
		"null rejected":  {func(m row) { m["size"] = nil }, input.ErrMissingInput, `inputs.size: got null, want a number: missing is "reject"`},
		"text, number":   {func(m row) { m["load"] = "21.5" }, input.ErrInputType, `inputs.load: got the text "21.5", want a number`},
		"boolean":        {func(m row) { m["load"] = true }, input.ErrInputType, "inputs.load: got true, want a number"},
		"number":         {func(m row) { m["open"] = 2.0 }, input.ErrInputType, "inputs.open: got the number 2, want true or false, or 1 or 0"},
		"no time":        {func(m row) { m["at"] = "yesterday" }, input.ErrInputType, `inputs.at: got the text "yesterday", want a time such as 2026-11-21T18:00:00Z`},
		"number, time":   {func(m row) { m["at"] = 17.0 }, input.ErrInputType, "inputs.at: got the number 17, want a time"},
		"short":          {func(m row) { m["sensors"] = []any{1.0} }, model.ErrDimensionMismatch, "inputs.sensors: got a list of 1 number, want a list of 3 numbers"},
		"no list":        {func(m row) { m["sensors"] = 1.0 }, input.ErrInputType, "inputs.sensors: got the number 1, want a list of 3 numbers"},
		"list of texts":  {func(m row) { m["sensors"] = []any{1.0, "a", 2.0} }, input.ErrInputType, "inputs.sensors: got a list whose item 1 is no number"},
		"list, category": {func(m row) { m["city"] = []any{1.0} }, input.ErrInputType, "inputs.city: got a list of 1 number, want a text"},
		"object":         {func(m row) { m["city"] = map[string]any{} }, input.ErrInputType, "inputs.city: got an object, want a text"},
		"NaN":            {func(m row) { m["load"] = math.NaN() }, model.ErrNotFinite, "inputs.load: got NaN, want a finite number"},
		"infinite":       {func(m row) { m["sensors"] = []any{1.0, math.Inf(1), 1.0} }, model.ErrNotFinite, "inputs.sensors[1]: got +Inf"},
		"infinite text":  {func(m row) { m["city"] = math.Inf(1) }, model.ErrNotFinite, "inputs.city: got +Inf"},
		"large id":       {func(m row) { m["city"] = float64(1 << 53) }, input.ErrInputType, "want a text, or a number between -2^53 and 2^53"},
		"large":          {func(m row) { m["load"] = 1.1e100 }, model.ErrFeatureOutOfRange, "inputs.load: got 1.1e+100, want a magnitude of at most 1e+100"},
		"long":           {func(m row) { m["shop"] = strings.Repeat("x", 300) }, input.ErrInputTooLarge, "inputs.shop: got a text of 300 bytes, want at most 256 bytes"},
	} {
		m := rows(1, 1)[0]
		m["load"] = 1.0
		c.change(m)
		from, err := structpb.NewStruct(m)
		require.NoError(t, err)
		var r input.Record
		err = fromStruct(s, &r, from)
		var field *model.FieldError
		assert.True(t, errors.Is(err, c.err) && errors.As(err, &field) && strings.Contains(err.Error(), c.says), "%s: %v, want %s (%v)", name, err, c.says, c.err)
	}
	var short input.Record
	short.Reset(3)
	assert.ErrorIs(t, s.Accept(&short), model.ErrDimensionMismatch)
}

func TestDistance(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{
		{"", "", 0}, {"", "ab", 2}, {"city", "city", 0}, {"city", "ctiy", 1}, {"temprature", "temperature", 1}, {"kitten", "sitting", 3}, {"Ås", "As", 1}, {"ca", "abc", 3},
	} {
		got, back := input.Distance(c.a, c.b), input.Distance(c.b, c.a)
		assert.True(t, got == c.want && back == got, "%q to %q: %d and %d, want %d", c.a, c.b, got, back, c.want)
	}
}

func TestComplete(t *testing.T) {
	got, err := input.Complete([]*model.Input{
		{Name: "city", Categorical: &model.CategoricalInput{}},
		{Name: "load", Numeric: &model.NumericInput{Clip: &model.Clip{}}},
		{Name: "at", Time: &model.TimeInput{}},
		{Name: "t", Time: &model.TimeInput{Trend: ptr(true)}, Missing: model.MissingReject},
		{Name: "u", Time: &model.TimeInput{Cycles: []string{model.CycleDayOfYear, model.CycleHourOfDay}}},
	}, input.Options{})
	require.NoError(t, err)
	want := []*model.Input{
		{Name: "city", Categorical: &model.CategoricalInput{MaxCategories: ptr(64), JointScale: ptr(true)}, Missing: model.MissingCategory},
		{Name: "load", Numeric: &model.NumericInput{Log1p: ptr(false)}, Missing: model.MissingIndicator},
		{Name: "at", Time: &model.TimeInput{Cycles: []string{model.CycleHourOfDay, model.CycleDayOfWeek, model.CycleDayOfYear}, Trend: ptr(false)}, Missing: model.MissingIndicator},
		{Name: "t", Time: &model.TimeInput{Trend: ptr(true)}, Missing: model.MissingReject},
		{Name: "u", Time: &model.TimeInput{Cycles: []string{model.CycleHourOfDay, model.CycleDayOfYear}, Trend: ptr(false)}, Missing: model.MissingIndicator},
	}
	assert.Equal(t, want, got)
	again, err := input.Complete(got, input.Options{})
	assert.True(t, err == nil && reflect.DeepEqual(again, got), "completed again: %+v, %v", again, err)
	many := make([]*model.Input, 4097)
	number := &model.NumericInput{}
	for field, inputs := range map[string][]*model.Input{
		"inputs":                               many,
		"inputs[0]":                            {nil},
		"inputs[0].name":                       {{Numeric: number}},
		"inputs[1].name":                       {{Name: "a", Numeric: number}, {Name: "a", Numeric: number}},
		"inputs[2]":                            {{Name: "a", Numeric: number}, {Name: "b", Numeric: number}, {Name: "c"}},
		"inputs[1]":                            {{Name: "a", Numeric: number}, {Name: "b", Numeric: number, Boolean: &model.BooleanInput{}}},
		"inputs[0].missing":                    {{Name: "a", Numeric: number, Missing: model.MissingCategory}},
		"inputs[0].numeric.clip.low":           {{Name: "a", Numeric: &model.NumericInput{Clip: &model.Clip{Low: ptr(2.0), High: ptr(1.0)}}}},
		"inputs[0].numeric.clip.high":          {{Name: "a", Numeric: &model.NumericInput{Clip: &model.Clip{High: ptr(math.NaN())}}}},
		"inputs[0].categorical":                {{Name: "a", Categorical: &model.CategoricalInput{MaxCategories: ptr(1), HashBuckets: ptr(2)}}},
		"inputs[0].categorical.max_categories": {{Name: "a", Categorical: &model.CategoricalInput{MaxCategories: ptr(0)}}},
		"inputs[0].categorical.hash_buckets":   {{Name: "a", Categorical: &model.CategoricalInput{HashBuckets: ptr(4097)}}},
		"inputs[0].categorical.key":            {{Name: "a", Categorical: &model.CategoricalInput{Key: true}}},
		"inputs[0].time.cycles[1]":             {{Name: "a", Time: &model.TimeInput{Cycles: []string{"hour_of_day", "moon"}}}},
		"inputs[0].time.cycles[2]":             {{Name: "a", Time: &model.TimeInput{Cycles: []string{"hour_of_day", "day_of_week", "hour_of_day"}}}},
		"inputs[0].vector.length":              {{Name: "a", Vector: &model.VectorInput{}}},
		"inputs[0].text.hash_buckets":          {{Name: "a", Text: &model.TextInput{HashBuckets: ptr(0)}}},
	} {
		var bad *model.FieldError
		_, err := input.Complete(inputs, input.Options{})
		assert.True(t, errors.As(err, &bad) && bad.Field == field && errors.Is(err, model.ErrInvalidSpec), "%s: %v", field, err)
	}
	for _, name := range []string{"a\nb", "\xff", strings.Repeat("x", 65)} {
		_, err := input.Complete([]*model.Input{{Name: name, Numeric: number}}, input.Options{})
		assert.ErrorIs(t, err, model.ErrInvalidSpec, name)
	}
}

// The hash is FNV-1a as the standard library has it, and then the finalizer.
func TestHash(t *testing.T) {
	for _, text := range []string{"", "Oslo", "a", "b", "17", "Tromsø"} {
		h := fnv.New64a()
		_, _ = h.Write([]byte(text))
		v := h.Sum64()
		v ^= v >> 33
		v *= 0xff51afd7ed558ccd
		v ^= v >> 33
		v *= 0xc4ceb9fe1a85ec53
		v ^= v >> 33
		assert.True(t, input.Hash(text) == v && input.Hash([]byte(text)) == v, "%q: %#x, want %#x", text, input.Hash(text), v)
	}
	assert.EqualValues(t, uint64(documentedHash), input.Hash("Oslo"))
}

// Every place and both signs are used about as often, by names that differ in their
// last bytes alone.
func TestHashesSpread(t *testing.T) {
	const buckets, n = 16, 16000
	s := schemaOf(t, []*model.Input{{Name: "c", Categorical: &model.CategoricalInput{HashBuckets: ptr(buckets)}, Missing: model.MissingReject}})
	e := input.NewEncoder(s)
	var r input.Record
	var counts [2 * buckets]int
	for k := range n {
		r.Reset(1)
		r.SetNumber(0, float64(k))
		for i, v := range e.Encode(nil, &r) {
			if v > 0 {
				counts[i]++
			} else if v < 0 {
				counts[buckets+i]++
			}
		}
	}
	for i, c := range counts {
		if c < 400 || c > 600 { // 500 ± 22.
			t.Errorf("place %d: %d of %d", i, c, n)
		}
	}
}

func TestLog1pIsExact(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	worst := 0.0
	for range 200_000 {
		x := math.Exp(500*rng.Float64() - 270)
		if rng.IntN(2) == 0 {
			x = 4 * rng.Float64()
		}
		want := math.Log1p(x) // Below one unit in the last place itself.
		got := input.Log1p(x)
		worst = math.Max(worst, math.Abs(got-want)/(math.Nextafter(want, math.Inf(1))-want))
		require.True(t, input.Log1p(-x) == -got, "of −%g it is %g", x, input.Log1p(-x))
	}
	assert.LessOrEqual(t, worst, 1.0, "it differs by %g units in the last place from that of package math", worst)
	// log(1 + x) as a sum of atanh, to 200 bits.
	for _, x := range []float64{0x1p-60, 1e-9, 0.3, 0.41421356, 0.5, 1, 2, 3.7, 1e9} {
		want := exactLog1p(x)
		assert.InDelta(t, want, input.Log1p(x), math.Nextafter(want, math.Inf(1))-want, x)
	}
	assert.InDelta(t, 230.25850929940457, input.Log1p(1e100), 1e-13)
	got := input.Log1p(math.Copysign(0, -1))
	assert.True(t, got == 0 && math.Signbit(got), "log1p(−0) = %g", got)
}

// exactLog1p is log(1+x) = n log 2 + 2 atanh(s), s = f/(2+f), 1+x = 2^n (1+f).
func exactLog1p(x float64) float64 {
	big1 := func(v float64) *big.Float { return new(big.Float).SetPrec(200).SetFloat64(v) }
	u, n := new(big.Float).Add(big1(1), big1(x)), 0
	for u.Cmp(big1(1.5)) > 0 {
		u.Quo(u, big1(2))
		n++
	}
	atanh := func(s *big.Float) *big.Float {
		sum, power, square := big1(0), new(big.Float).Copy(s), new(big.Float).Mul(s, s)
		for k := 1; k < 400; k += 2 {
			sum.Add(sum, new(big.Float).Quo(power, big1(float64(k))))
			power.Mul(power, square)
		}
		return sum.Mul(sum, big1(2))
	}
	ln2 := atanh(new(big.Float).Quo(big1(1), big1(3)))
	f := new(big.Float).Sub(u, big1(1))
	log := atanh(new(big.Float).Quo(f, new(big.Float).Add(f, big1(2))))
	out, _ := log.Add(log, ln2.Mul(ln2, big1(float64(n)))).Float64()
	return out
}

// The bits of what is encoded are the same on every target.
func TestBitsAreThese(t *testing.T) {
	s := schemaOf(t, declared())
	e := input.NewEncoder(s)
	h := fnv.New64a()
	for _, m := range rows(10, 800) {
		r := record(t, s, m)
		for _, v := range e.Encode(nil, r) {
			_, _ = h.Write([]byte(big.NewFloat(v).Text('p', 0)))
		}
		e.Learn(r)
	}
	_, _ = h.Write(modeltest.State(t, e.Visit))
	assert.EqualValues(t, documentedBits, h.Sum64())
}

func TestRecordsAreCompact(t *testing.T) {
	var r input.Record
	r.Reset(6)
	r.SetNumber(0, 21.5)
	r.SetText(1, "Oslo")
	r.SetNumber(3, 1500)
	r.SetBoolean(4, true)
	r.SetNumber(5, 0.1)
	assert.EqualValues(t, 1+5+6+1+3+1+9, len(r.Append(nil)))
}

func FuzzTime(f *testing.F) {
	form := regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]([01]\d|2[0-3]):[0-5]\d)$`)
	for _, text := range []string{
		"2026-11-21T18:00:00Z", "2024-02-29T23:59:59.999999999+23:59", "0000-01-01T00:00:00-23:59", "2023-02-29T00:00:00Z", "1900-02-28T24:00:00Z",
		"2026-11-21t18:00:00z", "2026-11-21T18:00:00.Z", "2026-11-21T18:00:60Z", "2026-11-21T18:00:00,5Z", "2026-11-21T18:00:00+24:00", "2026-11-21T18:00:00+01:60", "2026-11-21T18:00:00+0100", "9999-12-31T23:59:59.12345678912-00:01",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, ok := input.ParseTime(text)
		var want time.Time
		// Package time also reads some texts that RFC 3339 does not have.
		err := want.UnmarshalText([]byte(text))
		require.Equal(t, ok, (err == nil && form.MatchString(text)), "%v %v", text, err)
		if !ok {
			return
		}
		_, offset := want.Zone()
		require.True(t, got.Seconds == want.Unix() && int(got.Nanos) == want.Nanosecond() && 60*int(got.Offset) == offset, "%q: %+v, want %v", text, got, want)
		checkAngles(t, got, want)
	})
}

func checkAngles(t *testing.T, got input.Time, at time.Time) {
	t.Helper()
	hour, week, year := got.Angles()
	day := (float64(at.Hour()*3600+at.Minute()*60+at.Second()) + float64(at.Nanosecond())/1e9) / 86400
	length := time.Date(at.Year(), 12, 31, 0, 0, 0, 0, time.UTC).YearDay()
	for name, c := range map[string][2]float64{
		"hour": {hour, day}, "week": {week, (float64((at.Weekday()+6)%7) + day) / 7}, "year": {year, (float64(at.YearDay()-1) + day) / float64(length)},
	} {
		require.False(t, math.Abs(c[0]-2*math.Pi*c[1]) > 1e-12 || c[0] < 0 || c[0] > 2*math.Pi, "%v: the %s has the angle %g, want %g", at, name, c[0], 2*math.Pi*c[1])
	}
}

// Every day of 400 years, after which the calendar repeats itself, has the place in
// week and year that package time gives it, on both sides of the year 0.
func TestEveryDay(t *testing.T) {
	for _, year := range []int{-200, 1800} {
		at := time.Date(year, 1, 1, 12, 0, 0, 0, time.UTC)
		for at.Year() < year+400 {
			checkAngles(t, input.Time{Seconds: at.Unix()}, at)
			at = at.AddDate(0, 0, 1)
		}
	}
}

// FuzzRecord: any bytes are a record or an error, and a record survives its bytes.
func FuzzRecord(f *testing.F) {
	s := keyed(f)
	for _, m := range keyedRows(11, 10) {
		f.Add(record(f, s, m).Append(nil))
	}
	f.Add([]byte{2, 5, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 8, 0xff, 0xff, 3})
	f.Fuzz(func(t *testing.T, data []byte) {
		var r, again input.Record
		rest, err := r.Decode(data)
		if err != nil {
			require.True(t, errors.Is(err, codec.ErrCorrupt) && r.Len() == 0, "%v, %d values", err, r.Len())
			return
		}
		require.True(t, r.Len() <= len(data) && len(rest) <= len(data), "%d values of %d bytes", r.Len(), len(data))
		written := r.Append(nil)
		rest, err = again.Decode(written)
		require.True(t, err == nil && len(rest) == 0, "written, it is not read: %v", err)
		require.Equal(t, written, again.Append(nil), "it is written differently the second time")
		if s.Accept(&r) != nil {
			return
		}
		e := input.NewEncoder(s)
		for range 3 {
			for _, v := range e.Encode(nil, &r) {
				require.True(t, math.Abs(v) <= model.MaxMagnitude, "a feature of %g", v)
			}
			e.Learn(&r)
		}
		require.NoError(t, codec.Read(modeltest.State(t, e.Visit), input.NewEncoder(s).Visit))
	})
}

// FuzzStruct: the JSON of any object is a record or an error with the name of a field.
func FuzzStruct(f *testing.F) {
	inputs, err := input.Complete(declared(), input.Options{})
	require.NoError(f, err)
	s := input.NewSchema(inputs, 0, false)
	for _, m := range rows(12, 5) {
		from, err := structpb.NewStruct(m)
		require.NoError(f, err)
		text, err := from.MarshalJSON()
		require.NoError(f, err)
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var from structpb.Struct
		if from.UnmarshalJSON(text) != nil {
			return
		}
		var r, again input.Record
		if err := fromStruct(s, &r, &from); err != nil {
			var field *model.FieldError
			require.True(t, errors.As(err, &field) && strings.HasPrefix(field.Field, "inputs."), err)
			return
		}
		written := r.Append(nil)
		rest, err := again.Decode(written)
		require.True(t, err == nil && len(rest) == 0 && s.Accept(&again) == nil, "its bytes are no record: %v", err)
		require.Equal(t, written, again.Append(nil), "it has other bytes the second time")
	})
}

// FuzzRestore: any bytes are rejected, or are a state that goes on as any other.
func FuzzRestore(f *testing.F) {
	s := keyed(f)
	for _, n := range []int{0, 1, 50, 120, 1100} {
		e := input.NewEncoder(s)
		for _, m := range keyedRows(13, n) {
			e.Learn(record(f, s, m))
		}
		f.Add(modeltest.State(f, e.Visit))
	}
	next := keyedRows(14, 20)
	f.Fuzz(func(t *testing.T, data []byte) {
		e := input.NewEncoder(s)
		if err := codec.Read(data, e.Visit); err != nil {
			require.True(t, errors.Is(err, codec.ErrCorrupt) || errors.Is(err, codec.ErrVersion), err)
			return
		}
		require.Equal(t, data, modeltest.State(t, e.Visit), "it is written differently from how it was read")
		for _, m := range next {
			r := record(t, s, m)
			for _, v := range e.Encode(nil, r) {
				require.True(t, !math.IsNaN(v) && !math.IsInf(v, 0), "a feature of %g", v)
			}
			e.Learn(r)
		}
		for i := range s.Len() {
			_ = e.Statistics(i)
		}
		require.NoError(t, codec.Read(modeltest.State(t, e.Visit), input.NewEncoder(s).Visit))
	})
}

// The JSON of a stored spec is a list of declarations.
func TestTheJSONOfDeclarations(t *testing.T) {
	decoder := json.NewDecoder(strings.NewReader(`{"inputs": [
  {"name":"at","time":{"cycles":["hour_of_day","day_of_week","day_of_year"],"trend":true},"missing":"reject"},
  {"name":"temp","numeric":{}},
  {"name":"city","categorical":{"max_categories":3},"missing":"reject"},
  {"name":"rain","boolean":{},"missing":"reject"},
  {"name":"zip","categorical":{"hash_buckets":128},"missing":"reject"}
]}
`))
	decoder.DisallowUnknownFields()
	var spec struct {
		Inputs []*model.Input `json:"inputs"`
	}
	require.NoError(t, decoder.Decode(&spec))
	assert.EqualValues(t, 7+2+4+1+128, schemaOf(t, spec.Inputs).Dimension())
}

// The numbers 1 and 0 are true and false, down to the bytes of the record.
func TestNumbersAreBooleans(t *testing.T) {
	s := schemaOf(t, declared())
	for number, value := range map[float64]bool{1: true, 0: false, math.Copysign(0, -1): false} {
		m := rows(1, 1)[0]
		m["open"] = value
		want := record(t, s, m)
		m["open"] = number
		if got := record(t, s, m); !bytes.Equal(got.Append(nil), want.Append(nil)) {
			t.Errorf("%g is %s, want %t", number, got.At(3), value)
		}
	}
}
