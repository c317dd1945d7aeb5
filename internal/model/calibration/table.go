package calibration

import (
	"hindsight/internal/model/codec"
	"hindsight/internal/model/exponential"
)

// table corrects wrong probabilities. Knot j is at the log-odds j = −6, −5, … 6. It holds the
// discounted sums, over the rounds near it, of
//
//	n = Σ u,  p = Σ u P,  t = Σ u [the class was observed]
//
// The part u of a probability falls from 1 at the knot to 0 at the next knots. With c_j =
// 1/(1+exp(−j)) and a prior of m = 20 rounds of correct probabilities,
//
//	shift_j = logit((t+m c_j)/(n+m)) − logit((p+m c_j)/(n+m))
//
// The log-odds of a probability move by the interpolated shift.
type table struct{ n, p, t [knots]float64 }

const (
	knots          = 13
	middle         = knots / 2
	priorCount     = 20
	tableDecay     = 0.998
	minProbability = 1e-13 // It keeps log-odds finite.
	maxTable       = 1e12
)

func logOdds(p float64) float64 {
	return exponential.Log(max(p, minProbability)) - exponential.Log(max(1-p, minProbability))
}

func logistic(l float64) float64 {
	return 1 / (1 + exponential.Of(-max(-maxLogit, min(maxLogit, l))))
}

// place is the knot below log-odds, and the part of the next knot.
func place(l float64) (knot int, next float64) {
	l = max(0, min(knots-1, l+middle))
	knot = min(int(l), knots-2)
	return knot, l - float64(knot)
}

// shifts are the shifts of the knots that probabilities needed.
type shifts struct {
	known [knots]bool
	shift [knots]float64
}

func (b *table) at(p float64, s *shifts) float64 {
	l := logOdds(p)
	j, next := place(l)
	for _, knot := range [2]int{j, j + 1} {
		if !s.known[knot] {
			s.known[knot], s.shift[knot] = true, b.shift(knot)
		}
	}
	return logistic(l + float64((1-next)*s.shift[j]) + float64(next*s.shift[j+1]))
}

func (b *table) shift(j int) float64 {
	prior := priorCount * logistic(float64(j-middle))
	return logOdds((b.t[j]+prior)/(b.n[j]+priorCount)) - logOdds((b.p[j]+prior)/(b.n[j]+priorCount))
}

func (b *table) learn(p, observed, weight float64) {
	j, next := place(logOdds(p))
	for i, part := range [2]float64{1 - next, next} {
		j, w := j+i, float64(weight*part)
		b.n[j] = float64(tableDecay*b.n[j]) + w
		b.p[j] = float64(tableDecay*b.p[j]) + float64(w*p)
		b.t[j] = float64(tableDecay*b.t[j]) + float64(w*observed)
	}
}

func (b *table) visit(v *codec.Visitor) {
	v.FloatsWithin(maxTable, b.n[:])
	v.FloatsWithin(maxTable, b.p[:])
	v.FloatsWithin(maxTable, b.t[:])
	const rounding = 1e-9
	for j, n := range b.n {
		largest := n * (1 + rounding)
		if v.Reading() && !(n >= 0 && b.p[j] >= 0 && b.p[j] <= largest && b.t[j] >= 0 && b.t[j] <= largest) {
			v.Corrupt("a table of no rounds")
		}
	}
}
