package trees

import (
	"math"
	"math/bits"
)

// phase is what a fit does next.
type phase int

const (
	fitBag    phase = iota // The inputs, and the bag with its residuals, chunk by chunk.
	fitRoot                // Histograms of the root, group by group.
	fitSearch              // The best split of the root.
	fitSplit               // The next split.
	fitCount               // Histograms of the smaller part, group by group.
	fitBoth                // Histograms of the larger part, if the split leaf had none.
	fitDerive              // Histograms of the larger part otherwise, and the best splits of both.
	fitMeans               // What the leaves say, chunk by chunk.
	fitApply               // The residuals, chunk by chunk; the tree enters the ring.
)

// chunk is the number of rows of a step, a multiple of 4.
const chunk = 1024

// Units of work, measured: about a nanosecond each with assembly.
const (
	unitsValue  = 20  // A row down a tree of earlier cut points, at most.
	unitsBag    = 5   // A row into the bag.
	unitsCount  = 3   // A row into lanes inputs' histograms.
	unitsPart   = 2   // A row to its side of a split.
	unitsSearch = 350 // A histogram.
	unitsDerive = 60  // A histogram.
	unitsMean   = 3   // A row into the mean of its leaf.
	unitsApply  = 2   // A row's residual.
	unitsCheck  = 1   // A row of an input's cut points.
	unitsCuts   = 15  // A row of an input's new cut points.
	unitsStep   = 50  // Anything.
)

func unitsLeaves(size, rows int) int64 { return int64(size) * int64(rows) / 40 }

// work is about the units of a fit. A leaf has some Len(leaves)+1 splits above it, and of a split leaf the
// smaller half is counted.
func (f *Forest) work(r *ring) int64 {
	leaves, groups := int64(r.kind.leaves()), int64(r.kind.drawn(len(r.inputs))+lanes-1)/lanes
	levels := int64(bits.Len64(uint64(leaves)) + 1)
	row := unitsBag + unitsMean + unitsApply + leaves/10 + (unitsCount*groups*(2+levels)+2*unitsPart*levels)*7/20
	return int64(f.w.Len())*row + leaves*groups*(unitsDerive+2*unitsSearch)
}

// fit is a refit of a ring under way. Its stored state is ring, start, mean and steps.
type fit struct {
	ring  int
	start uint64 // Rows of the window at the start.
	mean  int64  // What a centred column subtracts.
	steps int
	// The rest follows from running the steps.
	phase phase
	at    int // Row of the window or group.
	// The sums of the bag.
	total   int64
	squares float64
	// The parts of the last split; derived says that the split leaf had histograms.
	smaller, larger int
	derived         bool
	grown           tree
	// old and grew have the leaves of the slots in the oldest tree and in the grown tree.
	old, grew []uint8
	// sums and weights are of the leaves of the grown tree.
	sums, weights [leafIDs]int64
}

// begin begins a fit of a ring, which uses start rows.
func (f *Forest) begin(ring int, start uint64, mean int64) {
	j := &f.fit
	j.ring, j.start, j.mean, j.steps = ring, start, mean, 0
	j.phase, j.at = fitBag, 0
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
	case fitBag:
		units += f.bag(r)
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
			f.beginMeans()
			break
		}
		units += unitsPart * int64(g.leaves[leaf].count)
		j.smaller, j.larger, j.derived = g.split(leaf, &j.grown, &f.cuts)
		j.phase, j.at = fitCount, 0
		if len(g.leaves) == r.kind.leaves() {
			f.beginMeans()
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
	case fitMeans:
		units += f.means()
	case fitApply:
		from, to := f.chunk()
		f.apply(r, from, to)
		units += unitsApply * int64(to-from)
		if done = to == j.start; done {
			f.enter(r)
		}
	}
	return units, done
}

// chunk returns the next rows of the window at the start, which later rows do not overwrite: a reader of the
// state runs the steps after later rows.
func (f *Forest) chunk() (from, to uint64) {
	j := &f.fit
	from = j.start - min(j.start, uint64(f.w.Capacity())) + uint64(j.at)
	to = min(from+chunk, j.start)
	j.at += int(to - from)
	return from, to
}

// span are the slots from begin to end − 1.
type span struct{ begin, end int }

// spans are the slots of rows.
func (f *Forest) spans(from, to uint64) [2]span {
	slots := f.w.Slots()
	begin := int(from % uint64(slots))
	end := begin + int(to-from)
	return [2]span{{begin, min(end, slots)}, {0, max(0, end-slots)}}
}

// rowLeaves writes the leaves of rows in the tree of the newest call of cuts.split.
func (f *Forest) rowLeaves(t *tree, ids []uint8, from, to uint64) (units int64) {
	for _, s := range f.spans(from, to) {
		f.leavesOf(t, ids, s.begin, s.end)
	}
	if !f.cuts.exact {
		return unitsValue * int64(to-from)
	}
	return unitsLeaves(t.size, int(to-from))
}

// bag draws the inputs of the fit and, chunk by chunk, the rows.
func (f *Forest) bag(r *ring) (units int64) {
	j, g, old := &f.fit, &f.grower, r.oldest()
	const inBag = 45875 // 0.7·2¹⁶.
	if j.at == 0 {
		f.cuts.split(old)
		g.rng.Seed(f.o.Seed, uint64(r.kind)<<32+r.made)
		g.draw(r.inputs, r.kind.drawn(len(r.inputs)))
		g.rows, j.total, j.squares = g.rows[:0], 0, 0
	}
	from, to := f.chunk()
	units = f.rowLeaves(old, j.old, from, to) + unitsBag*int64(to-from)
	said := old.said()
	slots, taken := f.w.Slots(), len(g.rows)
	slot, bits, rows, total, squares := int(from%uint64(slots)), uint64(0), g.rows[:slots], j.total, j.squares
	for i := range to - from {
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
		if slot++; slot == slots {
			slot = 0
		}
	}
	g.rows, j.total, j.squares = rows[:taken], total, squares
	if to == j.start {
		g.begin(total, squares)
		j.phase, j.at = fitRoot, 0
	}
	return units
}

func (f *Forest) beginMeans() {
	j := &f.fit
	j.phase, j.at = fitMeans, 0
	f.cuts.split(&j.grown)
	clear(j.sums[:])
	clear(j.weights[:])
}

// means adds the rows of a chunk to the leaves of the grown tree, which say their values after the last chunk.
func (f *Forest) means() (units int64) {
	j := &f.fit
	from, to := f.chunk()
	units = f.rowLeaves(&j.grown, j.grew, from, to) + unitsMean*int64(to-from)
	for _, s := range f.spans(from, to) {
		packed, counts := f.grower.packed[s.begin:s.end], f.w.Counts[s.begin:s.end]
		for i, leaf := range j.grew[s.begin:s.end] {
			weight := int64(float32(counts[i] * wholeRow))
			j.sums[leaf] += sumOf(packed[i]) * weight
			j.weights[leaf] += weight
		}
	}
	if to < j.start {
		return units
	}
	j.phase, j.at = fitApply, 0
	for i := range j.grown.nodes[:j.grown.size] {
		if n := &j.grown.nodes[i]; n.left == 0 {
			*n = leaf(int64(math.RoundToEven(float64(float64(j.sums[i])*(shrinkage*(1<<fineBits))) / (float64(j.weights[i]) + lambda*wholeRow))))
		}
	}
	return units
}

// apply replaces what the oldest tree says by what the grown tree says in the residuals of rows.
func (f *Forest) apply(r *ring, from, to uint64) {
	j := &f.fit
	before, after := r.oldest().said(), j.grown.said()
	for _, s := range f.spans(from, to) {
		residuals, left, grew := r.residuals[s.begin:s.end], j.old[s.begin:s.end], j.grew[s.begin:s.end]
		for i := range residuals {
			residuals[i] += before[left[i]] - after[grew[i]]
		}
	}
}

// enter replaces the oldest tree of the ring by the grown tree. The rows since the start of the fit get the leaves of both first.
func (f *Forest) enter(r *ring) {
	j := &f.fit
	f.cuts.split(r.oldest())
	f.rowLeaves(r.oldest(), j.old, j.start, f.n)
	f.cuts.split(&j.grown)
	f.rowLeaves(&j.grown, j.grew, j.start, f.n)
	f.apply(r, j.start, f.n)
	r.oldest().copy(&j.grown)
	r.made++
}
