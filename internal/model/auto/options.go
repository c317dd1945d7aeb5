// Package auto is the learner that picks for itself. It mixes forecasters over
// several feature maps and of several memories, first-order learners and
// trivial predictors, and takes nothing that would have to be tuned.
package auto

import (
	"fmt"
)

// Options of a learner.
type Options struct {
	// Dimension is d, the number of inputs; Outputs is k, that of labels.
	Dimension, Outputs int
	// Joint are inputs that vary together as much as one, such as the indicators of a
	// category. They are apart, and in the order of the inputs.
	Joint []Span
	// Lags is how many of the last observed labels are inputs too, 0 to MaxLags.
	// With several outputs there are fewer, so that no more than maxLagColumns
	// numbers are added.
	Lags int
	// Frequencies is D, the number of random frequencies of a map.
	Frequencies int
	// Microseconds is what an Observe may take, nominally: see Plan.
	Microseconds float64
	// Seed seeds the frequencies.
	Seed uint64
	// Gated says that a label gate stands before the learner: advice may then leave the
	// range of the labels, see mixer.reach, and rows that are not learned are compared.
	Gated bool
}

// Span are the places of inputs, To excluded.
type Span struct{ From, To int }

const (
	// MaxLags is the largest number of lags.
	MaxLags       = 8
	maxLagColumns = 32
)

func (o Options) valid() bool {
	return o.Dimension >= 1 && o.Outputs >= 1 && o.Lags >= 0 && o.Lags <= MaxLags &&
		o.Frequencies >= 1 && o.Microseconds > 0
}

// lags is the number of labels of each output that are inputs.
func (o Options) lags() int { return min(o.Lags, maxLagColumns/o.Outputs) }

// remembered is the number of labels of each output that are kept: one even
// without lags, from which the increments are counted.
func (o Options) remembered() int { return max(o.lags(), 1) }

// columns is the number of inputs with lags.
func (o Options) columns() int { return o.Dimension + o.lags()*o.Outputs }

// affine is the number of features of the affine map.
func (o Options) affine() int { return o.columns() + 1 }

// size is the number of features of a map.
func (o Options) size(m mapKind) int {
	if m == affineMap {
		return o.affine()
	}
	return 2*o.Frequencies + o.affine()
}

// mapKind is one of the feature maps.
type mapKind int

const (
	// The map (x/√d, lags, 1), which stands behind all others too.
	affineMap mapKind = iota
	// Fourier features of x, of bandwidth half the
	// median distance and twice that.
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

// unforgetting is the memory that keeps all, the first of the factors.
const unforgetting = 1.0

// Plan is which experts there are.
type Plan struct {
	// factors are the maps with forecasters, forgettings the memories of these.
	factors     []mapKind
	forgettings []float64
	// descents are the maps with first-order learners.
	descents []mapKind
}

// plans are all plans, the dearest first.
func plans() []Plan {
	all := []float64{unforgetting, 0.999, 0.99}
	return []Plan{
		{[]mapKind{affineMap, narrowMap, wideMap, laggedMap, sparseMap}, all, []mapKind{narrowMap, wideMap, laggedMap, sparseMap}},
		{[]mapKind{affineMap, narrowMap, wideMap, laggedMap}, all, []mapKind{narrowMap, wideMap, laggedMap}},
		{[]mapKind{affineMap, narrowMap, laggedMap}, all, []mapKind{narrowMap, laggedMap}},
		{[]mapKind{affineMap, narrowMap, laggedMap}, all[:2], []mapKind{narrowMap, laggedMap}},
		{[]mapKind{affineMap, narrowMap}, all[:2], []mapKind{narrowMap}},
		{[]mapKind{affineMap, narrowMap}, all[:1], []mapKind{narrowMap}},
		{[]mapKind{affineMap}, all[:1], []mapKind{narrowMap}},
		{nil, nil, []mapKind{affineMap, narrowMap}},
		{nil, nil, []mapKind{affineMap}},
	}
}

// plan is the dearest plan within the budget, or else the cheapest of all.
func (o Options) plan() Plan {
	each := plans()
	for _, p := range each[:len(each)-1] {
		if o.microseconds(p) <= o.Microseconds {
			return p
		}
	}
	return each[len(each)-1]
}

// maps are the maps that a plan needs, each once.
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

// descentCount is the number of steps.
const descentCount = 2

func descentSteps() [descentCount]float64 { return [...]float64{0.1, 0.5} }

// experts is K, the number of experts of an output.
func (p Plan) experts() int {
	return baselines + 2*len(p.factors)*len(p.forgettings) + descentCount*len(p.descents)
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
	return names
}
