package record_test

import (
	"bytes"
	"math"
	"reflect"
	"testing"
	"time"

	"hindsight/internal/engine/record"
	"hindsight/internal/engine/storage"
	"hindsight/internal/model"
)

func sampleRecord() record.Record {
	return record.Record{Time: 1234567890, Complete: true, Observations: []record.Observation{
		{ID: "a", Features: []float64{1, -2}, Labels: []float64{0}, Weight: 1},
		{Features: []float64{}, Labels: []float64{-3}, Weight: 2.5},
		{ID: "k", Labels: []float64{1, 2, 3}, Features: []float64{7}, Weight: 1, Served: &record.Served{Predictions: []float64{4, 5, 6}, Sequence: 2}},
		{ID: "p", Features: []float64{1e-300}, Labels: []float64{4}, Weight: 1, Served: &record.Served{Predictions: []float64{5}, Sequence: 6}},
	}}
}

func encoded(r record.Record) []byte { return r.Append(nil) }

func TestRecordRoundTrip(t *testing.T) {
	data := encoded(sampleRecord())
	got, err := record.Decode(data)
	if err != nil || !reflect.DeepEqual(got, sampleRecord()) {
		t.Fatalf("%+v, %v", got, err)
	}
	for n := range data {
		if _, err := record.Decode(data[:n]); err == nil {
			t.Errorf("cut at %d of %d is read", n, len(data))
		}
	}
	for what, bad := range map[string][]byte{
		"a byte more":     append(bytes.Clone(data), 0),
		"a newer version": append([]byte{3}, data[1:]...),
		"version 0":       append([]byte{0}, data[1:]...),
		"a large count":   append(bytes.Clone(data[:9]), 0xff, 0xff, 0xff, 0xff, 0x0f),
	} {
		if _, err := record.Decode(bad); err == nil {
			t.Errorf("%s is read", what)
		}
	}
}

// A record of the first version is read, and is not complete.
func TestFirstVersion(t *testing.T) {
	data := encoded(sampleRecord())
	data[0] = 1
	want := sampleRecord()
	want.Complete = false
	if got, err := record.Decode(data); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v", got, err)
	}
}

func sampleCarried() record.Carried {
	seen := record.Seen{Answer: record.Answer{Sequence: 3, Predictions: []float64{1}, Loss: 2, Regret: math.NaN()}}
	waiting := record.Waiting{
		Prediction: model.Prediction{Values: []float64{1}, StandardErrors: []float64{2}, Leverage: 0.5},
		Sequence:   4, Features: []float64{5, 6},
	}
	return record.Carried{
		IDs:     []storage.ID{{ID: "a", At: time.Unix(0, 7), Value: seen.Append(nil)}},
		Waiting: []storage.Prediction{{ID: "p", Expiry: time.Unix(8, 9), Value: waiting.Encode()}},
	}
}

func TestCarriedRoundTrip(t *testing.T) {
	want := sampleCarried()
	data := want.Encode()
	got, err := record.DecodeCarried(data, 1)
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Fatalf("%+v, %v", got, err)
	}
	for n := range data {
		if _, err := record.DecodeCarried(data[:n], 1); err == nil {
			t.Errorf("cut at %d of %d is read", n, len(data))
		}
	}
	if _, err := record.DecodeCarried(data, 2); err == nil {
		t.Error("values of a model of one output are read as those of two")
	}
	if _, err := record.DecodeCarried(append(bytes.Clone(data), 0), 1); err == nil {
		t.Error("a byte more is read")
	}
}

// FuzzDecode: no value from the disk makes a decoder panic or allocate beyond
// a small multiple of it; what decodes encodes to itself.
func FuzzDecode(f *testing.F) {
	f.Add(encoded(sampleRecord()))
	carried := sampleCarried()
	f.Add(carried.Encode())
	f.Add([]byte{1})
	f.Fuzz(func(t *testing.T, data []byte) {
		if r, err := record.Decode(data); err == nil {
			again, err := record.Decode(r.Append(nil))
			if err != nil {
				t.Fatalf("%+v: %v", again, err)
			}
			if a, b := r.Append(nil), again.Append(nil); !bytes.Equal(a, b) {
				t.Fatalf("%x became %x", a, b)
			}
		}
		if c, err := record.DecodeCarried(data, 1); err == nil {
			if again := c.Encode(); !bytes.Equal(again, data) && len(again) > len(data) {
				t.Fatalf("%x became %x", data, again)
			}
		}
		_, _ = record.DecodeSeen(data, 1)
		_, _ = record.DecodeWaiting(data, 1)
		_, _ = record.DecodeAccount(data)
		_, _, _ = record.DecodeEntry(data)
	})
}
