package interval

import (
	"fmt"
	"math"

	"hindsight/internal/model/codec"
	"hindsight/internal/model/mlpoly"
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
	dst = codec.AppendUint64(dst, s.known)
	dst = codec.AppendUint64(dst, s.judged)
	dst = codec.AppendFloats(dst, s.weighted, s.weight, s.total)
	for i := range s.levels {
		v := &s.levels[i]
		dst = codec.AppendFloats(dst, v.q[:]...)
		dst = v.mixture.AppendBinary(dst)
		dst = codec.AppendUint64(dst, v.covered)
		dst = codec.AppendFloats(dst, v.faded)
		dst = codec.AppendUint64(dst, uint64(v.least))
		dst = codec.AppendFloats(dst, v.width.High, v.width.Low, v.score.High, v.score.Low)
	}
	if s.judged == 0 {
		return dst
	}
	dst = codec.AppendFloats(dst, s.ring...)
	for i := range s.levels {
		for _, w := range s.levels[i].hits {
			dst = codec.AppendUint64(dst, w)
		}
	}
	return dst
}

// Bounds of what a state holds, beyond what any residuals make of it.
const (
	maxCount  = 1 << 62
	maxSum    = 1e260
	maxWeight = 1 / (1 - decay) * (1 + 1e-9)
)

// Restore replaces the state by one that AppendBinary wrote for the same
// levels. It takes any bytes, and fails with codec.ErrCorrupt on those that
// cannot be a state. On an error the state is as it was.
func (s *State) Restore(data []byte) error {
	t := &State{levels: make([]level, len(s.levels))}
	r := codec.NewReader(data)
	t.known, t.judged = r.Uint64(), r.Uint64()
	r.Within(maxSum, &t.weighted, &t.weight, &t.total)
	for i := range t.levels {
		v := &t.levels[i]
		v.target, v.miss = s.levels[i].target, s.levels[i].miss
		r.FloatsWithin(maxRadius, v.q[:])
		v.mixture = mlpoly.New(trackers)
		if err := v.mixture.Restore(r); err != nil {
			return fmt.Errorf("interval: %w: %w", err, codec.ErrCorrupt)
		}
		v.covered = r.Uint64()
		r.Within(1/(1-fading)*(1+1e-9), &v.faded)
		least := r.Uint64()
		v.least = uint16(min(least, math.MaxUint16))
		r.Within(maxSum, &v.width.High, &v.width.Low, &v.score.High, &v.score.Low)
	}
	if r.Err() == nil && t.judged > 0 {
		t.allocate()
		r.FloatsWithin(maxScore, t.ring)
		for i := range t.levels {
			for w := range t.levels[i].hits {
				t.levels[i].hits[w] = r.Uint64()
			}
		}
	}
	if err := r.End(); err != nil {
		return fmt.Errorf("interval: %w", err)
	}
	if what := t.broken(); what != "" {
		return fmt.Errorf("interval: %s: %w", what, codec.ErrCorrupt)
	}
	*s = *t
	return nil
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
