package auto_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"hindsight/internal/model"
	"hindsight/internal/model/auto"
	"hindsight/internal/model/moments"
)

// ridgeOf is the weighted ridge regression on all rows but one, −1 for none, of the first m
// features, at a row of features: dense normal equations.
func ridgeOf(rows [][]float64, labels, weights []float64, without, m int, lambda float64, at []float64) float64 {
	a, b := matrix(m, m), make([]float64, m)
	for i := range a {
		a[i][i] = lambda
	}
	for n, z := range rows {
		for i := 0; i < m && n != without; i++ {
			b[i] += weights[n] * labels[n] * z[i]
			for j := range a[i] {
				a[i][j] += weights[n] * z[i] * z[j]
			}
		}
	}
	said := 0.0
	for i, c := range solve(a, b) {
		said += c * at[i]
	}
	return said
}

// leftOut is the leave-one-out loss by as many fits as rows.
func leftOut(rows [][]float64, labels, weights []float64, m int, lambda float64) (loss float64) {
	for i, z := range rows {
		miss := labels[i] - ridgeOf(rows, labels, weights, i, m, lambda, z)
		loss += weights[i] * miss * miss
	}
	return loss
}

// The leave-one-out loss by leverages is that by a fit for each row.
func TestLeaveOneOut(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 6))
	for range 200 {
		n, order := 2+rng.IntN(20), 2+rng.IntN(12) // Also more features than rows.
		leading := 1 + rng.IntN(order)
		rows, labels, weights := matrix(n, order), make([]float64, n), make([]float64, n)
		for i := range rows {
			for j := range rows[i] {
				rows[i][j] = rng.NormFloat64()
			}
			if order > 3 {
				rows[i][2] = rows[i][1] // Collinear.
			}
			rows[i][0], labels[i], weights[i] = 100, 2+rng.NormFloat64(), math.Exp(rng.NormFloat64())
		}
		lambda := math.Exp(3 * rng.NormFloat64())
		all, lead, err := auto.LeaveOneOut(rows, labels, weights, leading, lambda)
		require.NoError(t, err)
		for m, got := range map[int]float64{order: all, leading: lead} {
			want := leftOut(rows, labels, weights, m, lambda)
			assert.InDelta(t, want, got, 1e-6*want, "%d rows, %d features, lambda %g: %g, want %g", n, m, lambda, got, want)
		}
	}
}

// naiveOpening is the opening as docs/theory.md tells it: λ by as many fits as rows, and a
// regression that is solved anew for every prediction.
type naiveOpening struct {
	naive
	units           [][2]float64
	lambda          float64
	features        [][]float64
	labels, weights [][]float64 // Labels by outputs.
	total           float64
	mixes           []*naivePoly
	scaled          naiveScale
}

// naiveScale is a ridge regression of (y − offset)/scale or, if logs, of (log(1 + y/mean) − offset)/scale. Of inputs
// whose logarithms are learned, inputs has s, the mean and the deviation.
type naiveScale struct {
	lambda, mean, ratio, offset, scale float64
	logs                               bool
	inputs                             map[int][3]float64
}

func (s *naiveScale) learned(labels []float64) (scaled []float64) {
	for _, y := range labels {
		if s.logs {
			y = math.Log1p(y / s.mean)
		}
		scaled = append(scaled, (y-s.offset)/s.scale)
	}
	return scaled
}

func (s *naiveScale) said(v float64) float64 {
	if v = s.offset + s.scale*v; s.logs {
		v = s.mean * (s.ratio*math.Exp(v) - 1)
	}
	return v
}

// choose is the scale and the λ of the least leave-one-out loss of the labels.
func (n *naiveOpening) choose(labels []float64) (best naiveScale) {
	d, weights, low, high, least := n.o.Dimension, n.weights[0], slices.Min(labels), slices.Max(labels), math.Inf(1)
	for _, logs := range []bool{false, true} {
		s := naiveScale{logs: logs, mean: n.units[d][0] / 100, ratio: 1, offset: n.units[d][0], scale: n.units[d][1], inputs: map[int][3]float64{}}
		if logs {
			s.offset, s.scale = 0, 1
			s.offset, s.scale = weighted(s.learned(labels), weights)
			for j, unit := range n.units[:d] {
				var plain, logs []float64
				size := math.Hypot(unit[0], unit[1])
				logarithm := func(v float64) float64 { return math.Copysign(math.Log1p(100*math.Abs(v)/size), v) }
				for _, r := range n.rows {
					plain, logs = append(plain, r.x[j]), append(logs, logarithm(r.x[j]))
				}
				if correlation(logs, s.learned(labels), weights) > correlation(plain, s.learned(labels), weights)+1e-9 {
					mean, deviation := weighted(logs, weights)
					s.inputs[j] = [3]float64{size, mean, deviation}
				}
			}
		}
		features := n.scaledFeatures(&s)
		for _, s.lambda = range []float64{0.1, 1, 3, 10, 30, 100, 300, 1000, 10000} {
			var p []float64
			product, square, loss := 0.0, 0.0, 0.0
			for i, z := range features {
				s.ratio = 1
				v := math.Max(low, math.Min(high, s.said(ridgeOf(features, s.learned(labels), weights, i, len(z), s.lambda, z))))
				p = append(p, v)
				product, square = product+weights[i]*(v+s.mean)*(labels[i]+s.mean), square+weights[i]*(v+s.mean)*(v+s.mean)
			}
			for i, v := range p {
				if logs {
					s.ratio = product / square
					v = math.Max(low, math.Min(high, s.ratio*(v+s.mean)-s.mean))
				}
				loss += weights[i] * (v - labels[i]) * (v - labels[i])
			}
			if loss < least {
				least, best = loss, s
			}
		}
	}
	return best
}

// weighted are the mean and the deviation.
func weighted(values, weights []float64) (mean, deviation float64) {
	total := 0.0
	for i, v := range values {
		mean, total = mean+weights[i]*v, total+weights[i]
	}
	mean /= total
	for i, v := range values {
		deviation += weights[i] * (v - mean) * (v - mean)
	}
	return mean, math.Sqrt(deviation / total)
}

func correlation(a, b, weights []float64) float64 {
	meanA, deviationA := weighted(a, weights)
	meanB, deviationB := weighted(b, weights)
	sum, total := 0.0, 0.0
	for i, w := range weights {
		sum, total = sum+w*(a[i]-meanA)*(b[i]-meanB), total+w
	}
	return math.Abs(sum / total / deviationA / deviationB)
}

// scale are the features of the scaled regression.
func (n *naiveOpening) scale(s *naiveScale, x []float64, lags [][]float64) []float64 {
	z := n.fill(x, lags)
	for j, u := range s.inputs {
		z[1+j] = (math.Copysign(math.Log1p(100*math.Abs(x[j])/u[0]), x[j]) - u[1]) / u[2]
	}
	for i := range lags {
		if s.logs {
			z[1+len(x)+i] = s.learned(lags[i])[0]
		}
	}
	return z
}

func (n *naiveOpening) scaledFeatures(s *naiveScale) (features [][]float64) {
	for _, r := range n.rows {
		features = append(features, n.scale(s, r.x, r.lags))
	}
	return features
}

func (n *naiveOpening) firstLabels() (labels []float64) {
	for _, r := range n.rows {
		labels = append(labels, r.y[0])
	}
	return labels
}

func newNaiveOpening(o auto.Options) *naiveOpening {
	n := &naiveOpening{naive: naive{o: o, inputs: moments.NewTable(o.Dimension), labels: moments.NewTable(o.Outputs)}, labels: make([][]float64, o.Outputs), weights: make([][]float64, 1)}
	for range o.Outputs {
		n.mixes = append(n.mixes, &naivePoly{regrets: make([]float64, n.experts()), squares: make([]float64, n.experts())})
	}
	return n
}

func (n *naiveOpening) unit(at int, v float64) float64 {
	return (v - n.units[at][0]) / n.units[at][1]
}

func (n *naiveOpening) fill(x []float64, lags [][]float64) []float64 {
	z := []float64{100}
	for j, v := range x {
		z = append(z, n.unit(j, v))
	}
	for i := range n.o.Lags {
		for j := range n.o.Outputs {
			if i < len(lags) {
				z = append(z, n.unit(len(x)+j, lags[i][j]))
			} else {
				z = append(z, 0)
			}
		}
	}
	return z
}

// experts are the levels and the ridges. The scaled one is of one output alone.
func (n *naiveOpening) experts() int { return 3 + 1/n.o.Outputs }

// predict are the ridges of an output, with lags, without, and the scaled one.
func (n *naiveOpening) predict(x []float64, lags [][]float64, output int) (ridges []float64) {
	z := n.fill(x, lags)
	for _, m := range []int{len(z), 1 + len(x)} {
		at := n.units[len(x)+output]
		ridges = append(ridges, at[0]+at[1]*ridgeOf(n.features, n.labels[output], n.weights[0], -1, m, n.lambda, z))
	}
	if n.o.Outputs == 1 {
		ridges = append(ridges, n.scaled.said(ridgeOf(n.scaledFeatures(&n.scaled), n.scaled.learned(n.firstLabels()), n.weights[0], -1, len(z), n.scaled.lambda, n.scale(&n.scaled, x, lags))))
	}
	return ridges
}

func (n *naiveOpening) learn(x, y []float64, lags [][]float64, weight float64) {
	n.total += weight
	count := float64(len(n.rows) + 1)
	n.rows = append(n.rows, naiveRow{x: x, y: y, lags: lags, weight: weight, counts: math.Min(1, weight*count/n.total)})
	if len(n.rows) < 4 {
		return
	}
	if !slices.Contains([]int{4, 5, 6, 7, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256}, len(n.rows)) {
		n.add(n.rows[len(n.rows)-1], weight*count/n.total)
		return
	}
	n.units, n.features, n.weights[0] = n.columnMoments(), nil, nil
	clear(n.labels)
	for _, r := range n.rows {
		n.add(r, r.weight*count/n.total)
	}
	least := math.Inf(1)
	for _, lambda := range []float64{0.1, 1, 3, 10, 30, 100, 300, 1000, 10000} {
		all, leading := 0.0, 0.0
		for j := range y {
			all += leftOut(n.features, n.labels[j], n.weights[0], len(n.features[0]), lambda)
			leading += leftOut(n.features, n.labels[j], n.weights[0], 1+len(x), lambda)
		}
		if loss := math.Min(all, leading); loss < least {
			least, n.lambda = loss, lambda
		}
	}
	if len(y) == 1 {
		n.scaled = n.choose(n.firstLabels())
	}
}

func (n *naiveOpening) add(r naiveRow, weight float64) {
	n.features, n.weights[0] = append(n.features, n.fill(r.x, r.lags)), append(n.weights[0], weight)
	for j, y := range r.y {
		n.labels[j] = append(n.labels[j], n.unit(n.o.Dimension+j, y))
	}
}

// The opening is what the naive one computes, with late labels, weights and two outputs.
func TestOpeningIsTheNaiveOpening(t *testing.T) {
	for name, c := range map[string]struct {
		outputs, late, rows int
		weighted            bool
	}{
		"plain":       {1, 0, 70, false},
		"two outputs": {2, 0, 40, true},
		"late":        {1, 5, 50, true},
	} {
		t.Run(name, func(t *testing.T) {
			o := auto.Options{Dimension: 3, Outputs: c.outputs, Lags: 2, Frequencies: 5, Microseconds: 500}
			l, n, rng := auto.New(o), newNaiveOpening(o), rand.New(rand.NewPCG(6, uint64(c.rows)))
			type said struct {
				x, y, advice, answers []float64
				lags, experts         [][]float64
				weight                float64
				seen                  int
			}
			var all []*said
			var p model.Prediction
			var out model.Outcome
			low, high := slices.Repeat([]float64{math.Inf(1)}, c.outputs), slices.Repeat([]float64{math.Inf(-1)}, c.outputs)
			last := 0.0
			for row := range c.rows {
				s := &said{x: []float64{10 + rng.NormFloat64(), rng.Float64(), float64(rng.IntN(2))}, weight: 1, lags: n.lags(), seen: len(n.rows)}
				last = 0.5*last + s.x[0] - 2*s.x[1] + 0.3*rng.NormFloat64()
				for j := range c.outputs {
					s.y = append(s.y, last+float64(j)*s.x[2])
				}
				if c.late > 0 {
					s.y[0] = math.Exp(last / 3)
				}
				if c.weighted {
					s.weight = 0.2 + rng.Float64()
				}
				require.NoError(t, l.Predict(&p, s.x))
				s.advice = slices.Clone(p.Advice)
				for j := range c.outputs {
					experts, answer, ok := l.Opened(p.Advice, j)
					require.True(t, ok && answer == p.Values[j], "row %d: the opening says %g, the prediction is %g, %t", row, answer, p.Values[j], ok)
					s.experts, s.answers = append(s.experts, experts), append(s.answers, answer)
					if s.seen < 4 {
						continue
					}
					for i, want := range n.predict(s.x, s.lags, j) {
						want = math.Max(low[j], math.Min(high[j], want))
						require.False(t, math.Abs(experts[1+i]-want) > 1e-6*(high[j]-low[j]), "row %d: ridge %d says %.12g, want %.12g", row, i, experts[1+i], want)
					}
					want := n.mixes[j].mix(experts, n.experts())
					require.False(t, math.Abs(answer-want) > 1e-9*(high[j]-low[j]), "row %d: the opening says %.12g, want %.12g", row, answer, want)
				}
				if all = append(all, s); row < c.late {
					continue
				}
				s = all[row-c.late]
				require.NoError(t, l.ObserveAdvised(&out, s.x, s.y, s.weight, s.advice))
				for j, y := range s.y {
					awake := n.experts()
					if s.seen < 4 {
						awake = min(s.seen, 1)
					}
					n.mixes[j].learn(2*s.weight*(s.answers[j]-y), s.answers[j], s.experts[j], awake)
					low[j], high[j] = math.Min(low[j], y), math.Max(high[j], y)
				}
				n.learn(s.x, s.y, s.lags, s.weight)
			}
		})
	}
}

// After the opening the learner has the bits of one without an opening. Its regret counts the
// opening, within the certificate, and the memory of the opening is free.
func TestOpeningEnds(t *testing.T) {
	o := options(3, 1)
	l, levels := auto.New(o), auto.NewLevels(o)
	loss, levelsLoss, names := 0.0, 0.0, len(l.WeightNames())
	for n, s := range wave(400, 3) {
		p, q := predict(t, l, s.x), predict(t, levels, s.x)
		require.True(t, slices.Contains(auto.AdviceSizes(o), len(p.Advice)), "row %d: advice of %d numbers", n, len(p.Advice))
		require.True(t, n < 300 || (p.Values[0] == q.Values[0] && slices.Equal(p.Advice, q.Advice)), "row %d: the prediction is %g, without an opening %g", n, p.Values[0], q.Values[0])
		before := l.Size()
		out, of := observe(t, l, s), observe(t, levels, s)
		loss, levelsLoss = loss+out.Loss, levelsLoss+of.Loss
		stats := l.Stats()
		if !stats.CertificateOK || math.Abs(stats.Loss-loss) > 1e-9*loss || math.Abs(stats.Regret-out.Regret) > 1e-9*loss {
			t.Fatalf("row %d: %+v, a loss of %g and a regret of %g", n, stats, loss, out.Regret)
		}
		require.False(t, stats.Regret > stats.Certificate+1e-9 || stats.Certificate > stats.RegretBound+1e-9, "row %d: a regret of %g, %g, %g", n, stats.Regret, stats.Certificate, stats.RegretBound)
		if n == 299 && l.Size() >= before {
			t.Errorf("the opening keeps its memory: %d bytes, %d before", l.Size(), before)
		}
		cost := auto.Cost(o)
		require.LessOrEqual(t, l.Size(), cost.StateBytes, n)
		sum := 0.0
		for _, w := range l.AppendWeights(nil) {
			sum += w
		}
		weights := l.AppendWeights(nil)
		require.True(t, len(weights) == names && (n <= 0 || math.Abs(sum-1) <= 1e-9), "row %d: weights %v of %d names", n, weights, names)
	}
	assert.True(t, loss < levelsLoss, "a loss of %g, without an opening %g", loss, levelsLoss)
}

// Between refits the opening allocates nothing.
func TestOpeningAllocatesNothing(t *testing.T) {
	l, rows := auto.New(options(3, 1)), wave(260, 3)
	for _, s := range rows[:195] {
		observe(t, l, s)
	}
	var p model.Prediction
	var out model.Outcome
	next := 195
	if n := testing.AllocsPerRun(50, func() {
		s := rows[next]
		_, _ = l.Predict(&p, s.x), l.ObserveAdvised(&out, s.x, s.y, s.weight, p.Advice)
		next++
	}); n > 3 { // Of the kept row.
		t.Errorf("%g allocations", n)
	}
}

// A refit costs at most twice the nominal time of an Observe.
func TestRefitsAreWithinTheBudget(t *testing.T) {
	for _, d := range []int{1, 3, 10, 40, 99, 150, 190} {
		for _, k := range []int{1, 2, 10, 64} {
			for _, microseconds := range []float64{20, 500, 5000} {
				o := auto.Options{Dimension: d, Outputs: k, Lags: 2, Frequencies: 50, Microseconds: microseconds}
				for _, n := range []int{4, 8, 12, 32, 64, 128, 192, 256} {
					flops, budget, tried, checked := auto.RefitFlops(o, n, 5)
					assert.False(t, flops > 1.01*budget || tried > 9 || checked > n, "%d inputs, %d outputs, %d rows: %g of %g, %d of lambda, %d rows left out", d, k, n, flops, budget, tried, checked)
				}
			}
		}
	}
	assert.Equal(t, 3, auto.Ridges(auto.Options{Dimension: 10, Outputs: 1, Lags: 2, Microseconds: 500}))
}

// A sentinel in one input of 2 % of the first rows costs next to nothing: the ridges cut it as the
// other experts do.
func TestOpeningCutsSentinels(t *testing.T) {
	o := auto.Options{Dimension: 4, Outputs: 1, Lags: 1, Frequencies: 8, Microseconds: 500}
	clean, dirty := auto.New(o), auto.New(o)
	rng := rand.New(rand.NewPCG(9, 36))
	var loss, lossOfDirty float64
	for n := range 300 {
		x := []float64{rng.NormFloat64(), rng.NormFloat64(), rng.NormFloat64(), rng.NormFloat64()}
		r := observation{x: x, y: []float64{3*x[0] + 2*x[1] - x[2] + 0.3*rng.NormFloat64()}, weight: 1}
		loss += observe(t, clean, r).Loss
		if r.x = slices.Clone(x); n%50 == 49 {
			r.x[3] = -9999
		}
		lossOfDirty += observe(t, dirty, r).Loss
	}
	t.Logf("loss with sentinels over the loss without: %.3f", lossOfDirty/loss)
	assert.LessOrEqual(t, lossOfDirty, 1.05*loss, "loss %g with sentinels, %g without", lossOfDirty, loss)
}

// After each row of a stream come light rows with labels that say nothing. Both levels predict the stream nearly as
// well as without them: means, ranges, scales, trees, neighbors and crosses count a row by its weight.
func TestLightRowsCountNextToNothing(t *testing.T) {
	o := auto.Options{
		// Two numbers, two flags and a category of three.
		Dimension: 7, Outputs: 1, Joint: []auto.Span{{From: 4, To: 7}}, Flags: []int{2, 3}, Frequencies: 8, Microseconds: 500,
	}
	var rng *rand.Rand
	row := func() []float64 {
		x := []float64{rng.NormFloat64(), rng.NormFloat64(), float64(rng.IntN(2)), float64(rng.IntN(2)), 0, 0, 0}
		x[4+rng.IntN(3)] = 1
		return x
	}
	type learner interface {
		Predict(p *model.Prediction, x []float64) error
		Observe(o *model.Outcome, x, y []float64, weight float64) error
	}
	for name, fresh := range map[string]func() learner{
		"level 1": func() learner { return auto.NewLevel1(o) },
		"level 2": func() learner { return auto.New(o) },
	} {
		t.Run(name, func(t *testing.T) {
			rng = rand.New(rand.NewPCG(4, 1))
			var loss, lossBeside float64
			var out model.Outcome
			var alone, beside learner
			for n := range 4 * 1500 { // Of one draw the ratio is .87 to 1.27.
				if n %= 1500; n == 0 {
					alone, beside = fresh(), fresh()
				}
				x := row()
				y := 3*x[0] + 2*x[2] - 4*x[2]*x[3] + 2*x[5] + rng.NormFloat64()/2
				if x[1] > 0.3 {
					y += 5
				}
				for l, sum := range map[learner]*float64{alone: &loss, beside: &lossBeside} {
					require.NoError(t, l.Observe(&out, x, []float64{y}, 1))
					if n >= 500 {
						*sum += out.Loss
					}
				}
				for range 2 {
					require.NoError(t, beside.Observe(&out, row(), []float64{1e4 * rng.NormFloat64()}, model.MinWeight))
				}
			}
			t.Logf("loss beside light rows over the loss without: %.3f", lossBeside/loss)
			assert.LessOrEqual(t, lossBeside, 1.25*loss, "loss %g beside light rows, %g without", lossBeside, loss)
		})
	}
}

// A column that differs from a constant by rounding alone is no input: both levels lose what they lose with the constant.
func TestRoundingIsNoInput(t *testing.T) {
	o := auto.Options{Dimension: 3, Outputs: 1, Frequencies: 8, Microseconds: 500}
	rng := rand.New(rand.NewPCG(5, 1))
	for name, pair := range map[string][2]model.Learner{
		"level 1": {auto.NewLevel1(o), auto.NewLevel1(o)},
		"level 2": {auto.New(o), auto.New(o)},
	} {
		t.Run(name, func(t *testing.T) {
			var sums [2]float64
			var out model.Outcome
			for range 600 {
				a, b := rng.NormFloat64(), 1e6
				y := []float64{2*a + rng.NormFloat64()/4}
				for k, l := range pair {
					if k == 1 && rng.IntN(2) == 0 {
						b = math.Nextafter(b, 2*b)
					}
					require.NoError(t, l.Observe(&out, []float64{a, b, -b / 3}, y, 1))
					sums[k] += out.Loss
				}
			}
			t.Logf("loss beside rounding over the loss beside constants: %.4f", sums[1]/sums[0])
			assert.LessOrEqual(t, sums[1], 1.01*sums[0], "loss %g beside rounding, %g beside constants", sums[1], sums[0])
		})
	}
}

// What no row had costs nothing of what the other inputs say: a missing category, an unknown one, and a missing number,
// which is the mean beside an indicator.
func TestNoRowHadIt(t *testing.T) {
	o, rng := defaults(8), rand.New(rand.NewPCG(5, 2))
	o.Joint = []auto.Span{{From: 3, To: 8}} // Three categories, unknown, missing.
	l := auto.New(o)
	var out model.Outcome
	for n := range 500 {
		x := []float64{30 * rng.Float64(), 50 * rng.Float64(), 0, 0, 0, 0, indicator(n < 3), 0}
		if n >= 3 {
			x[3+rng.IntN(3)] = 1
		}
		require.NoError(t, l.Observe(&out, x, []float64{2*x[0] + x[1] + rng.NormFloat64()/3}, 1))
	}
	for at := 3; at < 8; at++ {
		for _, missing := range []float64{0, 1} {
			x, p := []float64{5, 40, missing, 0, 0, 0, 0, 0}, new(model.Prediction)
			x[at] = 1
			require.NoError(t, l.Predict(p, x))
			assert.InDelta(t, 50, p.Values[0], 2, "indicator %d, missing %g", at, missing)
		}
	}
}

// The unit of the stacks stays within a factor of 32 of the deviation, changes by powers of two,
// and no more than it must.
func TestStacksFollowTheUnitOfLabels(t *testing.T) {
	for _, c := range [][3]float64{
		{1, 1, 1}, {1, 32, 1}, {1, 33, 2}, {1, 1e6, 32768}, {3, 1.0 / 32, 0.75}, {3, 3.0 / 32, 3}, {1, 1e-6, 1.0 / 32768},
	} {
		assert.Equal(t, c[2], auto.FollowedUnit(c[0], c[1]), "unit %g, deviation %g", c[0], c[1])
	}
}
