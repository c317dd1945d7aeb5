package model

import (
	"errors"
	"fmt"
	"unicode/utf8"
)

// Sentinels of what can be wrong with a class.
var (
	ErrClassLimit   = errors.New("class limit reached")
	ErrInvalidClass = errors.New("invalid class")
	ErrLabelKind    = errors.New("the model learns another kind of label")
)

// MaxClassBytes is how long a class may be.
const MaxClassBytes = 256

// Classifier is a learner whose label is a class. Classes are strings. Each has a
// number: its place in the order of first appearance, which never changes. Renaming
// classes changes names alone.
//
// As a Learner it predicts what it regresses on: the raw values, of which it makes
// probabilities. Its Check and Observe refuse real labels with ErrLabelKind.
//
// PredictClass, CheckClass, LossOfClass and Classes only read; ObserveClass needs
// exclusive access.
type Classifier interface {
	Learner
	// PredictClass answers from the present state, which it leaves as it was, into
	// p, whose slices it reuses. It fails with the errors of CheckClass on x alone.
	PredictClass(p *ClassPrediction, x []float64) error
	// CheckClass tells whether ObserveClass would accept the observation. What it
	// accepts, ObserveClass learns without failing. A class too many fails with
	// ErrClassLimit.
	CheckClass(x []float64, class string, weight float64) error
	// ObserveClass learns one observation and says what came of it in o, whose
	// slices it reuses. A class that is not known is one from then on. Advice is what
	// Prediction.Advice held when the input was predicted before, nil if it was not;
	// advice that no state of the learner gives is ignored. On an error the state is
	// as it was.
	ObserveClass(o *ClassOutcome, x []float64, class string, weight float64, advice []float64) error
	// LossOfClass is the learner's loss of raw values that were predicted, now or
	// when there were fewer classes, under the class of a number.
	LossOfClass(values []float64, class int) float64
	// Classes are the names of the classes by their numbers, to be read only. What
	// was returned stays as it is when classes appear.
	Classes() []string
}

// NoClass is the number of no class.
const NoClass = -1

// ClassPrediction is what a classifier says of one input.
type ClassPrediction struct {
	// Prediction are the raw values, which the learner's loss is of. Its Probability
	// is 0.
	Prediction
	// Class is the number of the class that is predicted, NoClass while none is
	// known. It need not be the most probable: a classifier may favour classes that
	// are rare.
	Class int
	// Classes are the names of the classes that were known, to be read only.
	Classes []string
	// Probabilities are those of the classes. They are neither 0 nor 1 where there
	// are two or more, and their sum is 1 to rounding.
	Probabilities []float64
}

// Name is the class that is predicted, empty while none is known.
func (p *ClassPrediction) Name() string {
	if p.Class == NoClass {
		return ""
	}
	return p.Classes[p.Class]
}

// ClassOutcome is what came of one observation of a class.
type ClassOutcome struct {
	// Prediction is the prequential prediction: from all that was learned before
	// this observation. Its Classes do not have a class that is new.
	Prediction ClassPrediction
	// Class is the number of the class that was observed.
	Class int
	// Loss is the loss of the prequential prediction, times the weight, Regret the
	// learner's regret after this observation, as in Outcome.
	Loss, Regret float64
}

// KnownClasses says what a model wants that has all its classes, and what to do with another.
func KnownClasses(most int) string {
	return fmt.Sprintf("one of the %d that are known: the spec's max_classes is %d and does not change; create a model with more", most, most)
}

// CheckClass accepts valid UTF-8 of 1 to MaxClassBytes bytes.
func CheckClass(class string) error {
	var got string
	switch {
	case class == "":
		got = "nothing"
	case len(class) > MaxClassBytes:
		got = plural(len(class), "byte")
	case !utf8.ValidString(class):
		got = fmt.Sprintf("%q", class)
	default:
		return nil
	}
	return &FieldError{
		Field: "class", Err: ErrInvalidClass, Got: got, Want: fmt.Sprintf("1 to %d bytes of UTF-8", MaxClassBytes),
	}
}
