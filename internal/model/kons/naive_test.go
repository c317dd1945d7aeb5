package kons_test

import (
	"math"
	"testing"

	"gonum.org/v1/gonum/mat"

	"hindsight/internal/model"
	"hindsight/internal/model/losses"
	"hindsight/internal/model/modeltest"
)

// naive takes the online Newton steps of KONS (ICML 2017), eq. (1), densely: it keeps A
// and w, and solves anew in every round.
type naive struct {
	phi   func(x []float64) []float64
	alpha float64
	loss  losses.Loss
	// low and high are the range, equal without one; clip is C, 0 if it follows the
	// labels.
	low, high, clip float64
	// enters tells whether the round at hand enters A; nil: every round does.
	enters func() bool

	// unit is Ω, 0 before the first round.
	unit float64

	a *mat.SymDense
	w *mat.VecDense
	// rows are √ω ġφ of the rounds, slopes their ġ and certificate ½Σ gᵀA⁻¹g.
	features    []*mat.VecDense
	predictions []float64
	slopes      []float64
	labels      []float64
	loses       float64
	certificate float64
	cuts        int
}

// slope is ℓ', value ℓ, written out once more.
func (n *naive) slope(f, y float64) float64 {
	switch n.loss {
	case losses.Logistic:
		return -y / (1 + math.Exp(y*f))
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
	case losses.SquaredHinge:
		return math.Pow(math.Max(0, 1-y*f), 2)
	default:
		return (f - y) * (f - y)
	}
}

// eta is σ(C).
func (n *naive) eta() float64 {
	c := n.clip
	switch {
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

// grow adds a feature of which nothing is known.
func (n *naive) grow(r int) {
	a, w := mat.NewSymDense(r, nil), mat.NewVecDense(r, nil)
	for i := range r {
		a.SetSym(i, i, n.alpha*n.unit)
	}
	if n.a != nil {
		for i := range n.a.SymmetricDim() {
			w.SetVec(i, n.w.AtVec(i))
			for j := range i + 1 {
				a.SetSym(i, j, n.a.At(i, j))
			}
		}
	}
	n.a, n.w = a, w
}

func (n *naive) middle() float64 { return (n.low + n.high) / 2 }

// observe answers the prediction, and learns.
func (n *naive) observe(t *testing.T, x []float64, y, weight float64) float64 {
	t.Helper()
	features := n.phi(x)
	if n.unit == 0 {
		n.unit = weight
	}
	if n.a == nil || n.a.SymmetricDim() != len(features) {
		n.grow(len(features))
	}
	if n.high > n.low {
		n.clip = (n.high - n.low) / 2
	}
	phi := mat.NewVecDense(len(features), features)
	var factor mat.Cholesky
	if !factor.Factorize(n.a) {
		t.Fatal("A is not positive definite")
	}
	along := new(mat.VecDense)
	if err := factor.SolveVecTo(along, phi); err != nil {
		t.Fatal(err)
	}
	mean, q := mat.Dot(n.w, phi), mat.Dot(phi, along)
	predicted := math.Max(-n.clip, math.Min(n.clip, mean))
	if predicted != mean {
		n.w.AddScaledVec(n.w, -(mean-predicted)/q, along)
		n.cuts++
	}
	target := y - n.middle()
	if n.loss == losses.Squared && n.high == n.low {
		for power := math.Exp2(-40); n.clip < math.Abs(target); power *= 2 {
			n.clip = math.Max(n.clip, power)
		}
	}
	if n.clip == 0 {
		return n.middle()
	}
	n.loses += weight * n.value(n.middle()+predicted, y)
	if n.loss == losses.Squared {
		target = math.Max(-n.clip, math.Min(n.clip, target))
	}
	slope := n.slope(predicted, target)
	if n.enters == nil || n.enters() {
		n.a.SymRankOne(n.a, n.eta()*weight*slope*slope, phi)
	}
	if !factor.Factorize(n.a) {
		t.Fatal("A is not positive definite")
	}
	if err := factor.SolveVecTo(along, phi); err != nil {
		t.Fatal(err)
	}
	n.w.AddScaledVec(n.w, -weight*slope, along)
	n.certificate += weight * weight * slope * slope * mat.Dot(phi, along) / 2
	n.raise(t, weight)
	n.features = append(n.features, phi)
	n.predictions, n.slopes, n.labels = append(n.predictions, predicted), append(n.slopes, slope), append(n.labels, target)
	return n.middle() + predicted
}

// raise makes a weight above 4Ω the new Ω: αΩ grows, and m = Aw stays.
func (n *naive) raise(t *testing.T, weight float64) {
	t.Helper()
	if weight <= 4*n.unit {
		return
	}
	var m mat.VecDense
	m.MulVec(n.a, n.w)
	for i := range n.a.SymmetricDim() {
		n.a.SetSym(i, i, n.a.At(i, i)+n.alpha*(weight-n.unit))
	}
	n.unit = weight
	var factor mat.Cholesky
	if !factor.Factorize(n.a) {
		t.Fatal("A is not positive definite")
	}
	if err := factor.SolveVecTo(n.w, &m); err != nil {
		t.Fatal(err)
	}
}

// logDet is log det(A/αΩ).
func (n *naive) logDet() float64 {
	var factor mat.Cholesky
	factor.Factorize(n.a)
	return factor.LogDet() - float64(n.a.SymmetricDim())*math.Log(n.alpha*n.unit)
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
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func near(t *testing.T, what string, got, want, scale, tolerance float64) {
	t.Helper()
	if !(math.Abs(got-want) <= tolerance*(scale+math.Abs(want))) {
		t.Errorf("%s is %.17g, want %.17g", what, got, want)
	}
}
