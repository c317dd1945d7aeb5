package record_test

import (
	"bytes"
	"encoding/hex"
	"math"
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"hindsight/internal/engine/record"
	"hindsight/internal/engine/storage"
	"hindsight/internal/model"
)

func sampleRecord() record.Record {
	return record.Record{Time: 1234567890, Observations: []record.Observation{
		{ID: "a", Features: []float64{1, -2}, Labels: []float64{0}, Weight: 1},
		{Features: []float64{}, Labels: []float64{-3}, Weight: 2.5},
		{ID: "k", Labels: []float64{1, 2, 3}, Features: []float64{7}, Weight: 1, Served: &record.Served{Class: model.NoClass, Predictions: []float64{4, 5, 6}, Sequence: 2}},
		{ID: "p", Features: []float64{1e-300}, Labels: []float64{4}, Weight: 1, Served: &record.Served{Class: model.NoClass, Predictions: []float64{5}, Sequence: 6}},
		{ID: "q", Features: []float64{1}, Labels: []float64{4}, Weight: 2, Served: &record.Served{
			Class: model.NoClass, Predictions: []float64{5}, Sequence: 6, Notes: []float64{1, 2, -1}, Advice: []float64{0.5},
		}},
		{ID: "r", Inputs: []byte{1, 2, 3}, Labels: []float64{4}, Weight: 1},
		{ID: "s", Inputs: []byte{4}, Class: "cat", Weight: 3},
		{ID: "t", Features: []float64{1}, Class: "dog", Weight: 1, Served: &record.Served{
			Class: 1, Probabilities: []float64{0.25, 0.75}, Predictions: []float64{0.5}, Sequence: 7, Notes: []float64{0, 1},
		}},
		{Features: []float64{1}, Class: "dog", Weight: 1, Served: &record.Served{Class: model.NoClass, Predictions: []float64{}, Sequence: 0}},
	}}
}

func encoded(r record.Record) []byte { return r.Append(nil) }

// rejectsParts decodes every part that data begins with.
func rejectsParts(t *testing.T, data []byte, decode func(part []byte) error) {
	t.Helper()
	for n := range data {
		assert.Error(t, decode(data[:n]), "%v %v", n, len(data))
	}
}

func TestRecordRoundTrip(t *testing.T) {
	data := encoded(sampleRecord())
	got, err := record.Decode(data)
	require.True(t, err == nil && reflect.DeepEqual(got, sampleRecord()), "%+v, %v", got, err)
	rejectsParts(t, data, func(part []byte) error { _, err := record.Decode(part); return err })
	for what, bad := range map[string][]byte{
		"a byte more":     append(bytes.Clone(data), 0),
		"a newer version": append([]byte{data[0] + 1}, data[1:]...),
		"an older one":    append([]byte{data[0] - 1}, data[1:]...),
		"a large count":   append(bytes.Clone(data[:9]), 0xff, 0xff, 0xff, 0xff, 0x0f),
	} {
		_, err := record.Decode(bad)
		assert.Error(t, err, what)
	}
}

// What may not be served is not read as a waiting prediction.
func TestWaitingThatMayNotBeServed(t *testing.T) {
	for what, spoil := range map[string]func(*record.Pending){
		"value":               func(w *record.Pending) { w.Values[0] = math.NaN() },
		"standard error":      func(w *record.Pending) { w.StandardErrors[0] = math.Inf(1) },
		"leverage":            func(w *record.Pending) { w.Leverage = 1.5 },
		"probability":         func(w *record.Pending) { w.Probability = -1 },
		"standard errors":     func(w *record.Pending) { w.StandardErrors = []float64{1, 2} },
		"a negative leverage": func(w *record.Pending) { w.Leverage = -2 },
		"the parametric part": func(w *record.Pending) { w.Parametric = []float64{math.NaN()} },
		"parametric parts":    func(w *record.Pending) { w.Parametric = []float64{1, 2} },
	} {
		w := samplePending()
		spoil(&w)
		_, err := record.DecodePending(w.Encode(false), 1)
		assert.Error(t, err, what)
	}
	for _, leverage := range []float64{0, 1, model.NoLeverage} {
		w := samplePending()
		w.Leverage, w.StandardErrors = leverage, []float64{}
		got, err := record.DecodePending(w.Encode(false), 1)
		assert.True(t, err == nil && reflect.DeepEqual(got, w), "%+v became %+v, %v", w, got, err)
	}
}

// What a parametric part said alone is kept behind the rest, which is as it is without.
func TestWaitingOfAParametricPart(t *testing.T) {
	w, plain := samplePending(), samplePending()
	w.Values, w.StandardErrors, w.Parametric = []float64{1, 2}, []float64{3, 4}, []float64{5, -6}
	plain.Values, plain.StandardErrors = w.Values, w.StandardErrors
	data, rest := w.Encode(false), plain.Encode(false)
	got, err := record.DecodePending(data, 2)
	assert.True(t, err == nil && reflect.DeepEqual(got, w), "%+v became %+v, %v", w, got, err)
	assert.True(t, len(data) == len(rest)+16 && bytes.Equal(data[2:len(rest)], rest[2:]), "%x beside %x", data, rest)
	rejectsParts(t, data, func(part []byte) error { _, err := record.DecodePending(part, 2); return err })
	w = samplePending()
	w.Classes, w.Class, w.Probabilities, w.Parametric = []string{"a"}, 0, []float64{1}, []float64{7}
	got, err = record.DecodePending(w.Encode(true), 1)
	assert.True(t, err == nil && got.Parametric == nil, "of a classifier %+v, %v", got, err)
}

func samplePending() record.Pending {
	return record.Pending{
		ClassPrediction: model.ClassPrediction{Class: model.NoClass, Prediction: model.Prediction{
			Values: []float64{1}, StandardErrors: []float64{2}, Leverage: 0.5, Probability: 0.25, Advice: []float64{3, 4},
		}},
		Sequence: 4, Features: []float64{5, 6}, Notes: []float64{7, 8},
	}
}

func sampleCarried() record.Carried {
	seen := record.Seen{Answer: record.Answer{Sequence: 3, Predictions: []float64{1}, Loss: 2, Regret: math.NaN()}}
	waiting := samplePending()
	return record.Carried{
		Metadata: sampleEntry().Metadata,
		IDs:      []storage.ID{{ID: "a", At: time.Unix(0, 7), Value: seen.Append(nil)}},
		Pending:  []storage.Prediction{{ID: "p", Expiry: time.Unix(8, 9), Value: waiting.Encode(false)}},
	}
}

func TestCarriedRoundTrip(t *testing.T) {
	want := sampleCarried()
	data := want.Encode()
	got, err := record.DecodeCarried(data, 1)
	require.True(t, err == nil && reflect.DeepEqual(got, want), "%+v, %v", got, err)
	rejectsParts(t, data, func(part []byte) error { _, err := record.DecodeCarried(part, 1); return err })
	_, err = record.DecodeCarried(data, 2)
	assert.Error(t, err, "values of a model of one output are read as those of two")
	_, err = record.DecodeCarried(append(bytes.Clone(data), 0), 1)
	assert.Error(t, err, "a byte more is read")
}

func sampleEntry() record.RegistryValue {
	return record.RegistryValue{
		Created: 1, Updated: 5, Deleted: 4, Purge: 9, Revision: 3, Spec: []byte(`{"dimension":1}`),
		Metadata: record.Metadata{
			DisplayName: "Energy ü", LabelTTL: 60, MaxPending: 7,
			Labels: map[string]string{"team": "grid", "a": "", "stage.of": "test"}, Annotations: map[string]string{"Note": "one\ntwo"},
		},
	}
}

func TestEntryRoundTrip(t *testing.T) {
	want := sampleEntry()
	data := want.Encode()
	got, err := record.DecodeRegistryValue(data)
	require.True(t, err == nil && reflect.DeepEqual(got, want), "%+v, %v", got, err)
	rejectsParts(t, data[:len(data)-len(want.Spec)], func(part []byte) error { _, err := record.DecodeRegistryValue(part); return err })
	spoil := func(change func(*record.RegistryValue)) []byte {
		e := sampleEntry()
		change(&e)
		return e.Encode()
	}
	for what, bad := range map[string][]byte{
		"a newer version":          append([]byte{data[0] + 1}, data[1:]...),
		"an older version":         append([]byte{data[0] - 1}, data[1:]...),
		"a sequence of no restore": spoil(func(e *record.RegistryValue) { e.Restored.Sequence = 1 }),
		"a purge alone":            spoil(func(e *record.RegistryValue) { e.Deleted = 0 }),
		"a negative time":          spoil(func(e *record.RegistryValue) { e.LabelTTL = -1 }),
		"keys in another order":    bytes.Replace(data, []byte("\x01a\x00"), []byte("\x01z\x00"), 1),
	} {
		_, err := record.DecodeRegistryValue(bad)
		assert.Error(t, err, what)
	}
}

func TestRestoredEntry(t *testing.T) {
	follow := func(epoch uint64) *record.Follow {
		return &record.Follow{Leader: record.Ref{ID: "leader", Created: 3}, Epoch: epoch, From: 4, Sums: []byte{1}}
	}
	for name, change := range map[string]func(*record.RegistryValue){
		"follows":           func(e *record.RegistryValue) { e.Deleted, e.Purge, e.Follow = 0, 0, follow(0) },
		"follows, deleted":  func(e *record.RegistryValue) { e.Follow = follow(0) },
		"follows, restored": func(e *record.RegistryValue) { e.Follow = follow(7) },
		"restored":          func(e *record.RegistryValue) { e.Restored = record.Restored{Epoch: 2, Sequence: 9} },
		"all": func(e *record.RegistryValue) {
			e.Follow, e.Restored = follow(1), record.Restored{Epoch: 2, Sequence: 9}
		},
	} {
		want := sampleEntry()
		change(&want)
		data := want.Encode()
		got, err := record.DecodeRegistryValue(data)
		assert.True(t, err == nil && reflect.DeepEqual(got, want), "%s: %+v, %v; want %+v", name, got, err, want)
		rejectsParts(t, data[:len(data)-len(want.Spec)], func(part []byte) error { _, err := record.DecodeRegistryValue(part); return err })
	}
}

func TestAlias(t *testing.T) {
	want := record.Alias{Model: record.Ref{ID: "b", Created: 5}, Previous: record.Ref{ID: "a", Created: 4}, Updated: 7}
	data := want.Encode()
	assert.Equal(t, "0507000000000000000162050000000000000001610400000000000000", hex.EncodeToString(data), data)
	got, err := record.DecodeAlias(data)
	assert.True(t, err == nil && got == want, "%+v, %v", got, err)
	rejectsParts(t, data, func(part []byte) error { _, err := record.DecodeAlias(part); return err })
}

func TestLeaderLoss(t *testing.T) {
	loss := 1.5
	r := record.Record{Time: 1, Observations: []record.Observation{
		{Features: []float64{1}, Labels: []float64{2}, Weight: 1, LeaderLoss: &loss},
		{Features: []float64{1}, Class: "c", Weight: 1},
	}}
	data := r.Append(nil)
	const golden = "0501000000000000000240" + "00" + "01000000000000f03f" + "010000000000000040" + "000000000000f83f" + "1000" + "01000000000000f03f" + "0163"
	assert.EqualValues(t, golden, hex.EncodeToString(data), data)
	got, err := record.Decode(data)
	assert.True(t, err == nil && reflect.DeepEqual(got, r), "%+v, %v", got, err)
	loss = math.Inf(1)
	_, err = record.Decode(r.Append(nil))
	assert.Error(t, err, "an infinite loss is read")
}

// FuzzDecode: no value from the disk makes a decoder panic or allocate beyond
// a small multiple of it; what decodes encodes to itself.
func FuzzDecode(f *testing.F) {
	f.Add(encoded(sampleRecord()))
	carried := sampleCarried()
	f.Add(carried.Encode())
	f.Add([]byte{1})
	entry := sampleEntry()
	f.Add(entry.Encode())
	entry.Restored, entry.Follow = record.Restored{Epoch: 1, Sequence: 2}, &record.Follow{Leader: record.Ref{ID: "l", Created: 1}}
	f.Add(entry.Encode())
	alias := record.Alias{Model: record.Ref{ID: "b", Created: 5}}
	f.Add(alias.Encode())
	loss := 1.5
	f.Add(encoded(record.Record{Observations: []record.Observation{{Features: []float64{1}, Labels: []float64{2}, Weight: 1, LeaderLoss: &loss}}}))
	f.Fuzz(func(t *testing.T, data []byte) {
		if r, err := record.Decode(data); err == nil {
			again, err := record.Decode(r.Append(nil))
			require.NoError(t, err, again)
			a, b := r.Append(nil), again.Append(nil)
			require.True(t, bytes.Equal(a, b), "%x became %x", a, b)
		}
		if c, err := record.DecodeCarried(data, 1); err == nil {
			again, err := record.DecodeCarried(c.Encode(), 1)
			a, b := c.Encode(), again.Encode()
			require.True(t, err == nil && bytes.Equal(a, b), "%x became %x, %v", a, b, err)
		}
		if e, err := record.DecodeRegistryValue(data); err == nil {
			again, err := record.DecodeRegistryValue(e.Encode())
			require.True(t, err == nil && reflect.DeepEqual(again, e), "%+v became %+v, %v", e, again, err)
		}
		if a, err := record.DecodeAlias(data); err == nil {
			again, err := record.DecodeAlias(a.Encode())
			require.True(t, err == nil && again == a, "%+v became %+v, %v", a, again, err)
		}
		_, _ = record.DecodeSeen(data, 1)
		_, _ = record.DecodePending(data, 1)
	})
}

// An explanation is kept behind the rest.
func TestWaitingWithItsExplanation(t *testing.T) {
	w := samplePending()
	w.Parts = []model.Part{
		{Family: "linear", Weights: []float64{0.5}, Contributions: []float64{2}},
		{Family: "keys", Weights: []float64{0.5}, Contributions: []float64{3}, Keys: []model.KeyPart{
			{Input: "user", Contributions: []float64{-1}},
		}},
	}
	data := w.Encode(false)
	got, err := record.DecodePending(data, 1)
	assert.True(t, err == nil && reflect.DeepEqual(got, w), "%+v became %+v, %v", w, got, err)
	rejectsParts(t, data, func(part []byte) error { _, err := record.DecodePending(part, 1); return err })
	w.Parts[1].Keys[0].Contributions[0] = math.NaN()
	got, err = record.DecodePending(w.Encode(false), 1)
	assert.Error(t, err, got)
}
