// Package auto is the learner without anything to tune. It mixes forecasters over several
// feature maps and of several memories, first-order learners, and baselines.
package auto

import (
	"fmt"
	"slices"
)

// Options of a learner.
type Options struct {
	// Dimension is d, the number of inputs; Outputs is k, the number of labels.
	Dimension, Outputs int
	// Joint are inputs that vary together as much as one, such as the indicators of a
	// category, disjoint and in the order of the inputs.
	Joint []Span
	// Cycles are the inputs that are the sine of an angle whose cosine is the next input. No
	// such input is joint.
	Cycles []int
	// Flags are the inputs that are 0 or 1, or between for a missing value.
	Flags []int
	// Keys are the inputs that are keys, in order. None of them is joint, a cycle or a flag.
	Keys []Key
	// MaxKeys is the most keys that have effects at a time, 0 for DefaultMaxKeys.
	MaxKeys int
	// Lags is how many of the last labels are inputs too, 0 to MaxLags. With several outputs
	// there are fewer, at most maxLagColumns numbers.
	Lags int
	// Frequencies is D, the number of random frequencies of a map.
	Frequencies int
	// Microseconds is the nominal time that an Observe may take.
	Microseconds float64
	// Seed seeds the frequencies.
	Seed uint64
	// keyed is the number of keys that numeric left out and that have effects.
	keyed int
	// encoded says that other inputs identify the most frequent values of every key.
	encoded bool
	// whole is the number of numeric inputs if they are screened: Dimension is then the number of the
	// inputs of the levels. Else whole is 0.
	whole int
	// wholeJoint are joint among all numeric inputs, and fixedInputs are in the levels always.
	wholeJoint  []Span
	fixedInputs []int
}

// Span is the range of the inputs From <= i < To.
type Span struct{ From, To int }

const (
	// MaxLags is the largest number of lags.
	MaxLags       = 8
	maxLagColumns = 32
)

func (o Options) valid() bool {
	return o.Dimension >= 1 && o.Outputs >= 1 && o.Lags >= 0 && o.Lags <= MaxLags &&
		o.Frequencies >= 1 && o.Microseconds > 0 && o.validKeys()
}

// lags is the number of labels of each output that are inputs.
func (o Options) lags() int { return min(o.Lags, maxLagColumns/o.Outputs) }

// remembered is the number of last labels of each output in the state: at least one, because
// increments are relative to the last label.
func (o Options) remembered() int { return max(o.lags(), 1) }

func (o Options) columns() int { return o.Dimension + o.lags()*o.Outputs }

func (o Options) affine() int { return o.columns() + 1 }

func (o Options) size(m mapKind) int {
	if m == affineMap {
		return o.affine()
	}
	return 2*o.Frequencies + o.affine()
}

type mapKind int

const (
	// The map (x/√d, lags, 1), which ends every other map too.
	affineMap mapKind = iota
	// Fourier features of x, of half and of twice the median distance as bandwidth.
	narrowMap
	wideMap
	// Fourier features of x and of the lags eight times as large.
	laggedMap
	// Fourier features of one and of two columns in turn.
	sparseMap
)

func (m mapKind) String() string {
	return [...]string{"affine", "fourier_narrow", "fourier_wide", "fourier_lagged", "fourier_sparse"}[m]
}

// unforgetting is the forgetting factor of the factors that keep all.
const unforgetting = 1.0

// Plan lists the experts.
type Plan struct {
	// factors are the maps with forecasters, forgettings the memories of the forecasters.
	factors     []mapKind
	forgettings []float64
	// descents are the maps with first-order learners.
	descents []mapKind
	// wide are the regressions on all inputs, which come last. There are none without screening.
	wide []string
}

// plans are all plans, the most expensive first.
func plans() []Plan {
	all := []float64{unforgetting, 0.999, 0.99}
	return []Plan{
		{factors: []mapKind{affineMap, narrowMap, wideMap, laggedMap, sparseMap}, forgettings: all, descents: []mapKind{narrowMap, wideMap, laggedMap, sparseMap}},
		{factors: []mapKind{affineMap, narrowMap, wideMap, laggedMap}, forgettings: all, descents: []mapKind{narrowMap, wideMap, laggedMap}},
		{factors: []mapKind{affineMap, narrowMap, laggedMap}, forgettings: all, descents: []mapKind{narrowMap, laggedMap}},
		{factors: []mapKind{affineMap, narrowMap, laggedMap}, forgettings: all[:2], descents: []mapKind{narrowMap, laggedMap}},
		{factors: []mapKind{affineMap, narrowMap}, forgettings: all[:2], descents: []mapKind{narrowMap}},
		{factors: []mapKind{affineMap, narrowMap}, forgettings: all[:1], descents: []mapKind{narrowMap}},
		{factors: []mapKind{affineMap}, forgettings: all[:1], descents: []mapKind{narrowMap}},
		{descents: []mapKind{affineMap, narrowMap}},
		{descents: []mapKind{affineMap}},
	}
}

// richPlans is the number of plans, the first ones, that may stand in for a richer one so that a larger lineup fits.
const richPlans = 4

// choose returns the most expensive lineup for which one of the first richPlans plans leaves room, with the most expensive of
// these plans. Otherwise choose returns the most expensive plan within the budget, else the cheapest, and the most expensive
// lineup within the rest. Several outputs, each of which pays for a lineup, always get the latter.
func (o Options) choose() (Plan, lineup) {
	each, lineups := plans(), o.lineups()
	if o.whole > 0 {
		for i := range each {
			each[i].wide = o.wide().Names()
		}
	}
	fits := func(p Plan, l lineup) bool {
		observe, _ := o.lineupFlops(p, l)
		return float64(observe)/flopsPerMicrosecond <= o.Microseconds-o.microseconds(p)
	}
	for n := 0; n < len(lineups) && o.Outputs == 1; n++ {
		for _, p := range each[:richPlans] {
			if fits(p, lineups[n]) {
				return p, lineups[n]
			}
		}
	}
	at := slices.IndexFunc(each, func(p Plan) bool { return o.microseconds(p) <= o.Microseconds })
	if at < 0 {
		at = len(each) - 1
	}
	for _, l := range lineups {
		if fits(each[at], l) {
			return each[at], l
		}
	}
	return each[at], lineup{}
}

func (o Options) plan() Plan {
	p, _ := o.choose()
	return p
}

// maps are the maps of a plan, each once.
func (p Plan) maps() []mapKind {
	var all []mapKind
	for m := affineMap; m <= sparseMap; m++ {
		for _, list := range [][]mapKind{p.factors, p.descents} {
			for _, each := range list {
				if each == m && (len(all) == 0 || all[len(all)-1] != m) {
					all = append(all, m)
				}
			}
		}
	}
	return all
}

// Baselines of every plan, and steps of the first-order learners.
const (
	meanBaseline = iota
	lastBaseline
	recentBaseline
	baselines
)

const discount = 0.9 // Of the exponentially weighted mean.

const descentCount = 2

func descentSteps() [descentCount]float64 { return [...]float64{0.1, 0.5} }

// experts is K, the number of experts of an output.
func (p Plan) experts() int {
	return baselines + 2*len(p.factors)*len(p.forgettings) + descentCount*len(p.descents) + len(p.wide)
}

// stackForgettings are the memories of the stacks.
func stackForgettings() [stacks]float64 { return [stacks]float64{unforgetting, 0.999, 0.99} }

const (
	stacks = 3
	// What the final mixture mixes: b and the stacks.
	finalists = 1 + stacks
)

// names are the experts of an output, in their order.
func (p Plan) names() []string {
	names := []string{"baseline/mean", "baseline/last", "baseline/recent"}
	for _, m := range p.factors {
		for _, f := range p.forgettings {
			names = append(names, fmt.Sprintf("%v/forgetting_%g/value", m, f), fmt.Sprintf("%v/forgetting_%g/increment", m, f))
		}
	}
	for _, m := range p.descents {
		for _, step := range descentSteps() {
			names = append(names, fmt.Sprintf("%v/step_%g", m, step))
		}
	}
	for _, name := range p.wide {
		names = append(names, "affine_all/"+name)
	}
	return names
}
