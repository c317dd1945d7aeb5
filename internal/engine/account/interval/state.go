package interval

import (
	"math"

	"hindsight/internal/model/codec"
)

// Bounds of a state. Every state that residuals lead to is within them.
const (
	maxCount  = 1 << 62
	maxSum    = 1e260
	maxWeight = 1 / (1 - decay) * (1 + 1e-9)
)

// Visit visits the state, in numbers of 8 bytes. The rings are present if an interval was
// scored. Reading wants a new state, and derives what is not stored.
func (s *State) Visit(v *codec.Visitor) {
	v.Uint64(&s.known, &s.scored)
	v.Within(maxSum, &s.weighted, &s.weight, &s.total)
	for i := range s.levels {
		s.levels[i].visit(v)
	}
	if s.scored > 0 {
		if v.Reading() {
			s.allocate()
		}
		v.FloatsWithin(maxScore, s.ring)
		for i := range s.levels {
			hits := s.levels[i].hits
			for w := range hits {
				v.Uint64(&hits[w])
			}
		}
	}
	s.shape.visit(v, s.known)
	if v.Reading() {
		s.check(v)
	}
}

func (l *level) visit(v *codec.Visitor) {
	v.FloatsWithin(maxRadius, l.q[:])
	l.mixture.Visit(v)
	v.Uint64(&l.covered)
	least := int(l.leastCovered)
	if v.Int(window, &least); v.Reading() {
		l.leastCovered = uint16(least)
	}
	v.Within(maxSum, &l.width.High, &l.width.Low, &l.score.High, &l.score.Low)
}

func (s *State) check(v *codec.Visitor) {
	switch {
	case s.scored > s.known || s.known > maxCount:
		v.Corrupt("%d residuals, %d intervals", s.known, s.scored)
	case s.known <= skipped && (s.weighted != 0 || s.weight != 0 || s.total != 0),
		s.known > skipped && !(s.weight >= 1 && s.weight <= maxWeight),
		s.weighted < 0, s.total < 0:
		v.Corrupt("means of %g/%g and %g over %d residuals", s.weighted, s.weight, s.total, s.known)
	}
	for n, score := range s.ring {
		if score < 0 || math.Signbit(score) || score > 0 && uint64(n) >= s.scored {
			v.Corrupt("score %d of %d is %g", n, s.scored, score)
		}
	}
	s.largest = maximum(s.ring)
	for i := range s.levels {
		s.levels[i].check(v, s.scored)
	}
}

func (l *level) check(v *codec.Visitor, scored uint64) {
	if scored < 2*window && l.leastCovered != window {
		v.Corrupt("a least window of %d after %d intervals", l.leastCovered, scored)
	}
	if l.hits == nil {
		if l.covered != 0 {
			v.Corrupt("%d covered and none scored", l.covered)
		}
		return
	}
	for n := min(scored, recent); n < 64*ringWords; n++ {
		if l.hits[n/64]>>(n%64)&1 != 0 {
			v.Corrupt("bit %d is set after %d intervals", n, scored)
			return
		}
	}
	l.recently = uint16(ones(l.hits))
	for n := scored - min(scored, window); n < scored; n++ {
		if l.hit(n) {
			l.lately++
		}
	}
	missed := min(scored, recent) - uint64(l.recently)
	if l.covered < uint64(l.recently) || l.covered > scored-missed {
		v.Corrupt("%d of %d covered, %d recently", l.covered, scored, l.recently)
	}
	if scored >= 2*window && l.leastCovered > l.lately {
		v.Corrupt("a least window of %d, the newest of %d", l.leastCovered, l.lately)
	}
}
