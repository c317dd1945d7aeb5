//go:build !purego

package exponential

import "golang.org/x/sys/cpu"

// lanes is how many numbers the assembly takes at a time.
const lanes = 4

// Exp writes e^x of every number into the first len(x) numbers of dst: 0 where it
// is too small for a float64, +Inf where it is too large, NaN of NaN. It costs some
// 3 ns a number and allocates nothing. The two may be the same slice, else they must
// not overlap. It panics when dst is shorter than x.
func Exp(dst, x []float64) {
	dst = dst[:len(x)]
	if !cpu.X86.HasAVX2 {
		expGo(dst, x)
		return
	}
	if n := len(x) &^ (lanes - 1); n > 0 {
		expAVX2(&dst[0], &x[0], n)
		dst, x = dst[n:], x[n:]
	}
	var last [lanes]float64
	if n := copy(last[:], x); n > 0 {
		expAVX2(&last[0], &last[0], lanes)
		copy(dst, last[:n])
	}
}

// expAVX2 is expGo of n numbers, a multiple of 4 and not 0.
//
//go:noescape
func expAVX2(dst, x *float64, n int)
