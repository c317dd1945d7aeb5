package qr

// Turn is one factor's part of RotateTogether: what RotateDiscounted takes, and
// the Rotation that it yields.
type Turn struct {
	// Factor is what gets the observation.
	Factor *Factor
	// Row is z and then y, order+columns numbers. It is overwritten as Rotate
	// says: its label part is left holding ε.
	Row []float64
	// Priors is where p goes, columns numbers.
	Priors []float64
	// Root is what [R u] is multiplied by first, in (0, 1].
	Root float64
	// Rotation is what the pass yielded.
	Rotation Rotation
}

// RotateTogether is RotateDiscounted of every turn, bit for bit, in one pass:
// row i of all factors is turned before row i+1 of any, so that their square
// roots and divisions need not wait for one another. It costs no more than the
// passes one by one, and less the shorter the rows are. It allocates nothing.
//
// The rows may be the same observation, for factors that differ in what they
// forget, or others. Neither factors nor slices of two turns may overlap. It
// panics unless all factors have one order and one number of columns, and where
// RotateDiscounted does.
func RotateTogether(turns []Turn) {
	for i := range turns {
		t := &turns[i]
		if t.Factor.order != turns[0].Factor.order || t.Factor.columns != turns[0].Factor.columns {
			panic("qr: RotateTogether wants factors of one order with one number of columns")
		}
		t.Rotation = t.Factor.RotateDiscounted(t.Row, t.Priors, t.Root)
	}
}

// Solution is one factor's part of SolveTogether: what Solve takes, and the
// square that it yields.
type Solution struct {
	// Factor is what is solved with.
	Factor *Factor
	// Z is z, order numbers. It is overwritten by v = R⁻ᵀz.
	Z []float64
	// Priors is where p goes, columns numbers.
	Priors []float64
	// Square is q = ‖v‖².
	Square float64
}

// SolveTogether is Solve of every solution, bit for bit, in one pass, as
// RotateTogether rotates. The factors may be the same; slices of two solutions
// must not overlap. It panics unless all factors have one order and one number
// of columns, and where Solve does. It allocates nothing.
func SolveTogether(solutions []Solution) {
	for i := range solutions {
		s := &solutions[i]
		if s.Factor.order != solutions[0].Factor.order || s.Factor.columns != solutions[0].Factor.columns {
			panic("qr: SolveTogether wants factors of one order with one number of columns")
		}
		s.Square = s.Factor.Solve(s.Z, s.Priors)
	}
}
