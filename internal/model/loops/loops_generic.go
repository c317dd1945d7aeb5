//go:build (!amd64 && !arm64) || purego

package loops

// Rotate is documented in loops_amd64.go, as are the others.
func Rotate(a, b []float64, ca, sa, c, s float64) { rotateGo(a, b, ca, sa, c, s) }

// Axpy adds a times x to y.
func Axpy(y, x []float64, a float64) { axpyGo(y, x, a) }

// Dot is x·y.
func Dot(x, y []float64) float64 { return dotGo(x, y) }
