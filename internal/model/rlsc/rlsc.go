// Package rlsc is regularised least squares classification: the
// Azoury-Warmuth-Vovk forecaster of the indicators of the classes, which may appear
// at any time. Decisions favour classes that are rare, so that one that has just
// appeared is found.
//
// Source: Camoriano, thesis (Genoa, 2017), chapter 7, for classes that appear and
// for recoding; PKAWV, HAL 2019, for the forecaster.
package rlsc

import (
	"fmt"
	"math"
	"strings"

	"hindsight/internal/model"
	"hindsight/internal/model/awv"
	"hindsight/internal/model/calibration"
	"hindsight/internal/model/exponential"
)

// Options of a learner.
type Options struct {
	// Lambda is the ridge λ > 0.
	Lambda float64
	// Recoding is a in [0, 1]: how much decisions favour rare classes.
	Recoding float64
	// MaxClasses is how many classes there may be.
	MaxClasses int
	// Forgetting is the forecaster's; 0 is 1.
	Forgetting float64
}

// Learner is a classifier. With z = φ(x), an output k a class, e_k its indicator and
// n_k how often it was observed (the sum of the weights, of the age-th last round
// times f^age),
//
//	s_k = z·A_t⁻¹b_k,  b_k = Σ z [class = k]     the forecaster's prediction of e_k
//	class = arg max s_k (n/n_k)^a,  n = Σ n_k    the older of two that are equal
//
// An output of which all labels were 0 leaves nothing in the state, so that one is
// added when its class appears, and is one from the start.
//
// Neither a nor the names touch anything that is learned. The loss is ‖e − s‖² of
// the scores as they are; its regret, loss in hindsight and certificate are the
// forecaster's, summed over the outputs. An indicator having the length 1, the
// certificate Σ w h is at most max w · log det(A/λ), however many classes there are.
//
// Probabilities are a calibration of the scores, which the recoding does not touch
// either. The class that is decided for need not be the most probable.
type Learner struct {
	features   awv.Map
	o          Options
	forecaster *awv.Forecaster
	names      []string
	numbers    map[string]int
	// nameBytes is the length of all names.
	nameBytes int
	// counts are n_k.
	counts []float64
	// bound is the largest √weight.
	bound       float64
	calibration calibration.Softmax
	// labels and outcome are scratch of Observe.
	labels  []float64
	outcome model.Outcome
}

// New is a learner that has seen nothing. It panics unless the options are in their
// ranges.
func New(features awv.Map, o Options) *Learner {
	if !(o.Recoding >= 0 && o.Recoding <= 1) || o.MaxClasses < 1 {
		panic(fmt.Sprintf("rlsc: a recoding of %g, at most %d classes", o.Recoding, o.MaxClasses))
	}
	return &Learner{
		features: features, o: o, forecaster: awv.New(features, o.forecaster(0)),
		numbers: map[string]int{}, calibration: calibration.New(),
	}
}

// forecaster are the options of a forecaster of so many classes. Without any it has
// the output of the first.
func (o Options) forecaster(classes int) awv.Options {
	return awv.Options{Lambda: o.Lambda, Outputs: max(classes, 1), Forgetting: o.Forgetting}
}

// Cost is the cost of a learner with r features over a map of mapBytes, once it has
// all its classes.
func Cost(r int, o Options, mapBytes uint64) model.Cost {
	c := awv.Cost(r, o.forecaster(o.MaxClasses), mapBytes)
	k := uint64(o.MaxClasses)
	c.StateBytes += fixedBytes + k*classBytes
	c.PredictFlops += flopsPerClass * k
	c.ObserveFlops += 2 * flopsPerClass * k
	return c
}

const (
	// The memory of a learner beside its forecaster is fixedBytes, and classBytes a
	// class: its name's head, number and count, without its name.
	fixedBytes = 256
	classBytes = 80
	// What a class costs beside its output: logarithms and exponentials.
	flopsPerClass = 60
)

// Classes are the names of the classes by their numbers.
func (l *Learner) Classes() []string { return l.names[:len(l.names):len(l.names)] }

// Check refuses every label: the learner wants a class.
func (l *Learner) Check(_, _ []float64, _ float64) error {
	return &model.FieldError{Field: "label", Err: model.ErrLabelKind, Got: "a number", Want: "a class"}
}

// Observe refuses every label, as Check does.
func (l *Learner) Observe(_ *model.Outcome, x, y []float64, weight float64) error {
	return l.Check(x, y, weight)
}

// Predict answers the scores s_k of the classes, without recoding or calibration.
func (l *Learner) Predict(p *model.Prediction, x []float64) error {
	if err := l.forecaster.Predict(p, x); err != nil {
		return err
	}
	p.Values = p.Values[:len(l.names)]
	p.StandardErrors = p.StandardErrors[:min(len(p.StandardErrors), len(l.names))]
	return nil
}

// PredictClass answers from one forward solve. It reads the state and allocates
// nothing once its scratch is warm.
func (l *Learner) PredictClass(p *model.ClassPrediction, x []float64) error {
	if err := l.Predict(&p.Prediction, x); err != nil {
		return err
	}
	l.answer(p, p.Values)
	return nil
}

// answer makes a prediction of the scores of the first classes.
func (l *Learner) answer(p *model.ClassPrediction, scores []float64) {
	k := len(scores)
	if cap(p.Probabilities) < k {
		p.Probabilities = make([]float64, k, k+k/2)
	}
	p.Probabilities, p.Classes = p.Probabilities[:k], l.names[:k:k]
	p.Class = model.NoClass
	if k == 0 {
		return
	}
	counts := l.counts[:k]
	total := 0.0
	for _, n := range counts {
		total += n
	}
	p.Class = l.decide(p.Probabilities, scores, counts, total)
	l.calibration.Probabilities(p.Probabilities, scores, counts, total)
}

// mostRatio bounds n/n_k, of which the second may have been forgotten.
const mostRatio = 1e30

// decide is arg max s_k (n/n_k)^a. It writes the powers into buffer.
func (l *Learner) decide(buffer, scores, counts []float64, total float64) (class int) {
	for k, n := range counts {
		ratio := 1.0
		if n < total {
			ratio = math.Min(total/n, mostRatio)
		}
		buffer[k] = float64(l.o.Recoding * exponential.Log(ratio))
	}
	exponential.Exp(buffer, buffer)
	most := math.Inf(-1)
	for k, s := range scores {
		if coded := float64(s * buffer[k]); coded > most {
			class, most = k, coded
		}
	}
	return class
}

// CheckClass tells whether ObserveClass would accept the observation.
func (l *Learner) CheckClass(x []float64, class string, weight float64) error {
	if err := model.CheckFeatures(x, l.features.Dimension(), l.features.InputLimit()); err != nil {
		return err
	}
	if err := model.CheckClass(class); err != nil {
		return err
	}
	if err := model.CheckWeight(weight); err != nil {
		return err
	}
	if _, known := l.numbers[class]; !known && len(l.names) == l.o.MaxClasses {
		return &model.FieldError{
			Field: "class", Err: model.ErrClassLimit, Got: fmt.Sprintf("the new class %q", class),
			Want: fmt.Sprintf("one of the %d that are known: max_classes is %d", len(l.names), l.o.MaxClasses),
		}
	}
	return nil
}

// ObserveClass learns one observation by one rotation pass. It allocates nothing
// once the outcome has room, unless the class is new.
func (l *Learner) ObserveClass(o *model.ClassOutcome, x []float64, class string, weight float64, _ []float64) error {
	if err := l.CheckClass(x, class, weight); err != nil {
		return err
	}
	before := len(l.names)
	number, known := l.numbers[class]
	if !known {
		number = l.add(class)
	}
	clear(l.labels)
	l.labels[number] = 1
	if err := l.forecaster.Observe(&l.outcome, x, l.labels, weight); err != nil {
		return fmt.Errorf("rlsc: %w", err)
	}
	scores := l.outcome.Predictions[:before]
	o.Prediction.Values, o.Prediction.Leverage = append(o.Prediction.Values[:0], scores...), model.NoLeverage
	l.answer(&o.Prediction, scores)
	if known {
		l.calibrate(o.Prediction.Probabilities, scores, number, weight)
	}
	if l.o.Forgetting > 0 && l.o.Forgetting < 1 {
		for k := range l.counts {
			l.counts[k] *= l.o.Forgetting
		}
	}
	l.counts[number] += weight
	l.bound = math.Max(l.bound, math.Sqrt(weight))
	o.Class, o.Loss, o.Regret = number, l.outcome.Loss, l.outcome.Regret
	return nil
}

// LossOfClass is ‖e − s‖² of scores s, 0 for a class that they do not have.
func (l *Learner) LossOfClass(scores []float64, class int) (loss float64) {
	for k, s := range scores {
		if k == class {
			s = 1 - s
		}
		loss += float64(s * s)
	}
	if class >= len(scores) {
		loss++
	}
	return loss
}

// calibrate learns what a prediction was worth, if there was something to decide.
func (l *Learner) calibrate(probabilities, scores []float64, truth int, weight float64) {
	if len(scores) < 2 {
		return
	}
	total := 0.0
	for _, n := range l.counts {
		total += n
	}
	l.calibration.Learn(probabilities, scores, l.counts, total, truth, weight)
}

// add takes in a new class and returns its number.
func (l *Learner) add(class string) (number int) {
	number = len(l.names)
	if number > 0 {
		l.forecaster.AddOutput()
	}
	class = strings.Clone(class) // The rest of a request is not kept with it.
	l.names = append(l.names, class)
	l.numbers[class] = number
	l.nameBytes += len(class)
	l.counts = append(l.counts, 0)
	l.labels = append(l.labels, 0)
	return number
}

// tolerance is the rounding that the certificate is allowed, as the forecaster's.
const tolerance = 1e-8

// Stats tells how the learner is doing. It costs r logarithms and rk multiply-adds
// of k classes. It allocates nothing.
func (l *Learner) Stats() model.Stats {
	s := l.forecaster.Stats()
	s.StateBytes, s.LabelBound = l.Size(), l.bound
	if s.Certified {
		bound := l.bound * l.bound * s.LogDeterminant
		slack := tolerance * (s.Loss + s.HindsightLoss)
		s.CertificateOK = s.CertificateOK && s.Certificate <= bound*(1+tolerance)+slack
		// A determinant within rounding of 1 has lost digits that C has.
		s.RegretBound = math.Max(bound, s.Certificate)
	}
	return s
}

// Size is the memory that the state takes.
func (l *Learner) Size() uint64 {
	return l.forecaster.Size() + fixedBytes + uint64(len(l.names)*classBytes+l.nameBytes)
}

// Report is the forecaster's, summed over the classes.
func (l *Learner) Report(o model.ReportOptions) model.Report {
	r := l.forecaster.Report(o)
	r.CertificateOK = l.Stats().CertificateOK
	return r
}
