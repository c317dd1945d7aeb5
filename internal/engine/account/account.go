// Package account is what the engine knows of how a model does, beside the
// learner's own account: what was served, the losses of two predictors that
// ignore the inputs, prediction intervals, and changes of the loss. It is part of
// the model's state: the same rounds give the same account, bit for bit.
package account

import (
	"math"

	"hindsight/internal/engine/account/drift"
	"hindsight/internal/engine/account/interval"
)

// Account is the account of one model.
type Account struct {
	// Time is the time of the newest record, in nanoseconds since 1970.
	Time int64
	// predicted counts the observations that had been predicted, served sums their
	// losses.
	predicted uint64
	served    Figures
	// weight is the sum of all weights, means are the weighted means of the labels,
	// last the labels of the last observation, an entry each output. Before the
	// first observation all are 0.
	weight      float64
	means, last []float64
	whole       Performance
	discounted  Performance
	recent      window
	// excess is what the served predictions lost beyond the prequential ones of the
	// same observations.
	excess float64
	levels []float64
	// intervals has an entry each output, if there are levels.
	intervals []*interval.State
	drift     *drift.Detector
}

// New is the account of a model that has learned nothing. Levels are the
// coverages of its prediction intervals, ascending, or none. Without outputs, as of
// a classifier, it knows losses alone: the baselines have none.
func New(outputs int, levels []float64) *Account {
	a := &Account{means: make([]float64, outputs), last: make([]float64, outputs), levels: levels, drift: drift.New()}
	if len(levels) > 0 {
		a.intervals = make([]*interval.State, outputs)
		for j := range a.intervals {
			a.intervals[j] = interval.New(levels)
		}
	}
	return a
}

// Loss is the loss of a prediction under a label.
type Loss func(prediction, label float64) float64

// Round is one observation, once it is learned.
type Round struct {
	// Labels and Predictions, the prequential ones, have an entry each output.
	Labels, Predictions []float64
	Weight              float64
	// Loss is that of Predictions, times the weight.
	Loss float64
	// Served is what the client was told, nil if it was told nothing, ServedLoss its
	// loss, times the weight. Notes are those of that moment; notes that no account
	// gives are ignored.
	Served, Notes []float64
	ServedLoss    float64
	// SetAside says that the learner did not learn the observation. The baselines do not
	// either, and all sums leave it out: one label that towers over all others would
	// decide every skill.
	SetAside bool
}

// Observe takes one observation, and tells what became of it and whether it shows a
// change of the loss. It costs O(outputs · levels).
func (a *Account) Observe(r Round, loss Loss) (round Performance, changed bool) {
	now := Figures{Loss: r.Loss}
	now.RunningMean, now.LastLabel = total(a.means, r, loss), total(a.last, r, loss)
	told := now
	notes := a.read(r.Notes)
	if r.Served != nil {
		told.Loss = r.ServedLoss
		if notes != nil {
			k := len(r.Labels)
			told.RunningMean, told.LastLabel = total(notes[:k], r, loss), total(notes[k:2*k], r, loss)
		}
	}
	a.judge(r, notes)
	changed = a.drift.Observe(told.Loss / r.Weight)
	if r.SetAside {
		return Performance{Observations: 1}, changed
	}
	if r.Served != nil {
		a.predicted++
		a.served.add(told)
		a.excess += r.ServedLoss - r.Loss
	}
	round = Performance{Observations: 1, Prequential: now, Served: told}
	a.whole.Add(round)
	a.recent.Add(round)
	a.discounted.scale(discount)
	a.discounted.Add(round)
	a.learn(r)
	return round, changed
}

// total is the loss of predictions, times the weight.
func total(predictions []float64, r Round, loss Loss) (sum float64) {
	for j, y := range r.Labels {
		sum += float64(r.Weight * loss(predictions[j], y))
	}
	return sum
}

// judge tells the intervals where the labels were. An observation that had not
// been predicted is judged by the interval of now.
func (a *Account) judge(r Round, notes []float64) {
	var own [1 + maxLevels]float64
	for j, s := range a.intervals {
		value, of := r.Predictions[j], own[:0]
		if r.Served != nil && notes != nil {
			value, of = r.Served[j], a.noted(notes, j)
		} else {
			of = appendInterval(of, s, len(a.levels))
		}
		s.Observe(r.Labels[j]-value, of[0], of[1:])
	}
}

// learn moves the baselines on.
func (a *Account) learn(r Round) {
	a.weight += r.Weight
	share := r.Weight / a.weight
	for j, y := range r.Labels {
		a.means[j] += float64(share * (y - a.means[j]))
		a.last[j] = y
	}
}

// Recent is the performance over the last observations, at a cost of some 150
// additions.
func (a *Account) Recent() Performance { return a.recent.Total() }

// Summary is what there is to tell of an account.
type Summary struct {
	// Predicted counts the observations that had been predicted, Served sums the
	// losses of what the client was told then and of the baselines of that moment.
	Predicted uint64
	Served    Figures
	// Excess is what the served predictions lost beyond the prequential ones of the
	// same observations.
	Excess float64
	// Whole is the performance over all observations, Recent over the last ones,
	// Discounted that where each round takes a thousandth of what was before.
	Whole, Recent, Discounted Performance
	// Intervals has an entry a level, over all outputs.
	Intervals []interval.Statistics
	// Observed is how many observations the account is of, with those set aside.
	Observed uint64
	// Drift tells of changes of the loss. Its sequences count the observations of
	// this account.
	Drift drift.Statistics
}

// Summary sums up the account, at a cost of O(outputs · levels).
func (a *Account) Summary() Summary {
	s := Summary{
		Predicted: a.predicted, Served: a.served, Excess: a.excess,
		Whole: a.whole, Recent: a.recent.Total(), Discounted: a.discounted, Drift: a.drift.Statistics(),
		Observed: a.Observations(),
	}
	if len(a.levels) == 0 {
		return s
	}
	s.Intervals = make([]interval.Statistics, len(a.levels))
	for level := range s.Intervals {
		s.Intervals[level] = a.overOutputs(level)
	}
	return s
}

// overOutputs joins the statistics of a level: means over the outputs, and the
// least coverage of any.
func (a *Account) overOutputs(level int) interval.Statistics {
	sum := a.intervals[0].Statistics(level)
	for _, s := range a.intervals[1:] {
		next := s.Statistics(level)
		sum.Coverage += next.Coverage
		sum.RecentCoverage += next.RecentCoverage
		sum.DiscountedCoverage += next.DiscountedCoverage
		sum.LeastCoverage = math.Min(sum.LeastCoverage, next.LeastCoverage)
		sum.MeanWidth += next.MeanWidth
		sum.MeanScore += next.MeanScore
	}
	k := float64(len(a.intervals))
	sum.Coverage /= k
	sum.RecentCoverage /= k
	sum.DiscountedCoverage /= k
	sum.MeanWidth /= k
	sum.MeanScore /= k
	return sum
}

// Counts are how many intervals of a level were judged so far and, for each level, how
// many of them held their label, over all outputs. It costs O(outputs · levels) and
// allocates nothing when dst has room. There are none without levels.
func (a *Account) Counts(dst []uint64) []uint64 {
	if len(a.levels) == 0 {
		return dst
	}
	judged := uint64(0)
	for _, s := range a.intervals {
		judged += s.Judged()
	}
	dst = append(dst, judged)
	for level := range a.levels {
		covered := uint64(0)
		for _, s := range a.intervals {
			covered += s.Covered(level)
		}
		dst = append(dst, covered)
	}
	return dst
}

// Change is the last change of the loss. It counts the observations of this account.
func (a *Account) Change() drift.Statistics { return a.drift.Statistics() }

// Observations is how many observations the account is of, with those set aside.
func (a *Account) Observations() uint64 { return a.drift.Observed() }

// Intervals are the statistics of each output, an entry a level.
func (a *Account) Intervals() [][]interval.Statistics {
	all := make([][]interval.Statistics, len(a.intervals))
	for j, s := range a.intervals {
		for level := range a.levels {
			all[j] = append(all[j], s.Statistics(level))
		}
	}
	return all
}
