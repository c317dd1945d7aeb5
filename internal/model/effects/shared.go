package effects

import (
	"math"

	"hindsight/internal/model/codec"
	"hindsight/internal/model/ledger"
)

// Two inputs share keys if their values name things of one kind: a player and an opponent, or the start and the end of a
// trip. A shared key has one mean, whichever input has the key. With a sign σ, the key a of the first input, the key b of
// the second, and the best single variant of the other inputs
//
//	said    e = μ_a + σ μ_b + Σ_{c≠a,b} μ_c
//	learned K_a = s_a/(s_a + s_b + 1/ω),  μ_a ← μ_a + K_a (r − e),  μ_b ← μ_b + σ K_b (r − e)
//
// The variants have σ = −1, then σ = 1, each with three variants of single keys. A new shared key begins where the single
// keys of its value are, in the first input (μ_1, s_1) and in the second (μ_2, s_2):
//
//	1/s = 1/s_1 + 1/s_2 − 1/s_0,  μ = s (μ_1/s_1 + σ μ_2/s_2)
//
// From observation leastShared on, whenever the number of observations has doubled
// without a pair, the pair of inputs whose values met most often since begins a trial: the second input had already had
// more than half of the values of the first. The pair ends as a source ends that does not pay.
//
// Sources: Elo, The Rating of Chessplayers (1978), for the difference; Herbrich, Minka and Graepel, TrueSkill (NIPS
// 2006), for the filter.
type shared struct {
	// pair is the number of the pair, or none. A trial begins after next observations.
	pair int
	next uint64
	// paid is the number of observations after which the pair last paid, or its trial began.
	paid uint64
	// gains are the discounted losses of r less the best single e, less the losses of r − e, by outputs, by variants.
	gains []float64
	// met counts by pairs the values of the first input that the second has had, of checked values.
	met, checked []uint64
}

const (
	leastShared   = 64
	leastVariance = 1e-12
)

func (o Options) mayShare() int {
	n := min(o.Inputs, mostPaired)
	return n * (n - 1) / 2
}

func (o Options) newShared() shared {
	n := o.mayShare()
	return shared{pair: -1, next: leastShared, gains: make([]float64, min(n, 1)*Variants*o.Outputs), met: make([]uint64, n), checked: make([]uint64, n)}
}

// inputsOf returns the inputs first < second of a pair.
func inputsOf(pair int) (first, second int) {
	for second = 1; pair >= second; second++ {
		pair -= second
	}
	return pair, second
}

// sharedFrom is the first variant of single keys that shared keys have.
func (o Options) sharedFrom() int {
	if o.LogOdds {
		return Variants / 2
	}
	return 1
}

func (o Options) sharedVariants() (variants [Variants]variant) {
	all := o.variants()
	for k := range variants {
		variants[k] = all[o.sharedFrom()+k%(Variants/2)]
	}
	return variants
}

// beginShared writes the means and the variances of a new shared key.
func (e *Effects) beginShared(numbers []float64, hash uint64) {
	first, second := inputsOf(e.shared.pair)
	key := restore(hash) & keyMask
	for k, variant := range e.o.sharedVariants() {
		precision, from := 1/variant.prior, e.o.sharedFrom()+k%(Variants/2)
		for at, input := range [...]int{first, second} {
			slot := e.find(coded(input, key))
			if slot == none {
				continue
			}
			single := e.numbers(slot)
			s := math.Max(leastVariance, math.Min(single[varianceAt+from], variant.prior))
			precision += 1/s - 1/variant.prior
			for j := range e.o.Outputs {
				of(numbers, j)[k] += float64(sign(at, k)*of(single, j)[from]) / s
			}
		}
		numbers[varianceAt+k] = 1 / precision
		for j := range e.o.Outputs {
			of(numbers, j)[k] = within(of(numbers, j)[k] / precision)
		}
	}
}

// sign is σ of key 0 or 1 of the pair in a variant.
func sign(at, variant int) float64 {
	if at == 1 && variant < Variants/2 {
		return -1
	}
	return 1
}

// findShared writes the hashes of the shared keys. A pair of equal values says nothing.
func (e *Effects) findShared(hashes []uint64, values []float64) {
	clear(hashes)
	if e.shared.pair < 0 {
		return
	}
	first, second := inputsOf(e.shared.pair)
	for at, v := range [...]float64{values[first], values[second]} {
		if v != 0 && values[first] != values[second] {
			hashes[at] = coded(e.o.sources()+e.shared.pair, keyOf(v))
		}
	}
}

// sharedOf writes what the variants say of an output.
func (e *Effects) sharedOf(said *[Variants]float64, r *Row, output int) {
	first, second := inputsOf(e.shared.pair)
	rest, best := 0.0, e.best(output)
	for input, slot := range r.slots[:e.o.Inputs] {
		if input != first && input != second && slot != none {
			rest += of(e.numbers(slot), output)[best]
		}
	}
	for k := range said {
		said[k] = rest
	}
	for at, slot := range r.slots[e.o.sources():] {
		if slot != none {
			for k, mu := range of(e.numbers(slot), output)[:Variants] {
				said[k] += float64(sign(at, k) * mu)
			}
		}
	}
}

func (e *Effects) bestShared(output int) (variant int, gain float64) {
	if e.shared.pair < 0 {
		return 0, 0
	}
	gains := e.shared.gains[Variants*output:][:Variants]
	for k, g := range gains {
		if g > gains[variant] {
			variant = k
		}
	}
	return variant, gains[variant]
}

// sayShared is what the best variant says, or single without a pair.
func (e *Effects) sayShared(r *Row, output int, single float64) float64 {
	if e.shared.pair < 0 {
		return single
	}
	var said [Variants]float64
	e.sharedOf(&said, r, output)
	variant, _ := e.bestShared(output)
	return said[variant]
}

// learnShared learns the labels y before the single effects learn them.
func (e *Effects) learnShared(r *Row, counts float64, y, v []float64) {
	if e.shared.pair < 0 {
		return
	}
	var totals, said, singles [Variants]float64
	slots := r.slots[e.o.sources():]
	for k := range totals {
		totals[k] = 1 / counts
		for _, slot := range slots {
			if slot != none {
				totals[k] += e.numbers(slot)[varianceAt+k]
			}
		}
	}
	for j := range y {
		e.sharedOf(&said, r, j)
		e.singles(&singles, r, j)
		left := y[j] - v[j] - singles[e.best(j)]
		for k, s := range said {
			miss := y[j] - v[j] - s
			g := &e.shared.gains[Variants*j+k]
			*g = float64(*g*discount) + float64(counts*(float64(left*left)-float64(miss*miss)))
			for at, slot := range slots {
				if slot != none {
					numbers := e.numbers(slot)
					step := float64(sign(at, k)*numbers[varianceAt+k]) / totals[k]
					mu := &of(numbers, j)[k]
					*mu = within(*mu + float64(step*miss))
				}
			}
		}
	}
	for _, slot := range slots {
		if slot != none {
			tighten(e.numbers(slot), counts, &totals, false, e.o.sharedVariants())
		}
	}
}

// meet checks the values of one pair of inputs, and ends and begins trials, after n observations.
func (e *Effects) meet(r *Row, n uint64) {
	s := &e.shared
	if len(s.met) == 0 {
		return
	}
	if s.pair >= 0 {
		for j := range e.o.Outputs {
			if _, gain := e.bestShared(j); gain > e.pays(j) {
				s.paid = n
			}
		}
		if n-s.paid >= trial {
			s.pair, s.next = -1, 2*n
			clear(s.gains)
		}
		return
	}
	pair := int(n % uint64(len(s.met)))
	first, second := inputsOf(pair)
	if hash := coded(second, restore(r.hashes[first])&keyMask); r.hashes[first] != 0 && hash != r.hashes[second] {
		s.checked[pair]++
		if e.find(hash) != none {
			s.met[pair]++
		}
	}
	if n < s.next {
		return
	}
	most := 0.5
	for p, met := range s.met {
		if share := float64(met) / float64(max(1, s.checked[p])); share > most {
			s.pair, most = p, share
		}
	}
	s.paid, s.next = n, 2*n
	clear(s.met)
	clear(s.checked)
}

func (s *shared) visit(v *codec.Visitor, n uint64) {
	if len(s.met) == 0 {
		return
	}
	pair := s.pair + 1
	if v.Int(len(s.met), &pair); v.Reading() {
		s.pair = pair - 1
	}
	v.Uint64(&s.next, &s.paid)
	v.FloatsWithin(ledger.MaxSum, s.gains)
	for i := range s.met {
		v.Uint64(&s.met[i], &s.checked[i])
	}
	if !v.Reading() {
		return
	}
	if s.paid > n || s.next > max(leastShared, 2*n) || (s.pair < 0 && s.next <= n) {
		v.Corrupt("shared keys paid at %d and begin at %d of %d observations", s.paid, s.next, n)
	}
	for i, met := range s.met {
		if met > s.checked[i] || s.checked[i] > n {
			v.Corrupt("%d of %d values met", met, s.checked[i])
		}
	}
}
