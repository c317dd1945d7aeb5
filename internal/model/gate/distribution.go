package gate

import "slices"

// Large labels that come all the time are part of the distribution, foretold or not: claims,
// amounts that are mostly 0. Without them the learner predicts too little for good. Errors
// are rarer, or they grow without a limit, or they are sentinels: a few values. Beside labels
// that stand still, such as the zeros between amounts, a few values are amounts of whole
// units, and no deviation tells an error from an amount.
const (
	// The gate admits large labels from asideRows rows, of labels that stand still from
	// stillRows rows, and a share of leastShare of the rows of a start.
	leastShare = 0.005
	stillRows  = 8
	// The labels stand still if a share of leastRepeats is equal to the label before.
	leastRepeats = 0.9
	// A sentinel is more than one in mostEqual of the kept labels.
	mostEqual = 4
)

func (l *Learner) meet(y []float64) {
	l.large++
	for j := range l.trackers {
		if l.trackers[j].meet(y[j], l.count) {
			l.stretched = l.large
		}
	}
}

// distributed reports whether the rows that were set aside are part of the distribution: they
// are many, half of them came after the last stretch of their range, and no label is a sentinel.
func (l *Learner) distributed() bool {
	rows, least := l.rows-l.lastStart, uint64(asideRows)
	if l.still() {
		least = stillRows
	}
	if l.taken <= l.o.last() || l.large < least || l.large < 2*l.stretched ||
		float64(l.large) < leastShare*float64(rows) {
		return false
	}
	for j := range l.trackers {
		if l.sentinel(j) {
			return false
		}
	}
	return true
}

func (l *Learner) still() bool {
	for j := range l.trackers {
		if !l.trackers[j].still(l.count) {
			return false
		}
	}
	return true
}

// sentinel reports whether a value repeats among the labels of an output that are set aside,
// and is more than one in mostEqual of them.
func (l *Learner) sentinel(output int) bool {
	t := &l.trackers[output]
	if t.still(l.count) {
		return false
	}
	var labels []float64
	for i := range l.aside {
		if y := l.aside[i].y[output]; t.strange(y, t.size(y), l.count) {
			labels = append(labels, y)
		}
	}
	slices.Sort(labels)
	equal := 0
	for i := range labels {
		if i > 0 && labels[i] != labels[i-1] {
			equal = 0
		}
		if equal++; equal > 1 && mostEqual*equal > len(labels) {
			return true
		}
	}
	return false
}
