//go:build !purego

package trig

// lanes is how many angles the assembly takes at a time.
const lanes = 2

// Sincos is documented in trig_amd64.go.
func Sincos(sines, cosines, angles []float64) {
	sines, cosines = sines[:len(angles)], cosines[:len(angles)]
	for len(angles) >= lanes {
		done := sincosNEON(&sines[0], &cosines[0], &angles[0], len(angles)&^(lanes-1))
		// One of the next two is not ordinary, or at most one is left.
		next := min(done+lanes, len(angles))
		sincosGo(sines[done:next], cosines[done:next], angles[done:next])
		sines, cosines, angles = sines[next:], cosines[next:], angles[next:]
	}
	sincosGo(sines, cosines, angles)
}

// sincosNEON is sincosGo of n angles, a multiple of 2 and not 0, up to the first two that
// are not both ordinary. It returns how many it did.
//
//go:noescape
func sincosNEON(sines, cosines, angles *float64, n int) (done int)
