//go:build !amd64 || purego

package trig

// Sincos is documented in trig_amd64.go. Here it costs some 20 ns an angle.
func Sincos(sines, cosines, angles []float64) { sincosGo(sines, cosines, angles) }
