package interval

import (
	"fmt"
	"unsafe"

	"hindsight/internal/model/codec"
	"hindsight/internal/model/mix"
)

// Trackers are the q_k of a level.
func (s *State) Trackers(level int) []float64 { return s.levels[level].q[:] }

// Regret is R_k of a level.
func (s *State) Regret(level, k int) float64 { return s.levels[level].mixture.Regret(k) }

// Allowed is √(S (B' + V_k)) of a level, what ML-Poly promises of R_k.
func (s *State) Allowed(level, k int) float64 { return s.levels[level].mixture.Bound(k) }

// Largest is B.
func (s *State) Largest() float64 { return s.largest }

// Steps are the c_k.
func Steps() []float64 { c := steps(); return c[:] }

// Bytes is what Size says of the structs.
func (s *State) Bytes() uint64 {
	size := uint64(unsafe.Sizeof(*s)) + uint64(cap(s.levels))*uint64(unsafe.Sizeof(level{})+unsafe.Sizeof(mix.Mixture{})+24*trackers) + 8*uint64(cap(s.ring))
	for _, v := range s.levels {
		size += 8 * uint64(cap(v.hits))
	}
	size += 8 * uint64(cap(s.shape.newest)+cap(s.shape.sorted))
	return size
}

// AppendBinary appends the state to dst, from which Restore continues bit for bit. It
// allocates nothing when dst has room.
func (s *State) AppendBinary(dst []byte) []byte {
	v := codec.Appending(dst)
	s.Visit(&v)
	out, _ := v.Appended() // Appending numbers does not fail.
	return out
}

// Restore replaces the state by one that AppendBinary wrote for the same levels. It accepts
// any bytes, and fails with codec.ErrCorrupt on bytes that cannot be a state. After an error
// the state is unchanged.
func (s *State) Restore(data []byte) error {
	fresh := &State{levels: make([]level, len(s.levels))}
	for i, l := range s.levels {
		fresh.levels[i] = level{target: l.target, miss: l.miss, mixture: mix.New(trackers)}
	}
	if err := codec.Read(data, fresh.Visit); err != nil {
		return fmt.Errorf("interval: %w: %w", err, codec.ErrCorrupt)
	}
	*s = *fresh
	return nil
}
