package catalog_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"

	"hindsight/internal/model"
	"hindsight/internal/model/catalog"
	"hindsight/internal/model/modeltest"
)

// What happens to inputs and weights costs a learner that scales at most a share of its loss on
// the clean stream, from 500 rows after the change on. It is the same stream throughout. All
// variants have six columns more: rounding is compared with constants, not with no columns,
// which cost a learner less, because d counts unchanged columns.
func TestDirtyInputs(t *testing.T) {
	if modeltest.RaceDetector {
		t.Skip("takes streams through auto: not with the race detector")
	}
	const rows, change = 3600, 1800
	type sent struct {
		x      []float64
		y      float64
		weight float64
		// counts says that the loss of the row counts.
		counts bool
	}
	clean := func(noise func(rng *rand.Rand) float64) (out []sent) {
		rng, noises := rand.New(rand.NewPCG(36, 1)), rand.New(rand.NewPCG(36, 2))
		for n := range rows {
			x := []float64{10 + 3*rng.NormFloat64(), rng.Float64(), rng.NormFloat64(), rng.ExpFloat64()}
			y := 2*math.Sin(x[0]/2) + 3*x[1]*x[2] + x[3] + 0.3*rng.NormFloat64()
			for range 6 {
				x = append(x, noise(noises))
			}
			out = append(out, sent{x, y, 1, n >= change+500})
		}
		return out
	}
	constant := func(*rand.Rand) float64 { return 0.3 }
	rounding := func(rng *rand.Rand) float64 {
		if rng.IntN(2) == 0 {
			return 0.3
		}
		return 0.30000000000000004
	}
	garbage := func(weight float64) []sent {
		rng := rand.New(rand.NewPCG(36, 3))
		var out []sent
		for _, r := range clean(constant) {
			r.counts = true
			if out = append(out, r); rng.IntN(2) == 0 {
				x := append([]float64{10 + 3*rng.NormFloat64(), rng.Float64(), rng.NormFloat64(), rng.ExpFloat64()}, r.x[4:]...)
				out = append(out, sent{x, 100 * rng.NormFloat64(), weight, false})
			}
		}
		return out
	}
	strange, units := clean(constant), clean(constant)
	strange[change].x[0] = -9999
	for _, r := range units[change:] {
		for j := range 4 {
			r.x[j] *= 1000
		}
	}
	specs := map[string]model.Spec{
		"auto":         {Auto: &model.Auto{}},
		"pkawv_taylor": {PKAWVTaylor: &model.PKAWVTaylor{}},
		"ada_raker":    {AdaRaker: &model.AdaRaker{}},
		"fourier_awv":  {FourierAWV: &model.FourierAWV{}},
	}
	// The loss of the rows that count, and of all rows.
	loss := func(t *testing.T, spec model.Spec, stream []sent) (counted, all float64) {
		t.Helper()
		spec.Dimension = len(stream[0].x)
		l := must(catalog.New(spec))(t)
		for _, r := range stream {
			o := must(modeltest.Observe(l, r.x, r.y, r.weight))(t)
			square := (o.Prediction - r.y) * (o.Prediction - r.y)
			if all += square; r.counts {
				counted += square
			}
		}
		return counted, all
	}
	for name, spec := range specs {
		t.Run(name, func(t *testing.T) {
			late, all := loss(t, spec, clean(constant))
			base := map[bool]float64{false: late, true: all}
			for _, c := range []struct {
				name   string
				stream []sent
				whole  bool
				bar    float64
			}{
				{"one -9999", strange, false, 1.05},
				{"units 1000 times", units, false, 1.15},
				{"rounding beside constants", clean(rounding), false, 1.02},
				{"garbage of weight 1e-9", garbage(1e-9), true, 1.02},
				{"garbage of weight 1e-3", garbage(1e-3), true, 1.05},
			} {
				counted, _ := loss(t, spec, c.stream)
				ratio := counted / base[c.whole]
				t.Logf("%s, %s: %.3f of the clean loss", name, c.name, ratio)
				assert.True(t, ratio <= c.bar, "%s, %s: %.3f of the clean loss, want at most %g", name, c.name, ratio, c.bar)
			}
		})
	}
}
