//go:build !amd64 || purego

package exponential

// Exp is documented in exponential_amd64.go. Here it costs some 15 ns a number.
func Exp(dst, x []float64) { expGo(dst, x) }
