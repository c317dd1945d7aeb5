package mix_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"hindsight/internal/model/codec"
	"hindsight/internal/model/mix"
)

// naive is ML-Poly as the paper writes it, from every gain so far.
type naive struct{ gains [][]float64 }

func (n *naive) weights(awake []bool) []float64 {
	experts := len(awake)
	w, total, largest, count := make([]float64, experts), 0.0, 0.0, 0.0
	for _, gains := range n.gains {
		for _, r := range gains {
			largest = math.Max(largest, r*r)
		}
	}
	for k := range w {
		if !awake[k] {
			continue
		}
		count++
		sum, squares := 0.0, largest
		for _, gains := range n.gains {
			sum += gains[k]
			squares += gains[k] * gains[k]
		}
		if sum > 0 {
			w[k] = sum / squares
			total += w[k]
		}
	}
	for k := range w {
		if total > 0 {
			w[k] /= total
		} else if awake[k] {
			w[k] = 1 / count
		}
	}
	return w
}

func (n *naive) bound(k int) (regret, bound float64) {
	sum, largest, experts := 0.0, 0.0, len(n.gains[0])
	squares := make([]float64, experts)
	for t, gains := range n.gains {
		before := largest
		for _, r := range gains {
			largest = math.Max(largest, r*r)
		}
		for j, r := range gains {
			rate := before + squares[j]
			squares[j] += r * r
			if before == 0 {
				rate = largest + squares[j]
			}
			if r != 0 {
				sum += r * r / rate
			}
		}
		sum = math.Min(sum, float64(experts*(t+1)))
		regret += gains[k]
	}
	return regret, math.Sqrt(sum * (largest + squares[k]))
}

// streams are sequences of experts and labels: what comes next may depend on
// the weights.
func streams() map[string]func(rng *rand.Rand, t int, weights []float64) (advice []float64, y float64, awake []bool) {
	const experts = 5
	all := []bool{true, true, true, true, true}
	normal := func(rng *rand.Rand) []float64 {
		advice := make([]float64, experts)
		for k := range advice {
			advice[k] = rng.NormFloat64()
		}
		return advice
	}
	return map[string]func(rng *rand.Rand, t int, weights []float64) ([]float64, float64, []bool){
		"random": func(rng *rand.Rand, _ int, _ []float64) ([]float64, float64, []bool) {
			return normal(rng), rng.NormFloat64(), all
		},
		"one is right": func(rng *rand.Rand, _ int, _ []float64) ([]float64, float64, []bool) {
			advice := normal(rng)
			return advice, advice[3], all
		},
		"against the heaviest": func(rng *rand.Rand, _ int, weights []float64) ([]float64, float64, []bool) {
			advice, heaviest := normal(rng), 0
			for k, w := range weights {
				if w > weights[heaviest] {
					heaviest = k
				}
			}
			return advice, -10 * advice[heaviest], all
		},
		"sleepers": func(rng *rand.Rand, _ int, _ []float64) ([]float64, float64, []bool) {
			awake := make([]bool, experts)
			for k := range awake {
				awake[k] = rng.IntN(3) > 0
			}
			advice := normal(rng)
			return advice, advice[1] + 0.1*rng.NormFloat64(), awake
		},
		"ever larger": func(rng *rand.Rand, t int, _ []float64) ([]float64, float64, []bool) {
			advice := normal(rng)
			for k := range advice {
				advice[k] *= math.Pow(1.5, float64(t))
			}
			return advice, advice[t/100], all
		},
		"equal": func(*rand.Rand, int, []float64) ([]float64, float64, []bool) {
			return []float64{2, 2, 2, 2, 2}, 1, all
		},
	}
}

// Gaillard, Stoltz and van Erven (COLT 2014), §3: the weights are those of the
// formula, and the regret against every expert is within the bound, whatever
// the sequence. The potential argument of their proof is the certificate.
func TestRegretBound(t *testing.T) {
	for name, next := range streams() {
		t.Run(name, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(7, 1))
			m, oracle := mix.New(5), &naive{}
			weights, regret, size := make([]float64, 5), make([]float64, 5), 0.0
			for round := range 400 {
				var before []float64
				before = append(before, weights...)
				advice, y, awake := next(rng, round, before)
				m.Weights(weights, awake)
				for k, want := range oracle.weights(awake) {
					require.False(t, math.Abs(weights[k]-want) > 1e-9, "round %d: weight %d is %g, want %g", round, k, weights[k], want)
				}
				mixed := mix.Mean(weights, advice)
				gains := make([]float64, 5)
				for k, f := range advice {
					if awake[k] {
						gains[k] = 2 * (mixed - y) * (mixed - f)
						regret[k] += (mixed-y)*(mixed-y) - (f-y)*(f-y)
						size += math.Abs(gains[k])
					}
				}
				m.Update(2*(mixed-y), mixed, advice, awake)
				oracle.gains = append(oracle.gains, gains)
				potential := m.Potential()
				for k := range advice {
					linear, bound := oracle.bound(k)
					slack := 1e-9 * size
					if math.Abs(m.Regret(k)-linear) > slack || math.Abs(m.Bound(k)-bound) > 1e-7*bound {
						t.Fatalf("round %d, expert %d: %g within %g, want %g within %g", round, k, m.Regret(k), m.Bound(k), linear, bound)
					}
					c := m.Certificate(potential, k)
					if regret[k] > linear+slack || linear > c+slack || c > m.Bound(k)+slack {
						t.Fatalf("round %d, expert %d: regret %g, linearised %g, certificate %g, bound %g", round, k, regret[k], linear, c, m.Bound(k))
					}
				}
			}
		})
	}
}

// The units of the loss do not touch the weights, and no number overflows.
func TestUnits(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 2))
	small, large := mix.New(3), mix.New(3)
	a, b := make([]float64, 3), make([]float64, 3)
	factor := math.Ldexp(1, 500)
	for range 200 {
		advice := []float64{rng.NormFloat64(), rng.NormFloat64(), rng.NormFloat64()}
		gradient := rng.NormFloat64()
		small.Weights(a, nil)
		large.Weights(b, nil)
		for k := range a {
			require.True(t, a[k] == b[k], "weights %v and %v", a, b)
		}
		small.Update(gradient, mix.Mean(a, advice), advice, nil)
		large.Update(gradient*factor, mix.Mean(b, advice), advice, nil)
	}
	huge := mix.New(2)
	for n := range 300 {
		v := math.Pow(10, float64(n%100))
		huge.Update(1e9*v, v, []float64{-v, v}, nil)
		huge.Weights(a[:2], nil)
		if sum := a[0] + a[1]; !(math.Abs(sum-1) < 1e-12) || math.IsInf(huge.Bound(0), 0) {
			t.Fatalf("round %d: weights %v, bound %g", n, a[:2], huge.Bound(0))
		}
	}
}

func TestNobodyIsAwake(t *testing.T) {
	m, w := mix.New(2), []float64{1, 1}
	m.Weights(w, []bool{false, false})
	assert.True(t, w[0] == 0 && w[1] == 0 && mix.Mean(w, []float64{3, 4}) == 0, "weights %v", w)
	m.Update(1, 0, []float64{3, 4}, []bool{false, false})
	assert.True(t, m.Regret(0) == 0 && m.Bound(1) == 0, "regret %g, bound %g", m.Regret(0), m.Bound(1))
}

func state(m *mix.Mixture) []byte {
	v := codec.Appending(nil)
	m.Visit(&v)
	out, _ := v.Appended() // It never fails.
	return out
}

func TestRestore(t *testing.T) {
	m := mix.New(3)
	for n := range 50 {
		x := math.Sin(float64(n))
		m.Update(x, x*x, []float64{1, x, -x}, []bool{true, n > 9, true})
		before := state(m)
		again := mix.New(3)
		require.NoError(t, codec.Read(before, again.Visit))
		require.Equal(t, before, state(again), "another state is encoded than was restored")
		m = again
	}
	good := state(m)
	for at := 0; at < len(good); at += 8 {
		for _, v := range []float64{math.NaN(), math.Inf(1), -1e300} {
			bad := append([]byte(nil), good...)
			copy(bad[at:], codec.AppendFloats(nil, v))
			assert.Error(t, codec.Read(bad, mix.New(3).Visit), "%v %v", v, at)
		}
	}
	assert.ErrorIs(t, codec.Read(good[:8], mix.New(3).Visit), codec.ErrCorrupt)
}

func TestExponential(t *testing.T) {
	for _, shift := range []float64{0, -3, 1e6} {
		w := []float64{shift, shift - math.Ln2, shift - 2000}
		mix.Exponential(w)
		assert.True(t, w[0] == 1 && math.Abs(w[1]-0.5) <= 1e-9 && w[2] == 0, "shifted by %g: %g", shift, w)
		mix.Normalize(w)
		assert.False(t, math.Abs(w[0]-2.0/3) > 1e-9 || math.Abs(w[1]-1.0/3) > 1e-9, "shifted by %g: %g", shift, w)
	}
}

func TestAllocations(t *testing.T) {
	m, w := mix.New(40), make([]float64, 40)
	advice := make([]float64, 40)
	advice[3] = 1
	if n := testing.AllocsPerRun(100, func() {
		m.Weights(w, nil)
		m.Update(1, mix.Mean(w, advice), advice, nil)
		_ = m.Potential()
	}); n != 0 {
		t.Errorf("a round allocates %g times", n)
	}
}
