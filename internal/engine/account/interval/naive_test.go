package interval_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"

	"hindsight/internal/engine/account/interval"
)

// naive is the State of one level by the formulas, from all that ever was.
type naive struct {
	a         float64
	residuals []float64 // |residuals| that count.
	known     int
	scores    []float64
	q, r, v   [3]float64
	bound     float64
	hits      []bool
	widths    []float64
	values    []float64 // Interval scores.
}

func newNaive(level float64) *naive {
	n := &naive{a: 1 - level}
	for k := range n.q {
		n.q[k] = math.Log(1 / (1 - level))
	}
	return n
}

func (n *naive) scale() float64 {
	if len(n.residuals) < 8 {
		return 0
	}
	sum, weights, plain, w := 0.0, 0.0, 0.0, 1.0
	for _, r := range slices.Backward(n.residuals) {
		sum, weights, plain, w = sum+w*r, weights+w, plain+r, w*0.95
	}
	return max(sum/weights, 0.2*plain/float64(len(n.residuals)))
}

func (n *naive) z() float64 {
	num, den := 0.0, 0.0
	for k := range n.q {
		if n.r[k] > 0 {
			num += n.r[k] / (n.bound + n.v[k]) * n.q[k]
			den += n.r[k] / (n.bound + n.v[k])
		}
	}
	if den == 0 {
		return (n.q[0] + n.q[1] + n.q[2]) / 3
	}
	return num / den
}

func (n *naive) observe(miss, sigma, z float64) {
	size, now := math.Abs(miss), n.scale()
	if sigma > 0 {
		s := size / sigma
		b := 0.0
		for _, before := range n.scores[max(0, len(n.scores)-100):] {
			b = max(b, before)
		}
		n.scores = append(n.scores, min(s, 16))
		if b == 0 {
			b = min(s, 16)
		}
		g := n.a
		if s > z {
			g = n.a - 1
		}
		for k := range n.q {
			r := g * (z - n.q[k])
			n.r[k] += r
			n.v[k] += r * r
			n.bound = max(n.bound, r*r)
			if s > n.q[k] {
				n.q[k] += interval.Steps()[k] * b * (1 - n.a)
			} else {
				n.q[k] -= interval.Steps()[k] * b * n.a
			}
		}
		half := sigma * max(z, 0)
		n.hits = append(n.hits, size <= half)
		n.widths = append(n.widths, 2*half)
		n.values = append(n.values, 2*half+2/n.a*max(0, size-half))
	}
	if now > 0 {
		size = min(size, 16*now)
	}
	if n.known++; n.known > 8 {
		n.residuals = append(n.residuals, size)
	}
}

func (n *naive) statistics() interval.Statistics {
	part := func(hits []bool) float64 {
		count := 0
		for _, h := range hits {
			if h {
				count++
			}
		}
		return float64(count) / float64(len(hits))
	}
	mean := func(values []float64) float64 {
		sum := 0.0
		for _, v := range values {
			sum += v
		}
		return sum / float64(len(values))
	}
	total := len(n.hits)
	t := interval.Statistics{
		Scored: uint64(total), Coverage: part(n.hits), Recent: min(total, 1000),
		RecentCoverage: part(n.hits[max(0, total-1000):]), LeastCoverage: math.NaN(),
		MeanWidth: mean(n.widths), MeanScore: mean(n.values),
	}
	for end := 1000; end <= total; end++ {
		if p := part(n.hits[end-500 : end]); !(p >= t.LeastCoverage) {
			t.LeastCoverage = p
		}
	}
	return t
}

// near reports whether two numbers agree to many digits; NaN agrees with NaN.
func near(a, b float64) bool {
	return math.IsNaN(a) && math.IsNaN(b) || math.Abs(a-b) <= 1e-9*(math.Abs(a)+math.Abs(b))
}

// What was served, kept until its label comes.
type served struct {
	residual, sigma float64
	z               []float64
}

func serve(s *interval.State, levels int, residual float64) served {
	w := served{residual: residual, sigma: s.Scale()}
	for l := range levels {
		w.z = append(w.z, s.Radius(l))
	}
	return w
}

// residuals are of a kind that changes its size, has zeros and outliers.
func residuals(seed uint64, n int) []float64 {
	rng := rand.New(rand.NewPCG(seed, 7))
	out := make([]float64, n)
	for i := range out {
		out[i] = rng.NormFloat64() * math.Exp(2*math.Sin(float64(i)/200))
		switch {
		case rng.IntN(20) == 0:
			out[i] = 0
		case rng.IntN(300) == 0:
			out[i] *= 1000
		}
	}
	return out
}

func TestEqualsNaive(t *testing.T) {
	levels := []float64{0.5, 0.9, 0.99}
	for seed, late := range []int{1, 1, 30} { // How many labels wait.
		s := interval.New(levels)
		var plain []*naive
		for _, l := range levels {
			plain = append(plain, newNaive(l))
		}
		rng := rand.New(rand.NewPCG(uint64(seed), 1))
		var waiting []served
		for i, residual := range residuals(uint64(seed), 2500) {
			w := serve(s, len(levels), residual)
			for l, n := range plain {
				if !near(w.sigma, n.scale()) || math.Abs(w.z[l]-n.z()) > 1e-9 {
					t.Fatalf("seed %d, round %d, level %g: %g, %g, want %g, %g", seed, i, levels[l], w.sigma, w.z[l], n.scale(), n.z())
				}
			}
			for waiting = append(waiting, w); len(waiting) >= late; {
				at := rng.IntN(len(waiting))
				w := waiting[at]
				waiting = slices.Delete(waiting, at, at+1)
				s.Observe(interval.Round{Label: w.residual, Scale: w.sigma, Radii: w.z})
				for l, n := range plain {
					n.observe(w.residual, w.sigma, w.z[l])
				}
			}
			if i%249 == 0 && i > 40 {
				for l, n := range plain {
					got, want := s.Statistics(l), n.statistics()
					if got.Level != levels[l] || got.Scored != want.Scored || got.Recent != want.Recent ||
						!near(got.Coverage, want.Coverage) || !near(got.RecentCoverage, want.RecentCoverage) ||
						!near(got.LeastCoverage, want.LeastCoverage) || !near(got.MeanWidth, want.MeanWidth) || !near(got.MeanScore, want.MeanScore) {
						t.Fatalf("seed %d, round %d: %+v, want %+v", seed, i, got, want)
					}
				}
			}
		}
	}
}

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
