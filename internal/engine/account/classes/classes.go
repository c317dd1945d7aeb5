// Package classes keeps the account of a classifier: errors and scores of its
// predictions beside the figures of two baselines that ignore the inputs, the reliability of
// its probabilities, and counts of each class. It uses predictions and classes alone, so
// it is the same for every classifier. It is part of the model's state: the same rounds
// give the same account, bit for bit.
//
// Every observation counts once: weights scale losses, not errors.
package classes

import (
	"fmt"
	"math"

	"hindsight/internal/model"
	"hindsight/internal/model/exponential"
)

// Bins is the number of bins of the reliability table: bin i has the probabilities
// from i/10 to (i+1)/10, the last bin 1 too.
const Bins = 10

// A smaller probability counts as minProbability in the log loss.
const minProbability = 1e-9

// Account is the account of one classifier.
type Account struct {
	limit int
	// predicted counts the scored observations with a served prediction, served sums the
	// figures of these predictions. whole and recent are of scored observations, bins and
	// classes of all.
	predicted uint64
	served    Figures
	whole     Performance
	recent    window
	bins      [Bins]Bin
	classes   []Class
	// ranking counts the observations of two known classes, nil before and with more classes.
	ranking *ranking
	// majority is the most frequent class, last the class of the newest observation;
	// both are model.NoClass before the first.
	majority, last int
	// open is the probability that a class is still to come: see NewClass.
	open float64
}

// New returns the account of a classifier that has learned nothing and may have limit
// classes.
func New(limit int) *Account {
	return &Account{limit: limit, majority: model.NoClass, last: model.NoClass}
}

// Prediction is a prediction by class numbers.
type Prediction struct {
	// Class is the predicted class, model.NoClass if none.
	Class int
	// Probabilities has a probability for each class known at the time of the prediction.
	Probabilities []float64
}

// Round is one observation, once it is learned.
type Round struct {
	Class int
	// Prequential is the prediction made just before.
	Prequential Prediction
	// Served is the prediction that the client received, nil if none, and Notes are those
	// of AppendNotes at that time. Notes that no account gives are ignored.
	Served *Prediction
	Notes  []float64
}

// Class has the counts of one class.
type Class struct {
	// Observed counts the observations of the class, Errors those for which another class
	// was predicted, Predicted the predictions of the class.
	Observed, Errors, Predicted uint64
	// Expected is the sum of the probabilities of the class: the expectation of Observed
	// under them.
	Expected float64
}

// Bin is a bin of the reliability table. Each probability of each class is a member
// of one bin.
type Bin struct {
	// Members counts the probabilities, Found those whose class was observed.
	Members, Found uint64
	// Expected is the sum of the probabilities: the expectation of Found under them.
	Expected float64
}

// Observe takes one observation and returns its performance. It costs O(classes), and
// allocates only when a class is new. It panics if the number of the class is not below
// the limit.
//
// Observe scores every observation but the first, which the model and the baselines answer
// before they know a class: its performance is the zero value.
func (a *Account) Observe(r Round) Performance {
	if r.Class < 0 || r.Class >= a.limit {
		panic(fmt.Sprintf("classes: class %d of %d", r.Class, a.limit))
	}
	first := a.majority == model.NoClass
	unseen := a.newClass()
	now := figuresOf(r.Prequential, r.Class, unseen)
	now.Majority, now.Last = wrong(a.majority, r.Class), wrong(a.last, r.Class)
	served, prediction := now, r.Prequential
	if r.Served != nil {
		prediction = *r.Served
		majority, last, then := a.majority, a.last, unseen
		if a.possible(r.Notes) {
			majority, last, then = int(r.Notes[0]), int(r.Notes[1]), r.Notes[2]
		}
		served = figuresOf(prediction, r.Class, then)
		served.Majority, served.Last = wrong(majority, r.Class), wrong(last, r.Class)
	}
	var round Performance
	if !first {
		if r.Served != nil {
			a.predicted++
			a.served.add(&served, 1)
		}
		round = Performance{Observations: 1, Prequential: now, Served: served}
		a.whole.Add(round)
		a.recent.Add(round)
	}
	a.learnNewness(r.Class, unseen)
	a.count(prediction, r.Class)
	a.learn(r.Class)
	return round
}

// figuresOf returns the figures of a prediction without the baselines. Unseen is the
// probability that the class is new.
func figuresOf(p Prediction, class int, unseen float64) Figures {
	f := Figures{Errors: wrong(p.Class, class)}
	observed, total := 0.0, unseen
	if class < len(p.Probabilities) {
		observed = probability(p.Probabilities[class])
		total = float64((1 - unseen) * observed)
	}
	f.LogLoss = -exponential.Log(math.Max(total, minProbability))
	for _, v := range p.Probabilities {
		v = probability(v)
		f.Brier += float64(v * v)
	}
	f.Brier += 1 - 2*observed
	return f
}

// probability returns v clamped to [0, 1]; a NaN is 0.
func probability(v float64) float64 {
	if !(v > 0) {
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

func (a *Account) count(p Prediction, class int) {
	probabilities := p.Probabilities[:min(len(p.Probabilities), a.limit)]
	for len(a.classes) < max(len(probabilities), class+1) {
		a.classes = append(a.classes, Class{})
	}
	if len(a.classes) == 2 && len(probabilities) == 2 {
		if a.ranking == nil {
			a.ranking = new(ranking)
		}
		a.ranking.count(probability(probabilities[1]), class)
	}
	if len(a.classes) > 2 {
		a.ranking = nil
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
	observed := &a.classes[class]
	observed.Observed++
	if p.Class != class {
		observed.Errors++
	}
	if p.Class >= 0 && p.Class < len(a.classes) {
		a.classes[p.Class].Predicted++
	}
}

// learn updates the baselines. Of equally frequent classes the majority is the one with
// the smallest number.
func (a *Account) learn(class int) {
	a.last = class
	if a.majority == model.NoClass {
		a.majority = class
		return
	}
	observed, majority := a.classes[class].Observed, a.classes[a.majority].Observed
	if observed > majority || (observed == majority && class < a.majority) {
		a.majority = class
	}
}

// AppendNotes appends the notes that Round.Notes wants back with the class of a
// prediction made now: the classes that the baselines predict, and the probability of a new class.
func (a *Account) AppendNotes(dst []float64) []float64 {
	return append(dst, float64(a.majority), float64(a.last), a.newClass())
}

// NotesLength is the number of numbers that AppendNotes appends.
const NotesLength = 3

// NewClass returns the probability of a new class from the notes of a prediction.
func NewClass(notes []float64) float64 {
	if len(notes) != NotesLength {
		return 0
	}
	return notes[2]
}

func (a *Account) possible(notes []float64) bool {
	if len(notes) != NotesLength || !(notes[2] >= 0 && notes[2] <= 1) {
		return false
	}
	for _, v := range notes[:2] {
		if !(v >= model.NoClass && v < float64(a.limit) && v == math.Trunc(v)) {
			return false
		}
	}
	return true
}

// Summary sums up an account.
type Summary struct {
	// Predicted counts the scored observations with a served prediction: see Observe. Served
	// sums the figures of these predictions.
	Predicted uint64
	Served    Figures
	// Whole is the performance over all scored observations, Recent over the newest ones.
	Whole, Recent Performance
	// Reliability is the table of the served probabilities, or of the prequential ones
	// where nothing was served, of all observations.
	Reliability [Bins]Bin
	// Classes has the classes of the same predictions, by their numbers.
	Classes []Class
	// Ranking is of the same predictions, nil unless there are two classes.
	Ranking *Ranking
}

// Summary returns the summary, at a cost of O(classes).
func (a *Account) Summary() Summary {
	s := Summary{
		Predicted: a.predicted, Served: a.served, Whole: a.whole, Recent: a.recent.Total(),
		Reliability: a.bins, Classes: append([]Class(nil), a.classes...),
	}
	if a.ranking != nil {
		s.Ranking = a.ranking.summary()
	}
	return s
}

// Recent returns the performance over the newest observations, at a cost of some 250
// additions.
func (a *Account) Recent() Performance { return a.recent.Total() }
