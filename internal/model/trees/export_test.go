package trees

// The loops and their Go twins.
var (
	Best      = best
	BestGo    = bestGo
	AddRows   = addRows
	AddRowsGo = addRowsGo
	Derive    = derive
	DeriveGo  = deriveGo
	Pack      = pack
)

// GroupSize and Lanes are the size of a histogram.
const (
	GroupSize = groupSize
	Lanes     = lanes
)

// Leaves are the leaves of filled slots of a tree of a column, by the loop and its twin, or
// nil if the tree is not coded.
func (f *Forest) Leaves(column, number int) (got, want []uint8) {
	t := &f.rings[column].trees[number]
	if !t.coded {
		return nil, nil
	}
	got, want = make([]uint8, f.filled()+padding)[:f.filled()], make([]uint8, f.filled())
	leaves(got, t, f.cuts.codes, f.cuts.slots)
	leavesGo(want, t, f.cuts.codes, f.cuts.slots)
	return got, want
}

// Job tells whether a fit, or new cut points, are under way.
func (f *Forest) Job() (fits, cuts bool) {
	return f.job == fitting && f.fit.steps > 0, f.job == cutting
}
