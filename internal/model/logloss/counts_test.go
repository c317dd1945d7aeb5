package logloss_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"hindsight/internal/model/codec"
	"hindsight/internal/model/logloss"
)

// countRows are rows of counts whose classes have words of their own. Number 3 is a measure from
// row 100 on.
func countRows(seed uint64, numbers, classes, n int) []row {
	rng := rand.New(rand.NewPCG(seed, 8))
	rows, seen := make([]row, n), 0
	for t := range rows {
		r := row{x: make([]float64, numbers), weight: 0.5 + rng.Float64()}
		if r.class = min(rng.IntN(classes), seen); r.class == seen {
			seen++
		}
		for range 6 {
			r.x[rng.IntN(numbers)]++
			r.x[(7*r.class+rng.IntN(7))%numbers]++
		}
		if t >= 100 {
			r.x[3] += rng.NormFloat64()
		}
		for range classes {
			r.calibrated = append(r.calibrated, 1/float64(classes))
		}
		rows[t] = r
	}
	return rows
}

// naiveCounts are multinomial naive Bayes and sparse logistic regression with dense sums, from
// all rows so far.
type naiveCounts struct {
	rows                []row
	measured            map[int]bool
	weights, curvatures [][]float64
}

func (n *naiveCounts) multinomial(x, shares []float64) []float64 {
	logs := make([]float64, len(shares))
	for k := range logs {
		sums, total := make([]float64, len(x)), 0.0
		for _, r := range n.rows {
			for j, v := range r.x {
				if r.class == k && !n.measured[j] {
					sums[j] += r.weight * v
					total += r.weight * v
				}
			}
		}
		logs[k] = math.Log(shares[k])
		for j, v := range x {
			if !n.measured[j] && v == math.Trunc(v) && v >= 0 {
				logs[k] += v * math.Log((sums[j]+1)/(total+float64(len(x))))
			}
		}
	}
	return softmax(logs)
}

// features are counts over their norm, and 1. Where a number is measured z is not known here, so
// that the rows of the test of sparse have counts alone.
func features(x []float64) []float64 {
	square := 0.0
	for _, v := range x {
		square += v * v
	}
	out := make([]float64, len(x)+1)
	for j, v := range x {
		out[j] = v / math.Sqrt(square)
	}
	out[len(x)] = 1
	return out
}

func (n *naiveCounts) sparse(v []float64, classes int) []float64 {
	odds := make([]float64, classes)
	for k := range min(classes, len(n.weights)) {
		for j, f := range v {
			odds[k] += n.weights[k][j] * f
		}
	}
	return softmax(odds)
}

func (n *naiveCounts) learnSparse(r row, classes int) {
	v := features(r.x)
	for len(n.weights) < classes {
		n.weights, n.curvatures = append(n.weights, make([]float64, len(v))), append(n.curvatures, make([]float64, len(v)))
	}
	for k, p := range n.sparse(v, classes) {
		spread := 0.0
		for j, f := range v {
			spread += f * f / (0.25 + n.curvatures[k][j])
		}
		y := 0.0
		if k == r.class {
			y = 1
		}
		h := r.weight * math.Max(0.1, p*(1-p))
		for j, f := range v {
			n.weights[k][j] += f / (0.25 + n.curvatures[k][j]) * r.weight * (y - p) / (1 + h*spread)
			n.curvatures[k][j] += h * f * f
		}
	}
}

func lossOf(t *testing.T, l *logloss.Level, name string) float64 {
	t.Helper()
	for _, e := range l.Report().Experts {
		if e.Name == name {
			return e.Loss
		}
	}
	t.Fatalf("no expert %q in %+v", name, l.Report().Experts)
	return 0
}

func TestMultinomialIsTheNaiveOne(t *testing.T) {
	const numbers, classes = 70, 3
	l, n, want := start(logloss.Options{Dimension: numbers, MaxClasses: classes}), naiveCounts{measured: map[int]bool{}}, 0.0
	for _, r := range countRows(1, numbers, classes, 200) {
		if l.mix(r) != nil && r.class < len(l.counts) {
			shares := make([]float64, len(l.counts))
			for k, c := range l.counts {
				shares[k] = c / l.total
			}
			want -= math.Min(1, r.weight) * math.Log(n.multinomial(r.x, shares)[r.class])
		}
		l.learn(r, nil)
		n.rows = append(n.rows, r)
		for j, v := range r.x {
			if v < 0 || v != math.Trunc(v) {
				n.measured[j] = true
			}
		}
	}
	if got := lossOf(t, l.level, "multinomial"); math.Abs(got-want) > 1e-4*want { // Probabilities below 1e-7 are raised.
		t.Errorf("a loss of %g, want %g", got, want)
	}
}

func TestSparseIsTheNaiveOne(t *testing.T) {
	const numbers, classes = 70, 3
	l, n, want := start(logloss.Options{Dimension: numbers, MaxClasses: classes}), naiveCounts{}, 0.0
	for _, r := range countRows(2, numbers, classes, 99) {
		known := len(l.counts)
		if l.mix(r) != nil && r.class < known {
			want -= math.Min(1, r.weight) * math.Log(n.sparse(features(r.x), known)[r.class])
		}
		l.learn(r, nil)
		n.learnSparse(r, len(l.counts))
	}
	assert.InDelta(t, want, lossOf(t, l.level, "sparse"), 1e-6*want)
}

// continues checks that a learner that is restored after every ninth row learns on as one that is not. It returns
// the latter.
func continues(t *testing.T, o logloss.Options, rows []row) (plain *run) {
	t.Helper()
	whole, plain := start(o), start(o)
	for n, r := range rows {
		if n%9 == 2 {
			restored := start(o)
			restored.counts, restored.total = whole.counts, whole.total
			read := func(v *codec.Visitor) { restored.level.Visit(v, len(whole.counts)) }
			require.NoError(t, codec.Read(whole.state(t), read), n)
			whole = restored
		}
		for _, l := range []*run{whole, plain} {
			l.mix(r)
			l.learn(r, nil)
		}
	}
	assert.Equal(t, plain.state(t), whole.state(t), "another state")
	return plain
}

func TestStatesOfCountsContinue(t *testing.T) {
	o := logloss.Options{Dimension: 70, MaxClasses: 4}
	plain := continues(t, o, countRows(3, 70, 4, 150))
	got, most := plain.level.Bytes(4), o.Bytes()
	assert.True(t, got <= most, "%d bytes, of at most %d", got, most)
}

// Numbers of large sums leave, and the others have sums far below the rounding errors of the totals.
func TestStatesContinueAfterCountsLeave(t *testing.T) {
	const numbers, classes = 70, 3
	rng, rows := rand.New(rand.NewPCG(6, 8)), countRows(6, numbers, classes, 600)
	for i := range rows {
		rows[i].weight = 1000 * rng.Float64()
		for j := range numbers - 1 {
			if rows[i].x[j] = float64(rng.IntN(1000)); i == 580 {
				rows[i].x[j] += 0.5
			}
		}
		rows[i].x[numbers-1] = 0
	}
	continues(t, logloss.Options{Dimension: numbers, MaxClasses: classes}, rows)
}

func TestCountsAllocateNothing(t *testing.T) {
	l, rows := start(logloss.Options{Dimension: 70, MaxClasses: 2}), countRows(4, 70, 2, 300)
	for _, r := range rows {
		l.mix(r)
		l.learn(r, nil)
	}
	at := 0
	if n := testing.AllocsPerRun(200, func() {
		r := rows[at%300]
		at++
		l.mix(r)
		l.learn(r, nil)
	}); n > 0 {
		t.Errorf("%g allocations", n)
	}
}

// Of many words and few rows the level makes no more mistakes than naive Bayes.
func TestCountsAreLearnedAsByNaiveBayes(t *testing.T) {
	const numbers, classes, total = 200, 5, 100
	l, n := start(logloss.Options{Dimension: numbers, MaxClasses: classes}), naiveCounts{measured: map[int]bool{}}
	mistakes, naive := 0, 0
	for i, r := range countRows(5, numbers, classes, 100) {
		r.weight = 1
		if p := l.mix(r); p != nil && i >= 20 {
			shares := make([]float64, len(l.counts))
			for k, c := range l.counts {
				shares[k] = c / l.total
			}
			if best(p) != r.class {
				mistakes++
			}
			if best(n.multinomial(r.x, shares)) != r.class {
				naive++
			}
		}
		l.learn(r, nil)
		n.rows = append(n.rows, r)
	}
	assert.LessOrEqual(t, mistakes, naive+2, "%d mistakes in %d rows, naive Bayes %d", mistakes, total, naive)
}

func best(p []float64) (class int) {
	for k, v := range p {
		if v > p[class] {
			class = k
		}
	}
	return class
}
