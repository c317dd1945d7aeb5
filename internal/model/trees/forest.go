package trees

import (
	"math"
	"slices"
	"sync"

	"hindsight/internal/model/window"
)

// ring is a column.
type ring struct {
	kind   Kind
	inputs []uint16
	trees  [Trees]tree
	// residuals are q(y) − q(o) − Σ f_j by slot, where o counts as a for a centred column.
	residuals []int64
	// made counts the trees fitted. Tree made mod Trees is the oldest.
	made   uint64
	credit int64
}

// job is what the work is for.
type job int

const (
	idle job = iota
	fitting
	cutting
)

// Forest predicts by columns of rolling boosted trees. Sum, SumAbreast and Predict may run concurrently. Nothing
// allocates.
type Forest struct {
	o      Options
	layout window.Layout
	w      *window.Window
	// n is the number of rows observed.
	n uint64
	// mean is the mean of all labels, weighted by ω, and counted is Σω.
	mean, counted float64
	rings         []ring
	cuts          cuts
	// nextCuts is the number of rows at which cut points are due.
	nextCuts uint64
	job      job
	fit      fit
	cutInput int // The next input of new cut points.
	// debt are the units that a round spent beyond its own.
	debt   int64
	grower grower
	row    []float32 // Scratch.
	newest newest
}

// newest caches the sums of the row that was predicted last, so that the Observe of this row need not descend
// the trees again. Observe empties the cache. The cache is no state: sums are a function of row and trees.
type newest struct {
	lock sync.Mutex
	// If known, sums are the sums of row by the present trees.
	known bool
	row   []float32
	sums  []int64
}

// New is a forest of trees 0 over an empty window, whose columns are the columns of
// the Layout of the options.
func New(o Options, w *window.Window) *Forest {
	f := &Forest{
		o: o, layout: o.layout(), w: w, nextCuts: 16, row: make([]float32, w.Columns()),
	}
	mostLeaves, groups := 1, 1
	for _, k := range o.Columns {
		r := ring{kind: k, inputs: o.inputs(k), residuals: make([]int64, w.Slots())}
		for i := range r.trees {
			r.trees[i] = newTree(k.leaves())
		}
		f.rings = append(f.rings, r)
		mostLeaves, groups = max(mostLeaves, k.leaves()), max(groups, o.groups(k))
	}
	f.fit = fit{grown: newTree(mostLeaves), old: make([]uint8, w.Slots()+padding), grew: make([]uint8, w.Slots()+padding)}
	f.grower = newGrower(w.Slots(), mostLeaves, groups, w.Columns())
	f.cuts = newCuts(w.Columns(), w.Slots(), &f.grower)
	f.newest.row, f.newest.sums = make([]float32, w.Columns()), make([]int64, len(f.rings))
	return f
}

// Columns is the number of predictions.
func (f *Forest) Columns() int { return len(f.rings) }

func (f *Forest) filled() int { return int(min(f.n, uint64(f.w.Slots()))) }

const (
	fixedBits = 32
	one       = 1 << fixedBits
	clip      = 1 << 15
)

// fixed is q(y).
func (f *Forest) fixed(y float64) int64 {
	served := f.layout.Served()
	scaled := (y - f.w.Offset(served)) / f.w.Unit(served)
	return int64(math.RoundToEven(math.Max(-clip, math.Min(clip, scaled)) * one))
}

// last is the last label of a row, or the label of the reference.
func (f *Forest) last(row []float32) float64 {
	lag := f.layout.Lag()
	if f.layout.Keyed {
		lag = f.layout.Reference()
	}
	return f.w.Value(lag, row[lag])
}

func (f *Forest) effect(row []float32) float64 {
	effect := 0.0
	for j := f.o.Keys.From; j < f.o.Keys.Effect; j++ {
		effect += f.w.Value(j, row[j])
	}
	return effect
}

// Sum writes for each column the sum of its trees for a row as Window.Round wrote it. Calls that run at once do
// not wait for the cache: one of them uses it.
func (f *Forest) Sum(sums []int64, row []float32) {
	n := &f.newest
	mine := n.lock.TryLock()
	if mine {
		defer n.lock.Unlock()
		if n.known && slices.Equal(n.row, row) {
			copy(sums, n.sums)
			return
		}
	}
	for c := range f.rings {
		sums[c] = sumTrees(&f.rings[c].trees, row)
	}
	if mine {
		n.known = true
		copy(n.row, row)
		copy(n.sums, sums)
	}
}

// Abreast is how many rows SumAbreast takes.
const Abreast = 8

// SumAbreast is Sum of rows, tree by tree. Room has space for the columns of all rows.
func (f *Forest) SumAbreast(sums *[Abreast][]int64, rows *[Abreast][]float32, room []float32) {
	sumAbreast(f.rings, sums, rows, room)
}

// Predict writes the predictions of the columns for a row, served with the prediction v, given the sums of
// their trees. The caller cuts predictions to the labels seen.
func (f *Forest) Predict(dst []float64, sums []int64, row []float32, served float64) {
	unit := f.w.Unit(f.layout.Served())
	for c := range f.rings {
		r := &f.rings[c]
		offset := served
		switch r.kind {
		case Labels, Plain:
			offset = f.mean
		case Changes:
			offset = f.last(row)
		case Beside:
			offset = f.mean + f.effect(row)
		case Residuals:
		}
		dst[c] = offset + float64(unit*(float64(sums[c])/one))
	}
}

// target is q(y) − q(o) of the row in a slot.
func (f *Forest) target(r *ring, slot int, row []float32) int64 {
	target := f.fixed(f.w.Labels[slot])
	switch r.kind {
	case Changes:
		target -= f.fixed(f.last(row))
	case Residuals:
		target -= f.fixed(f.w.Served[slot])
	case Beside:
		target = f.fixed(f.w.Labels[slot] - f.effect(row))
	case Labels, Plain:
	}
	return target
}

// leavesOf writes the leaves of the rows from slot begin to slot end, in the tree of the newest call of cuts.split. It
// may overwrite block − 1 leaves behind the end. The code of a row decides where the row goes. If the tree has a cut
// point that is no longer present, the value decides for rows whose code leaves that open.
func (f *Forest) leavesOf(t *tree, ids []uint8, begin, end int) {
	room := f.grower.histograms // No histogram is in use while rows descend a tree.
	leaves(ids[begin:end], t, f.cuts.may, f.cuts.codes[begin:], f.cuts.slots, room)
	if f.cuts.exact {
		return
	}
	others := f.fit.grew[begin:end]
	leaves(others, t, f.cuts.sure, f.cuts.codes[begin:], f.cuts.slots, room)
	for i, leaf := range others {
		if slot := begin + i; ids[slot] != leaf {
			ids[slot] = uint8(f.leafOf(t, slot))
		}
	}
}

func (f *Forest) leafOf(t *tree, slot int) int {
	i := 0
	for {
		n := &t.nodes[i]
		if n.left == 0 {
			return i
		}
		i = int(n.left)
		if f.w.At(slot, int(n.input)) > n.cut {
			i++
		}
	}
}

// paces is the number of steps between the work that a round earns and the most work of a round.
const paces = 64

// price is the credit that a tree over n rows costs.
func (f *Forest) price(r *ring) int64 {
	return 4 * int64(f.w.Len()) * int64(r.kind.drawn(len(r.inputs))) * 7 / 10
}

// Observe learns the newest row of the window and works on the trees. Column c earns
// shares[c]/Whole of the credit; nil is Whole for all. The sums are the sums of Predict for the row,
// since the last Observe, or nil.
func (f *Forest) Observe(shares []int, sums []int64) {
	slot := f.w.Slot(0)
	f.newest.known = false
	f.n++
	counts := float64(f.w.Counts[slot])
	f.counted += counts
	f.mean += float64(counts*(f.w.Labels[slot]-f.mean)) / f.counted
	f.w.Read(f.row, slot)
	f.cuts.row(slot, f.row)
	earned, behind := int64(0), int64(0)
	if f.n < leastRows {
		earned = f.o.work()
	}
	for c := range f.rings {
		r := &f.rings[c]
		r.residuals[slot] = f.target(r, slot, f.row)
		if sums != nil {
			r.residuals[slot] -= sums[c]
		} else {
			r.residuals[slot] -= sumTrees(&r.trees, f.row)
		}
		share := int64(Whole)
		if shares != nil {
			share = int64(shares[c])
		}
		if price := f.price(r); f.n >= leastRows {
			earns := creditRound * share / Whole
			r.credit = min(mostCredit*price, r.credit+earns)
			earned += earns * f.work(r) / price
			behind = max(behind, paces*(r.credit-price)/((mostCredit-1)*price))
		}
	}
	// A round does the work that it earns. The more credit waits, the closer its work comes to the most work.
	earned = min(earned, f.o.work())
	f.workOn(earned + (f.o.work()-earned)*behind/paces)
}

// workOn spends the units of a round.
func (f *Forest) workOn(units int64) {
	left := units - f.debt
	f.debt = 0
	for {
		if f.job == idle && !f.startJob() {
			return
		}
		// The rows of a fit must not leave the ring before its end.
		last := f.job == fitting && f.n-f.fit.start >= window.Slack-1
		if left <= 0 && !last {
			f.debt = -left
			return
		}
		left -= f.workStep()
	}
}

// workStep does the next step of the job.
func (f *Forest) workStep() (units int64) {
	if f.job == fitting {
		units, done := f.step()
		if done {
			f.job = idle
		}
		return units
	}
	units = unitsStep + f.cuts.renew(f.cutInput, f.w, f.filled())
	if f.cutInput++; f.cutInput == f.w.Columns() {
		f.job = idle
	}
	return units
}

// startJob begins what is due: cut points, or the fit whose column has most credit for its
// price, and of these the fewest trees.
func (f *Forest) startJob() bool {
	if f.n >= f.nextCuts {
		f.startCuts()
		return true
	}
	if f.n < leastRows {
		return false
	}
	best := -1
	for c := range f.rings {
		r := &f.rings[c]
		price := f.price(r)
		if r.credit < price {
			continue
		}
		if best >= 0 {
			other := &f.rings[best]
			own, least := r.credit*f.price(other), other.credit*price
			if own < least || (own == least && r.made >= other.made) {
				continue
			}
		}
		best = c
	}
	if best < 0 {
		return false
	}
	r := &f.rings[best]
	r.credit -= f.price(r)
	mean := int64(0)
	if r.kind.centred() {
		mean = f.fixed(f.mean)
	}
	f.job = fitting
	f.begin(best, f.n, mean)
	return true
}

// Renew follows Window.Renew: it computes anew what follows from the rows, and gives up the fit
// under way.
func (f *Forest) Renew() {
	if f.job == fitting {
		f.job = idle
	}
	f.rebuild()
}

func (f *Forest) startCuts() {
	f.nextCuts = f.n + f.n/2 + 1
	if half := uint64(f.w.Capacity()+1) / 2; f.n >= 2*half {
		f.nextCuts = f.n + half
	}
	f.job, f.cutInput = cutting, 0
}
