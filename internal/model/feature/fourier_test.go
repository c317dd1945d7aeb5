package feature_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"

	"hindsight/internal/model/feature"
	"hindsight/internal/model/kernel"
)

func source(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 7)) }

func inner(f *feature.Fourier, a, b []float64) float64 {
	za, zb := make([]float64, f.Size()), make([]float64, f.Size())
	f.Map(za, a)
	f.Map(zb, b)
	return dot(za, zb)
}

func TestFourierApproximatesItsKernel(t *testing.T) {
	for _, k := range []kernel.Kernel{
		{Kind: kernel.Gaussian, Sigma: 0.7},
		{Kind: kernel.Laplacian, Sigma: 2},
		{Kind: kernel.Matern12, Sigma: 1},
		{Kind: kernel.Matern32, Sigma: 1},
		{Kind: kernel.Matern52, Sigma: 1},
		{Kind: kernel.Cauchy, Sigma: 1},
	} {
		for _, orthogonal := range []bool{false, true} {
			if orthogonal && !k.Radial() {
				continue
			}
			f := feature.NewFourier(k, 3, 20_000, orthogonal, source(3))
			rng := source(4)
			for range 10 {
				a, b := vector(rng, 3, rng.Float64()), vector(rng, 3, rng.Float64())
				got, want := inner(f, a, b), k.At(a, b)
				assert.False(t, math.Abs(got-want) > 0.04, "%s, orthogonal %v: %g, want %g", k.Kind, orthogonal, got, want)
				self := inner(f, a, a)
				assert.False(t, math.Abs(self-1) > 1e-12, "%s: ‖z‖² = %g", k.Kind, self)
			}
		}
	}
}

func TestFourierIsThatOfItsSeed(t *testing.T) {
	k := kernel.Kernel{Kind: kernel.Matern32, Sigma: 1}
	x := []float64{1, 2, 3}
	z := func(seed uint64) string {
		out := make([]float64, 14)
		feature.NewFourier(k, 3, 7, true, source(seed)).Map(out, x)
		return fmt.Sprint(out)
	}
	first, again := z(1), z(1)
	assert.True(t, first == again && first != z(2), "the features are not those of their seed")
}
