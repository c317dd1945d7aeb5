package classes

import "math"

// newClass is the probability that the next class is new. Two experts say it: one that no class is
// still to come, the other that new classes come at the rate of Krichevsky and Trofimov, (K − ½)/n
// with K classes in n observations. Each new class starts the two with even weights, and each
// observation multiplies their weights by the probability of what came. Hence the log losses of
// Π(1 − newClass) exceed 0 by at most log 2 since the newest class, however long no new class comes.
//
// Source: Krichevsky and Trofimov, The performance of universal encoding (1981), for the rate.
func (a *Account) newClass() float64 {
	if len(a.classes) == 0 || len(a.classes) >= a.limit {
		return 0
	}
	// Predictions may know more classes than were observed.
	return float64(a.open * math.Min(1, (float64(len(a.classes))-0.5)/(a.whole.Observations+1)))
}

// learnNewness learns whether the class of an observation is new, before the account counts the
// class; unseen is newClass before the observation.
func (a *Account) learnNewness(class int, unseen float64) {
	if class >= len(a.classes) {
		a.open = 0.5
		return
	}
	a.open = (a.open - unseen) / (1 - unseen)
}
