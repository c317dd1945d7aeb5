package codec_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"math"
	"reflect"
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

func TestReaderStopsAtItsFirstFailure(t *testing.T) {
	r := codec.NewReader(codec.AppendUint64(nil, 5))
	assert.True(t, r.Uint64() == 5 && r.Float() == 0 && r.Uint32() == 0, "read what is not there")
	if !errors.Is(r.Err(), codec.ErrCorrupt) || !errors.Is(r.End(), codec.ErrCorrupt) {
		t.Errorf("%v, %v", r.Err(), r.End())
	}
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
		r := codec.NewReader(dst[1:])
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
