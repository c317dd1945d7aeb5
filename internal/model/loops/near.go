package loops

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
