// Package classes is what the engine knows of how a classifier does: errors and
// scores of its predictions beside those of two predictors that ignore the inputs,
// what became of the probabilities that were told, and what of each class. It knows
// predictions and classes alone, so that it is the same for every classifier. It is
// part of the model's state: the same rounds give the same account, bit for bit.
//
// Observations count once each. A weight says what a loss is worth to the learner; an
// error is an error.
package classes

import (
	"fmt"
	"math"

	"hindsight/internal/model"
	"hindsight/internal/model/exponential"
)

// Bins is the number of bins of the reliability table: bin i holds the probabilities
// from i/10 to (i+1)/10, the last one 1 too.
const Bins = 10

// leastProbability is what a smaller probability counts as in the log-loss, and that
// of a class that was not known.
const leastProbability = 1e-9

// Account is the account of one classifier.
type Account struct {
	limit int
	// predicted counts the observations that had been predicted, served sums the
	// figures of what was told.
	predicted uint64
	served    Figures
	whole     Performance
	recent    window
	bins      [Bins]Bin
	classes   []Class
	// majority is the class that was observed most, last that of the observation
	// before; model.NoClass before the first.
	majority, last int
}

// New is the account of a classifier that has learned nothing and may have so many
// classes.
func New(limit int) *Account {
	return &Account{limit: limit, majority: model.NoClass, last: model.NoClass}
}

// Prediction is a prediction, by the numbers of the classes.
type Prediction struct {
	// Class is the class that was predicted, model.NoClass if none.
	Class int
	// Probabilities are those of the classes that were known then.
	Probabilities []float64
}

// Round is one observation, once it is learned.
type Round struct {
	// Class is the number of the class that was observed.
	Class int
	// Prequential is the prediction of before.
	Prequential Prediction
	// Served is what the client was told, nil if it was told nothing. Notes are those
	// of that moment; notes that no account gives are ignored.
	Served *Prediction
	Notes  []float64
}

// Class is what became of one class.
type Class struct {
	// Observed counts its observations, Errors those of them for which another class
	// was predicted, Predicted how often it was predicted.
	Observed, Errors, Predicted uint64
	// Expected is the sum of its probabilities: how often it would have been observed
	// had they been right.
	Expected float64
}

// Bin is a bin of the reliability table. Each probability of each class is a member
// of one.
type Bin struct {
	// Members counts the probabilities, Found those whose class was observed.
	Members, Found uint64
	// Expected is the sum of the probabilities: what Found would have been had they
	// been right.
	Expected float64
}

// Observe takes one observation, and tells what became of it. It costs O(classes), and
// allocates only when a class is new. It panics on a class whose number is not below
// the limit.
func (a *Account) Observe(r Round) Performance {
	if r.Class < 0 || r.Class >= a.limit {
		panic(fmt.Sprintf("classes: class %d of %d", r.Class, a.limit))
	}
	now := judged(r.Prequential, r.Class)
	now.Majority, now.Last = wrong(a.majority, r.Class), wrong(a.last, r.Class)
	told, prediction := now, r.Prequential
	if r.Served != nil {
		prediction = *r.Served
		told = judged(prediction, r.Class)
		told.Majority, told.Last = now.Majority, now.Last
		if majority, last, ok := a.read(r.Notes); ok {
			told.Majority, told.Last = wrong(majority, r.Class), wrong(last, r.Class)
		}
		a.predicted++
		a.served.add(told)
	}
	round := Performance{Observations: 1, Prequential: now, Served: told}
	a.whole.Add(round)
	a.recent.Add(round)
	a.count(prediction, r.Class)
	a.learn(r.Class)
	return round
}

// judged are the figures of a prediction, without the baselines.
func judged(p Prediction, class int) Figures {
	f := Figures{Errors: wrong(p.Class, class)}
	own := 0.0
	if class < len(p.Probabilities) {
		own = probability(p.Probabilities[class])
	}
	f.LogLoss = -exponential.Log(math.Max(own, leastProbability))
	for _, v := range p.Probabilities {
		v = probability(v)
		f.Brier += float64(v * v)
	}
	f.Brier += 1 - 2*own
	return f
}

// probability is what any number counts as.
func probability(v float64) float64 {
	if !(v > 0) { // NaN too.
		return 0
	}
	return math.Min(v, 1)
}

func wrong(predicted, class int) float64 {
	if predicted == class {
		return 0
	}
	return 1
}

// count takes the prediction that was told into the table and into the classes.
func (a *Account) count(p Prediction, class int) {
	probabilities := p.Probabilities[:min(len(p.Probabilities), a.limit)]
	for len(a.classes) < max(len(probabilities), class+1) {
		a.classes = append(a.classes, Class{})
	}
	for k, v := range probabilities {
		v = probability(v)
		bin := &a.bins[min(int(float64(v*Bins)), Bins-1)]
		bin.Members++
		bin.Expected += v
		if k == class {
			bin.Found++
		}
		a.classes[k].Expected += v
	}
	own := &a.classes[class]
	own.Observed++
	if p.Class != class {
		own.Errors++
	}
	if p.Class >= 0 && p.Class < len(a.classes) {
		a.classes[p.Class].Predicted++
	}
}

// learn moves the baselines on. Of classes that were observed as often the majority is
// the one with the least number.
func (a *Account) learn(class int) {
	a.last = class
	if a.majority == model.NoClass {
		a.majority = class
		return
	}
	own, most := a.classes[class].Observed, a.classes[a.majority].Observed
	if own > most || (own == most && class < a.majority) {
		a.majority = class
	}
}

// AppendNotes appends what is wanted back with the class of a prediction of now: the
// classes that the baselines predict.
func (a *Account) AppendNotes(dst []float64) []float64 {
	return append(dst, float64(a.majority), float64(a.last))
}

// NotesLength is how many numbers AppendNotes appends.
const NotesLength = 2

func (a *Account) read(notes []float64) (majority, last int, ok bool) {
	if len(notes) != NotesLength {
		return 0, 0, false
	}
	for _, v := range notes {
		if !(v >= model.NoClass && v < float64(a.limit) && v == math.Trunc(v)) {
			return 0, 0, false
		}
	}
	return int(notes[0]), int(notes[1]), true
}

// Summary is what there is to tell of an account.
type Summary struct {
	// Predicted counts the observations that had been predicted, Served sums the
	// figures of what the client was told then.
	Predicted uint64
	Served    Figures
	// Whole is the performance over all observations, Recent over the last ones.
	Whole, Recent Performance
	// Reliability is the table of the probabilities that were told, or would have
	// been: the prequential ones where the client was told nothing.
	Reliability [Bins]Bin
	// Classes are the classes by their numbers, of the same predictions.
	Classes []Class
}

// Summary sums up the account, at a cost of O(classes).
func (a *Account) Summary() Summary {
	return Summary{
		Predicted: a.predicted, Served: a.served, Whole: a.whole, Recent: a.recent.Total(),
		Reliability: a.bins, Classes: append([]Class(nil), a.classes...),
	}
}

// Recent is the performance over the last observations, at a cost of some 250
// additions.
func (a *Account) Recent() Performance { return a.recent.Total() }
