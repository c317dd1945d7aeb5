package effects

import (
	"math"

	"hindsight/internal/model"
	"hindsight/internal/model/codec"
	"hindsight/internal/model/ledger"
)

const maxRows = 1 << 53

// Visit visits the state after n observations: the keys from the oldest to the newest. The slots
// of the keys do not matter.
func (e *Effects) Visit(v *codec.Visitor, n uint64) {
	if v.FloatsWithin(ledger.MaxSum, e.losses); v.Reading() {
		for _, loss := range e.losses {
			if loss < 0 {
				v.Corrupt("a variant has a loss of %g", loss)
			}
		}
	}
	v.FloatsWithin(ledger.MaxSum, e.gains)
	for i := range e.trials {
		t := &e.trials[i]
		v.Uint64(&t.paid, &t.wakes)
		if v.Reading() && (t.paid > n || t.wakes > 2*n || (t.wakes > 0 && t.wakes <= n)) {
			v.Corrupt("source %d paid at %d and wakes at %d of %d observations", i, t.paid, t.wakes, n)
		}
	}
	e.shared.visit(v, n)
	used := e.used
	v.Count(&used, 16+8*e.o.stored(e.o.Inputs))
	if v.Reading() && used > e.limit {
		v.Corrupt("%d keys, want at most %d", used, e.limit)
		return
	}
	if v.Reading() {
		e.read(v, n, used)
		return
	}
	for slot := e.oldest; slot != none && used > 0; slot = e.link(slot).newer {
		l := e.link(slot)
		v.Uint64(&l.hash, &l.seen)
		v.Floats(e.numbers(slot)[:e.o.stored(sourceOf(l.hash))])
	}
}

// sourceOf is the source of a key, −1 of a hash of none.
func sourceOf(hash uint64) int { return int(restore(hash)>>keyBits) - 1 }

// stored is how many numbers of a key are in the state: only single keys multiply.
func (o Options) stored(source int) int {
	if source < o.Inputs {
		return o.stride()
	}
	return outputsAt + each*o.Outputs
}

// read reads the keys of an empty table.
func (e *Effects) read(v *codec.Visitor, n uint64, used int) {
	numbers, last := make([]float64, e.stride), uint64(0)
	for range used {
		var hash, seen uint64
		v.Uint64(&hash, &seen)
		source := sourceOf(hash)
		v.FloatsWithin(mostEffect, numbers[:e.o.stored(source)])
		if !v.Reading() {
			return
		}
		if source < 0 || source >= e.o.sources()+e.o.mayShare() || seen < last || seen >= n || e.find(hash) != none {
			v.Corrupt("key %x of row %d after row %d of %d", hash, seen, last, n)
			return
		}
		e.check(v, numbers)
		last = seen
		copy(e.numbers(e.add(hash, seen)), numbers)
	}
}

func (e *Effects) check(v *codec.Visitor, numbers []float64) {
	if c := numbers[countAt]; !(c > 0 && c <= maxRows) {
		v.Corrupt("a key counts %g", c)
	}
	for _, s := range numbers[varianceAt:outputsAt] {
		if !(s >= 0 && s <= mostVariance) {
			v.Corrupt("a key has a variance of %g", s)
		}
	}
	e.checkProducts(v, numbers)
	for j := range e.o.Outputs {
		for _, label := range of(numbers, j)[meanAt:] {
			if !(math.Abs(label) <= model.MaxMagnitude) {
				v.Corrupt("a key has a label of %g", label)
			}
		}
	}
}

// checkProducts rejects variances of slopes and factors that no row leads to.
func (e *Effects) checkProducts(v *codec.Visitor, numbers []float64) {
	for j := range e.o.Sloped {
		var all [slopes + 1][]float64
		priors := slopePriors()
		limits := append(priors[:], factorVariance)
		for k := range slopes {
			_, all[k] = e.o.slopesOf(numbers, j, k)
		}
		if e.o.Inputs > 1 {
			_, all[slopes] = e.o.factorsOf(numbers, j)
		}
		for k, variances := range all {
			for _, t := range variances {
				if !(t >= 0 && t <= limits[k]) {
					v.Corrupt("a slope or a factor has a variance of %g", t)
				}
			}
		}
	}
}
