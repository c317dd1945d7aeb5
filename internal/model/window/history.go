package window

import (
	"hindsight/internal/model"
	"hindsight/internal/model/codec"
)

// remembered is the number of the newest labels that a History keeps: the labels of the ladder,
// and 856 labels that may come between a prediction and its label.
const remembered = 1024

// entry is a label with the exponential means after it.
type entry struct {
	label float64
	means [Means]float64
}

// History keeps the newest labels, for the columns of a row that repeat labels. Its zero
// value has no label.
type History struct {
	n       uint64
	entries [remembered]entry
}

const historyBytes = remembered * 8 * (1 + Means)

// factors are the weights of the earlier labels in the exponential means. The first label
// begins both means.
func factors() [Means]float64 { return [Means]float64{0.9, 0.99} }

// Count is the number of labels.
func (h *History) Count() uint64 { return h.n }

// Add adds the newest label.
func (h *History) Add(label float64) {
	e := entry{label: label}
	for k, factor := range factors() {
		e.means[k] = label
		if h.n > 0 {
			before := h.entries[(h.n-1)%remembered].means[k]
			e.means[k] = before + float64((1-factor)*(label-before))
		}
	}
	h.entries[h.n%remembered] = e
	h.n++
}

// Repeat adds the newest label and its means again, 0 without a label. The label of a model.Light row is no lag.
func (h *History) Repeat() {
	var e entry
	if h.n > 0 {
		e = h.entries[(h.n-1)%remembered]
	}
	h.entries[h.n%remembered] = e
	h.n++
}

// Label is the label of an age, from 1, when the first seen labels were known, or 0 without that
// label.
func (h *History) Label(seen, age uint64) float64 { return h.at(min(seen, h.n), age) }

// at is the label of an age when the first seen labels were known, or 0 without that label.
func (h *History) at(seen, age uint64) float64 {
	if age > seen || h.n-seen+age > remembered {
		return 0
	}
	return h.entries[(seen-age)%remembered].label
}

func (h *History) newest() entry { return h.entries[(h.n-1)%remembered] }

// Fill writes the columns behind the inputs as they were when the first seen labels were
// known: row[d:] of a Layout. A row that is learned late has the lags of its prediction.
// Labels that the History has forgotten count as never known.
func (h *History) Fill(tail []float64, seen uint64, served float64) {
	seen = min(seen, h.n)
	for age := range uint64(Lags) {
		tail[age] = h.at(seen, age+1)
	}
	tail[Lags] = served
	ladder := tail[Lags+1:]
	for k, age := range rungs() {
		ladder[k] = h.at(seen, age)
	}
	means := ladder[Rungs:]
	clear(means[:Means])
	if seen > 0 && h.n-seen < remembered {
		copy(means, h.entries[(seen-1)%remembered].means[:])
	}
}

// Visit visits the state.
func (h *History) Visit(v *codec.Visitor) {
	v.Uint64(&h.n)
	if v.Reading() && h.n > maxRows {
		v.Corrupt("a history of %d labels", h.n)
		return
	}
	first := uint64(0)
	if h.n > remembered {
		first = h.n - remembered
	}
	for i := first; i < h.n; i++ {
		e := &h.entries[i%remembered]
		v.Within(model.MaxMagnitude, &e.label)
		v.FloatsWithin(model.MaxMagnitude, e.means[:])
	}
}
