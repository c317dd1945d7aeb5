//go:build (!amd64 && !arm64) || purego

package loops

// Rotate is documented in loops_amd64.go, as are the others.
func Rotate(a, b []float64, ca, sa, c, s float64) { rotateGo(a, b, ca, sa, c, s) }

// Axpy adds a times x to y.
func Axpy(y, x []float64, a float64) { axpyGo(y, x, a) }

// Dot is x·y.
func Dot(x, y []float64) float64 { return dotGo(x, y) }

// Combine is y = Σ x_j C_j.
func Combine(y, columns, x []float64) { combineGo(y, columns, x) }

// TurnRows does nothing.
func TurnRows(*Turn, uintptr, int, int, int, int, int) bool { return false }

// SubstituteRows does nothing.
func SubstituteRows(*Substitution, uintptr, int, int, int) bool { return false }

// Distances writes squared distances.
func Distances(dst, rows []float32, stride int, z, weights []float32) {
	distancesGo(dst, rows, stride, z, weights)
}
