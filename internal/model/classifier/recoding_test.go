package classifier_test

import (
	"bytes"
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"hindsight/internal/model"
	"hindsight/internal/model/awv"
	"hindsight/internal/model/classifier"
	"hindsight/internal/model/feature"
	"hindsight/internal/model/modeltest"
)

// choosing is rlsc that chooses its recoding.
func choosing(o rlsc) *classifier.Learner {
	options := o.options(o.forecaster(feature.NewAffine(dimension)))
	options.Recoding, options.ChooseRecoding = 0, true
	return classifier.New(options)
}

// The chosen recoding is the largest of 0, 0.1, … 1 that would have decided as many observations
// of frequent classes right as 0: all of them decided anew in each round, by dense forecasters.
// Camoriano, thesis, §7.6.3.
func TestTheRecodingOfRLSC_Thesis763(t *testing.T) {
	for _, forgetting := range []float64{1, 0.97} {
		o := options()
		o.Forgetting = forgetting
		l, n := choosing(o), newNaive(o)
		type decided struct {
			scores, counts []float64
			class          int
			weight         float64
		}
		var past []decided
		right := func(a float64) (sum float64) {
			for age, d := range past {
				total := 0.0
				for _, c := range d.counts {
					total += c
				}
				best, largest := 0, math.Inf(-1)
				for k, c := range d.counts {
					if v := d.scores[k] * math.Pow(total/c, a); v > largest {
						best, largest = k, v
					}
				}
				if d.class >= 0 && best == d.class && d.counts[d.class]*2*float64(len(d.counts)) >= total {
					sum += d.weight * math.Pow(forgetting, float64(len(past)-age))
				}
			}
			return sum
		}
		var chosen [11]int
		for round, s := range samples(21, 150) {
			s.Weight = 1 + float64(round%2)/2
			scores := make([]float64, len(n.names))
			for k := range scores {
				scores[k] = n.oracles[k].Predict(s.X, 1).Prediction
			}
			d := decided{scores, append([]float64(nil), n.counts...), number(n.names, s.Class), s.Weight}
			learn(t, l, []sample{s})
			n.observe(s)
			if len(scores) < 2 || d.class == len(scores) {
				d = decided{class: -1} // No decision between known classes.
			}
			past = append(past, d)
			want := 0
			for i, least := 10, right(0); i > 0 && want == 0; i-- {
				if right(float64(i)/10) >= least-1e-9 {
					want = i
				}
			}
			chosen[want]++
			got := *l.Report(model.ReportOptions{}).Recoding
			require.True(t, got == float64(want)/10, "forgetting %g, round %d: %g, want %d/10", forgetting, round, got, want)
			n.o.Recoding = float64(want) / 10
			var now []float64
			for k := range n.names {
				now = append(now, n.oracles[k].Predict(s.X, 1).Prediction)
			}
			p := predict(t, l, s.X)
			best, coded := n.class(now)
			require.True(t, p.Class == best || math.Abs(coded[p.Class]-coded[best]) <= 1e-9, "round %d: class %d of %v", round, p.Class, coded)
		}
		assert.True(t, chosen[0] != 150 && chosen[10] != 150, "chosen %v", chosen)
		fresh, state := choosing(o), encoded(t, l)
		err := fresh.Restore(state)
		assert.True(t, err == nil && bytes.Equal(encoded(t, fresh), state), "restored: %v", err)
	}
}

// With one class in ten the chosen recoding makes no more than 1.05 times the mistakes of none
// (a recoding of 0.5 three times as many), and misses less of the rare class.
func TestTheChosenRecodingOnARealStream(t *testing.T) {
	stream := modeltest.Stream(t, "ijcnn1.csv.gz", 8000)
	errors := func(recoding *float64) int {
		y := run(t, create(t, model.Spec{
			Dimension: len(stream[0].X), RLSC: &model.RLSC{Kernel: &model.Kernel{}, Recoding: recoding},
		}), stream)
		t.Log(y)
		return y.errors
	}
	none, half, chosen := errors(ptr(0.0)), errors(ptr(0.5)), errors(nil)
	assert.True(t, 100*chosen <= 105*none && half >= 2*chosen, "errors %d, without recoding %d, with 0.5 %d", chosen, none, half)
}

// Scores of several ridges are, for each class, the mixture by ML-Poly of dense forecasters that
// learn its indicator from the start. The certificate bounds the regret against the best ridge.
func TestRidgesOfRLSCAreDenseForecastersMixed(t *testing.T) {
	lambdas := []float64{0.05, 1, 30}
	o := options()
	l := classifier.New(o.options(func(outputs int) model.Learner {
		return awv.NewRidges(feature.NewAffine(dimension), awv.Options{Outputs: outputs, Indicators: true}, lambdas)
	}))
	ridges := make([]*naive, len(lambdas))
	for i, lambda := range lambdas {
		own := o
		own.Lambda = lambda
		ridges[i] = newNaive(own)
	}
	type poly struct {
		regret, square [3]float64
		largest        float64
	}
	mixes, total := make([]poly, o.MaxClasses), 0.0
	weightsOf := func(p *poly) (w [3]float64) {
		sum := 0.0
		for i, r := range p.regret {
			if r > 0 {
				w[i] = r / (p.largest + p.square[i])
			}
			sum += w[i]
		}
		for i := range w {
			if w[i] /= sum; sum == 0 {
				w[i] = 1.0 / 3
			}
		}
		return w
	}
	var out model.ClassOutcome
	for round, s := range samples(23, 150) {
		s.Weight = 1
		class := number(ridges[0].names, s.Class)
		var scores [3][]float64
		for i, n := range ridges {
			scores[i], _ = n.observe(s)
		}
		require.NoError(t, l.ObserveClass(&out, s.X, s.Class, 1, nil))
		for k := range mixes {
			p, mixed, y := &mixes[k], 0.0, 0.0
			for i, w := range weightsOf(p) {
				mixed += w * scores[i][k]
			}
			if k == class {
				y = 1
			}
			if k < len(out.Prediction.Values) {
				near(t, fmt.Sprint("round ", round, ", score of class ", k), out.Prediction.Values[k], mixed, 1e-9)
			}
			total += (mixed - y) * (mixed - y)
			for i := range p.regret {
				r := 2 * (mixed - y) * (mixed - scores[i][k])
				p.regret[i] += r
				p.square[i] += r * r
				p.largest = math.Max(p.largest, r*r)
			}
		}
	}
	hindsight := math.Inf(1)
	for _, n := range ridges {
		sum := 0.0
		for _, oracle := range n.oracles {
			sum += oracle.Figures().Hindsight
		}
		hindsight = math.Min(hindsight, sum)
	}
	stats := l.Stats()
	near(t, "loss", stats.Loss, total, 1e-9)
	near(t, "hindsight loss", stats.HindsightLoss, hindsight, 1e-9)
	assert.False(t, !stats.Certified || !stats.CertificateOK || stats.Regret > stats.Certificate || stats.Certificate > stats.RegretBound, "%+v", stats)
}
