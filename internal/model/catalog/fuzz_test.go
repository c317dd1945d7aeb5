package catalog_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"hindsight/internal/model"
	"hindsight/internal/model/catalog"
	"hindsight/internal/model/codec"
	"hindsight/internal/model/modeltest"
)

// FuzzComplete: a spec of any JSON is completed or refused with the name of a
// field. Neither writes to what was given. A completed spec is complete, it
// costs the same, and if it is small it has a learner of the stated size.
func FuzzComplete(f *testing.F) {
	data, err := os.ReadFile(filepath.Join("testdata", "completed.jsonl"))
	if err != nil {
		f.Fatal(err)
	}
	for line := range bytes.Lines(data) {
		var c completion
		if err := json.Unmarshal(line, &c); err != nil {
			f.Fatal(err)
		}
		f.Add([]byte(c.Spec))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		given, err := codec.DecodeSpec(data)
		if err != nil {
			t.Skip()
		}
		before := encode(t, given)
		spec, cost, err := catalog.Complete(given)
		if after := encode(t, given); after != before {
			t.Fatalf("%s became %s", before, after)
		}
		if err != nil {
			var field *model.FieldError
			if !errors.As(err, &field) || !strings.HasPrefix(field.Field, "spec.") {
				t.Fatalf("%v names no field", err)
			}
			return
		}
		again, cost2, err := catalog.Complete(spec)
		if err != nil || encode(t, again) != encode(t, spec) || cost2 != cost {
			t.Fatalf("%s, %+v\nbecame %s, %+v, %v", encode(t, spec), cost, encode(t, again), cost2, err)
		}
		if cost.StateBytes > 1<<20 {
			return
		}
		learner, err := catalog.New(spec)
		if err != nil {
			t.Fatal(err)
		}
		if s := learner.Stats(); s.Observations != 0 || s.StateBytes > cost.StateBytes {
			t.Fatalf("%+v costs %+v", s, cost)
		}
	})
}

func encode(t *testing.T, s model.Spec) string {
	t.Helper()
	data, err := codec.EncodeSpec(s)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// FuzzRestore: the state of a learner is restored from any bytes and works, or
// it refuses them and is as it was. Nothing panics. An import may bring any
// bytes.
func FuzzRestore(f *testing.F) {
	specs := []model.Spec{
		{Dimension: 2, PKAWVTaylor: &model.PKAWVTaylor{Degree: ptr(2)}},
		{Dimension: 2, Outputs: 2, LinearAWV: &model.LinearAWV{Forgetting: ptr(0.9)}},
		{Dimension: 2, Seed: 3, PKAWVNystrom: &model.PKAWVNystrom{History: model.HistoryWindow, HistoryWindow: ptr(5)}},
		{Dimension: 2, KernelAWV: &model.KernelAWV{MaxObservations: ptr(40)}},
		{Dimension: 2, Seed: 5, Raker: &model.Raker{FirstOrder: model.FirstOrder{Frequencies: ptr(2)}}},
		{Dimension: 2, Seed: 6, AdaRaker: &model.AdaRaker{Raker: model.Raker{FirstOrder: model.FirstOrder{Frequencies: ptr(2)}}}},
		{Dimension: 2, Scaling: &model.Scaling{Warmup: &model.WarmupScaling{Observations: 8}}, LinearAWV: &model.LinearAWV{}},
	}
	samples := modeltest.Samples(5, 2, 20)
	observe := func(l model.Learner, s modeltest.Sample) error {
		y := []float64{s.Y, -s.Y}
		if l.Check(s.X, y, s.Weight) != nil {
			y = y[:1]
		}
		return l.Observe(&model.Outcome{}, s.X, y, s.Weight)
	}
	for kind, spec := range specs {
		l, err := catalog.New(spec)
		if err != nil {
			f.Fatal(err)
		}
		for n, s := range samples {
			if n%7 == 3 {
				state, err := l.AppendBinary(nil)
				if err != nil {
					f.Fatal(err)
				}
				f.Add(uint8(kind), state)
			}
			if err := observe(l, s); err != nil {
				f.Fatal(err)
			}
		}
	}
	f.Fuzz(func(t *testing.T, kind uint8, state []byte) {
		l, err := catalog.New(specs[int(kind)%len(specs)])
		if err != nil {
			t.Fatal(err)
		}
		before := l.Stats().Observations
		if err := l.Restore(state); err != nil {
			if got := l.Stats().Observations; got != before {
				t.Fatalf("%d observations after a refusal", got)
			}
			return
		}
		_ = l.Stats()
		_ = l.EffectiveDimension()
		_ = l.RegretUnpenalized()
		for _, s := range samples {
			var p model.Prediction
			_ = l.Predict(&p, s.X)
			_ = observe(l, s)
		}
	})
}
