package qr_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"hindsight/internal/model/qr"
)

// A shift along v = R⁻ᵀz moves b by z and the value at z by ‖v‖². It touches neither R
// nor another column.
func TestShiftMovesTheRightHandSideAlongOneInput(t *testing.T) {
	const r, k, by = 7, 3, 0.75
	f := qr.New(r, k, 0.5)
	p := make([]float64, k)
	for range 20 {
		f.Rotate(normals(r+k), p)
	}
	z := normals(r)
	v := append([]float64(nil), z...)
	before, after := make([]float64, k), make([]float64, k)
	q := f.Solve(v, before)
	packed := f.Packed()
	f.Shift(v, by, 1)
	assert.Equal(t, q, f.Solve(append([]float64(nil), z...), after))
	want := before[1] - by*q
	assert.False(t, math.Abs(after[1]-want) > 1e-13*(1+math.Abs(want)) || after[0] != before[0] || after[2] != before[2], "values %g, were %g, moved by %g", after, before, by*q)
	changed := 0
	for i, entry := range f.Packed() {
		if entry != packed[i] {
			changed++
		}
	}
	assert.EqualValues(t, r, changed)
	restored, err := qr.FromPacked(r, k, f.Packed(), 1e-3, 1e9)
	require.NoError(t, err)
	for i, u := range restored.Right() {
		if u != f.Right()[i] {
			t.Errorf("right-hand side %d is %g in the copy, %g in the rows", i, f.Right()[i], u)
		}
	}
}

func TestShiftOfWrongShapesPanics(t *testing.T) {
	f := qr.New(2, 1, 1)
	for name, call := range map[string]func(){
		"short":  func() { f.Shift([]float64{1}, 1, 0) },
		"column": func() { f.Shift([]float64{1, 2}, 1, 1) },
		"before": func() { f.Shift([]float64{1, 2}, 1, -1) },
	} {
		func() {
			defer func() { assert.NotNil(t, recover(), "%s: no panic", name) }()
			call()
		}()
	}
}
