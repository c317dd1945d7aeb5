package interval

import (
	"unsafe"

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
