package loops

import "math"

// Line is how many numbers a cache line holds. A row of a factor has as many lines as it
// needs, and ends with the last.
const Line = 64 / 8

// Turn is one factor's part of TurnRows: see qr.Turn. Pointers are to the first of their
// numbers.
type Turn struct {
	Data, Row, Priors, Right, Diagonal *float64
	// C and S are the cosine and the sine of the current row. Still is 1 if its entry of z
	// is 0: it has neither.
	C, S  float64
	Still int64
	// Gamma is Π c so far, Leverage the sum of what the sines give, Left Π c².
	Gamma, Leverage, Left float64
	// Root is what [R u] is multiplied by first.
	Root float64
}

// Turns is how many observations a Group has.
const Turns = 4

// Group is observations that TurnGroups takes into one factor, one after the other: see
// qr.RotateSequence. Its arrays have what Turn has of each, for a Root of 1.
type Group struct {
	Rows, Priors [Turns]*float64
	C, S         [Turns]float64
	// V is the current entry of the solution R⁻ᵀz.
	V                     [Turns]float64
	Gamma, Leverage, Left [Turns]float64
	// Still has bit n if the current entry of turn n is 0.
	Still int64
	// Z, D and Norms are what TurnGroups knows of the rotations of the next row: the entries of
	// the turns, and the diagonal before and after each.
	Z, D, Norms [Turns]float64
}

// Substitution is one factor's part of SubstituteRows: see qr.Solution. Pointers are to the
// first of their numbers, Data to the first row.
type Substitution struct {
	Data, Z, Priors *float64
	// V is the current entry of the solution. Still is 1 if the entry of z was 0: nothing is
	// taken from the entries behind it.
	V     float64
	Still int64
	// Square is ‖v‖² so far.
	Square float64
}

// Abreast is how many solutions of one factor SubstituteAbreast takes.
const Abreast = 8

// Panel is how many rows AbsorbRows takes at a time.
const Panel = 4

// cosinesGo is Cosines from entry i on.
func cosinesGo(squares, g, v []float64, root, inverse float64, i int) {
	for ; i < len(v); i++ {
		c := math.Sqrt(squares[i] / squares[i+1])
		g[i] = v[i] / squares[i] * c * inverse
		squares[i] = c * root
	}
}
