package effects

import "math"

// A hash is a permutation of a code: the number of the source from 1 in the upper 12 bits, and 52
// bits of the key. Keys of different sources never have one hash. The key of a single input is
// its value, and the key of several inputs is a hash of their values.
const (
	keyBits = 52
	keyMask = 1<<keyBits - 1
	// MostInputs is the largest number of inputs with keys.
	MostInputs = 1024
)

// Permute is the finalizer of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014), a permutation.
func Permute(z uint64) uint64 {
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// restore is the inverse of Permute.
func restore(z uint64) uint64 {
	z = (z ^ z>>31 ^ z>>62) * 0x319642b2d24d8ec3
	z = (z ^ z>>27 ^ z>>54) * 0x96de1b173f119089
	return z ^ z>>30 ^ z>>60
}

// coded is the hash of the key of a source.
func coded(source int, key uint64) uint64 { return Permute(uint64(source+1)<<keyBits | key&keyMask) }

// keyOf is the key of a value: the value if it is an integer below 2^52, and else a hash of it.
func keyOf(value float64) uint64 {
	if value >= 0 && value < 1<<keyBits && value == math.Trunc(value) {
		return uint64(value)
	}
	return Permute(math.Float64bits(value)) & keyMask
}

// together is the hash of a value after others.
func together(hash uint64, value float64) uint64 {
	return Permute((hash+1)*0x9e3779b97f4a7c15 ^ keyOf(value))
}

// Find finds the keys of the values of the inputs. A value of 0 is missing: an input without a
// value has no key, and several inputs have none if they have no value together. The row has the numbers x.
func (e *Effects) Find(r *Row, values, x []float64) {
	for i, v := range x {
		r.x[i] = cut(v)
	}
	joint, known := uint64(0), false
	for i, v := range values {
		r.hashes[i] = 0
		if v != 0 {
			r.hashes[i], known = coded(i, keyOf(v)), true
		}
		joint = together(joint, v)
	}
	source := e.o.Inputs
	several := func(hash uint64, known bool) {
		r.hashes[source] = 0
		if known && e.trials[source-e.o.Inputs].wakes == 0 {
			r.hashes[source] = coded(source, hash)
		}
		source++
	}
	if e.o.Inputs > 1 {
		several(joint, known)
	}
	if e.o.pairs() > 0 {
		for i, second := range values[:min(e.o.Inputs, mostPaired)] {
			for _, first := range values[:i] {
				several(together(together(0, first), second), first != 0 || second != 0)
			}
		}
	}
	e.findShared(r.hashes[e.o.sources():], values)
	for source, hash := range r.hashes {
		r.slots[source] = none
		if hash != 0 {
			r.slots[source] = e.find(hash)
		}
	}
}
