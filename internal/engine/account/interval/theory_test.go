package interval_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"

	"hindsight/internal/engine/account/interval"
)

// adversaries choose a residual of round t when they know what is served.
func adversaries() map[string]func(t int, sigma, z float64) float64 {
	heavy, light := rand.New(rand.NewPCG(3, 3)), rand.New(rand.NewPCG(4, 4))
	return map[string]func(t int, sigma, z float64) float64{
		"always just outside": func(_ int, sigma, z float64) float64 { return 1.001*sigma*max(z, 0) + 1e-3 },
		"always just inside":  func(_ int, sigma, z float64) float64 { return 0.999*sigma*max(z, 0) + 1e-9 },
		"outside in turn": func(t int, sigma, z float64) float64 {
			if t/100%2 == 0 {
				return 3*sigma*max(z, 0) + 1
			}
			return 0.1
		},
		"zeros, then not": func(t int, _, _ float64) float64 { return float64(t / 2000 % 2 * (t % 7)) },
		"grows":           func(t int, _, _ float64) float64 { return math.Exp(float64(t%3000) / 50) },
		"infinite mean":   func(_ int, _, _ float64) float64 { return 1/(1-heavy.Float64()) - 1 },
		"normal":          func(_ int, _, _ float64) float64 { return light.NormFloat64() },
	}
}

func pinball(score, q, a float64) float64 {
	if score > q {
		return (1 - a) * (score - q)
	}
	return a * (q - score)
}

// For each tracker Σ B (1[s > q] − a) = (q_T − q_0)/c, and the pinball loss of
// what was served is above a tracker's by at most what ML-Poly promises.
func TestGuarantees_COLT2014(t *testing.T) {
	for name, adversary := range adversaries() {
		for _, level := range []float64{0.9, 0.99} {
			a := 1 - level
			s := interval.New([]float64{level})
			first := append([]float64(nil), s.Trackers(0)...)
			var sum, misses, size [3]float64 // Σ B (miss − a), Σ B miss, Σ B.
			var loss, mixture float64
			var losses, beyond [3]float64
			for i := range 6000 {
				w := serve(s, 1, 0)
				residual := min(adversary(i, w.sigma, w.z[0]), 1e101)
				if w.sigma == 0 {
					s.Observe(interval.Round{Label: residual})
					continue
				}
				score := math.Abs(residual) / w.sigma
				q := append([]float64(nil), s.Trackers(0)...)
				b := s.Largest()
				s.Observe(interval.Round{Label: residual, Scale: w.sigma, Radii: w.z})
				if b == 0 {
					b = s.Largest()
				}
				mixture = pinball(score, w.z[0], a)
				loss += mixture
				for k := range q {
					losses[k] += pinball(score, q[k], a)
					beyond[k] += mixture - pinball(score, q[k], a)
					miss := 0.0
					if score > q[k] {
						miss = 1
					}
					sum[k] += b * (miss - a)
					misses[k] += b * miss
					size[k] += b
				}
			}
			var regret [3]float64
			for k, c := range interval.Steps() {
				want := (s.Trackers(0)[k] - first[k]) / c
				assert.False(t, math.Abs(sum[k]-want) > 1e-9*(misses[k]+a*size[k])+1e-9*math.Abs(first[k])/c, "%s, %g: tracker %g: Σ B (miss − a) = %g, want %g", name, level, c, sum[k], want)
				regret[k] = s.Regret(0, k)
				allowed := s.Allowed(0, k)
				rounding := 1e-9 * (loss + losses[k])
				if beyond[k] > regret[k]+rounding || regret[k] > allowed*(1+1e-9)+1e-12 {
					t.Errorf("%s, %g: tracker %g: pinball loss %g above its, linearised %g, allowed %g", name, level, c, beyond[k], regret[k], allowed)
				}
			}
			t.Logf("%-20s %.2f: pinball %.4g, trackers %.4g; R %.3g; covered %.4f; weighted misses %.3f %.3f %.3f", name, level, loss, losses,
				regret, s.Statistics(0).Coverage, misses[0]/size[0], misses[1]/size[1], misses[2]/size[2])
		}
	}
}
