package interval

import (
	"math"
	"slices"

	"hindsight/internal/model/codec"
	"hindsight/internal/model/exponential"
)

const (
	// The number of newest predictions among which a prediction has its rank.
	ranked = 200
	// The number of knots, at the ranks 0, 1/8, 2/8, … 1.
	knots = 9
	// The discount of the sums of the knots.
	shapeDecay = 0.999
	// The prior rounds of a knot, of the mean score.
	shapePrior        = 20
	bendStep, maxBend = 0.02, 2
)

// shape says how the size of residuals depends on the prediction: a prediction has the factor
//
//	ρ = Σ_j u_j ρ_j exp(Σ_j u_j κ_j),  ρ_j = (S_j + 20 m)/((n_j + 20) m),  m = S/n
//
// in its interval. The parts u of the knots are linear in the rank of the prediction among the
// newest 200. S_j and n_j are the sums of the scores |y − ŷ|/σ and of the parts u_j, S and n
// those over all knots, discounted by 0.999 a round. The bend κ_j grows by 0.02 u_j (1 − a) if the
// first level's interval misses the label and shrinks by 0.02 u_j a if it does not, so that each
// knot covers what the level says.
type shape struct {
	// newest has the newest predictions: the prediction of observation n, from 0, at n mod ranked. sorted
	// are the same in order.
	newest, sorted []float64
	sums, counts   [knots]float64
	bends          [knots]float64
}

// place returns the knot below a prediction and the part of the next knot. It costs O(log ranked).
func (s *shape) place(value float64) (knot int, next float64) {
	rank := 0.5
	if n := len(s.sorted); n > 0 {
		below, found := slices.BinarySearch(s.sorted, value)
		equal := 0
		for found && below+equal < n && s.sorted[below+equal] == value {
			equal++
		}
		rank = (float64(below) + float64(equal)/2) / float64(n)
	}
	at := rank * (knots - 1)
	knot = min(int(at), knots-2)
	return knot, at - float64(knot)
}

// factor is ρ.
func (s *shape) factor(value float64) float64 {
	sum, count := 0.0, 0.0
	for j := range s.sums {
		sum += s.sums[j]
		count += s.counts[j]
	}
	mean := sum / count
	if !(mean > 0) { // No scores, or all 0.
		return 1
	}
	at := func(j int) float64 {
		return (s.sums[j] + float64(shapePrior*mean)) / float64((s.counts[j]+shapePrior)*mean)
	}
	j, next := s.place(value)
	size := float64((1-next)*at(j)) + float64(next*at(j+1))
	return size * exponential.Of(float64((1-next)*s.bends[j])+float64(next*s.bends[j+1]))
}

// learn learns the score of a prediction, and whether the first level, with the probability a of a
// miss, missed.
func (s *shape) learn(value, score float64, missed bool, a float64) {
	for k := range s.sums {
		s.sums[k] *= shapeDecay
		s.counts[k] *= shapeDecay
	}
	step := -a
	if missed {
		step = 1 - a
	}
	j, next := s.place(value)
	for k, part := range [2]float64{1 - next, next} {
		k += j
		s.sums[k] += float64(part * score)
		s.counts[k] += part
		s.bends[k] = math.Max(-maxBend, math.Min(maxBend, s.bends[k]+float64(bendStep*part*step)))
	}
}

func (s *shape) see(n uint64, value float64) {
	if s.newest == nil {
		s.newest, s.sorted = make([]float64, 0, ranked), make([]float64, 0, ranked)
	}
	if len(s.newest) < ranked {
		s.newest = append(s.newest, value)
	} else {
		at := n % ranked
		old, _ := slices.BinarySearch(s.sorted, s.newest[at])
		s.sorted = slices.Delete(s.sorted, old, old+1)
		s.newest[at] = value
	}
	at, _ := slices.BinarySearch(s.sorted, value)
	s.sorted = slices.Insert(s.sorted, at, value)
}

func (s *shape) visit(v *codec.Visitor, known uint64) {
	if n := int(min(known, ranked)); v.Reading() && n > 0 {
		s.newest, s.sorted = make([]float64, n, ranked), make([]float64, n, ranked)
	}
	v.FloatsWithin(math.MaxFloat64, s.newest)
	v.FloatsWithin(maxScore/(1-shapeDecay)*(1+1e-9), s.sums[:])
	v.FloatsWithin(1/(1-shapeDecay)*(1+1e-9), s.counts[:])
	v.FloatsWithin(maxBend, s.bends[:])
	if !v.Reading() {
		return
	}
	copy(s.sorted, s.newest)
	slices.Sort(s.sorted)
	for j := range s.sums {
		if s.sums[j] < 0 || s.counts[j] < 0 || s.sums[j] > float64(maxScore*s.counts[j])*(1+1e-9) {
			v.Corrupt("a knot of %g over %g rounds", s.sums[j], s.counts[j])
		}
	}
}
