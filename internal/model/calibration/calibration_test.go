package calibration_test

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"hindsight/internal/model/calibration"
	"hindsight/internal/model/codec"
)

// softmax is one of the three of a link as its formulas say, with gonum's solver.
type softmax struct {
	decay float64
	theta []float64
	a     *mat.SymDense
}

func newSoftmax(decay float64) *softmax {
	n := &softmax{decay: decay, theta: []float64{2, 1, 0}, a: mat.NewSymDense(3, nil)}
	for i := range 3 {
		n.a.SetSym(i, i, 2)
	}
	return n
}

func (n *softmax) phi(score, share float64) []float64 {
	clipped := math.Min(math.Max(score, -4), 4)
	return []float64{clipped, math.Log(math.Max(clipped, 0.01)), math.Log(math.Max(share, 1e-9))}
}

func (n *softmax) probabilities(scores, counts []float64) []float64 {
	total, sum := 0.0, 0.0
	for _, c := range counts {
		total += c
	}
	logits, largest := make([]float64, len(scores)), math.Inf(-1)
	for k, s := range scores {
		for i, v := range n.phi(s, counts[k]/total) {
			logits[k] += n.theta[i] * v
		}
		largest = math.Max(largest, logits[k])
	}
	for k := range logits {
		logits[k] = math.Exp(math.Max(logits[k]-largest, -30))
		sum += logits[k]
	}
	for k := range logits {
		logits[k] /= sum
	}
	return logits
}

func (n *softmax) learn(t *testing.T, scores, counts []float64, truth int, weight float64) {
	t.Helper()
	p, total := n.probabilities(scores, counts), 0.0
	for _, c := range counts {
		total += c
	}
	mean := make([]float64, 3)
	for k := range p {
		for i, v := range n.phi(scores[k], counts[k]/total) {
			mean[i] += p[k] * v
		}
	}
	gradient := mat.NewVecDense(3, nil)
	n.a.ScaleSym(n.decay, n.a)
	for i, v := range n.phi(scores[truth], counts[truth]/total) {
		gradient.SetVec(i, weight*(mean[i]-v))
		n.a.SetSym(i, i, n.a.At(i, i)+(1-n.decay)*2)
	}
	for k := range p {
		off := n.phi(scores[k], counts[k]/total)
		for i := range off {
			off[i] -= mean[i]
		}
		n.a.SymRankOne(n.a, weight*p[k], mat.NewVecDense(3, off))
	}
	var step mat.VecDense
	require.NoError(t, step.SolveVec(n.a, gradient))
	for i := range n.theta {
		n.theta[i] = math.Min(math.Max(n.theta[i]-step.AtVec(i), -50), 50)
	}
}

// naive is a link as its formulas say. The table is a map from knots to n, p and t.
type naive struct {
	softmaxes []*softmax
	mixture   []float64
	near      map[int][3]float64
}

func newNaive() *naive {
	return &naive{
		softmaxes: []*softmax{newSoftmax(0.95), newSoftmax(0.99), newSoftmax(0.999)},
		mixture:   []float64{1. / 3, 1. / 3, 1. / 3}, near: map[int][3]float64{},
	}
}

func logit(p float64) float64 { return math.Log(math.Max(p, 1e-13)) - math.Log(math.Max(1-p, 1e-13)) }

func (n *naive) mixed(scores, counts []float64) (each [][]float64, mixed []float64) {
	mixed = make([]float64, len(scores))
	for i, s := range n.softmaxes {
		each = append(each, s.probabilities(scores, counts))
		for k, p := range each[i] {
			mixed[k] += n.mixture[i] * p
		}
	}
	return each, mixed
}

// parts are those of a probability at the knots.
func parts(p float64) map[int]float64 {
	l := math.Min(math.Max(logit(p), -6), 6)
	low := math.Min(math.Floor(l), 5)
	return map[int]float64{int(low): low + 1 - l, int(low) + 1: l - low}
}

func (n *naive) shift(knot int) float64 {
	r, prior := n.near[knot], 20/(1+math.Exp(-float64(knot)))
	return logit((r[2]+prior)/(r[0]+20)) - logit((r[1]+prior)/(r[0]+20))
}

func (n *naive) probabilities(scores, counts []float64) []float64 {
	_, p := n.mixed(scores, counts)
	sum := 0.0
	for k := range p {
		l := logit(p[k])
		for knot, part := range parts(p[k]) {
			l += part * n.shift(knot)
		}
		p[k] = 1 / (1 + math.Exp(-math.Min(math.Max(l, -30), 30)))
		sum += p[k]
	}
	if len(p) == 2 {
		return []float64{1 - p[1], p[1]}
	}
	for k := range p {
		p[k] /= sum
	}
	return p
}

func (n *naive) learn(t *testing.T, scores, counts []float64, truth int, weight float64) {
	t.Helper()
	weight = math.Min(weight, 1000)
	each, mixed := n.mixed(scores, counts)
	for k, p := range mixed {
		if len(mixed) == 2 && k == 0 {
			continue
		}
		came := 0.0
		if k == truth {
			came = 1
		}
		for knot, part := range parts(p) {
			r := n.near[knot]
			for i, v := range []float64{1, p, came} {
				r[i] = 0.998*r[i] + weight*part*v
			}
			n.near[knot] = r
		}
	}
	total, best := 0.0, math.Inf(-1)
	for i := range each {
		best = math.Max(best, each[i][truth])
	}
	for i := range each {
		n.mixture[i] *= math.Pow(each[i][truth]/best, weight)
		total += n.mixture[i]
	}
	for i, s := range n.softmaxes {
		n.mixture[i] = 0.98*n.mixture[i]/total + 0.02/3
		s.learn(t, scores, counts, truth, weight)
	}
}

// round is one observation of a stream of scores.
type round struct {
	scores, counts []float64
	total          float64
	truth          int
}

// rounds draws scores of which the first class that is drawn is the truth with the
// probability that its score says, more or less.
func rounds(seed uint64, classes, n int) []round {
	rng := rand.New(rand.NewPCG(seed, 3))
	out := make([]round, n)
	for i := range out {
		r := round{scores: make([]float64, classes), counts: make([]float64, classes), truth: rng.IntN(classes)}
		for k := range classes {
			r.scores[k] = 0.3 * rng.NormFloat64()
			r.counts[k] = rng.ExpFloat64() + 0.01
			r.total += r.counts[k]
		}
		r.scores[r.truth] += 0.6
		out[i] = r
	}
	return out
}

// What the calibration does is what its formulas say.
func TestLinkIsItsFormulas(t *testing.T) {
	for _, classes := range []int{2, 3, 10, 200} {
		c, n := calibration.New(), newNaive()
		p := make([]float64, classes)
		for i, r := range rounds(1, classes, 400) {
			c.Probabilities(p, r.scores, r.counts, r.total)
			for k, want := range n.probabilities(r.scores, r.counts) {
				if math.Abs(p[k]-want) > 1e-6*want+1e-12 { // Large weights amplify rounding.
					t.Fatalf("%d classes, round %d: a probability of %.15g, want %.15g", classes, i, p[k], want)
				}
			}
			weight := 1.0
			if i%7 == 3 {
				weight = math.Pow(10, float64(i%13)-6)
			}
			c.Learn(r.scores, r.counts, r.total, r.truth, weight)
			n.learn(t, r.scores, r.counts, r.truth, weight)
		}
	}
}

// Probabilities are above 0, below 1 and have the sum 1, whatever the scores are.
func TestProbabilities(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 4))
	c := calibration.New()
	for n := range 3000 {
		classes := 2 + rng.IntN(5)
		scores, counts, p := make([]float64, classes), make([]float64, classes), make([]float64, classes)
		total := 0.0
		for k := range classes {
			scores[k] = math.Pow(10, 200*rng.Float64()-100) * rng.NormFloat64()
			counts[k] = math.Pow(10, 40*rng.Float64()-20)
			total += counts[k]
		}
		c.Probabilities(p, scores, counts, total)
		sum := 0.0
		for _, v := range p {
			require.True(t, v > 0 && v < 1, "round %d: probabilities %v of %v", n, p, scores)
			sum += v
		}
		require.InDelta(t, 1, sum, 1e-12, "round %d: a sum of %.17g", n, sum)
		c.Learn(scores, counts, total, rng.IntN(classes), math.Pow(10, 18*rng.Float64()-9))
	}
}

// Scores that are the logits of the truth, in any unit and with any shift towards
// frequent classes, are told apart as well as their own logits would.
func TestLinkLearns(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	c := calibration.New()
	share := []float64{0.7, 0.2, 0.1}
	p, truth := make([]float64, 3), make([]float64, 3)
	var loss, best float64
	for n := range 30_000 {
		scores, sum := make([]float64, 3), 0.0
		for k := range scores {
			scores[k] = 0.2 + 0.2*rng.Float64()
			truth[k] = share[k] * math.Exp(12*scores[k])
			sum += truth[k]
		}
		u, label := rng.Float64()*sum, 0
		for u > truth[label] && label < 2 {
			u -= truth[label]
			label++
		}
		c.Probabilities(p, scores, share, 1)
		if n >= 1000 {
			loss -= math.Log(p[label])
			best -= math.Log(truth[label] / sum)
		}
		c.Learn(scores, share, 1, label, 1)
	}
	t.Logf("a mean loss of %.5f, the least %.5f", loss/29_000, best/29_000)
	assert.LessOrEqual(t, loss-best, float64(0.02*29_000), "a mean loss of %.5f, the least is %.5f", loss/29_000, best/29_000)
}

func state(l *calibration.Link) []byte {
	v := codec.Appending(nil)
	l.Visit(&v)
	out, _ := v.Appended() // It never fails.
	return out
}

func restored(state []byte) (*calibration.Link, error) {
	l := calibration.New()
	return l, codec.Read(state, l.Visit)
}

// A state continues bit for bit.
func TestVisit(t *testing.T) {
	all := rounds(7, 4, 200)
	p := make([]float64, 4)
	learn := func(c *calibration.Link, rounds []round) {
		for _, r := range rounds {
			c.Probabilities(p, r.scores, r.counts, r.total)
			c.Learn(r.scores, r.counts, r.total, r.truth, 1)
		}
	}
	whole := calibration.New()
	learn(whole, all)
	first := calibration.New()
	learn(first, all[:77])
	second, err := restored(state(first))
	require.NoError(t, err)
	learn(second, all[77:])
	assert.Equal(t, state(second), state(whole), "restored, it ends elsewhere")
}

// Any bytes are rejected or read. What is read can be learned with, and stays finite.
func FuzzVisit(f *testing.F) {
	fresh := state(calibration.New())
	f.Add(fresh)
	f.Add(bytes.Repeat([]byte{0xff}, len(fresh)))
	f.Add(make([]byte, len(fresh)))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := restored(data)
		if err != nil {
			return
		}
		require.Equal(t, data, state(c))
		p := make([]float64, 3)
		for _, r := range rounds(8, 3, 20) {
			c.Probabilities(p, r.scores, r.counts, r.total)
			c.Learn(r.scores, r.counts, r.total, r.truth, 1)
			s := fmt.Sprint(p)
			require.False(t, math.IsNaN(p[0]+p[1]+p[2]), "probabilities %s", s)
		}
	})
}
