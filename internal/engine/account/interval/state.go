package interval

import (
	"fmt"
	"math"

	"hindsight/internal/model/codec"
	"hindsight/internal/model/mix"
)

// AppendBinary appends the state to dst. It allocates nothing when dst has room.
// A State of the same levels continues from it bit for bit.
//
// The layout, every number of 8 bytes: residuals known, observations judged,
// Σ 0.95^i |residual|, Σ 0.95^i, Σ |residual|; each level: q of the
// trackers, their mixture, covered, the same discounted, least covered of a
// window, the two parts of the sum of widths and of that of scores; if any was judged: the ring of scores, and the
// ring of bits of each level.
func (s *State) AppendBinary(dst []byte) []byte {
	v := codec.Appending(dst)
	s.visit(&v)
	dst, _ = v.Appended() // Nothing in it fails.
	return dst
}

// Bounds of what a state holds, beyond what any residuals make of it.
const (
	maxCount  = 1 << 62
	maxSum    = 1e260
	maxWeight = 1 / (1 - decay) * (1 + 1e-9)
)

// Restore replaces the state by one that AppendBinary wrote for the same levels. It takes
// any bytes, and fails with codec.ErrCorrupt on those that cannot be a state. On an error
// the state is as it was.
func (s *State) Restore(data []byte) error {
	t := &State{levels: make([]level, len(s.levels))}
	for i := range t.levels {
		t.levels[i] = level{target: s.levels[i].target, miss: s.levels[i].miss, mixture: mix.New(trackers)}
	}
	v := codec.Reading(data)
	t.visit(&v)
	if err := v.End(); err != nil {
		return fmt.Errorf("interval: %w: %w", err, codec.ErrCorrupt)
	}
	if what := t.broken(); what != "" {
		return fmt.Errorf("interval: %s: %w", what, codec.ErrCorrupt)
	}
	*s = *t
	return nil
}

func (s *State) visit(v *codec.Visitor) {
	v.Uint64(&s.known, &s.judged)
	v.Within(maxSum, &s.weighted, &s.weight, &s.total)
	for i := range s.levels {
		s.levels[i].visit(v)
	}
	if v.Reading() && s.judged > 0 {
		s.allocate()
	}
	v.FloatsWithin(maxScore, s.ring)
	for i := range s.levels {
		for w := range s.levels[i].hits {
			v.Uint64(&s.levels[i].hits[w])
		}
	}
}

func (v *level) visit(c *codec.Visitor) {
	c.FloatsWithin(maxRadius, v.q[:])
	v.mixture.Visit(c)
	c.Uint64(&v.covered)
	c.Within(1/(1-fading)*(1+1e-9), &v.faded)
	least := int(v.least)
	if c.Int(math.MaxUint16, &least); c.Reading() {
		v.least = uint16(least)
	}
	c.Within(maxSum, &v.width.High, &v.width.Low, &v.score.High, &v.score.Low)
}

// broken says what of a state that was read cannot be, and derives what is not
// stored.
func (s *State) broken() string {
	switch {
	case s.judged > s.known || s.known > maxCount:
		return "the numbers of observations cannot be"
	case s.known <= skipped && (s.weighted != 0 || s.weight != 0 || s.total != 0),
		s.known > skipped && !(s.weight >= 1 && s.weight <= maxWeight),
		s.weighted < 0, s.total < 0:
		return "the means of the residuals do not fit their number"
	}
	for n, score := range s.ring {
		if score < 0 || math.Signbit(score) || score > 0 && uint64(n) >= s.judged {
			return "a score is out of its place"
		}
	}
	s.largest = maximum(s.ring)
	for i := range s.levels {
		if what := s.levels[i].broken(s.judged); what != "" {
			return what
		}
	}
	return ""
}

func (v *level) broken(judged uint64) string {
	if judged < 2*window && v.least != window || v.least > window {
		return "a window covers more than it can"
	}
	if v.faded < 0 || v.faded > float64(v.covered)*(1+1e-9) {
		return "the discounted count of what was covered does not fit the count"
	}
	if v.hits == nil {
		if v.covered != 0 {
			return "an interval was covered and none judged"
		}
		return ""
	}
	for n := min(judged, recent); n < 64*ringWords; n++ {
		if v.hits[n/64]>>(n%64)&1 != 0 {
			return "a bit is out of its place"
		}
	}
	v.recently = uint16(ones(v.hits))
	for n := judged - min(judged, window); n < judged; n++ {
		if v.hit(n) {
			v.lately++
		}
	}
	missed := min(judged, recent) - uint64(v.recently)
	if v.covered < uint64(v.recently) || v.covered > judged-missed {
		return "the counts of what was covered do not agree"
	}
	if judged >= 2*window && v.least > v.lately {
		return "the least window covers more than the last"
	}
	return ""
}
