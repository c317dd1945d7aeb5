//go:build !amd64 || purego

package loops

// Scale is documented in loops_amd64.go, as are the others.
func Scale(x []float64, by float64) { scaleGo(x, by) }

// Descend is θ ← shrink θ − slope z.
func Descend(theta, z []float64, shrink, slope float64) float64 {
	return descendGo(theta, z, shrink, slope)
}

// Combine is y = Σ x_j C_j.
func Combine(y, columns, x []float64) { combineGo(y, columns, x) }

// AddSquares adds Σ w_n z_n z_nᵀ to a packed matrix.
func AddSquares(packed, rows []float64, stride, order int, weights []float64) {
	addOneByOne(packed, rows, stride, order, weights)
}

// Cosines computes root c_i and inverse g_i.
func Cosines(squares, g, v []float64, root, inverse float64) {
	cosinesGo(squares, g, v, root, inverse, 0)
}

// TurnRows does nothing.
func TurnRows(*Turn, uintptr, int, int, int, int, int) bool { return false }

// SubstituteRows does nothing.
func SubstituteRows(*Substitution, uintptr, int, int, int) bool { return false }

// SubstituteAbreast does nothing.
func SubstituteAbreast(_, _, _ []float64, _ *[Abreast]float64, _, _ int) bool { return false }

// TurnGroups does nothing.
func TurnGroups([]Group, []float64, int, int, []float64, []float64) int { return 0 }

// AbsorbRows does nothing.
func AbsorbRows(_, _, _, _, _, _, _ []float64, _, _ int, _ float64) bool { return false }

// Distances writes squared distances.
func Distances(dst, blocks []float32, stride int, z, weights []float32) (rows int) {
	distancesGo(dst, blocks, stride, z, weights)
	return len(blocks) / stride
}

// Reach finds a distance within which rows lie.
func Reach(distances []float32, rows int) uint32 { return reachGo(distances, rows) }

// Collect finds distances within a bound.
func Collect(keys []uint64, distances []float32, bound uint32) (found, looked int) {
	return collectGo(keys, distances, bound)
}

// Order sorts keys.
func Order(dst, keys []uint64) { orderGo(dst, keys) }
