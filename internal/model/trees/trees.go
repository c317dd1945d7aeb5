// Package trees predicts labels by rolling boosted trees over a window.Window. No tree is
// ever old: one tree after another is replaced by a tree fitted to the present window.
//
// A column is a ring of Trees regression trees. It predicts o + Σ_j f_j(x), with an offset o.
// A refit takes the oldest tree out of its ring and fits a new tree to the residuals of the
// others over the window,
//
//	r_i = y_i − o_i − Σ_{j others} f_j(x_i)
//
// with a random 0.7 of the rows and at most 24 inputs. The tree grows best first: the leaf
// with the largest gain is split where
//
//	S_l²/(n_l + λ) + S_r²/(n_r + λ) − S²/(n + λ),  λ = 2,
//
// is largest, and gains more than the mean square of the residuals in the bag, else it is
// noise. Ties go to the lower input, then the lower cut point, then the older leaf. A
// leaf says ν S/(n + λ), ν = 0.2, where S and n are of all rows of the window: rows that did not
// find the splits make the values less noisy. With fixed partitions this is block coordinate descent on
// ½Σ(y − Σf_j)² + ½(1/ν − 1)Σ_jΣ_i f_j(x_i)², kernel ridge regression in the kernel of the
// leaves: repeated refits need not overfit, and ν sets the ridge.
//
// # Exact sums
//
// With the offset a and the unit s of the window's served column, q(y) = (y − a)/s is held in
// integers: residuals and leaves as multiples of 2⁻³², |q| ≤ 2¹⁵. A histogram adds residuals
// rounded to multiples of 2⁻²⁰. The bin of a histogram is one integer, 2¹⁴ Σr + count: one
// addition a row and input. Sums of integers have no order, so assembly and Go have the same
// bits, and what follows from sums is not stored but computed when a state is read. Floating
// point is left in the gain, written as one quotient without fusing, and in the leaf.
//
// # Work
//
// Each Observe does at most Options.Work units of work, about a nanosecond each, in steps; a
// step of a fit is at most some 25,000 units. A column earns credit and pays 4·0.7·n·F for a tree of n
// rows and F inputs. One job runs at a time: a fit, or new cut points. An Observe works about what it
// earns, so that a fit takes the rounds until the next fit is due. A column
// that has credit for mostCredit trees makes an Observe work the most. A fit uses the rows of
// the window at its start, which the ring's slack keeps. The state of a fit is its start and
// the number of its steps: Visit runs the steps again, so a restored model continues bit for
// bit at any round.
//
// Inputs have at most 64 bins. Cut points are midpoints at the quantiles of the rows. They are
// due at row 16, at each factor 1.5, and every half capacity once the window is full, for the
// inputs with a bin of more than twice its share of the rows. A tree stores
// values, not bins, so it outlives the cut points. Random draws are keyed by the seed, the
// column and the number of the tree.
//
// A row counts ω, see model.Weights: a fit draws the row with the probability 0.7 ω, and the
// values of leaves and the mean of the labels weight it by ω.
//
// Source: Friedman, Greedy function approximation (Annals of Statistics 29, 2001), for the
// boosting; Zhou and Hooker, Boulevard (2018), for the limit of repeated shrunken refits.
package trees

import (
	"hindsight/internal/model/window"
)

// Kind says what a column learns.
type Kind int

// Labels and the other kinds.
const (
	// Labels learns the label from the inputs and two lags; o is the running mean of labels.
	Labels Kind = iota
	// Changes learns the label less the last label, which is o, from the inputs, the ladder and
	// the differences of inputs. With a Keyed layout o is the label of the reference.
	Changes
	// Residuals learns the label less v, which is o, from the inputs, two lags and v.
	Residuals
	// Plain learns the label from the inputs alone, in larger trees; o is the running mean.
	Plain
	// Beside learns the label less the effect of the row's keys from the inputs that are no columns
	// of keys and two lags; o is the running mean of the labels and the effect.
	Beside
)

// Kinds is the number of kinds.
const Kinds = 5

const (
	// Trees is the number of trees of a column.
	Trees = 64
	// Whole is the share of a column that earns all of its credit.
	Whole = 64
	// MaxInputs is the largest number of inputs of a model.
	MaxInputs = 1 << 15

	bins        = 64
	mostInputs  = 24 // Of one tree.
	lanes       = 4  // Inputs of one histogram.
	groupSize   = bins * lanes
	leastRows   = 32 // Of a fit.
	maxNodes    = 2*127 - 1
	block       = 64    // Slots that a loop takes at a time.
	padding     = block // Of slots.
	creditRound = 13_000
	mostCredit  = 4 // Trees.
	lambda      = 2
	shrinkage   = 0.2
)

// DefaultWork is the most work units of one Observe.
const DefaultWork = 120_000

// Options are what a Forest is made of.
type Options struct {
	Seed uint64
	// Inputs is the number d of inputs of the window's Layout, at most MaxInputs.
	Inputs int
	// Deltas is the number of differences of inputs of the Layout.
	Deltas int
	// Keyed is Keyed of the Layout.
	Keyed bool
	// Keys are the columns of keys. The effect is the sum of the columns from Keys.From to
	// Keys.Effect − 1.
	Keys Keys
	// Means are the columns of the mean labels of categories, which Plain trees do not split: they
	// read the inputs alone.
	Means Span
	// Columns are the columns, in the order of their predictions.
	Columns []Kind
	// Work is the most work units of one Observe, 0 for DefaultWork. With less than a fit
	// needs within window.Slack rounds, the last round of the slack does the rest.
	Work int
}

// Span are the columns From to To − 1 of the window.
type Span struct{ From, To int }

// Keys are the columns From to To − 1 of the window.
type Keys struct{ From, Effect, To int }

func (o Options) work() int64 {
	if o.Work > 0 {
		return int64(o.Work)
	}
	return DefaultWork
}

func (k Kind) leaves() int {
	if k == Plain {
		return 127
	}
	return 31
}

// leastSide is the fewest rows on a side of a split.
func (k Kind) leastSide() int {
	if k == Plain {
		return 2
	}
	return 5
}

// centred says that the offset of a column is the running mean.
func (k Kind) centred() bool { return k == Labels || k == Plain || k == Beside }

// inputs are the columns of the window that trees may split.
func (o Options) inputs(k Kind) []uint16 {
	l := o.layout()
	count := l.Inputs
	switch k {
	case Labels, Beside:
		count += window.Lags
	case Residuals:
		count += window.Lags + 1
	case Changes, Plain:
	}
	var inputs []uint16
	for j := range count {
		if k == Plain && j >= o.Means.From && j < o.Means.To {
			continue
		}
		if k != Beside || j < o.Keys.From || j >= o.Keys.To {
			inputs = append(inputs, uint16(j))
		}
	}
	if k == Changes {
		for j := l.Ladder(); j < l.Columns(); j++ {
			inputs = append(inputs, uint16(j))
		}
	}
	return inputs
}

// drawn is how many of F inputs a tree may split.
func (k Kind) drawn(count int) int {
	if k == Changes {
		count = (6*count + 9) / 10
	}
	return min(count, mostInputs)
}

func (o Options) layout() window.Layout {
	return window.Layout{Inputs: o.Inputs, Deltas: o.Deltas, Keyed: o.Keyed}
}

// groups is the number of histograms of a leaf.
func (o Options) groups(k Kind) int {
	return (k.drawn(len(o.inputs(k))) + lanes - 1) / lanes
}

// Bytes is the memory of a Forest over a window of a capacity.
func (o Options) Bytes(capacity int) uint64 {
	l := o.layout()
	slots, groups, bytes := capacity+window.Slack, 0, uint64(0)
	for _, k := range o.Columns {
		bytes += uint64(8*slots + Trees*8*(2*k.leaves()+4))
		groups = max(groups, o.groups(k))
	}
	return bytes + uint64(slots*(l.Columns()+8+4+2)+l.Columns()*4*bins+8*histogramRoom(slots, groups))
}
