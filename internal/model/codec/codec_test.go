package codec_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"hindsight/internal/model/codec"
)

func TestReadingStopsAtItsFirstFailure(t *testing.T) {
	r := codec.Reading(binary.LittleEndian.AppendUint64(nil, 5))
	n, f, m := uint64(0), 1.0, uint32(1)
	r.Uint64(&n)
	r.Float(&f)
	r.Uint32(&m)
	assert.True(t, n == 5 && f == 0 && m == 0, "read what is not there")
	assert.True(t, errors.Is(r.Err(), codec.ErrCorrupt) && errors.Is(r.End(), codec.ErrCorrupt), "%v, %v", r.Err(), r.End())
}

func TestFloatsAreReadAsTheyWereWritten(t *testing.T) {
	for n := range 40 {
		want := make([]float64, n)
		for i := range want {
			want[i] = math.Float64frombits(0x0102030405060708 * uint64(i+1))
		}
		dst := codec.AppendFloats([]byte{9}, want...)
		var plain []byte
		for _, v := range want {
			plain = binary.LittleEndian.AppendUint64(plain, math.Float64bits(v))
		}
		require.True(t, bytes.Equal(dst[1:], plain) && dst[0] == 9, "%d numbers: % x", n, dst)
		got := make([]float64, n)
		r := codec.Reading(dst[1:])
		r.Floats(got)
		err := r.End()
		require.True(t, err == nil && reflect.DeepEqual(got, want), "%v, %v; want %v", got, err, want)
	}
}

func TestAppendFloatsFillsRoomWithoutAllocating(t *testing.T) {
	values, dst := make([]float64, 100), make([]byte, 0, 800)
	assert.EqualValues(t, 0, testing.AllocsPerRun(100, func() { dst = codec.AppendFloats(dst[:0], values...) }))
}

func TestNumbersOutOfRangeAreRejected(t *testing.T) {
	for _, bad := range []float64{math.NaN(), math.Inf(1), math.Inf(-1), 10.1, -1e300} {
		var number float64
		v := codec.Reading(codec.AppendFloats(nil, bad))
		v.Within(10, &number)
		assert.ErrorIs(t, v.Err(), codec.ErrCorrupt, bad)
		for at := range 9 {
			values := make([]float64, 9)
			values[at] = bad
			v := codec.Reading(codec.AppendFloats(nil, values...))
			v.FloatsWithin(10, values)
			assert.ErrorIs(t, v.Err(), codec.ErrCorrupt, "%v %v", bad, at)
		}
	}
	var a, b float64
	v := codec.Reading(codec.AppendFloats(nil, -10, 10))
	if v.Within(10, &a, &b); v.End() != nil || a != -10 || b != 10 {
		t.Errorf("%g, %g, %v", a, b, v.Err())
	}
}

// record has one field of every kind that a Visitor visits.
type record struct {
	n       uint64
	places  [2]int
	rise    bool
	word    uint32
	letter  byte
	name    string
	items   []int
	any     float64
	numbers [9]float64
	small   [2]float64
	rest    rest
}

func (r *record) visit(v *codec.Visitor) {
	v.Expect("the version", 7)
	v.Uint64(&r.n)
	v.Int(100, &r.places[0], &r.places[1])
	v.Bool(&r.rise)
	v.Uint32(&r.word)
	v.Byte(&r.letter)
	length := len(r.name)
	v.Int(5, &length)
	v.Text(&r.name, length)
	items := len(r.items)
	if v.Count(&items, 8); v.Reading() {
		r.items = make([]int, items)
	}
	for i := range r.items {
		v.Int(math.MaxInt, &r.items[i])
	}
	v.Float(&r.any)
	v.Floats(r.numbers[:])
	v.Within(10, &r.small[0])
	v.FloatsWithin(10, r.small[1:])
	if v.Reading() && r.n > 1<<62 {
		v.Corrupt("%d observations", r.n)
	}
	r.rest.visit(v)
}

// rest is what ends the state of a record: an even number of bytes.
type rest struct{ data []byte }

var errOdd = errors.New("odd")

func (r *rest) visit(v *codec.Visitor) {
	n := len(r.data)
	if v.Reading() {
		n = v.Left()
	}
	if n%2 != 0 {
		v.Fail(errOdd)
	}
	v.Raw(&r.data, n)
}

func sampleRecord() *record {
	return &record{
		n: 1 << 40, places: [2]int{3, 100}, rise: true, word: 1 << 31, letter: 'x', name: "ΣΛ", items: []int{5, 6},
		any: math.Inf(-1), numbers: [9]float64{1, 2, 3, 4, 5, 6, 7, 8, 9}, small: [2]float64{-10, 0.5}, rest: rest{[]byte("rest")},
	}
}

func stateOf(tb testing.TB, r *record) []byte {
	tb.Helper()
	state, err := codec.Append(nil, r.visit)
	require.NoError(tb, err)
	return state
}

func TestVisitorReadsWhatItAppends(t *testing.T) {
	want, got := sampleRecord(), new(record)
	state := stateOf(t, want)
	err := codec.Read(state, got.visit)
	assert.True(t, err == nil && reflect.DeepEqual(got, want), "%+v, %v; want %+v", got, err, want)
	plain := binary.LittleEndian.AppendUint64(nil, 7)
	for _, n := range []uint64{1 << 40, 3, 100, 1} {
		plain = binary.LittleEndian.AppendUint64(plain, n)
	}
	plain = append(plain, 0, 0, 0, 128, 'x', 4, 0, 0, 0, 0, 0, 0, 0)
	plain = append(plain, "ΣΛ"...)
	for _, n := range []uint64{2, 5, 6} {
		plain = binary.LittleEndian.AppendUint64(plain, n)
	}
	plain = codec.AppendFloats(plain, math.Inf(-1), 1, 2, 3, 4, 5, 6, 7, 8, 9, -10, 0.5)
	plain = append(plain, "rest"...)
	assert.True(t, bytes.Equal(state, plain), "% x, want % x", state, plain)
	assert.Equal(t, want, sampleRecord())
}

func TestAppendAllocatesTheVisitorAlone(t *testing.T) {
	r := sampleRecord()
	dst := stateOf(t, r)
	if n := testing.AllocsPerRun(100, func() { dst, _ = codec.Append(dst[:0], r.visit) }); n > 1 {
		t.Errorf("%g allocations", n)
	}
}

func TestVisitorTellsWhatIsCorrupt(t *testing.T) {
	for want, change := range map[string]func(r *record){
		"a number is 101, want at most 100":              func(r *record) { r.places[0] = 101 },
		"a number is 6, want at most 5":                  func(r *record) { r.name = "ΣΛΣ" },
		"a number is 20, want a magnitude of at":         func(r *record) { r.small[0] = 20 },
		"a number is NaN, want a magnitude of at":        func(r *record) { r.small[1] = math.NaN() },
		"4611686018427387905 observations: corrupt data": func(r *record) { r.n = 1<<62 + 1 },
	} {
		r := sampleRecord()
		change(r)
		err := codec.Read(stateOf(t, r), new(record).visit)
		assert.True(t, err != nil && strings.Contains(err.Error(), want), "%v, want %s", err, want)
	}
	good := stateOf(t, sampleRecord())
	for want, spoil := range map[string]struct {
		at int
		to byte
	}{"the version is 8, want 7": {0, 8}, "a number is 2, want at most 1": {32, 2}, "items in": {58, 200}} {
		bad := bytes.Clone(good)
		bad[spoil.at] = spoil.to
		err := codec.Read(bad, new(record).visit)
		assert.True(t, errors.Is(err, codec.ErrCorrupt) && strings.Contains(err.Error(), want), "%v, want %s", err, want)
	}
	for n := range len(good) - len("rest") {
		assert.ErrorIs(t, codec.Read(good[:n], new(record).visit), codec.ErrCorrupt, n)
	}
}

// A failure sticks, the first alone.
func TestVisitorFails(t *testing.T) {
	v := codec.Reading(binary.LittleEndian.AppendUint64(nil, 5))
	v.Fail(nil)
	n, truth := 1, true
	v.Int(4, &n)
	v.Bool(&truth)
	v.Fail(errOdd)
	err := v.End()
	assert.True(t, errors.Is(err, codec.ErrCorrupt) && !errors.Is(err, errOdd) && n == 0 && !truth && !v.Reading(), "%v, %d, %t", err, n, truth)
	r := sampleRecord()
	r.rest.data = []byte{1}
	state, err := codec.Append(nil, r.visit)
	assert.True(t, errors.Is(err, errOdd) && state == nil, "% x, %v", state, err)
	assert.ErrorIs(t, codec.Read(append(stateOf(t, sampleRecord()), 1), new(record).visit), errOdd)
	n = 0
	v = codec.Reading(binary.LittleEndian.AppendUint64(nil, 1))
	if v.Count(&n, 1); !strings.Contains(fmt.Sprint(v.Err()), "1 items in 0 bytes") || v.Left() != 0 {
		t.Errorf("%v", v.Err())
	}
	if v.Corrupt("%d", 1); strings.HasPrefix(v.Err().Error(), "1:") {
		t.Errorf("%v", v.Err())
	}
}

// Any bytes are rejected, or they are those of the state that was read.
func FuzzVisitor(f *testing.F) {
	f.Add(stateOf(f, sampleRecord()))
	f.Add(stateOf(f, new(record)))
	f.Fuzz(func(t *testing.T, data []byte) {
		r := new(record)
		if err := codec.Read(data, r.visit); err != nil {
			return
		}
		require.Equal(t, data, stateOf(t, r))
	})
}
