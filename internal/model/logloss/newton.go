package logloss

import (
	"math"

	"hindsight/internal/model/codec"
	"hindsight/internal/model/exponential"
)

const (
	// The prior variance of a weight, and of the weight of 1.
	weightVariance, constantVariance = 0.2, 100
	maxLogitWeight                   = 1e4
)

// newton is logistic regression with a normal prior, the posterior kept normal by one Newton step a
// row. With a = w·z, q = z'Sz, p = 1/(1+exp(−a)), h = ωp(1−p) and the truth y in {0, 1}
//
//	S ← S − (Sz)(Sz)' h/(1 + hq),  w ← w + Sz ω(y − p)/(1 + hq)
//
// and the log-odds a/√(1 + πq/8) say what the posterior expects of p. A row costs O(d²).
//
// Sources: Spiegelhalter and Lauritzen, Sequential updating of conditional probabilities (1990);
// MacKay, The evidence framework applied to classification networks (1992), for the moderation.
type newton struct {
	w []float64
	// s holds S by rows.
	s []float64
}

func newNewton(d int, constant float64) newton {
	n := newton{make([]float64, d), make([]float64, d*d)}
	for i := range d {
		n.s[i*d+i] = weightVariance
	}
	n.s[d*d-1] = constantVariance
	n.w[d-1] = constant
	return n
}

func (n *newton) row(i int) []float64 { return n.s[i*len(n.w):][:len(n.w)] }

func dot(a, b []float64) (sum float64) {
	for i, v := range a {
		sum += float64(v * b[i])
	}
	return sum
}

func (n *newton) predict(z []float64) (odds, spread float64) {
	for i, v := range z {
		if v != 0 {
			spread += float64(v * dot(n.row(i), z))
		}
	}
	return math.Max(-maxLogit, math.Min(maxLogit, dot(n.w, z))), math.Max(0, spread)
}

// moderated are the log-odds that the posterior expects.
func moderated(odds, spread float64) float64 {
	return odds / math.Sqrt(1+float64(math.Pi/8*spread))
}

func probability(odds float64) float64 {
	return 1 / (1 + exponential.Of(-math.Max(-maxOdds, math.Min(maxOdds, odds))))
}

// learn learns the truth, 0 or 1, of a row, given a. Product is scratch of the length of z.
func (n *newton) learn(product, z []float64, odds, truth, weight float64) {
	p := probability(odds)
	h := float64(weight * p * (1 - p))
	for i := range product {
		product[i] = dot(n.row(i), z)
	}
	q := math.Max(0, dot(product, z))
	shrink, step := h/(1+float64(h*q)), float64(weight*(truth-p))/(1+float64(h*q))
	for i, v := range product {
		part := float64(shrink * v)
		if part != 0 {
			row := n.row(i)
			for j, u := range product[:i+1] {
				row[j] -= float64(part * u)
				n.s[j*len(product)+i] = row[j]
			}
		}
		n.w[i] = math.Max(-maxLogitWeight, math.Min(maxLogitWeight, n.w[i]+float64(step*v)))
	}
}

func (n *newton) visit(v *codec.Visitor) {
	v.FloatsWithin(maxLogitWeight, n.w)
	for i := range n.w {
		v.FloatsWithin(constantVariance, n.row(i)[:i+1])
		for j := 0; j < i && v.Reading(); j++ {
			n.s[j*len(n.w)+i] = n.row(i)[j]
		}
	}
}
