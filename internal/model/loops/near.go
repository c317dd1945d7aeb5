package loops

import "math"

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

// Shares is the number of shares of Minima.
const Shares = 128

func minimaGo(least *[Shares]uint32, distances []float32) {
	for ; len(distances) >= Shares; distances = distances[Shares:] {
		for k, d := range (*[Shares]float32)(distances) {
			least[k] = min(least[k], math.Float32bits(d))
		}
	}
}

func withinGo(distances []float32, bound uint32) int {
	for i, d := range distances {
		if math.Float32bits(d) <= bound {
			return i
		}
	}
	return len(distances)
}
