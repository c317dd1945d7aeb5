package model

import (
	"errors"
	"fmt"
	"unicode/utf8"
)

// Sentinels of a wrong class.
var (
	ErrClassLimit   = errors.New("class limit reached")
	ErrInvalidClass = errors.New("invalid class")
	ErrLabelKind    = errors.New("the model learns another kind of label")
)

// MaxClassBytes is the longest class.
const MaxClassBytes = 256

// Classifier is a learner whose label is a class, a string. The number of a class is its
// place in the order of first appearance, and never changes. Renaming classes changes only
// names.
//
// As a Learner it predicts its raw values, from which it computes probabilities. Its Check
// and Observe reject real labels with ErrLabelKind.
//
// PredictClass, CheckClass, LossOfClass and Classes only read; ObserveClass needs exclusive
// access.
type Classifier interface {
	Learner
	// PredictClass answers into p, whose slices it reuses, and leaves the state as it was. It
	// fails with the errors of CheckClass on x alone.
	PredictClass(p *ClassPrediction, x []float64) error
	// CheckClass reports whether ObserveClass would accept the observation. ObserveClass learns
	// without failing what CheckClass accepts. A class too many is ErrClassLimit.
	CheckClass(x []float64, class string, weight float64) error
	// ObserveClass learns one observation and writes the outcome into o, whose slices it
	// reuses. A new class is known from then on. Advice is Prediction.Advice of the input's
	// earlier prediction, or nil; advice of no state is ignored. On an error the state is as it was.
	ObserveClass(o *ClassOutcome, x []float64, class string, weight float64, advice []float64) error
	// LossOfClass is the learner's loss of raw values, predicted now or when fewer classes
	// were known, under the class of a number.
	LossOfClass(values []float64, class int) float64
	// Classes are the names of the classes by number, to be read only: later classes leave them as they were.
	Classes() []string
}

// NoClass is the number of no class.
const NoClass = -1

// ClassPrediction is a classifier's answer for one input.
type ClassPrediction struct {
	// Prediction are the raw values, of which the learner has its loss. Its Probability is 0.
	Prediction
	// Class is the number of the predicted class, NoClass while no class is known. It need
	// not be the most probable class: a classifier may favour rare classes.
	Class int
	// Classes are the names of the known classes, to be read only.
	Classes []string
	// Probabilities of the classes: in (0, 1) for two classes or more, of sum 1 to rounding.
	Probabilities []float64
}

// Name is the predicted class, empty while no class is known.
func (p *ClassPrediction) Name() string {
	if p.Class == NoClass {
		return ""
	}
	return p.Classes[p.Class]
}

// ClassOutcome is the outcome of one observation of a class.
type ClassOutcome struct {
	// Prediction is the prequential prediction. Its Classes exclude a new class.
	Prediction ClassPrediction
	Class      int
	// Loss is the loss of Prediction times the weight, Regret as in Outcome.
	Loss, Regret float64
}

// KnownClasses is the advice for a model that has all its classes and sees another.
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
