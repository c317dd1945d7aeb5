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

// Leaves are the leaves of filled slots of a tree of a column by the loop and by its twin, for splits that
// are sure to go left and for those that may, and for the rest of the slots by codes and by values.
func (f *Forest) Leaves(column, number int) (got, want [][]uint8, exact bool) {
	t, slots := &f.rings[column].trees[number], f.filled()
	f.cuts.split(t)
	for _, splits := range [][]int16{f.cuts.sure, f.cuts.may} {
		loop, twin := make([]uint8, slots+padding)[:slots], make([]uint8, slots)
		leaves(loop, t, splits, f.cuts.codes, f.cuts.slots, make([]int64, leafRoom))
		leavesGo(twin, t, splits, f.cuts.codes, f.cuts.slots)
		got, want = append(got, loop), append(want, twin)
	}
	codes, values := make([]uint8, slots+padding)[:slots], make([]uint8, slots)
	f.leavesOf(t, codes, block, slots)
	for slot := block; slot < slots; slot++ {
		values[slot] = uint8(f.leafOf(t, slot))
	}
	return append(got, codes), append(want, values), f.cuts.exact
}

// Job reports whether a fit, or new cut points, are under way.
func (f *Forest) Job() (fits, cuts bool) {
	return f.job == fitting && f.fit.steps > 0, f.job == cutting
}
