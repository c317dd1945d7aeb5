package codec_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"reflect"
	"testing"

	"hindsight/internal/model"
	"hindsight/internal/model/codec"
)

func sample(tb testing.TB) (codec.Snapshot, []byte) {
	tb.Helper()
	state := codec.AppendFloats(nil, 1, 2, 3)
	lambda := 0.1
	s := codec.Snapshot{
		Spec:     model.Spec{Dimension: 2, Outputs: 1, LinearAWV: &model.LinearAWV{Lambda: &lambda}},
		Sequence: 42, Digest: codec.Digest(state), Learner: state, Account: []byte{7},
	}
	data, err := codec.Encode(s)
	if err != nil {
		tb.Fatal(err)
	}
	return s, data
}

func TestRoundTrip(t *testing.T) {
	want, data := sample(t)
	got, err := codec.Decode(data)
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v; want %+v", got, err, want)
	}
}

func TestEveryFlippedBitAndEveryCutIsNoticed(t *testing.T) {
	_, data := sample(t)
	for n := range data {
		for bit := range 8 {
			bad := append([]byte(nil), data...)
			bad[n] ^= 1 << bit
			if _, err := codec.Decode(bad); !errors.Is(err, codec.ErrCorrupt) && !errors.Is(err, codec.ErrNewer) {
				t.Fatalf("bit %d of byte %d: %v", bit, n, err)
			}
		}
		if _, err := codec.Decode(data[:n]); !errors.Is(err, codec.ErrCorrupt) {
			t.Fatalf("cut at %d: %v", n, err)
		}
	}
	if _, err := codec.Decode(append(append([]byte(nil), data...), 0)); !errors.Is(err, codec.ErrCorrupt) {
		t.Errorf("a byte more: %v", err)
	}
}

func TestNewerVersionIsRefusedAsSuch(t *testing.T) {
	_, data := sample(t)
	binary.LittleEndian.PutUint32(data[8:], codec.Version+1)
	if _, err := codec.Decode(data); !errors.Is(err, codec.ErrNewer) {
		t.Errorf("%v", err)
	}
	if _, err := codec.DecodeSpec([]byte(`{"dimension":1,"of_tomorrow":2}`)); !errors.Is(err, codec.ErrCorrupt) {
		t.Errorf("a field of tomorrow: %v", err)
	}
}

func TestReaderStopsAtItsFirstFailure(t *testing.T) {
	r := codec.NewReader(codec.AppendUint64(nil, 5))
	if r.Uint64() != 5 || r.Float() != 0 || r.Uint32() != 0 {
		t.Error("read what is not there")
	}
	if !errors.Is(r.Err(), codec.ErrCorrupt) || !errors.Is(r.End(), codec.ErrCorrupt) {
		t.Errorf("%v, %v", r.Err(), r.End())
	}
}

func FuzzDecode(f *testing.F) {
	_, data := sample(f)
	f.Add(data)
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := codec.Decode(data)
		if err != nil {
			return
		}
		again, err := codec.Encode(s)
		if err != nil {
			t.Fatal(err)
		}
		back, err := codec.Decode(again)
		if err != nil || !bytes.Equal(back.Learner, s.Learner) || back.Sequence != s.Sequence {
			t.Fatalf("%+v, %v", back, err)
		}
	})
}
