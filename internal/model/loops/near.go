package loops

import "math"

// integral is 1.5·2⁵²: the sum of integral and an integer n, |n| ≤ 2⁵⁰, has n modulo 2³² in its low bits.
const integral = 0x1.8p52

// cellsGo is Cells.
func cellsGo(hashes []uint64, z, scales, shifts []float64, keys []uint64) {
	clear(hashes)
	m := len(hashes)
	for j, v := range z {
		scales, shifts, keys := scales[j*m:][:m], shifts[j*m:][:m], keys[j*m:][:m]
		for i, key := range keys {
			q := math.Floor(float64(v*scales[i]) + shifts[i])
			if q > math.MaxInt32 {
				q = math.MaxInt32
			}
			if q < -math.MaxInt32 {
				q = -math.MaxInt32
			}
			hashes[i] += key * uint64(uint32(math.Float64bits(q+integral)))
		}
	}
}

// Lanes is the number of sums of a distance.
const Lanes = 8

// distancesGo is Distances.
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
