package engine_test

import (
	"context"
	"errors"
	"math"
	"reflect"
	"testing"

	"hindsight/internal/engine"
	"hindsight/internal/model"
)

// Several labels of one observation: served, learned, remembered and answered
// again after a restart, as single ones are.
func TestSeveralOutputs(t *testing.T) { onBackends(t, testSeveralOutputs) }

func testSeveralOutputs(t *testing.T, newDisk func() disk) {
	t.Helper()
	fs, clock := newDisk(), newClock()
	h := start(t, fs, clock)
	forgetting := 0.9
	h.create(t, "m", model.Spec{Dimension: 2, Outputs: 3, Scaling: model.Unscaled(), LinearAWV: &model.LinearAWV{Forgetting: &forgetting}})
	h.observe(t, "m", engine.Observation{Features: []float64{1, 0}, Labels: []float64{1, -2, 3}})
	p := h.predict(t, "m", 1, 0.5)
	if len(p.Values) != 3 || len(p.StandardErrors) != 3 || !(p.Values[0] > 0) || !(p.Values[1] < 0) || !(p.Values[2] > p.Values[0]) {
		t.Fatalf("%+v", p)
	}
	waiting := h.predict(t, "m", 0.25, 0.75)
	o := engine.Observation{PredictionID: p.ID, Labels: []float64{4, 5, 6}}
	first := h.observe(t, "m", o)[0]
	served := 0.0
	for j, y := range o.Labels {
		served += (y - p.Values[j]) * (y - p.Values[j])
	}
	if !first.Served || !reflect.DeepEqual(first.ServedPredictions, p.Values) || math.Abs(first.ServedLoss-served) > 1e-12 || len(first.Predictions) != 3 {
		t.Errorf("%+v of %+v", first, p)
	}
	for name, labels := range map[string][]float64{"two": {1, 2}, "four": {1, 2, 3, 4}, "none": nil} {
		_, err := h.Observe(context.Background(), "m", []engine.Observation{{Features: []float64{1, 1}, Labels: labels, Weight: 1}})
		if !errors.Is(err, model.ErrDimensionMismatch) {
			t.Errorf("%s labels: %v", name, err)
		}
	}
	_, err := h.Observe(context.Background(), "m", []engine.Observation{{PredictionID: p.ID, Labels: []float64{4, 5, 7}, Weight: 1}})
	if !errors.Is(err, engine.ErrConflict) {
		t.Errorf("another label: %v", err)
	}
	before := h.stats(t, "m")
	h.stop(t)
	h = start(t, fs, clock)
	if after := h.stats(t, "m"); after.Digest != before.Digest || after.Served != before.Served {
		t.Errorf("%+v, want %+v", after, before)
	}
	again := h.observe(t, "m", o)[0]
	if !again.Duplicate {
		t.Error("learned twice")
	}
	if again.Duplicate = false; !reflect.DeepEqual(again, first) {
		t.Errorf("the retry is answered %+v, first %+v", again, first)
	}
	late := h.observe(t, "m", engine.Observation{PredictionID: waiting.ID, Labels: []float64{0, 0, 0}})[0]
	if !reflect.DeepEqual(late.ServedPredictions, waiting.Values) {
		t.Errorf("%+v, served %+v", late, waiting)
	}
}
