package trees

import "math"

// phase is what a fit does next.
type phase int

const (
	fitOld    phase = iota // Leaves of the oldest tree, chunk by chunk.
	fitBag                 // The bag, its residuals and the inputs.
	fitRoot                // Histograms of the root, group by group.
	fitSearch              // The best split of the root.
	fitSplit               // The next split.
	fitCount               // Histograms of the smaller part, group by group.
	fitBoth                // Histograms of the larger part, if the split leaf had none.
	fitDerive              // Histograms of the larger part otherwise, and the best splits of both.
	fitFinish              // The tree enters the ring.
)

// chunk is the number of slots of a step of leaves.
const chunk = 1024

// Units of work, measured: about a nanosecond each with assembly.
const (
	unitsValue  = 20  // A row down a tree of earlier cut points, at most.
	unitsBag    = 5   // A row into the bag.
	unitsCount  = 3   // A row into lanes inputs' histograms.
	unitsPart   = 2   // A row to its side of a split.
	unitsSearch = 350 // A histogram.
	unitsDerive = 60  // A histogram.
	unitsFinish = 5   // A row of the finished tree.
	unitsCuts   = 15  // A row of an input's new cut points.
	unitsStep   = 50  // Anything.
)

func unitsLeaves(size, filled int) int64 { return int64(size) * int64(filled) / 40 }

// fit is a refit of a ring under way. Its stored state is ring, start, mean and steps.
type fit struct {
	ring  int
	start uint64 // Rows of the window at the start.
	mean  int64  // What a centred column subtracts.
	steps int
	// The rest follows from running the steps.
	phase phase
	at    int // Slot or group.
	// The parts of the last split; derived says that the split leaf had histograms.
	smaller, larger int
	derived         bool
	grown           tree
	// old and grew have the leaves of the slots in the oldest tree and in the grown tree.
	old, grew []uint8
}

// begin begins a fit of a ring, which uses start rows.
func (f *Forest) begin(ring int, start uint64, mean int64) {
	j := &f.fit
	j.ring, j.start, j.mean, j.steps = ring, start, mean, 0
	j.phase, j.at = fitOld, 0
	j.grown.clear()
}

func (r *ring) oldest() *tree { return &r.trees[r.made%Trees] }

// step does the next step of the fit and returns its units.
func (f *Forest) step() (units int64, done bool) {
	j, g := &f.fit, &f.grower
	j.steps++
	r := &f.rings[j.ring]
	units = unitsStep
	switch j.phase {
	case fitOld:
		units += f.oldLeaves(r.oldest())
	case fitBag:
		units += f.bag(r)
		j.phase, j.at = fitRoot, 0
	case fitRoot:
		g.count(0, j.at, &f.cuts)
		units += unitsCount * int64(g.leaves[0].count)
		if j.at++; j.at == g.groups() {
			j.phase = fitSearch
		}
	case fitSearch:
		g.search(0, float64(r.kind.leastSide()), &f.cuts)
		units += unitsSearch * int64(g.groups())
		j.phase = fitSplit
	case fitSplit:
		leaf := g.widest()
		if leaf < 0 || len(g.leaves) == r.kind.leaves() {
			j.phase = fitFinish
			break
		}
		units += unitsPart * int64(g.leaves[leaf].count)
		j.smaller, j.larger, j.derived = g.split(leaf, &j.grown, &f.cuts)
		j.phase, j.at = fitCount, 0
		if len(g.leaves) == r.kind.leaves() {
			j.phase = fitFinish
		}
	case fitCount:
		g.count(j.smaller, j.at, &f.cuts)
		units += unitsCount * int64(g.leaves[j.smaller].count)
		if j.at++; j.at == g.groups() {
			if j.phase, j.at = fitBoth, 0; j.derived {
				j.phase = fitDerive
			}
		}
	case fitBoth:
		for group := range g.groups() {
			g.count(j.larger, group, &f.cuts)
		}
		units += unitsCount * int64(g.groups()*g.leaves[j.larger].count)
		j.phase = fitDerive
	case fitDerive:
		for group := 0; j.derived && group < g.groups(); group++ {
			derive(g.histogram(j.larger, group), g.histogram(j.smaller, group))
		}
		// A tie between leaves goes to the older leaf, whichever is searched first.
		g.search(j.smaller, float64(r.kind.leastSide()), &f.cuts)
		g.search(j.larger, float64(r.kind.leastSide()), &f.cuts)
		units += int64(g.groups()) * (unitsDerive + 2*unitsSearch)
		j.phase = fitSplit
	case fitFinish:
		units += f.finish(r)
		done = true
	}
	return units, done
}

// oldLeaves writes the leaves of the oldest tree for the rows before the start: a reader of the state runs the steps after
// later rows.
func (f *Forest) oldLeaves(old *tree) (units int64) {
	j := &f.fit
	all := int(min(j.start, uint64(f.w.Slots())))
	end := all
	units = unitsLeaves(old.size, f.filled())
	if _, _, exact := f.cuts.splits(old); !exact {
		end, units = min(j.at+chunk, all), unitsValue*chunk
	}
	f.leavesOf(old, j.old, j.at, end)
	if j.at = end; end == all {
		j.phase = fitBag
	}
	return units
}

// bag draws the rows and the inputs of the fit.
func (f *Forest) bag(r *ring) (units int64) {
	j, g, old := &f.fit, &f.grower, r.oldest()
	const inBag = 45875 // 0.7·2¹⁶.
	g.rng.Seed(f.o.Seed, uint64(r.kind)<<32+r.made)
	g.draw(r.inputs, r.kind.drawn(len(r.inputs)))
	slots := uint64(f.w.Slots())
	count := min(j.start, uint64(f.w.Capacity()))
	said := old.said()
	slot, bits, rows, taken, total, squares := int((j.start-count)%slots), uint64(0), g.rows[:slots], 0, int64(0), 0.0
	for i := range count {
		if i%4 == 0 {
			bits = g.rng.Uint64()
		}
		// Every row is written, and a row that is not taken is overwritten: there is no branch to predict.
		packed := pack(r.residuals[slot] - j.mean + said[j.old[slot]])
		is := number(float32(bits&0xffff+1) <= inBag*f.w.Counts[slot]) // Never of a row of less than 1/inBag.
		g.packed[slot], rows[taken] = packed, uint16(slot)
		packed &= -int64(is)
		total += packed
		coarse := float64(sumOf(packed))
		squares += float64(coarse * coarse)
		taken += is
		bits >>= 16
		if slot++; slot == int(slots) {
			slot = 0
		}
	}
	g.rows = rows[:taken]
	g.begin(total, squares)
	return unitsBag * int64(count)
}

// finish gives the leaves of the grown tree their values, and puts the tree into the ring.
func (f *Forest) finish(r *ring) (units int64) {
	j, old, filled := &f.fit, r.oldest(), f.filled()
	for n := j.start; n < f.n; n++ { // Rows after the start.
		slot := int(n % uint64(f.w.Slots()))
		j.old[slot] = uint8(f.leafOf(old, slot))
	}
	f.leavesOf(&j.grown, j.grew, 0, filled)
	residuals, left, grew, counts := r.residuals[:filled], j.old[:filled], j.grew[:filled], f.w.Counts[:filled]
	var sums, weights [leafIDs]int64
	before := old.said()
	for slot := range residuals {
		residual, leaf := residuals[slot]+before[left[slot]], grew[slot]
		residuals[slot] = residual
		weight := int64(float32(counts[slot] * wholeRow))
		sums[leaf] += coarse(residual-j.mean) * weight
		weights[leaf] += weight
	}
	for i := range j.grown.nodes[:j.grown.size] {
		if n := &j.grown.nodes[i]; n.left == 0 {
			*n = leaf(int64(math.RoundToEven(float64(float64(sums[i])*(shrinkage*(1<<fineBits))) / (float64(weights[i]) + lambda*wholeRow))))
		}
	}
	after := j.grown.said()
	for slot := range residuals {
		residuals[slot] -= after[grew[slot]]
	}
	old.copy(&j.grown)
	r.made++
	return unitsLeaves(j.grown.size, filled) + unitsFinish*int64(filled)
}
