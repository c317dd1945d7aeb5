//go:build !purego

package qr

import "golang.org/x/sys/cpu"

// Shorter rows are not worth the call.
const shortest = 8

// rotate is rotateGo, four entries at a time where the processor can.
func rotate(a, b []float64, ca, sa, c, s float64) {
	if n := len(a) &^ 3; n >= shortest && cpu.X86.HasAVX2 {
		b = b[:len(a)]
		rotateAVX2(&a[0], &b[0], n, ca, sa, c, s)
		a, b = a[n:], b[n:]
	}
	rotateGo(a, b, ca, sa, c, s)
}

// axpy is axpyGo, four entries at a time where the processor can.
func axpy(y, x []float64, a float64) {
	if n := len(y) &^ 3; n >= shortest && cpu.X86.HasAVX2 {
		x = x[:len(y)]
		axpyAVX2(&y[0], &x[0], n, a)
		y, x = y[n:], x[n:]
	}
	axpyGo(y, x, a)
}

// dot is dotGo, its eight parts at a time where the processor can.
func dot(x, y []float64) float64 {
	n := len(x) &^ 7
	if n == 0 || !cpu.X86.HasAVX2 {
		return dotGo(x, y)
	}
	y = y[:len(x)]
	return dotRest(dotAVX2(&x[0], &y[0], n), x[n:], y[n:])
}

// rotateAVX2 is rotateGo of n entries, a multiple of 4.
//
//go:noescape
func rotateAVX2(a, b *float64, n int, ca, sa, c, s float64)

// axpyAVX2 is axpyGo of n entries, a multiple of 4.
//
//go:noescape
func axpyAVX2(y, x *float64, n int, a float64)

// dotAVX2 is dotGo of n entries, a multiple of 8 and not 0.
//
//go:noescape
func dotAVX2(x, y *float64, n int) float64
