//go:build !amd64 || purego

package trig

// Sincos writes the sine and the cosine of every angle into the first
// len(angles) numbers of sines and of cosines. Angles are in radians. An
// infinite angle and NaN give NaN, −0 gives a sine of −0. The error is below one
// unit in the last place. It costs some 20 ns an angle, and some 70 for one of a
// magnitude above 1.6 million. It allocates nothing.
//
// The angles may be the same slice as sines or cosines, else no two may overlap.
// It panics when sines or cosines are shorter than angles.
func Sincos(sines, cosines, angles []float64) { sincosGo(sines, cosines, angles) }
