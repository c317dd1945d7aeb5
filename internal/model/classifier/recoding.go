package classifier

import (
	"math"

	"hindsight/internal/model/exponential"
)

// choices is the number of exponents a = 0, 0.1, … 1 to choose from.
const choices = 11

// recoding chooses the exponent a of decisions. The entry right[i] is the weight of the observations
// that a = i/10 would have decided right, of the classes with n_k ≥ n/2K of K classes alone,
// discounted as the counts are. The choice is
//
//	a = max {i/10 : right[i] ≥ right[0]}
//
// The recoding costs the frequent classes nothing on the whole.
//
// Source: Camoriano, thesis (Genoa, 2017), §7.6.3, whose validation set of every sixth
// observation is held out. Here every observation is predicted before it is learned.
type recoding struct{ right [choices]float64 }

func (r *recoding) exponent() float64 {
	for i := choices - 1; i > 0; i-- {
		if r.right[i] >= r.right[0] {
			return float64(i) / (choices - 1)
		}
	}
	return 0
}

// learn learns the class of an observation, given the scores before it. Ratios are scratch.
func (r *recoding) learn(ratios, scores, counts []float64, class int, weight float64) {
	total := sum(counts)
	if counts[class] < total/float64(2*len(counts)) {
		return
	}
	powers(ratios, counts, total, 1.0/(choices-1))
	for i := range r.right {
		if largest(scores) == class {
			r.right[i] += weight
		}
		for k, ratio := range ratios {
			scores[k] *= ratio
		}
	}
}

func (r *recoding) forget(factor float64) {
	for i := range r.right {
		r.right[i] *= factor
	}
}

func (l *Learner) exponent() float64 {
	if l.recoding != nil {
		return l.recoding.exponent()
	}
	return l.o.Recoding
}

func (l *Learner) decide(buffer, values, counts []float64, total float64) (class int) {
	if l.o.signs() {
		if len(counts) > 1 && values[0] > 0 {
			return 1
		}
		return 0
	}
	values = values[:len(counts)]
	if a := l.exponent(); a > 0 {
		powers(buffer, counts, total, a)
		for k, v := range values {
			buffer[k] *= v
		}
		values = buffer
	}
	return largest(values)
}

func largest(values []float64) (class int) {
	for k, v := range values {
		if v > values[class] {
			class = k
		}
	}
	return class
}

// maxRatio bounds n/n_k: n_k may be forgotten.
const maxRatio = 1e30

// powers writes (n/n_k)^a into dst.
func powers(dst, counts []float64, total, a float64) {
	for k, n := range counts {
		ratio := 1.0
		if n < total {
			ratio = math.Min(total/n, maxRatio)
		}
		dst[k] = float64(a * exponential.Log(ratio))
	}
	exponential.Exp(dst, dst)
}
