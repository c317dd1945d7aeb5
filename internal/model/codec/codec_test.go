package codec_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
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

func sample(tb testing.TB) (codec.Snapshot, []byte) {
	tb.Helper()
	state := codec.AppendFloats(nil, 1, 2, 3)
	lambda := 0.1
	s := codec.Snapshot{
		Spec:     model.Spec{Dimension: 2, Outputs: 1, Scaling: model.Unscaled(), LinearAWV: &model.LinearAWV{Lambda: &lambda}},
		Sequence: 42, Digest: codec.Digest(state), Learner: state, Account: []byte{7}, History: []byte{9}, Carried: []byte{8},
	}
	data, err := codec.Encode(s)
	require.NoError(tb, err)
	return s, data
}

func TestRoundTrip(t *testing.T) {
	want, data := sample(t)
	got, err := codec.Decode(data)
	assert.True(t, err == nil && reflect.DeepEqual(got, want), "%+v, %v; want %+v", got, err, want)
}

func TestEveryFlippedBitAndEveryCutIsNoticed(t *testing.T) {
	_, data := sample(t)
	for n := range data {
		for bit := range 8 {
			bad := append([]byte(nil), data...)
			bad[n] ^= 1 << bit
			_, err := codec.Decode(bad)
			require.True(t, errors.Is(err, codec.ErrCorrupt) || errors.Is(err, codec.ErrVersion), "bit %d of byte %d: %v", bit, n, err)
		}
		_, err := codec.Decode(data[:n])
		require.ErrorIs(t, err, codec.ErrCorrupt, n)
	}
	_, err := codec.Decode(append(append([]byte(nil), data...), 0))
	assert.ErrorIs(t, err, codec.ErrCorrupt)
}

func TestAnotherVersionIsRejectedAsSuch(t *testing.T) {
	for _, version := range []uint32{0, 1, codec.Version - 1, codec.Version + 1} {
		_, data := sample(t)
		binary.LittleEndian.PutUint32(data[8:], version)
		_, err := codec.Decode(data)
		assert.ErrorIs(t, err, codec.ErrCorrupt, version)
		end := len(data) - 4
		binary.LittleEndian.PutUint32(data[end:], crc32.Checksum(data[:end], crc32.MakeTable(crc32.Castagnoli)))
		_, err = codec.Decode(data)
		assert.ErrorIs(t, err, codec.ErrVersion, version)
	}
	_, err := codec.DecodeSpec([]byte(`{"dimension":1,"of_tomorrow":2}`))
	assert.ErrorIs(t, err, codec.ErrCorrupt)
}

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

func FuzzDecode(f *testing.F) {
	s, data := sample(f)
	f.Add(data)
	s.History = []byte{9}
	data, err := codec.Encode(s)
	require.NoError(f, err)
	f.Add(data)
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := codec.Decode(data)
		if err != nil {
			return
		}
		again, err := codec.Encode(s)
		require.NoError(t, err)
		back, err := codec.Decode(again)
		require.True(t, err == nil && bytes.Equal(back.Learner, s.Learner) && bytes.Equal(back.History, s.History) && back.Sequence == s.Sequence, "%+v, %v", back, err)
	})
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
	state, err := r.append(nil)
	assert.True(t, errors.Is(err, errOdd) && state == nil, "% x, %v", state, err)
	assert.ErrorIs(t, new(record).restore(append(stateOf(t, sampleRecord()), 1)), errOdd)
	n = 0
	v = codec.Reading(binary.LittleEndian.AppendUint64(nil, 1))
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
