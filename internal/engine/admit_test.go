package engine_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"hindsight/internal/engine"
	"hindsight/internal/engine/machine"
	"hindsight/internal/engine/record"
	"hindsight/internal/model"
	"hindsight/internal/model/catalog"
)

// flooded are specs whose kernel at 0, offset^degree, is more than 1e12 λ.
func flooded() map[string]model.Spec {
	kernel := &model.Kernel{Kind: "polynomial", Offset: ptr(1e4), Degree: ptr(4)}
	return map[string]model.Spec{
		"kernel_awv":    {Dimension: 1, Scaling: model.Unscaled(), KernelAWV: &model.KernelAWV{Kernel: kernel}},
		"pkawv_nystrom": {Dimension: 1, Scaling: model.Unscaled(), PKAWVNystrom: &model.PKAWVNystrom{Kernel: kernel}},
		"scaled":        {Dimension: 1, PKAWVNystrom: &model.PKAWVNystrom{Kernel: kernel}},
	}
}

// A polynomial kernel that leaves the ridge to rounding is rejected to new models.
// Its learner panicked or served NaN.
func TestAFloodedRidgeIsRejected(t *testing.T) {
	h := start(t, files{newFS()}, newClock())
	for name, spec := range flooded() {
		var field *model.FieldError
		_, _, err := engine.ValidateSpec(spec)
		assert.True(t, errors.Is(err, model.ErrInvalidSpec) && errors.As(err, &field) && field.Field == "spec."+spec.Name()+".kernel.offset", "%s: ValidateSpec says %v", name, err)
		_, err = h.CreateModel(context.Background(), "m", spec)
		assert.ErrorIs(t, err, model.ErrInvalidSpec, "%s: CreateModel says", name)
	}
	fits := model.Spec{Dimension: 1, KernelAWV: &model.KernelAWV{Lambda: ptr(1.0), Kernel: &model.Kernel{Kind: "polynomial", Offset: ptr(1e3), Degree: ptr(4)}}}
	_, _, err := engine.ValidateSpec(fits)
	assert.NoError(t, err)
}

// kernel_awv with weight k(x,x) > 1e12 λ lost its ridge in the rounding, and
// served NaN some rounds later. A new observation of that weight is rejected. A
// log that holds one is learned as it was.
func TestAWeightThatFloodsTheRidgeIsRejected(t *testing.T) {
	unscaled := model.Spec{Dimension: 2, Scaling: model.Unscaled(), KernelAWV: &model.KernelAWV{Lambda: ptr(1e-6)}}
	scaled := model.Spec{Dimension: 2, KernelAWV: &model.KernelAWV{Lambda: ptr(1e-6)}}
	linear := model.Spec{Dimension: 2, Scaling: model.Unscaled(), KernelAWV: &model.KernelAWV{Lambda: ptr(1e-6), Kernel: &model.Kernel{Kind: "linear"}}}
	h := start(t, files{newFS()}, newClock())
	for name, c := range map[string]struct {
		spec     model.Spec
		x        float64
		weight   float64
		accepted bool
	}{
		"unscaled-at-the-limit": {unscaled, 1, 1e6, true}, "unscaled-above": {unscaled, 1, 1.01e6, false},
		"scaled-at-the-limit": {scaled, 1, 1e6, true}, "scaled-above": {scaled, 1, 1e9, false},
		"linear-at-the-limit": {linear, 10, 5e3, true}, "linear-above": {linear, 10, 5.1e3, false}, "linear-at-0": {linear, 0, 1e9, true},
	} {
		h.create(t, name, c.spec)
		o := engine.Observation{Features: []float64{c.x, -c.x}, Labels: []float64{1}, Weight: c.weight}
		_, err := h.Observe(context.Background(), name, []engine.Observation{o})
		assert.True(t, (err == nil) == c.accepted && (err == nil || errors.Is(err, model.ErrWeightOutOfRange)), "%s: %v", name, err)
		spec, _, err := catalog.Complete(c.spec)
		require.NoError(t, err)
		m := must(machine.New(spec, catalog.New))(t)
		r := record.Record{Observations: []record.Observation{{Features: o.Features, Labels: o.Labels, Weight: o.Weight}}}
		assert.NoError(t, m.Apply(&r, make([]record.Answer, 1), nil), name)
	}
}
