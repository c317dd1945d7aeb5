package codec

import "slices"

// Growing is Appending to dst with room for n more bytes, which Counting knows.
func Growing(dst []byte, n int) Visitor { return Appending(slices.Grow(dst, n)) }

// Read reads all of a state by visit.
func Read(state []byte, visit func(v *Visitor)) error {
	v := Reading(state)
	visit(&v)
	return v.End()
}
