package auto_test

import (
	"bytes"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"hindsight/internal/model"
	"hindsight/internal/model/auto"
	"hindsight/internal/model/codec"
	"hindsight/internal/model/modeltest"
)

// series are n rows of three inputs and a label that depends on them and on
// the last one.
func series(seed uint64, n int) []observation {
	rng, last := rand.New(rand.NewPCG(seed, 3)), 0.0
	var rows []observation
	for i := range n {
		x := []float64{rng.NormFloat64(), 40 + 3*rng.Float64(), float64(i % 7)}
		last = 0.7*last + math.Sin(3*x[0]) + 0.1*x[2] + 0.2*rng.NormFloat64()
		r := observation{x: x, y: []float64{last}, weight: 1}
		if i%5 == 4 {
			r.weight = 0.2 + rng.Float64()
		}
		rows = append(rows, r)
	}
	return rows
}

func observe(t *testing.T, l model.Learner, r observation) model.Outcome {
	t.Helper()
	var o model.Outcome
	require.NoError(t, l.Observe(&o, r.x, r.y, r.weight))
	return o
}

func predict(t *testing.T, l model.Learner, x []float64) model.Prediction {
	t.Helper()
	var p model.Prediction
	require.NoError(t, l.Predict(&p, x))
	return p
}

func encoded(t *testing.T, l model.Learner) []byte {
	t.Helper()
	state, err := codec.Append(nil, l.Visit)
	require.NoError(t, err)
	return state
}

// Labels and columns in units that are a power of two larger give the same
// predictions in these units, bit for bit. Other units and origins give them to
// rounding.
func TestUnits(t *testing.T) {
	for name, c := range map[string]struct {
		scale, shift, columnScale, columnShift float64
		tolerance                              float64
	}{
		"labels":         {scale: 1 << 20, columnScale: 1},
		"small labels":   {scale: 1.0 / (1 << 30), columnScale: 1},
		"columns":        {scale: 1, columnScale: 1.0 / (1 << 10)},
		"shifted labels": {scale: 1, shift: 64, columnScale: 1, tolerance: 1e-7},
		"other units":    {scale: 3, columnScale: 0.7, columnShift: 11, tolerance: 1e-7},
	} {
		t.Run(name, func(t *testing.T) {
			a, b := auto.NewLevel1(options(3, 1)), auto.NewLevel1(options(3, 1))
			for n, r := range series(4, 300) {
				x, moved := []float64{}, r
				for _, v := range r.x {
					x = append(x, v*c.columnScale+c.columnShift)
				}
				moved.x, moved.y = x, []float64{r.y[0]*c.scale + c.shift}
				want := predict(t, a, r.x).Values[0]*c.scale + c.shift
				if n == 0 {
					want = 0 // Nothing is known.
				}
				got := predict(t, b, moved.x).Values[0]
				require.True(t, math.Abs(got-want) <= c.tolerance*c.scale, "round %d: %.17g, want %.17g", n, got, want)
				observe(t, a, r)
				observe(t, b, moved)
			}
		})
	}
}

// Experts that draw nothing do not see the order of the columns.
func TestPermutedColumns(t *testing.T) {
	o := options(3, 1)
	o.Microseconds = 1e-9 // The affine map alone.
	a, b := auto.NewLevel1(o), auto.NewLevel1(o)
	for n, r := range series(5, 300) {
		moved := r
		moved.x = []float64{r.x[2], r.x[0], r.x[1]}
		want, got := observe(t, a, r).Predictions[0], observe(t, b, moved).Predictions[0]
		require.True(t, math.Abs(got-want) < 1e-10, "round %d: %.17g, want %.17g", n, got, want)
	}
}

// A state restored at any round, in the middle of every stage, goes on bit for
// bit, with late labels too.
func TestRestoreAtEveryStage(t *testing.T) {
	rows := series(6, 140)
	whole := auto.NewLevel1(options(3, 1))
	var states [][]byte
	var advice [][]float64
	learn := func(l *auto.Learner, n int) {
		if n < 3 {
			return
		}
		r := rows[n-3]
		var o model.Outcome
		require.NoError(t, l.ObserveAdvised(&o, r.x, r.y, r.weight, advice[n-3]))
	}
	for n, r := range rows {
		states, advice = append(states, encoded(t, whole)), append(advice, predict(t, whole, r.x).Advice)
		got := len(states[n])
		require.LessOrEqual(t, uint64(got), whole.Size(), "%v %v", n, got)
		learn(whole, n)
	}
	for at := range rows {
		l := auto.NewLevel1(options(3, 1))
		require.NoError(t, codec.Read(states[at], l.Visit))
		for n := at; n < min(at+12, len(rows)); n++ {
			require.True(t, bytes.Equal(encoded(t, l), states[n]), "restored at %d, it differs at %d", at, n)
			learn(l, n)
		}
	}
}

// Advice of just now is not needed, and advice that cannot have been given is
// not believed: both leave an Observe, bit for bit.
func TestAdvice(t *testing.T) {
	rows := series(7, 60)
	plain, advised := auto.NewLevel1(options(3, 1)), auto.NewLevel1(options(3, 1))
	var old []float64
	for n, r := range rows {
		now := predict(t, advised, r.x).Advice
		given := now
		if n > 20 {
			given = forged(now, old, n)
		}
		if n == 12 {
			old = append([]float64(nil), now...)
		}
		var o model.Outcome
		require.NoError(t, advised.ObserveAdvised(&o, r.x, r.y, r.weight, given))
		observe(t, plain, r)
		require.Equal(t, encoded(t, advised), encoded(t, plain), n)
	}
	if s := advised.Stats(); !s.Certified {
		t.Errorf("%+v", s)
	}
	var o model.Outcome
	r := rows[12]
	require.NoError(t, advised.ObserveAdvised(&o, r.x, r.y, 1, old))
	s := advised.Stats()
	assert.True(t, !s.Certified && s.CertificateOK && s.Certificate == 0 && s.RegretBound == 0, "after a late label: %+v", s)
	assert.Error(t, advised.ObserveAdvised(&o, r.x[:2], r.y, 1, old), "a short input was learned")
}

// forged is advice that is wrong in one way or another.
func forged(now, old []float64, n int) []float64 {
	bad := append([]float64(nil), old...)
	last := len(bad) - 1
	switch n % 10 {
	case 0:
		return nil
	case 1:
		return bad[1:]
	case 2:
		bad[n%len(bad)] = math.NaN()
	case 3:
		bad[0] = float64(n + 1)
	case 4:
		bad[0] = 2.5
	case 5:
		bad[1] = 1e9 // No label was that.
	case 6:
		bad[last] = -1e9
	case 7:
		bad[4+n%40] = math.Inf(1)
	case 8:
		bad[0] = 0
	default:
		return append(now, 0)
	}
	return bad
}

// The regret against the best expert is within the certificate and the bound
// of ML-Poly (Gaillard, Stoltz and van Erven, COLT 2014), also against an
// adversary, and for every expert.
func TestRegret(t *testing.T) {
	for name, adversary := range map[string]func(n int, p, y float64) float64{
		"a series":           func(_ int, _, y float64) float64 { return y },
		"always the other":   func(_ int, p, _ float64) float64 { return -math.Copysign(1, p) },
		"one lone large one": func(n int, _, y float64) float64 { return y + 1e6*indicator(n == 60) },
		"ever larger":        func(n int, p, _ float64) float64 { return -math.Copysign(math.Pow(1.1, float64(n)), p) },
		"switches":           func(n int, _, y float64) float64 { return y + 10*float64(n/100%2) },
	} {
		t.Run(name, func(t *testing.T) {
			l, total := auto.NewLevel1(options(3, 1)), 0.0
			for n, r := range series(8, 400) {
				r.y[0] = adversary(n, predict(t, l, r.x).Values[0], r.y[0])
				o := observe(t, l, r)
				total += o.Loss
				s := l.Stats()
				require.True(t, s.Certified && s.CertificateOK && s.Regret <= s.Certificate && s.Certificate <= s.RegretBound, "round %d: %+v", n, s)
				require.False(t, o.Regret != s.Regret || math.Abs(s.Loss-total) > 1e-9*total || math.Abs(s.Loss-s.Regret-s.HindsightLoss) > 1e-9*total, "round %d: %+v, %+v, %g", n, o, s, total)
			}
			best := math.Inf(1)
			for _, e := range l.Report(model.ReportOptions{}).Experts[:l.Experts()] {
				assert.True(t, e.Awake, "%+v", e)
				best = math.Min(best, e.Loss)
			}
			// The experts but the baselines slept for eight rounds.
			s := l.Stats()
			assert.LessOrEqual(t, best, s.HindsightLoss*(1+1e-9), "the best expert lost %g, hindsight loss %g", best, s.HindsightLoss)
		})
	}
}

func TestReport(t *testing.T) {
	o := options(2, 2)
	l := auto.NewLevel1(o)
	for n := range 30 {
		r := l.Report(model.ReportOptions{})
		require.Equal(t, 2*(l.Experts()+3), len(r.Experts))
		sums := map[string]float64{}
		for _, e := range r.Experts {
			output, _, _ := strings.Cut(e.Name, "/")
			sums[output] += e.Weight
			require.True(t, (e.Awake || e.Weight == 0) && (e.Awake || n <= 8), "round %d: %+v", n, e)
		}
		for _, output := range []string{"output_0", "output_1"} {
			require.InDelta(t, indicator(n > 0), sums[output], 1e-12, "round %d: weights add up to %v", n, sums)
		}
		observe(t, l, observation{x: []float64{float64(n), 1}, y: []float64{float64(n % 3), float64(n % 5)}, weight: 1})
	}
}

// The stack with forgetting 1 keeps the bound of the forecaster: PKAWV (HAL
// 2019), Proposition 2.1, for the labels (y−b)/s over the features of the
// experts. It is clipped to the range of the labels, which loses nothing as
// long as they stay in it.
func TestStackRegret(t *testing.T) {
	l := auto.NewLevel1(options(3, 1))
	rows := series(9, 700)
	low, high := math.Inf(1), math.Inf(-1)
	k := l.Experts()
	a, b, size := matrix(k+2, k+2), make([]float64, k+2), 0.0
	for i := range a {
		a[i][i] = 3
	}
	lost, energy := 0.0, 0.0
	for n, r := range rows {
		advice := predict(t, l, r.x).Advice
		part := advice[1+2:] // Behind the count and two lags.
		residual, experts, mixed, stack := part[0], part[1:][:k], part[1+k], part[2+k]
		if s := l.LabelScale(0); n >= 128 && r.y[0] >= low && r.y[0] <= high {
			u := make([]float64, k+2)
			for i, f := range experts {
				u[i] = (f - mixed) / s
			}
			u[k], u[k+1] = residual/s, 1
			v, root := (r.y[0]-mixed)/s, math.Sqrt(r.weight)
			lost += r.weight * (v - (stack-mixed)/s) * (v - (stack-mixed)/s)
			energy += r.weight * v * v
			size = math.Max(size, math.Abs(root*v))
			for i := range a {
				b[i] += r.weight * v * u[i]
				for j := range a {
					a[i][j] += r.weight * u[i] * u[j]
				}
			}
		} else if n >= 128 {
			continue // What leaves the range is not learned.
		}
		observe(t, l, r)
		low, high = math.Min(low, r.y[0]), math.Max(high, r.y[0])
	}
	determinant := 0.0
	copied := matrix(k+2, k+2)
	for i := range a {
		copy(copied[i], a[i])
	}
	w := solve(copied, b) // Leaves the triangle of the elimination.
	best := energy
	for i, v := range w {
		best -= v * b[i]
		determinant += math.Log(copied[i][i] / 3)
	}
	regret, bound := lost-best, size*size*determinant
	t.Logf("loss %g, best linear combination %g, regret %g, bound %g", lost, best, regret, bound)
	// Weights are part of the forecaster's own prediction, not of this one.
	assert.True(t, regret <= bound && regret >= -1e-9*lost, "regret %g, bound %g", regret, bound)
}

func options(dimension, outputs int) auto.Options {
	return auto.Options{Dimension: dimension, Outputs: outputs, Lags: 2, Frequencies: 5, Microseconds: 500, Seed: 3}
}

func TestConformance(t *testing.T) {
	for name, c := range map[string]struct {
		o     auto.Options
		label func(float64) float64
	}{
		"one output":  {o: options(3, 1)},
		"two outputs": {o: options(2, 2)},
		"joint": {o: auto.Options{
			Dimension: 4, Outputs: 1, Lags: 2, Frequencies: 5, Microseconds: 500, Seed: 3, Joint: []auto.Span{{From: 1, To: 4}},
		}},
		"no lags":  {o: auto.Options{Dimension: 2, Outputs: 1, Frequencies: 4, Microseconds: 500}},
		"cheapest": {o: auto.Options{Dimension: 2, Outputs: 1, Lags: 1, Frequencies: 4, Microseconds: 1e-9}},
		"classes": {o: options(2, 1), label: func(y float64) float64 {
			if math.IsNaN(y) || math.Abs(y) > model.MaxMagnitude {
				return y
			}
			return math.Copysign(1, y)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			modeltest.Conform(t, modeltest.Subject{
				New: func() model.Learner { return auto.NewLevel1(c.o) }, Dimension: c.o.Dimension, Outputs: c.o.Outputs,
				Rejects: func(v float64) bool { return v > model.MaxMagnitude }, Label: c.label, Warm: 200,
			})
		})
	}
}

// Inputs that are predicted together have the predictions of one by one, bit for bit, at every stage,
// with keys, several outputs, many inputs and rows ahead.
func TestPredictAllIsOneByOne(t *testing.T) {
	two, keyed, many := defaults(3), defaults(4), defaults(90)
	two.Outputs = 2
	keyed.Keys = []auto.Key{{Feature: 3}}
	for name, o := range map[string]auto.Options{"two outputs": two, "keys": keyed, "screened": many} {
		t.Run(name, func(t *testing.T) {
			l, rng, rows := auto.New(o), rand.New(rand.NewPCG(3, 4)), 1200
			var out model.Outcome
			for n, s := range modeltest.Samples(5, o.Dimension, rows) {
				if n == 0 || n == 7 || n == 200 || n == rows-1 {
					comparePredictions(t, l, o, rng)
				}
				if len(o.Keys) > 0 {
					s.X[3] = float64(rng.IntN(9))
				}
				require.NoError(t, l.Observe(&out, s.X, []float64{s.Y, -s.Y}[:o.Outputs], s.Weight))
			}
		})
	}
}

func comparePredictions(t *testing.T, l *auto.Learner, o auto.Options, rng *rand.Rand) {
	t.Helper()
	const rows = 19
	together, alone, x := make([]*model.Prediction, rows), make([]*model.Prediction, rows), make([][]float64, rows)
	for n, s := range modeltest.Samples(rng.Uint64(), o.Dimension, rows) {
		if len(o.Keys) > 0 {
			s.X[3] = float64(rng.IntN(12))
		}
		ahead := rng.IntN(3) * rng.IntN(300)
		x[n], together[n], alone[n] = s.X, &model.Prediction{Horizon: ahead}, &model.Prediction{Horizon: ahead}
		require.NoError(t, l.Predict(alone[n], s.X))
	}
	require.NoError(t, l.PredictAll(together, x))
	for n := range x {
		require.Equal(t, alone[n], together[n], n)
	}
	x[rows-1] = x[rows-1][:1]
	assert.Error(t, l.PredictAll(together, x), "a row of one number was predicted")
}
