//go:build !purego

package trig

import "golang.org/x/sys/cpu"

// lanes is how many angles the assembly takes at a time.
const lanes = 4

// Sincos writes the sine and the cosine of every angle into the first
// len(angles) numbers of sines and of cosines. Angles are in radians. An
// infinite angle and NaN give NaN, −0 gives a sine of −0. The error is below one
// unit in the last place. It costs some 6 ns an angle, and some 70 for one of a
// magnitude above 1.6 million. It allocates nothing.
//
// The angles may be the same slice as sines or cosines, else no two may overlap.
// It panics when sines or cosines are shorter than angles.
func Sincos(sines, cosines, angles []float64) {
	sines, cosines = sines[:len(angles)], cosines[:len(angles)]
	if !cpu.X86.HasAVX2 {
		sincosGo(sines, cosines, angles)
		return
	}
	for len(angles) >= lanes {
		done := sincosAVX2(&sines[0], &cosines[0], &angles[0], len(angles)&^(lanes-1))
		sines, cosines, angles = sines[done:], cosines[done:], angles[done:]
		if len(angles) < lanes {
			break
		}
		// One of the next four is not ordinary.
		sincosGo(sines[:lanes], cosines[:lanes], angles[:lanes])
		sines, cosines, angles = sines[lanes:], cosines[lanes:], angles[lanes:]
	}
	var s, c, x [lanes]float64
	if n := copy(x[:], angles); n > 0 {
		if sincosAVX2(&s[0], &c[0], &x[0], lanes) < lanes {
			sincosGo(s[:], c[:], x[:])
		}
		copy(sines, s[:n])
		copy(cosines, c[:n])
	}
}

// sincosAVX2 is sincosGo of n angles, a multiple of 4, up to the first four that
// are not all ordinary. It returns how many it did.
//
//go:noescape
func sincosAVX2(sines, cosines, angles *float64, n int) (done int)
