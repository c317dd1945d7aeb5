package snapshot_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"reflect"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"hindsight/internal/model"
	"hindsight/internal/model/codec"
	"hindsight/internal/model/snapshot"
)

func sample(tb testing.TB) (snapshot.Snapshot, []byte) {
	tb.Helper()
	state := codec.AppendFloats(nil, 1, 2, 3)
	lambda := 0.1
	s := snapshot.Snapshot{
		Spec:     model.Spec{Dimension: 2, Outputs: 1, Scaling: model.Unscaled(), LinearAWV: &model.LinearAWV{Lambda: &lambda}},
		Sequence: 42, Digest: snapshot.Digest(state), Learner: state, Account: []byte{7}, History: []byte{9}, Carried: []byte{8},
	}
	data, err := snapshot.Encode(s)
	require.NoError(tb, err)
	return s, data
}

func TestRoundTrip(t *testing.T) {
	want, data := sample(t)
	got, err := snapshot.Decode(data)
	assert.True(t, err == nil && reflect.DeepEqual(got, want), "%+v, %v; want %+v", got, err, want)
	sequence, digest, err := snapshot.DecodeHead(data)
	assert.True(t, err == nil && sequence == want.Sequence && digest == want.Digest, "%d, %x, %v", sequence, digest, err)
}

func TestEveryFlippedBitAndEveryCutIsNoticed(t *testing.T) {
	_, data := sample(t)
	for n := range data {
		for bit := range 8 {
			bad := append([]byte(nil), data...)
			bad[n] ^= 1 << bit
			_, err := snapshot.Decode(bad)
			require.True(t, errors.Is(err, codec.ErrCorrupt) || errors.Is(err, codec.ErrVersion), "bit %d of byte %d: %v", bit, n, err)
		}
		_, err := snapshot.Decode(data[:n])
		require.ErrorIs(t, err, codec.ErrCorrupt, n)
	}
	_, err := snapshot.Decode(append(append([]byte(nil), data...), 0))
	assert.ErrorIs(t, err, codec.ErrCorrupt)
}

func TestAnotherVersionIsRejectedAsSuch(t *testing.T) {
	for _, version := range []uint32{0, 1, snapshot.Version - 1, snapshot.Version + 1} {
		_, data := sample(t)
		binary.LittleEndian.PutUint32(data[8:], version)
		_, err := snapshot.Decode(data)
		assert.ErrorIs(t, err, codec.ErrCorrupt, version)
		end := len(data) - 4
		binary.LittleEndian.PutUint32(data[end:], crc32.Checksum(data[:end], crc32.MakeTable(crc32.Castagnoli)))
		_, err = snapshot.Decode(data)
		assert.ErrorIs(t, err, codec.ErrVersion, version)
	}
	_, err := snapshot.DecodeSpec([]byte(`{"dimension":1,"of_tomorrow":2}`))
	assert.ErrorIs(t, err, codec.ErrCorrupt)
}

func FuzzDecode(f *testing.F) {
	s, data := sample(f)
	f.Add(data)
	s.History = []byte{9}
	data, err := snapshot.Encode(s)
	require.NoError(f, err)
	f.Add(data)
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := snapshot.Decode(data)
		if err != nil {
			return
		}
		again, err := snapshot.Encode(s)
		require.NoError(t, err)
		back, err := snapshot.Decode(again)
		require.True(t, err == nil && bytes.Equal(back.Learner, s.Learner) && bytes.Equal(back.History, s.History) && back.Sequence == s.Sequence, "%+v, %v", back, err)
	})
}
