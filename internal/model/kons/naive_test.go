package kons_test

import (
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"hindsight/internal/model"
	"hindsight/internal/model/kons"
	"hindsight/internal/model/losses"
	"hindsight/internal/model/modeltest"
)

// wide is the sum of two float64, a number of 106 bits.
type wide struct{ high, low float64 }

// added is a+b: Dekker's two-sum.
func added(a, b float64) wide {
	sum := a + b
	rest := sum - a
	return wide{sum, (a - (sum - rest)) + (b - rest)}
}

func number(v float64) wide { return wide{high: v} }

func (a wide) plus(b wide) wide {
	s := added(a.high, b.high)
	return added(s.high, s.low+a.low+b.low)
}

func (a wide) times(b wide) wide {
	product := a.high * b.high
	return added(product, math.FMA(a.high, b.high, -product)+a.high*b.low+a.low*b.high)
}

func (a wide) minus() wide { return wide{-a.high, -a.low} }

func (a wide) over(b wide) wide {
	first := a.high / b.high
	rest := a.plus(b.times(number(-first)))
	return added(first, rest.high/b.high)
}

type vector []wide

func (v vector) dot(w vector) (sum wide) {
	for i := range v {
		sum = sum.plus(v[i].times(w[i]))
	}
	return sum
}

// add adds c·w.
func (v vector) add(c wide, w vector) {
	for i := range v {
		v[i] = v[i].plus(c.times(w[i]))
	}
}

// times is the product of a matrix and a vector.
func times(m []vector, v vector) vector {
	p := make(vector, len(m))
	for i, row := range m {
		p[i] = row.dot(v)
	}
	return p
}

// inverted overwrites a positive definite matrix by I, and returns its inverse and the logarithm of its determinant.
func inverted(a []vector) (inverse []vector, logDet float64) {
	inverse = make([]vector, len(a))
	for i := range a {
		inverse[i] = make(vector, len(a))
		inverse[i][i] = number(1)
	}
	for k, pivot := range a {
		scale := number(1).over(pivot[k])
		logDet -= math.Log(scale.high)
		for j := range a {
			pivot[j], inverse[k][j] = pivot[j].times(scale), inverse[k][j].times(scale)
		}
		for i, row := range a {
			if by := row[k].minus(); i != k {
				row.add(by, pivot)
				inverse[i].add(by, inverse[k])
			}
		}
	}
	return inverse, logDet
}

// naive takes the online Newton steps of KONS (ICML 2017), eq. (1), densely and in numbers of 106 bits: it keeps
// A⁻¹, m and w. It starts every step from the prediction that the learner served. Two recursions that start from their own
// predictions part: where its slope is small, a step of the squared loss multiplies an error of ŷ at its input by
// 1 − 2ωq, which is −150 at some rounds with weights of eight decades. One unit in the last place of the first weight
// then moves later predictions by up to 2e-8, in any arithmetic.
//
// The rounding error of a prediction in round t is at most
//
//	4√t 2⁻⁵³ κᵖ √q max‖m‖ + 4 2⁻⁵³ (|middle| + |ŷ|)
//
// Here κ = max Tr A/min Λ bounds the condition number of A, q is φᵀA⁻¹φ, ‖m‖² is mᵀA⁻¹m, and |ȳ| ≤ √q ‖m‖. The power p
// is 1/2 for a factor R of the rows, whose condition number is √κ, and 1 for a Gram matrix, whose entries have been
// rounded. Roundings of t rounds add up like random ones.
type naive struct {
	phi   func(x []float64) []float64
	alpha float64
	loss  losses.Loss
	// low and high are the range, equal without one; clip is C, 0 if it follows the
	// labels.
	low, high, clip float64
	// enters reports whether the round at hand enters A; nil: every round does.
	enters func() bool
	// gram reports whether the learner keeps a Gram matrix.
	gram bool

	// unit is Ω, 0 before the first round. units are Ω_i of the features. A round raises at most raised ridges.
	unit   float64
	units  []float64
	raised int
	// resets counts the changes of Ω that replaced a Schur complement.
	resets int

	inverse []vector
	m, w    vector
	// trace is Tr A, condition κ, size max‖m‖, logDet log det(A/Λ).
	trace, condition, size, logDet float64
	// loses is Σωℓ, certificate ½Σ gᵀA⁻¹g, and of the hinge loss ½Σηωġ²(|ŷ|+C)².
	loses, certificate float64
	rounds, cuts       int
	// worst is the largest error of a prediction as a part of its bound.
	worst float64
}

func newNaive(o kons.Options, phi func(x []float64) []float64) *naive {
	return &naive{raised: 1 << 20, phi: phi, alpha: o.Alpha, loss: o.Loss, low: o.Low, high: o.High, clip: o.Clip}
}

// slope is ℓ', value ℓ, written out once more.
func (n *naive) slope(f, y float64) float64 {
	switch n.loss {
	case losses.Logistic:
		return -y / (1 + math.Exp(y*f))
	case losses.Hinge:
		if y*f >= 1 {
			return 0
		}
		return -y
	case losses.SquaredHinge:
		return -2 * y * math.Max(0, 1-y*f)
	default:
		return 2 * (f - y)
	}
}

func (n *naive) value(f, y float64) float64 {
	switch n.loss {
	case losses.Logistic:
		return math.Log1p(math.Exp(-y * f))
	case losses.Hinge:
		return math.Max(0, 1-y*f)
	case losses.SquaredHinge:
		return math.Pow(math.Max(0, 1-y*f), 2)
	default:
		return (f - y) * (f - y)
	}
}

// eta is σ(C), and of the hinge loss, whose σ is 0, 1/(C√t) as Theorem 1 has it.
func (n *naive) eta() float64 {
	c := n.clip
	switch {
	case n.loss == losses.Hinge:
		return 1 / (c * math.Sqrt(float64(n.rounds)))
	case n.loss == losses.Logistic:
		return math.Exp(-c)
	case n.loss == losses.Squared:
		return 1 / (8 * c * c)
	case c <= 1:
		return 1 / (2 * (1 + c) * (1 + c))
	default:
		return (3*c - 1) / (8 * c * c * (1 + c))
	}
}

// grow adds features of which nothing is known, up to r.
func (n *naive) grow(r int) {
	ridge := n.alpha * n.unit
	for i := len(n.m); i < r; i++ {
		n.m, n.w = append(n.m, wide{}), append(n.w, wide{})
		for j := range n.inverse {
			n.inverse[j] = append(n.inverse[j], wide{})
		}
		n.inverse = append(n.inverse, make(vector, i+1))
		n.inverse[i][i] = number(1).over(number(n.alpha).times(number(n.unit)))
		n.trace, n.units = n.trace+ridge, append(n.units, n.unit)
	}
	n.condition = math.Max(n.condition, n.trace/n.minRidge())
}

// minRidge is the least αΩ_i.
func (n *naive) minRidge() float64 { return n.alpha * slices.Min(append(n.units, n.unit)) }

// forget forgets A and m.
func (n *naive) forget() { n.inverse, n.m, n.w, n.units, n.trace, n.logDet = nil, nil, nil, nil, 0, 0 }

func (n *naive) middle() float64 { return (n.low + n.high) / 2 }

// rounding bounds the relative error of figures of A.
func (n *naive) rounding() float64 {
	condition := n.condition
	if !n.gram {
		condition = math.Sqrt(condition)
	}
	return 0x1p-51 * math.Sqrt(float64(n.rounds)) * condition
}

// observe checks the prediction that was served, and learns.
func (n *naive) observe(t *testing.T, s modeltest.Sample, served float64) {
	t.Helper()
	features := n.phi(s.X)
	if n.unit == 0 {
		n.unit = s.Weight
	}
	n.grow(len(features))
	n.rounds++
	if n.high > n.low {
		n.clip = (n.high - n.low) / 2
	}
	phi := make(vector, len(features))
	for i, v := range features {
		phi[i] = number(v)
	}
	along := times(n.inverse, phi)
	mean, q, predicted := n.w.dot(phi), along.dot(phi), served-n.middle()
	want := n.middle() + math.Max(-n.clip, math.Min(n.clip, mean.high))
	bound := n.rounding()*math.Sqrt(q.high)*n.size + 0x1p-51*(math.Abs(n.middle())+math.Abs(want))
	if deviation := math.Abs(served - want); !(deviation <= bound) {
		t.Errorf("round %d: the prediction is %.17g, want %.17g: %.2g apart, at most %.2g by the condition %.2g",
			n.rounds, served, want, deviation, bound, n.condition)
	} else if deviation > 0 {
		n.worst = math.Max(n.worst, deviation/bound)
	}
	if math.Abs(mean.high) > n.clip {
		by := number(predicted).plus(mean.minus()).over(q)
		n.m.add(by, phi)
		n.w.add(by, along)
		n.cuts++
	}
	target := s.Y - n.middle()
	if n.loss == losses.Squared && n.high == n.low {
		for power := math.Exp2(-40); n.clip < math.Abs(target); power *= 2 {
			n.clip = math.Max(n.clip, power)
		}
	}
	if n.clip == 0 {
		return
	}
	n.loses += s.Weight * n.value(served, s.Y)
	if n.loss == losses.Squared {
		target = math.Max(-n.clip, math.Min(n.clip, target))
	}
	slope := n.slope(predicted, target)
	step := number(-s.Weight).times(number(slope))
	var row wide // ηωġ².
	if n.enters == nil || n.enters() {
		row = number(-n.eta() * slope).times(step)
	}
	entered := number(1).plus(row.times(q))
	n.m.add(step.plus(row.times(number(predicted))), phi)
	n.w.add(step.over(entered), along)
	for i, v := range along {
		n.inverse[i].add(row.over(entered).times(v).minus(), along)
	}
	n.certificate += step.high * step.high * q.over(entered).high / 2
	if n.loss == losses.Hinge {
		n.certificate += n.eta() * s.Weight * slope * slope * math.Pow(math.Abs(predicted)+n.clip, 2) / 2
	}
	n.logDet += math.Log1p(row.times(q).high)
	n.trace += row.times(phi.dot(phi)).high
	n.raise(s.Weight)
	n.condition = math.Max(n.condition, n.trace/n.minRidge())
	n.size = math.Max(n.size, math.Sqrt(n.m.dot(n.w).high))
}

// raise makes a weight above 4Ω the new Ω. Of a Gram matrix all ridges grow at once. Otherwise the last features, whose
// Schur complement S has Tr(S − Λ) ≤ α(Ω − max Ω_i), get αΩI for S at once, and in each round the ridges of some features,
// the least first, grow to αΩ. The product m = Aw stays.
func (n *naive) raise(weight float64) {
	if n.gram {
		n.raised = len(n.units)
	}
	a, changed := []vector(nil), false
	if weight > 4*n.unit {
		a, _ = inverted(n.inverse)
		before := slices.Max(append(n.units, 0))
		if n.unit = weight; !n.gram {
			n.reset(a, n.alpha*(weight-before))
		}
		changed = true
	}
	for range n.raised {
		i := 0
		for k, u := range n.units {
			if u < n.units[i] {
				i = k
			}
		}
		if len(n.units) == 0 || n.units[i] == n.unit {
			break
		}
		if !changed {
			a, _ = inverted(n.inverse)
			changed = true
		}
		more := number(n.alpha).times(added(n.unit, -n.units[i]))
		a[i][i] = a[i][i].plus(more)
		n.units[i] = n.unit
	}
	if !changed {
		return
	}
	n.trace = 0
	for i := range a {
		n.trace += a[i][i].high
	}
	n.inverse, n.logDet = inverted(a)
	for _, u := range n.units {
		n.logDet -= math.Log(n.alpha * u)
	}
	n.w = times(n.inverse, n.m)
}

// reset replaces the Schur complement of as few features as the room allows by αΩI.
func (n *naive) reset(a []vector, room float64) {
	left := make([]vector, len(a))
	for i := range a {
		left[i] = slices.Clone(a[i])
	}
	for k := range left {
		excess := 0.0
		for i := k; i < len(left); i++ {
			excess += left[i][i].high - n.alpha*n.units[i]
		}
		if excess <= room {
			for i := k; i < len(left); i++ {
				for j := k; j < len(left); j++ {
					a[i][j] = a[i][j].plus(left[i][j].minus())
				}
				a[i][i] = a[i][i].plus(number(n.alpha).times(number(n.unit)))
				n.units[i] = n.unit
			}
			n.resets++
			return
		}
		for i := k + 1; i < len(left); i++ {
			left[i].add(left[i][k].over(left[k][k]).minus(), left[k])
		}
	}
}

// sign makes a label of a loss of classes of any number.
func sign(y float64) float64 {
	if y >= 0 && !math.IsNaN(y) {
		return 1
	}
	if math.IsNaN(y) || math.IsInf(y, 0) || y < -model.MaxMagnitude {
		return y
	}
	return -1
}

func observe(t *testing.T, l model.Learner, s modeltest.Sample) modeltest.Outcome {
	t.Helper()
	o, err := modeltest.Observe(l, s.X, s.Y, s.Weight)
	require.NoError(t, err)
	return o
}

func near(t *testing.T, what string, got, want, scale, tolerance float64) {
	t.Helper()
	assert.True(t, math.Abs(got-want) <= tolerance*(scale+math.Abs(want)), "%s is %.17g, want %.17g", what, got, want)
}
