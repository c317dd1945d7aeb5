package loops

import (
	"math"
	"slices"
)

// Lanes is the number of rows of a block, and of sums of a distance.
const Lanes = 8

func distancesGo(dst, blocks []float32, stride int, z, weights []float32) {
	weights = weights[:len(z)]
	for len(blocks) > 0 {
		for i := range Lanes {
			var s [Lanes]float32
			for j, v := range z {
				u := blocks[j*Lanes+i] - v
				s[j%Lanes] += float32(float32(weights[j]*u) * u)
			}
			dst[i] = ((s[0] + s[1]) + (s[2] + s[3])) + ((s[4] + s[5]) + (s[6] + s[7]))
		}
		dst, blocks = dst[Lanes:], blocks[stride*Lanes:]
	}
}

// Shares is the number of shares of Reach.
const Shares = 128

func reachGo(distances []float32, rows int) uint32 {
	if len(distances) < Shares {
		return math.MaxUint32
	}
	var least [Shares]uint32
	for k := range least {
		least[k] = math.MaxInt32
	}
	for ; len(distances) >= Shares; distances = distances[Shares:] {
		for k, d := range (*[Shares]float32)(distances) {
			least[k] = min(least[k], math.Float32bits(d))
		}
	}
	return Smallest(least[:], rows-1)
}

func collectGo(keys []uint64, distances []float32, bound uint32) (found, looked int) {
	for i, d := range distances {
		if len(keys)-found < 2*Lanes {
			return found, i
		}
		if bits := math.Float32bits(d); bits <= bound {
			keys[found] = uint64(bits)<<32 | uint64(len(distances)-1-i)
			found++
		}
	}
	return found, len(distances)
}

func orderGo(dst, keys []uint64) { slices.Sort(dst[:copy(dst, keys)]) }
