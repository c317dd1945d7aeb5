//go:build !amd64 || purego

package qr

// rotate is rotateGo.
func rotate(a, b []float64, ca, sa, c, s float64) { rotateGo(a, b, ca, sa, c, s) }

// axpy is axpyGo.
func axpy(y, x []float64, a float64) { axpyGo(y, x, a) }

// dot is dotGo.
func dot(x, y []float64) float64 { return dotGo(x, y) }
