package interval

import "unsafe"

// Trackers are the q_k of a level.
func (s *State) Trackers(level int) []float64 { return s.levels[level].q[:] }

// Mixing are the R_k, the V_k and B' of a level.
func (s *State) Mixing(level int) (regret, variation []float64, bound float64) {
	v := &s.levels[level]
	return v.regret[:], v.variation[:], v.bound
}

// Largest is B.
func (s *State) Largest() float64 { return s.largest }

// Steps are the c_k.
func Steps() []float64 { c := steps(); return c[:] }

// Bytes is what Size says of the structs.
func (s *State) Bytes() uint64 {
	size := uint64(unsafe.Sizeof(*s)) + uint64(cap(s.levels))*uint64(unsafe.Sizeof(level{})) + 8*uint64(cap(s.ring))
	for _, v := range s.levels {
		size += 8 * uint64(cap(v.hits))
	}
	return size
}
