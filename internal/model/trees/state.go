package trees

import (
	"slices"

	"hindsight/internal/model"
	"hindsight/internal/model/codec"
	"hindsight/internal/model/window"
)

// Limits of the numbers of a state.
const (
	maxRows  = 1 << 53
	maxValue = 1 << 48
	maxUnits = 1 << 40
	maxSteps = 1 << 16
)

// Visit visits the state. Reading needs a fresh Forest over the window of the state, already
// read. Reading computes codes, residuals and the fit under way again: all are exact.
func (f *Forest) Visit(v *codec.Visitor) {
	v.Uint64(&f.n, &f.nextCuts)
	v.Within(model.MaxMagnitude, &f.mean, &f.counted)
	debt := int(f.debt)
	v.Int(maxUnits, &debt)
	if v.Reading() {
		f.debt = int64(debt)
	}
	if v.Reading() && (f.n != f.w.Count() || f.nextCuts > 2*maxRows || f.n > 0 && !(f.counted > 0)) {
		v.Corrupt("a forest of %d rows, cut points due at %d, over a window of %d rows", f.n, f.nextCuts, f.w.Count())
	}
	f.cuts.visit(v)
	for c := range f.rings {
		f.rings[c].visit(v)
	}
	if v.Reading() {
		f.rebuild()
	}
	f.visitJob(v)
}

func (c *cuts) visit(v *codec.Visitor) {
	for j := range c.counts {
		v.Byte(&c.counts[j])
		if v.Reading() && c.counts[j] >= bins {
			v.Corrupt("input %d has %d cut points", j, c.counts[j])
		}
		if v.Err() != nil {
			return
		}
		edges := c.of(j)
		v.SinglesWithin(window.Limit, edges)
		if v.Reading() && !slices.IsSorted(edges) {
			v.Corrupt("cut points of input %d: %v", j, edges)
		}
	}
}

func (r *ring) visit(v *codec.Visitor) {
	v.Uint64(&r.made)
	v.Int64(&r.credit)
	if v.Reading() && (r.made > maxRows || r.credit < 0 || r.credit > maxUnits) {
		v.Corrupt("%d trees, a credit of %d", r.made, r.credit)
	}
	for i := range r.trees {
		if v.Err() == nil {
			r.trees[i].visit(v, r)
		}
	}
}

func (t *tree) visit(v *codec.Visitor, r *ring) {
	splits := t.size / 2
	v.Int(r.kind.leaves()-1, &splits)
	if v.Reading() {
		t.size = 2*splits + 1
	}
	for i := range t.size {
		if t.nodes[i].visit(v, r); v.Err() != nil {
			return
		}
	}
	if v.Reading() && !t.sound() {
		v.Corrupt("a tree of %d nodes is none", t.size)
	}
}

func (n *node) visit(v *codec.Visitor, r *ring) {
	if v.Uint16(&n.left); n.left == 0 {
		value := n.value()
		if v.Int64(&value); v.Reading() {
			*n = leaf(value)
		}
		if value >= maxValue/2 || value < -maxValue/2 {
			v.Corrupt("a leaf of %d", value)
		}
		return
	}
	v.Uint16(&n.input)
	cut := [1]float32{n.cut}
	v.SinglesWithin(window.Limit, cut[:])
	if v.Reading() {
		n.cut = cut[0]
	}
	if v.Reading() && !slices.Contains(r.inputs, n.input) {
		v.Corrupt("a split of input %d", n.input)
	}
}

// sound reports whether every node but the first is the child of one node before it.
func (t *tree) sound() bool {
	var parents [256]bool
	splits := 0
	for i, n := range t.nodes[:t.size] {
		if n.left == 0 {
			continue
		}
		left := int(n.left)
		if left <= i || left+1 >= t.size || left%2 == 0 || parents[left] {
			return false
		}
		parents[left] = true
		splits++
	}
	return 2*splits+1 == t.size
}

func (f *Forest) rebuild() {
	filled, ids := f.filled(), f.fit.old
	for slot := range filled {
		f.w.Read(f.row, slot)
		f.cuts.row(slot, f.row)
		for c := range f.rings {
			r := &f.rings[c]
			r.residuals[slot] = f.target(r, slot, f.row)
		}
	}
	for c := range f.rings {
		r := &f.rings[c]
		for i := range r.trees {
			t := &r.trees[i]
			f.cuts.split(t)
			f.leavesOf(t, ids, 0, filled)
			said := t.said()
			for slot, leaf := range ids[:filled] {
				r.residuals[slot] -= said[leaf]
			}
		}
	}
}

// visitJob visits the job. Reading runs the steps of a fit again.
func (f *Forest) visitJob(v *codec.Visitor) {
	kind := int(f.job)
	v.Int(int(cutting), &kind)
	if v.Reading() {
		f.job = job(kind)
	}
	switch job(kind) {
	case cutting:
		v.Int(f.w.Columns()-1, &f.cutInput)
	case fitting:
		f.visitFit(v)
	case idle:
	}
}

func (f *Forest) visitFit(v *codec.Visitor) {
	j := &f.fit
	ring, start, mean, steps := j.ring, j.start, j.mean, j.steps
	v.Int(len(f.rings)-1, &ring)
	v.Uint64(&start)
	v.Int64(&mean)
	v.Int(maxSteps, &steps)
	if !v.Reading() {
		return
	}
	if start < leastRows || start > f.n || f.n-start >= window.Slack || mean > maxValue || mean < -maxValue {
		v.Corrupt("a fit of %d rows after %d, offset %d", start, f.n, mean)
		return
	}
	f.begin(ring, start, mean)
	for range steps {
		if _, done := f.step(); done {
			v.Corrupt("a fit of %d steps", steps)
			return
		}
	}
}
