package loops

import "math"

// Lanes is the number of sums of a distance.
const Lanes = 8

func distancesGo(dst, rows []float32, stride int, z, weights []float32) {
	weights = weights[:len(z)]
	for i := range dst {
		var s [Lanes]float32
		row := rows[i*stride:][:len(z)]
		for len(row) >= Lanes {
			for k := range s {
				u := row[k] - z[len(z)-len(row):][k]
				s[k] += float32(float32(weights[len(z)-len(row):][k]*u) * u)
			}
			row = row[Lanes:]
		}
		dst[i] = ((s[0] + s[1]) + (s[2] + s[3])) + ((s[4] + s[5]) + (s[6] + s[7]))
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
