package classifier_test

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"hindsight/internal/model"
	"hindsight/internal/model/awv"
	"hindsight/internal/model/classifier"
	"hindsight/internal/model/feature"
	"hindsight/internal/model/kernel"
	"hindsight/internal/model/modeltest"
)

func near(t *testing.T, what string, got, want, tolerance float64) {
	t.Helper()
	require.True(t, !math.IsNaN(got) && math.Abs(got-want) <= tolerance*(1+math.Abs(want)), "%s: got %.17g, want %.17g", what, got, want)
}

// number is that of a class in order of first appearance.
func number(names []string, class string) int {
	for k, name := range names {
		if name == class {
			return k
		}
	}
	return len(names)
}

// Decisions are those of (XᵀX+λI)⁻¹XᵀY Γ^a, solved densely: regularised least
// squares on coded labels, the columns of Y being the indicators and
// Γ = diag(n/n_k). Camoriano, thesis, §7.3: recoding the labels is multiplying the
// weights by Γ^a.
func TestDecisionsAreThoseOfDenseRLSC(t *testing.T) {
	const features = dimension + 1
	for _, a := range []float64{0, 0.25, 0.5, 1} {
		o := options()
		o.Recoding = a
		l := affine(o)
		gram, right := mat.NewDense(features, features, nil), mat.NewDense(features, o.MaxClasses, nil)
		for i := range features {
			gram.Set(i, i, o.Lambda)
		}
		var names []string
		counts, total := make([]float64, o.MaxClasses), 0.0
		for n, s := range samples(11, 300) {
			z := mat.NewDense(features, 1, append(append([]float64(nil), s.X...), 1))
			if n > 0 {
				coded, best := make([]float64, len(names)), 0
				var weights, scores mat.Dense
				require.NoError(t, weights.Solve(gram, right))
				scores.Mul(z.T(), &weights)
				var raw model.Prediction
				require.NoError(t, l.Predict(&raw, s.X))
				for k := range names {
					// The forecaster divides every score by 1+q.
					near(t, "score", raw.Values[k]/(1-raw.Leverage), scores.At(0, k), 1e-11)
					coded[k] = scores.At(0, k) * math.Pow(total/counts[k], a)
					if coded[k] > coded[best] {
						best = k
					}
				}
				got := predict(t, l, s.X)
				require.False(t, got.Class != best && math.Abs(coded[got.Class]-coded[best]) > 1e-10, "a = %g, round %d: class %d of %v, want %d", a, n, got.Class, coded, best)
			}
			k := number(names, s.Class)
			if k == len(names) {
				names = append(names, s.Class)
			}
			var outer mat.Dense
			outer.Mul(z, z.T())
			outer.Scale(s.Weight, &outer)
			gram.Add(gram, &outer)
			for i := range features {
				right.Set(i, k, right.At(i, k)+s.Weight*z.At(i, 0))
			}
			counts[k] += s.Weight
			total += s.Weight
			learn(t, l, []sample{s})
		}
	}
}

// naive is the learner as section by section of the theory says: a dense forecaster
// for every class there will be, from the start.
type naive struct {
	o       rlsc
	oracles []*modeltest.AWV
	names   []string
	counts  []float64
}

func newNaive(o rlsc) *naive {
	n := &naive{o: o}
	for range o.MaxClasses {
		oracle := &modeltest.AWV{
			Phi:      func(x []float64) []float64 { return append(append([]float64(nil), x...), 1) },
			Features: dimension + 1, Lambda: o.Lambda,
		}
		if o.Forgetting < 1 {
			oracle.Forgetting = o.Forgetting
		}
		n.oracles = append(n.oracles, oracle)
	}
	return n
}

// class is the decision from the scores of the classes that are known, and the coded
// scores.
func (n *naive) class(scores []float64) (best int, coded []float64) {
	total := 0.0
	for _, c := range n.counts {
		total += c
	}
	for k, c := range n.counts {
		coded = append(coded, scores[k]*math.Pow(total/c, n.o.Recoding))
		if coded[k] > coded[best] {
			best = k
		}
	}
	return best, coded
}

// observe returns the prequential scores and the loss.
func (n *naive) observe(s sample) (scores []float64, loss float64) {
	class := number(n.names, s.Class)
	for k, oracle := range n.oracles {
		y := 0.0
		if k == class {
			y = 1
		}
		score, missed := oracle.Observe(s.X, y, s.Weight)
		scores = append(scores, score)
		loss += missed
	}
	if class == len(n.names) {
		n.names, n.counts = append(n.names, s.Class), append(n.counts, 0)
	}
	for k := range n.counts {
		n.counts[k] *= n.o.Forgetting
	}
	n.counts[class] += s.Weight
	return scores, loss
}

// What the learner says, decides and accounts for is what dense forecasters say, one
// for every class from the start.
func TestLearnerIsItsTheory(t *testing.T) {
	for _, forgetting := range []float64{1, 0.96} {
		t.Run(fmt.Sprint("forgetting ", forgetting), func(t *testing.T) {
			o := options()
			o.Forgetting = forgetting
			l, n := affine(o), newNaive(o)
			var out model.ClassOutcome
			for round, s := range samples(12, 130) {
				s.Weight = math.Min(s.Weight, 1.9) // Heavier ones are not certified.
				before := len(n.names)
				if before > 0 {
					scores := make([]float64, before)
					for k := range scores {
						scores[k] = n.oracles[k].Predict(s.X, 1).Prediction
					}
					p := predict(t, l, s.X)
					best, coded := n.class(scores)
					require.False(t, p.Class != best && math.Abs(coded[p.Class]-coded[best]) > 1e-9, "round %d: class %d of %v", round, p.Class, coded)
					q := n.oracles[0].Predict(s.X, 1).Q
					near(t, "leverage", p.Leverage, q/(1+q), 1e-10)
				}
				var wanted int
				var coded []float64
				counts := append([]float64(nil), n.counts...)
				scores, loss := n.observe(s)
				if before > 0 {
					now := n.counts
					n.counts = counts
					wanted, coded = n.class(scores)
					n.counts = now
				}
				require.NoError(t, l.ObserveClass(&out, s.X, s.Class, s.Weight, nil))
				near(t, "loss", out.Loss, loss, 1e-10)
				require.True(t, out.Class == number(n.names, s.Class) && len(out.Prediction.Probabilities) == before, "round %d: %+v", round, out)
				got := out.Prediction.Class
				require.False(t, before > 0 && got != wanted && math.Abs(coded[got]-coded[wanted]) > 1e-9, "round %d: prequential class %d of %v", round, got, coded)
			}
			compare(t, l.Stats(), l.Report(model.ReportOptions{EffectiveDimension: true}), n)
		})
	}
}

func compare(t *testing.T, s model.Stats, r model.Report, n *naive) {
	t.Helper()
	var sum modeltest.Figures
	for _, oracle := range n.oracles {
		f := oracle.Figures()
		sum.Total += f.Total
		sum.Loss += f.Loss
		sum.Hindsight += f.Hindsight
		sum.Regret += f.Regret
		sum.Unpenalized += f.Unpenalized
		sum.Certificate += f.Certificate
		sum.LogDet, sum.Effective = f.LogDet, f.Effective
		sum.Bound = math.Max(sum.Bound, f.Bound) // Of the largest weight.
	}
	near(t, "hindsight loss", s.HindsightLoss, sum.Hindsight, 1e-10)
	near(t, "regret", s.Regret, sum.Regret, 1e-9)
	near(t, "regret without penalty", r.RegretUnpenalized, sum.Unpenalized, 1e-9)
	near(t, "log determinant", s.LogDeterminant, sum.LogDet, 1e-10)
	near(t, "effective dimension", r.EffectiveDimension, sum.Effective, 1e-9)
	near(t, "loss", s.Loss, sum.Total, 1e-10)
	assert.True(t, s.CertificateOK && s.Certified == (n.o.Forgetting == 1), "%+v", s)
	if s.Certified {
		near(t, "certificate", s.Certificate, sum.Certificate, 1e-10)
		near(t, "bound", s.RegretBound, sum.Bound, 1e-10)
	}
}

// One observation has one class, so that Σ_k u_k is the column of label 1: the
// scores add up to what a forecaster says that learns the label 1 every time.
func TestScoresAddUpToTheConstantLabel(t *testing.T) {
	for _, forgetting := range []float64{1, 0.97} {
		o := options()
		o.Forgetting = forgetting
		l := affine(o)
		one := awv.New(feature.NewAffine(dimension), awv.Options{Lambda: o.Lambda, Forgetting: forgetting})
		for _, s := range samples(13, 400) {
			var raw model.Prediction
			require.NoError(t, l.Predict(&raw, s.X))
			sum := 0.0
			for _, v := range raw.Values {
				sum += v
			}
			want, err := modeltest.Predict(one, s.X)
			require.NoError(t, err)
			near(t, "sum of the scores", sum, want.Value, 1e-13)
			learn(t, l, []sample{s})
			_, err = modeltest.Observe(one, s.X, 1, s.Weight)
			require.NoError(t, err)
		}
	}
}

// Other names give the same state but for the names, and the same predictions by
// number.
func TestRenamingClassesChangesNamesAlone(t *testing.T) {
	all := samples(16, 150)
	l, renamed := affine(options()), affine(options())
	for _, s := range all {
		other := s
		other.Class = strings.Replace(s.Class, "class", "ΣΛx", 1) // As long.
		p, q := predict(t, l, s.X), predict(t, renamed, s.X)
		require.True(t, p.Class == q.Class && fmt.Sprint(p.Probabilities) == fmt.Sprint(q.Probabilities), "%+v, renamed %+v", p, q)
		learn(t, l, []sample{s})
		learn(t, renamed, []sample{other})
	}
	assert.Equal(t, bytes.ReplaceAll(modeltest.State(t, l.Visit), []byte("class"), []byte("ΣΛx")), modeltest.State(t, renamed.Visit), "renaming changes more than names")
}

// No digit of the state depends on a, and no probability; decisions do.
func TestRecodingTouchesDecisionsAlone(t *testing.T) {
	create := func(a float64) *classifier.Learner {
		o := options()
		o.Recoding = a
		return affine(o)
	}
	plain, differ := create(0), 0
	others := []*classifier.Learner{create(0.5), create(1)}
	for _, s := range samples(17, 300) {
		p := predict(t, plain, s.X)
		for _, l := range others {
			q := predict(t, l, s.X)
			require.True(t, fmt.Sprint(p.Probabilities) == fmt.Sprint(q.Probabilities), "%+v, recoded %+v", p, q)
			if p.Class != q.Class {
				differ++
			}
			learn(t, l, []sample{s})
		}
		learn(t, plain, []sample{s})
	}
	for _, l := range others {
		assert.Equal(t, modeltest.State(t, l.Visit), modeltest.State(t, plain.Visit), "the state depends on the recoding")
	}
	assert.NotEqual(t, 0, differ, "no decision depends on the recoding")
}

// The certificate is below one bound for all classes, not one a class, and the loss
// in hindsight is n − ‖u‖².
func TestOneBoundForAllClasses(t *testing.T) {
	o := options()
	o.MaxClasses = 100
	l := newRLSC(feature.NewFourier(kernel.Kernel{Kind: kernel.Gaussian, Sigma: 0.3}, dimension, 20, true, rand.New(rand.NewPCG(2, 2))), o)
	rng := rand.New(rand.NewPCG(3, 3))
	for n, s := range modeltest.Samples(18, dimension, 400) {
		learn(t, l, []sample{{X: s.X, Class: strconv.Itoa(rng.IntN(min(n+1, 100))), Weight: 1}})
		stats := l.Stats()
		require.True(t, stats.CertificateOK && stats.Certified && stats.Certificate <= stats.RegretBound, "%+v", stats)
		near(t, "bound", stats.RegretBound, stats.LogDeterminant, 1e-12)
		near(t, "regret", stats.Regret, stats.Loss-stats.HindsightLoss, 1e-10)
	}
	assert.GreaterOrEqual(t, len(l.Classes()), 80)
}
