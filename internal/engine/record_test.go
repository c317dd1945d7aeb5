package engine_test

import (
	"bytes"
	"reflect"
	"testing"

	"hindsight/internal/engine"
)

func sampleRecord() engine.Record {
	return engine.Record{Time: 1234567890, Observations: []engine.Stored{
		{ID: "a", Features: []float64{1, -2}, Labels: []float64{0}, Weight: 1},
		{Features: []float64{}, Labels: []float64{-3}, Weight: 2.5},
		{ID: "k", Labels: []float64{1, 2, 3}, Features: []float64{7}, Weight: 1, Served: &engine.ServedThere{Predictions: []float64{4, 5, 6}, Sequence: 2}},
		{ID: "p", Features: []float64{1e-300}, Labels: []float64{4}, Weight: 1, Served: &engine.ServedThere{Predictions: []float64{5}, Sequence: 6}},
	}}
}

func TestRecordRoundTrip(t *testing.T) {
	data := engine.AppendRecord(nil, sampleRecord())
	got, err := engine.DecodeRecord(data)
	if err != nil || !reflect.DeepEqual(got, sampleRecord()) {
		t.Fatalf("%+v, %v", got, err)
	}
	for n := range data {
		if _, err := engine.DecodeRecord(data[:n]); err == nil {
			t.Errorf("cut at %d of %d is read", n, len(data))
		}
	}
	for what, bad := range map[string][]byte{
		"a byte more": append(append([]byte(nil), data...), 0),
		"version":     append([]byte{2}, data[1:]...),
		"a large count": append(append([]byte(nil), data[:9]...),
			0xff, 0xff, 0xff, 0xff, 0x0f),
	} {
		if _, err := engine.DecodeRecord(bad); err == nil {
			t.Errorf("%s is read", what)
		}
	}
}

// FuzzDecode: no value from the disk makes a decoder panic or allocate beyond
// a small multiple of it; what decodes encodes to itself.
func FuzzDecode(f *testing.F) {
	f.Add(engine.AppendRecord(nil, sampleRecord()))
	f.Add([]byte{1})
	f.Fuzz(func(t *testing.T, data []byte) {
		if r, err := engine.DecodeRecord(data); err == nil {
			again, err := engine.DecodeRecord(engine.AppendRecord(nil, r))
			if err != nil {
				t.Fatalf("%+v: %v", again, err)
			}
			if a, b := engine.AppendRecord(nil, r), engine.AppendRecord(nil, again); !bytes.Equal(a, b) {
				t.Fatalf("%x became %x", a, b)
			}
		}
		_, _ = engine.DecodeSeen(data, 1)
		_, _ = engine.DecodePending("id", data, 1)
		_, _ = engine.DecodeAccount(data)
		_, _, _ = engine.DecodeEntry(data)
	})
}
