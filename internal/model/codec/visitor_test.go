package codec_test

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"hindsight/internal/model"
	"hindsight/internal/model/codec"
)

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
	v.State(&r.rest)
}

// rest is what ends the state of a record: an even number of bytes.
type rest struct{ data []byte }

var errOdd = errors.New("odd")

func (r *rest) AppendBinary(dst []byte) ([]byte, error) {
	if len(r.data)%2 != 0 {
		return nil, errOdd
	}
	return append(dst, r.data...), nil
}

func (r *rest) Restore(state []byte) error {
	if len(state)%2 != 0 {
		return errOdd
	}
	r.data = slices.Clone(state)
	return nil
}

func sampleRecord() *record {
	return &record{
		n: 1 << 40, places: [2]int{3, 100}, rise: true, word: 1 << 31, letter: 'x', name: "ΣΛ", items: []int{5, 6},
		any: math.Inf(-1), numbers: [9]float64{1, 2, 3, 4, 5, 6, 7, 8, 9}, small: [2]float64{-10, 0.5}, rest: rest{[]byte("rest")},
	}
}

func (r *record) append(dst []byte) ([]byte, error) {
	v := codec.Appending(dst)
	r.visit(&v)
	return v.Appended()
}

func (r *record) restore(data []byte) error {
	v := codec.Reading(data)
	r.visit(&v)
	return v.End()
}

func stateOf(tb testing.TB, r *record) []byte {
	tb.Helper()
	state, err := r.append(nil)
	require.NoError(tb, err)
	return state
}

func TestVisitorReadsWhatItAppends(t *testing.T) {
	want, got := sampleRecord(), new(record)
	state := stateOf(t, want)
	err := got.restore(state)
	assert.True(t, err == nil && reflect.DeepEqual(got, want), "%+v, %v; want %+v", got, err, want)
	plain := codec.AppendUint64(nil, 7)
	for _, n := range []uint64{1 << 40, 3, 100, 1} {
		plain = codec.AppendUint64(plain, n)
	}
	plain = append(plain, 0, 0, 0, 128, 'x', 4, 0, 0, 0, 0, 0, 0, 0)
	plain = append(plain, "ΣΛ"...)
	for _, n := range []uint64{2, 5, 6} {
		plain = codec.AppendUint64(plain, n)
	}
	plain = codec.AppendFloats(plain, math.Inf(-1), 1, 2, 3, 4, 5, 6, 7, 8, 9, -10, 0.5)
	plain = append(plain, "rest"...)
	assert.True(t, bytes.Equal(state, plain), "% x, want % x", state, plain)
	assert.Equal(t, want, sampleRecord())
}

func TestVisitorAppendsWithoutAllocating(t *testing.T) {
	r := sampleRecord()
	dst := stateOf(t, r)
	if n := testing.AllocsPerRun(100, func() { dst, _ = r.append(dst[:0]) }); n != 0 {
		t.Errorf("%g allocations", n)
	}
}

func TestVisitorTellsWhatIsCorrupt(t *testing.T) {
	for want, change := range map[string]func(r *record){
		"a number is 101, want at most 100":               func(r *record) { r.places[0] = 101 },
		"a number is 6, want at most 5":                   func(r *record) { r.name = "ΣΛΣ" },
		"a number is 20, want a magnitude of at":          func(r *record) { r.small[0] = 20 },
		"a number is NaN, want a magnitude of at":         func(r *record) { r.small[1] = math.NaN() },
		"4611686018427387905 observations: corrupt state": func(r *record) { r.n = 1<<62 + 1 },
	} {
		r := sampleRecord()
		change(r)
		err := new(record).restore(stateOf(t, r))
		assert.True(t, err != nil && strings.Contains(err.Error(), want), "%v, want %s", err, want)
	}
	good := stateOf(t, sampleRecord())
	for want, spoil := range map[string]struct {
		at int
		to byte
	}{"the version is 8, want 7": {0, 8}, "a number is 2, want at most 1": {32, 2}, "items in": {58, 200}} {
		bad := bytes.Clone(good)
		bad[spoil.at] = spoil.to
		err := new(record).restore(bad)
		assert.True(t, errors.Is(err, codec.ErrCorrupt) && strings.Contains(err.Error(), want), "%v, want %s", err, want)
	}
	for n := range len(good) - len("rest") {
		assert.ErrorIs(t, new(record).restore(good[:n]), codec.ErrCorrupt, n)
	}
}

// A failure sticks, the first alone.
func TestVisitorFails(t *testing.T) {
	v := codec.Reading(codec.AppendUint64(nil, 5))
	v.Fail(nil)
	n, truth := 1, true
	v.Int(4, &n)
	v.Bool(&truth)
	v.Fail(errOdd)
	err := v.End()
	assert.True(t, errors.Is(err, codec.ErrCorrupt) && !errors.Is(err, errOdd) && n == 0 && !truth && !v.Reading(), "%v, %d, %t", err, n, truth)
	r := sampleRecord()
	r.rest.data = []byte{1}
	state, err := r.append(nil)
	assert.True(t, errors.Is(err, errOdd) && state == nil, "% x, %v", state, err)
	assert.ErrorIs(t, new(record).restore(append(stateOf(t, sampleRecord()), 1)), errOdd)
	n = 0
	v = codec.ReadingFrom(codec.NewReader(codec.AppendUint64(nil, 1)))
	if v.Count(&n, 1); !strings.Contains(fmt.Sprint(v.Err()), "1 items in 0 bytes") || v.Left() != 0 {
		t.Errorf("%v", v.Err())
	}
	if v.Corrupt("%d", 1); errors.Is(v.Err(), model.ErrCorruptState) {
		t.Errorf("%v", v.Err())
	}
}

// Any bytes are rejected, or they are those of the state that was read.
func FuzzVisitor(f *testing.F) {
	f.Add(stateOf(f, sampleRecord()))
	f.Add(stateOf(f, new(record)))
	f.Fuzz(func(t *testing.T, data []byte) {
		r := new(record)
		if err := r.restore(data); err != nil {
			return
		}
		require.Equal(t, data, stateOf(t, r))
	})
}
