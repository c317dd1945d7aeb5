// Package effects learns effects of keys on the residuals of a learner that does not see the
// keys. A key is a value of one of the inputs, of a pair of them, or of all of them together:
// the source of the key. Let r = y − v be the residual of the prediction v that was served. A key
// c has a mean μ_c and a variance s_c in units of the variance of the noise; a row counts ω.
// Single keys say and learn
//
//	e = Σ_c μ_c,  K_c = s_c/(Σ s + 1/ω),  μ_c ← μ_c + K_c (r − e),  s_c ← (1 − K_c) s_c + ω q
//
// and a new key has μ = 0 and s = s_0: a Kalman filter of additive random effects, of which
// only the diagonal of the covariance is kept. With q = 0 the mean of one key is the mean of ridge
// regression on its rows, shrunk to 0 by 1/s_0 rows. A large q is the last residual. There are
// six variants (s_0, q), others if labels are log-odds. The best variant has the least discounted
// loss as served.
//
// A pair and the joint key learn what the best single variant e leaves:
//
//	K_p = s_p/(s_p + Σ s + 1/ω),  μ_p ← μ_p + K_p (r − e − μ_p)
//
// A source of pairs pays while the discounted loss of r − e exceeds the loss of r − e − μ_p, for
// one of the variants, by 1/1,000. The source that pays most adds its μ_p to e: six more
// predictions. A source that did not pay for 1,000 observations sleeps until their number has
// doubled: it has no keys while it sleeps, and is on trial for 1,000 observations then.
//
// The filter is exact for one key a row. For several it is assumed-density filtering: after each
// row it keeps the marginals of the posterior, of independent keys.
//
// Sources: Kalman, A New Approach to Linear Filtering and Prediction Problems (1960), for the
// gain; Opper, A Bayesian Approach to On-line Learning (1998), for the marginals.
package effects

import (
	"fmt"
	"math"

	"hindsight/internal/model"
	"hindsight/internal/model/exponential"
)

// Variants is the number of variants.
const Variants = 6

// variant is a variance of new keys and what a row adds to the variance of its keys.
type variant struct{ prior, drift float64 }

func (o Options) variants() [Variants]variant {
	if o.LogOdds {
		return [...]variant{{.02, 0}, {.07, 0}, {.2, 0}, {.5, 0}, {1, 0}, {.2, .01}}
	}
	return [...]variant{{.1, 0}, {1, 0}, {10, 0}, {1, .03}, {3, .3}, {10, 3}}
}

const (
	// ColumnsEach is the number of columns of an input and of the joint key: the mean of the
	// best variant, the decayed label, the shrunk mean of the labels, the last label, and the
	// logarithms of 1 + the rows of the key and of 1 + the rows since the last one.
	ColumnsEach = 6
	// LabelColumns is how many of the columns are in units of labels.
	LabelColumns = 4
	// MeanColumn is the place of the shrunk mean of the labels.
	MeanColumn = 2
	// CountColumn is the place of the logarithm of 1 + the rows of the key.
	CountColumn = 4

	mostPaired   = 8 // Inputs in pairs.
	trial        = 1000
	discount     = 0.9995
	leastGain    = 1e-3
	decay        = 0.9
	prior        = 5 // Rows at the mean of all labels in the shrunk mean.
	mostVariance = 1e9
)

// Options of Effects.
type Options struct {
	// Inputs is the number of inputs with keys, Outputs the number of labels.
	Inputs, Outputs int
	// MaxKeys is the largest number of keys. The keys of one row always have room.
	MaxKeys int
	// LogOdds says that the labels are log-odds of variance 1/ω.
	LogOdds bool
	// Kinds is how many of the ColumnsEach kinds of columns the groups have, the first ones.
	Kinds int
	// Keys have slopes and factors on the first Sloped outputs, and slopes of Numbers numbers.
	Sloped, Numbers int
}

// pairs is the number of sources of pairs: two inputs have the joint key alone.
func (o Options) pairs() int {
	if n := min(o.Inputs, mostPaired); n > 2 {
		return n * (n - 1) / 2
	}
	return 0
}

// groups is the number of sources with columns: the inputs and the joint key.
func (o Options) groups() int {
	if o.Inputs > 1 {
		return o.Inputs + 1
	}
	return o.Inputs
}

// Groups is the number of sources with columns of each kind: the inputs, and the joint key of several.
func (o Options) Groups() int { return o.groups() }

// Sources is the number of sources: the inputs, the joint key and the pairs.
func (o Options) Sources() int { return o.sources() }

// sources are the inputs, the joint key and the pairs.
func (o Options) sources() int { return o.groups() + o.pairs() }

// Experts is the number of predictions of an output: the variants of single keys, and with
// several inputs as many with the source that pays most.
func (o Options) Experts() int {
	if o.Inputs > 1 {
		return 2*Variants + 1
	}
	return Variants
}

// Columns is the number of columns of an output: the first of every group, the second of every
// group and so on, then the mean of every pair.
func (o Options) Columns() int { return o.Kinds*o.groups() + o.pairs() }

func (o Options) limit() int { return max(o.MaxKeys, o.rowKeys()) }

// rowKeys is the largest number of keys of a row: a key of each source, then two shared keys.
func (o Options) rowKeys() int { return o.sources() + 2*min(1, o.mayShare()) }

// Numbers of a slot: the count of the key, the variances, and for each output the means, the
// mean label, the last label and the decayed label; then the slopes and the factors.
const (
	countAt    = 0
	varianceAt = 1
	outputsAt  = varianceAt + Variants
	meanAt     = Variants
	lastAt     = meanAt + 1
	decayedAt  = lastAt + 1
	each       = decayedAt + 1
)

func (o Options) stride() int { return outputsAt + each*o.Outputs + o.productNumbers()*o.Sloped }

// Effects are the effects of all keys.
type Effects struct {
	o Options
	table
	// losses are the discounted losses of the single variants, by outputs.
	losses []float64
	// gains are the discounted losses of r − e less the losses of r − e − μ, by outputs, by the
	// sources of several inputs, by variants.
	gains []float64
	// trials are the trials of the sources of several inputs.
	trials []tried
	shared shared
}

// tried is whether a source of several inputs sleeps.
type tried struct {
	// paid is the number of observations after which the source last paid, or its trial began.
	paid uint64
	// wakes is the number of observations that ends the sleep, 0 of a source that is awake.
	wakes uint64
}

// New has seen no keys.
func New(o Options) *Effects {
	several := o.sources() - o.Inputs
	return &Effects{
		o: o, table: newTable(o.limit(), o.stride()), losses: make([]float64, Variants*o.Outputs),
		gains: make([]float64, Variants*several*o.Outputs), trials: make([]tried, several),
		shared: o.newShared(),
	}
}

// Row are the keys of one row.
type Row struct {
	// hashes are 0 without a key, slots are none without a known key; by sources, then the shared keys.
	hashes []uint64
	slots  []int32
	// x are the numbers with slopes, cut to ±mostSlope.
	x []float64
}

// NewRow has no keys.
func NewRow(o Options) *Row {
	return &Row{hashes: make([]uint64, o.rowKeys()), slots: make([]int32, o.rowKeys()), x: make([]float64, o.Numbers)}
}

func of(numbers []float64, output int) []float64 { return numbers[outputsAt+each*output:][:each] }

// singles writes what the variants of single keys say of an output.
func (e *Effects) singles(said *[Variants]float64, r *Row, output int) {
	*said = [Variants]float64{}
	for _, slot := range r.slots[:e.o.Inputs] {
		if slot != none {
			for k, mu := range of(e.numbers(slot), output)[:Variants] {
				said[k] += mu
			}
		}
	}
}

// best is the variant of single keys of the least loss.
func (e *Effects) best(output int) int {
	best, losses := 0, e.losses[Variants*output:][:Variants]
	for k, loss := range losses {
		if loss < losses[best] {
			best = k
		}
	}
	return best
}

// gainsOf are the gains of a source of several inputs by variants.
func (e *Effects) gainsOf(output, source int) []float64 {
	return e.gains[Variants*(output*len(e.trials)+source-e.o.Inputs):][:Variants]
}

// bestOf is the variant of a source of several inputs of the largest gain.
func (e *Effects) bestOf(output, source int) (variant int, gain float64) {
	gains := e.gainsOf(output, source)
	for k, g := range gains {
		if g > gains[variant] {
			variant = k
		}
	}
	return variant, gains[variant]
}

// pays is the loss that a gain has to exceed for a source to pay.
func (e *Effects) pays(output int) float64 {
	return float64(leastGain * e.losses[Variants*output+e.best(output)])
}

// paying is the source that pays most, or none.
func (e *Effects) paying(output int) int {
	source, most := -1, e.pays(output)
	for s := e.o.Inputs; s < e.o.sources(); s++ {
		if _, gain := e.bestOf(output, s); gain > most {
			source, most = s, gain
		}
	}
	return source
}

// Say writes the effects that the experts of an output expect.
func (e *Effects) Say(dst []float64, r *Row, output int) {
	var said [Variants]float64
	e.singles(&said, r, output)
	copy(dst, said[:])
	if e.o.Inputs == 1 {
		return
	}
	more, base, source := dst[Variants:][:Variants], said[e.best(output)], e.paying(output)
	for k := range more {
		more[k] = base
	}
	dst[2*Variants] = e.sayShared(r, output, base)
	if source >= 0 && r.slots[source] != none {
		for k, mu := range of(e.numbers(r.slots[source]), output)[:Variants] {
			more[k] += mu
		}
	}
}

// Best is what the best variant of single keys says of an output, with the source that pays most, or what the shared keys
// say if they pay more.
func (e *Effects) Best(r *Row, output int) float64 {
	var said [Variants]float64
	e.singles(&said, r, output)
	single := said[e.best(output)]
	if e.o.Inputs == 1 {
		return single
	}
	source, most := e.paying(output), e.pays(output)
	if source >= 0 {
		_, most = e.bestOf(output, source)
	}
	if _, gain := e.bestShared(output); gain > most {
		return e.sayShared(r, output, single)
	}
	if source < 0 || r.slots[source] == none {
		return single
	}
	variant, _ := e.bestOf(output, source)
	return single + of(e.numbers(r.slots[source]), output)[variant]
}

// Fill writes the columns of an output after n observations with labels of a mean.
func (e *Effects) Fill(dst []float64, r *Row, output int, n uint64, mean float64) {
	single := e.best(output)
	for source, slot := range r.slots[:e.o.sources()] {
		variant := single
		if source >= e.o.Inputs {
			variant, _ = e.bestOf(output, source)
		}
		if source >= e.o.groups() {
			pair := &dst[(e.o.Kinds-1)*e.o.groups()+source]
			*pair = 0
			if slot != none {
				*pair = of(e.numbers(slot), output)[variant]
			}
			continue
		}
		column := [ColumnsEach]float64{0, mean, mean, mean, 0, exponential.Log1p(float64(n))}
		if slot != none {
			numbers := e.numbers(slot)
			own, count := of(numbers, output), numbers[countAt]
			column[0] = own[variant]
			column[1], column[3] = own[decayedAt], own[lastAt]
			column[2] = mean + float64(count/(count+prior)*(own[meanAt]-mean))
			column[4] = exponential.Log1p(count)
			column[5] = exponential.Log1p(float64(n - min(n, e.link(slot).seen)))
		}
		for kind, value := range column[:e.o.Kinds] {
			dst[kind*e.o.groups()+source] = value
		}
	}
}

// After is the number of the last observation with the joint key, or with the key of the only input, counted from 1, or 0.
func (e *Effects) After(r *Row) uint64 {
	if slot := r.slots[e.o.groups()-1]; slot != none {
		return e.link(slot).seen + 1
	}
	return 0
}

// Learn learns the labels y of a row after n observations, given the served predictions v, the served predictions of
// the experts, output after output, and the mean and the deviation of the earlier labels of each output with slopes,
// before.
func (e *Effects) Learn(r *Row, n uint64, counts float64, y, v, served []float64, before []Labels) {
	// A key that was found may have left the table since, or come.
	for source, hash := range r.hashes {
		if hash == 0 {
			continue
		}
		if r.slots[source] = e.find(hash); r.slots[source] != none {
			e.touch(r.slots[source], n)
		}
	}
	for source, hash := range r.hashes {
		if hash != 0 && r.slots[source] == none {
			r.slots[source] = e.add(hash, n)
			e.begin(e.numbers(r.slots[source]), hash)
		}
	}
	var totals [Variants]float64 // Σ s + 1/ω.
	for k := range totals {
		totals[k] = 1 / counts
	}
	for _, slot := range r.slots[:e.o.Inputs] {
		if slot != none {
			for k, s := range e.numbers(slot)[varianceAt:][:Variants] {
				totals[k] += s
			}
		}
	}
	for j, labels := range before {
		e.learnProducts(r, j, &totals, y[j], v[j], labels)
	}
	e.learnShared(r, counts, y, v)
	for j := range y {
		e.learnOutput(r, j, counts, &totals, y[j], v[j], served[j*e.o.Experts():])
	}
	for source, slot := range r.slots[:e.o.sources()] {
		if slot != none {
			tighten(e.numbers(slot), counts, &totals, source >= e.o.Inputs, e.o.variants())
		}
	}
	e.try(n + 1)
	e.meet(r, n+1)
}

// tighten learns the variances of a key.
func tighten(numbers []float64, counts float64, totals *[Variants]float64, several bool, variants [Variants]variant) {
	numbers[countAt] += counts
	for k, variant := range variants {
		s := numbers[varianceAt+k]
		left := s - float64(gain(s, totals[k], several)*s)
		numbers[varianceAt+k] = math.Min(mostVariance, left+float64(counts*variant.drift))
	}
}

// begin writes the variances and the factors of a new key, or what a shared key begins with.
func (e *Effects) begin(numbers []float64, hash uint64) {
	if sourceOf(hash) >= e.o.sources() {
		e.beginShared(numbers, hash)
		return
	}
	for k, variant := range e.o.variants() {
		numbers[varianceAt+k] = variant.prior
	}
	for j := range e.o.Sloped {
		for k, prior := range slopePriors() {
			_, variances := e.o.slopesOf(numbers, j, k)
			for i := range variances {
				variances[i] = prior
			}
		}
		if e.o.Inputs > 1 {
			values, variances := e.o.factorsOf(numbers, j)
			beginFactors(values, variances, hash)
		}
	}
}

// gain is K of a key, given Σ s + 1/ω of the single keys of the row.
func gain(s, total float64, several bool) float64 {
	if several {
		total += s
	}
	return s / total
}

func (e *Effects) learnOutput(r *Row, output int, counts float64, totals *[Variants]float64, y, v float64, served []float64) {
	var said [Variants]float64
	e.singles(&said, r, output)
	best, losses := e.best(output), e.losses[Variants*output:][:Variants]
	left := y - v - said[best]
	for k := range losses {
		miss := y - served[k]
		losses[k] = float64(losses[k]*discount) + float64(counts*float64(miss*miss))
	}
	for source, slot := range r.slots[:e.o.sources()] {
		if slot == none {
			continue
		}
		numbers := e.numbers(slot)
		own := of(numbers, output)
		for k := range Variants {
			residual := y - v - said[k]
			if source >= e.o.Inputs {
				residual = left - own[k]
			}
			step := gain(numbers[varianceAt+k], totals[k], source >= e.o.Inputs)
			if source >= e.o.Inputs {
				g := &e.gainsOf(output, source)[k]
				*g = float64(*g*discount) + float64(counts*(float64(left*left)-float64(residual*residual)))
			}
			own[k] = within(own[k] + float64(step*residual))
		}
		learnLabel(own, numbers[countAt], counts, y)
	}
}

// mostEffect bounds the means.
const mostEffect = 10 * model.MaxMagnitude

func within(v float64) float64 { return math.Max(-mostEffect, math.Min(mostEffect, v)) }

func cutLabel(v float64) float64 {
	return math.Max(-model.MaxMagnitude, math.Min(model.MaxMagnitude, v))
}

// learnLabel learns the label of a key that counted so much before.
func learnLabel(own []float64, before, counts, y float64) {
	if before == 0 {
		own[meanAt], own[lastAt], own[decayedAt] = y, y, y
		return
	}
	// The difference of two labels rounds: a mean of the largest labels may exceed them.
	own[meanAt] = cutLabel(own[meanAt] + float64(counts/(before+counts)*(y-own[meanAt])))
	own[decayedAt] = cutLabel(own[decayedAt] + float64((1-decay)*counts*(y-own[decayedAt])))
	if counts >= model.Light {
		own[lastAt] = y
	}
}

// try ends the trials of the sources that did not pay, and begins the trials of the sources whose
// sleep ends, after n observations.
func (e *Effects) try(n uint64) {
	for i := range e.trials {
		t, source := &e.trials[i], e.o.Inputs+i
		switch {
		case t.wakes > n:
		case t.wakes > 0:
			*t = tried{paid: n}
		default:
			for j := range e.o.Outputs {
				if _, gain := e.bestOf(j, source); gain > e.pays(j) {
					t.paid = n
				}
			}
			if n-t.paid >= trial {
				t.wakes = 2 * n
				for j := range e.o.Outputs {
					clear(e.gainsOf(j, source))
				}
			}
		}
	}
}

// Bytes is the memory, with as many keys as are in the table.
func (e *Effects) Bytes() uint64 { return bytes(e.o, e.used) }

// Bytes is the memory of a full table.
func (o Options) Bytes() uint64 { return bytes(o, o.limit()) }

func bytes(o Options, keys int) uint64 {
	several := o.sources() - o.Inputs
	return tableBytes(keys, o.stride()) + uint64(8*Variants*o.Outputs*(2+several)+16*(several+o.mayShare())) + 256
}

// Keys is the number of keys in the table.
func (e *Effects) Keys() int { return e.used }

// Names are the names of the experts: variants of single keys, those with the source that pays most, then shared keys.
func Names() (names []string) {
	for _, kind := range []string{"single", "several"} {
		for _, v := range (Options{}).variants() {
			names = append(names, fmt.Sprintf("%s/prior_%g_drift_%g", kind, v.prior, v.drift))
		}
	}
	return append(names, "shared")
}

// ProductNames are the names of the predictions that multiply.
func ProductNames() []string {
	return []string{"keys/slope/prior_0.1", "keys/slope/prior_1", "keys/slopes", "keys/factors"}
}
