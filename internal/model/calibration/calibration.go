// Package calibration turns the scores of classes into probabilities, learned online.
//
// A score is the expectation of the indicator of a class: near 1 for an input of that class,
// near 0 for another. With π_k the share of class k in the observations,
//
//	P_k ∝ exp(θ·φ_k),  φ_k = (s_k, log max(s_k, 0.01), log π_k)
//
// θ = (0, 1, 0) takes the scores as probabilities; the first entry is a temperature, the last
// a shift towards frequent classes. Online Newton steps on the logistic loss of P move θ
// after the probabilities of each round:
//
//	A ← f A + (1−f) a₀ I + ω Cov_P(φ),   θ ← θ − A⁻¹ ω (E_P φ − φ_truth)
//
// clipped to ±50. P is the mixture of three softmaxes of the memories f = 0.95, 0.99 and
// 0.999, because the best memory depends on the drift of the stream:
//
//	v_i ← 0.98 v_i P_i(truth)^ω / Σ + 0.02/3
//
// The mixture loses little against the best softmax in any stretch of rounds (fixed share:
// Herbster and Warmuth, Machine Learning 32 (1998)). A table then corrects the probability of
// class 1 of two classes, or of each of more classes before they are normalized.
//
// Source: Platt, Advances in Large Margin Classifiers (1999), for a logistic function of a
// score; the rest is ours. On the published streams elec2 and ijcnn1 every bin of the
// reliability table that has 500 members is within 0.05 of its probability, for every
// learner. A single f = 0.95 is off by up to 0.23, two parameters with f = 0.9995 by up to
// 0.18. On each stream mixture and table together lose at most 1 % more than the best of the
// three memories, and up to 5 % less.
package calibration

import (
	"math"
	"slices"
	"sync"

	"hindsight/internal/model/codec"
	"hindsight/internal/model/exponential"
	"hindsight/internal/model/mix"
)

const (
	memories  = 3
	share     = 0.02
	maxWeight = 1e3 // Larger weights make the same step.
)

// Link calibrates one classifier. Probabilities only reads.
type Link struct {
	softmaxes [memories]Softmax
	// mixture is v, Σ v_i = 1.
	mixture [memories]float64
	table   table
	pool    *sync.Pool
}

// New is a link without observations.
func New() *Link {
	l := &Link{pool: &sync.Pool{New: func() any { return new(scratch) }}}
	for i, decay := range [memories]float64{0.95, 0.99, 0.999} {
		l.softmaxes[i], l.mixture[i] = NewSoftmax(decay, ridge, []float64{startScore, startLinear, 0}), 1.0/memories
	}
	return l
}

type scratch struct {
	classes []Point
	each    [memories][]float64
	mixed   []float64
}

func (s *scratch) resize(classes int) {
	if cap(s.classes) < classes {
		s.classes = make([]Point, classes)
		for i := range s.each {
			s.each[i] = make([]float64, classes)
		}
		s.mixed = make([]float64, classes)
	}
	s.classes, s.mixed = s.classes[:classes], s.mixed[:classes]
	for i := range s.each {
		s.each[i] = s.each[i][:classes]
	}
}

// mix writes the probabilities before the table's correction into the scratch.
func (l *Link) mix(s *scratch, scores, counts []float64, total float64) {
	if len(counts) != len(scores) {
		panic("calibration: a link wants a count for each score")
	}
	s.resize(len(scores))
	for k, score := range scores {
		s.classes[k] = features(score, counts[k]/total)
	}
	clear(s.mixed)
	for i := range l.softmaxes {
		l.softmaxes[i].Probabilities(s.each[i], s.classes)
		for k, p := range s.each[i] {
			s.mixed[k] += float64(l.mixture[i] * p)
		}
	}
}

// Probabilities writes a probability for each score of two classes or more into dst: in (0,
// 1), of sum 1 to rounding. Counts are n_k in any unit, total is their sum. All three slices
// have one length; dst may be scores. It allocates nothing once its scratch is warm, and
// costs some ten logarithms and exponentials a class.
func (l *Link) Probabilities(dst, scores, counts []float64, total float64) {
	if len(dst) != len(scores) || len(dst) < 2 {
		panic("calibration: Probabilities wants two scores or more, and a place for each")
	}
	s := l.pool.Get().(*scratch) //nolint:forcetypeassert // The pool holds nothing else.
	defer l.pool.Put(s)
	l.mix(s, scores, counts, total)
	var moved shifts
	if len(dst) == 2 {
		dst[1] = l.table.at(s.mixed[1], &moved)
		dst[0] = 1 - dst[1]
		return
	}
	for k, p := range s.mixed {
		dst[k] = l.table.at(p, &moved)
	}
	mix.Normalize(dst)
}

// Learn learns the observed class of the scores, given the counts before. It costs about two
// Probabilities, and allocates nothing.
func (l *Link) Learn(scores, counts []float64, total float64, truth int, weight float64) {
	s := l.pool.Get().(*scratch) //nolint:forcetypeassert // The pool holds nothing else.
	defer l.pool.Put(s)
	weight = math.Min(weight, maxWeight)
	l.mix(s, scores, counts, total)
	if len(s.mixed) == 2 {
		l.table.learn(s.mixed[1], float64(truth), weight)
	} else {
		for k, p := range s.mixed {
			observed := 0.0
			if k == truth {
				observed = 1
			}
			l.table.learn(p, observed, weight)
		}
	}
	l.remix(s, truth, weight)
	for i := range l.softmaxes {
		l.softmaxes[i].Learn(s.each[i], s.classes, truth, weight)
	}
}

func (l *Link) remix(s *scratch, truth int, weight float64) {
	var gains [memories]float64
	for i := range gains {
		gains[i] = float64(weight * exponential.Log(s.each[i][truth]))
	}
	mix.Exponential(gains[:])
	for i := range gains {
		gains[i] *= l.mixture[i]
	}
	mix.Normalize(gains[:])
	for i, v := range gains {
		l.mixture[i] = float64((1-share)*v) + share/memories
	}
}

// Visit visits θ and the lower triangle of A of each memory, the mixture and the table.
func (l *Link) Visit(v *codec.Visitor) {
	for i := range l.softmaxes {
		l.softmaxes[i].Visit(v)
	}
	v.FloatsWithin(1, l.mixture[:])
	if l.table.visit(v); !v.Reading() {
		return
	}
	sum := 0.0
	for _, part := range l.mixture {
		sum += part
	}
	if slices.Min(l.mixture[:]) < share/memories/2 || !(math.Abs(sum-1) <= 1e-9) {
		v.Corrupt("a mixture of calibrations %g", l.mixture)
	}
}
