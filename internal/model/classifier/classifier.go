// Package classifier turns a learner of real labels into a classifier: it codes classes as
// labels, and the learner's predictions as a decision and probabilities. Classes may appear
// at any time.
//
// Sources: Camoriano, thesis (Genoa, 2017), chapter 7, for classes that appear and
// for recoding; Rifkin and Klautau, JMLR 2004, for one class against the rest.
package classifier

import (
	"fmt"
	"math"
	"strings"
	"sync"

	"hindsight/internal/model"
	"hindsight/internal/model/awv"
	"hindsight/internal/model/calibration"
	"hindsight/internal/model/logloss"
)

// Options of a classifier.
type Options struct {
	// MaxClasses is the largest number of classes, at least 2.
	MaxClasses int
	// Indicators selects the growing coding, of labels 0 and 1. Otherwise labels are -1 and
	// 1: one label for two classes, one a class for more.
	Indicators bool
	// Recoding is a in [0, 1], 0 unless Indicators: how much decisions favour rare classes.
	Recoding float64
	// ChooseRecoding makes the learner choose a: see recoding. It needs Indicators.
	ChooseRecoding bool
	// Forgetting is the learner's factor, by which counts shrink each round; 0 is 1.
	Forgetting float64
	// Level adds a level of log loss. Without it probabilities are calibrated scores.
	Level *logloss.Options
	// New makes a learner. With Indicators it is a model.Growing.
	New func(outputs int) model.Learner
}

// Learner is a classifier over a learner of real labels. Class k is the k-th in the order of
// first appearance. The learner regresses on one of three codings:
//
//	indicators            output k is 1 for class k, 0 for every other
//	sign                  one output is -1 for class 0, 1 for class 1
//	one against the rest  output k is 1 for class k, -1 for every other
//
// An output of indicators appears with its class. Its earlier labels are 0 and leave nothing
// in the state, so that the state is the state of an output from the start. The other codings have
// all outputs from the start.
//
// With the predictions f_k of the learner, the score s_k is f_k for indicators and (1+f_k)/2
// for signs, the expectation of the indicator of class k. For one output, s_1 is (1+f)/2 and
// s_0 is 1 − s_1. With n_k the sum of the weights of class k, discounted by Forgetting, and n
// = Σ n_k, the decision is
//
//	class = arg max s_k (n/n_k)^a    the older of two equal classes
//
// with a = 0 unless Indicators. Neither a nor the names change what is learned. Probabilities
// are a calibration of s without the recoding: the decision need not be the most probable
// class. The calibration learns the slope of the log-odds f of the logistic loss.
//
// With a Level, probabilities are the level's, which mixes the calibration with other experts, and
// the decision is the most probable class.
//
// Losses, regrets and the certificate are sums over the outputs. The labels of a round have
// one length, c² = 1 or the number of outputs, so that the bound is c² times the bound for
// labels of 1, whatever the number of classes.
type Learner struct {
	o     Options
	inner model.Learner
	names []string
	// numbers[names[k]] = k.
	numbers   map[string]int
	nameBytes int
	counts    []float64
	// bound is the largest √weight; of indicators, which only the AWV family learns, the
	// largest awv.Beta of a weight, or √weight where Beta is infinite.
	bound       float64
	calibration *calibration.Link
	// recoding is nil unless the learner chooses a.
	recoding *recoding
	// labels are all absent(). Observe sets the label of its class while it learns.
	labels []float64
	// level is nil without a level of log loss.
	level *logloss.Level
	// scratch is scratch of Observe, and pool lends *logloss.Scratch to PredictClass.
	scratch *logloss.Scratch
	pool    *sync.Pool
	// scores, ratios and outcome are scratch of Observe.
	scores  []float64
	ratios  []float64
	outcome model.Outcome
}

// New is a classifier without observations. It panics if an option is out of range.
func New(o Options) *Learner {
	if !(o.Recoding >= 0 && o.Recoding <= 1) || o.MaxClasses < 2 || ((o.Recoding > 0 || o.ChooseRecoding) && !o.Indicators) {
		panic(fmt.Sprintf("classifier: a recoding of %g, at most %d classes, indicators: %t", o.Recoding, o.MaxClasses, o.Indicators))
	}
	if o.Forgetting == 0 {
		o.Forgetting = 1
	}
	l := &Learner{o: o, numbers: map[string]int{}, calibration: calibration.New()}
	if o.ChooseRecoding {
		l.recoding = new(recoding)
	}
	l.begin()
	return l
}

func (l *Learner) begin() {
	outputs := l.o.outputs(len(l.names))
	l.inner = l.o.New(outputs)
	if _, ok := l.inner.(model.Growing); l.o.Indicators && !ok {
		panic(fmt.Sprintf("classifier: %T does not grow", l.inner))
	}
	l.labels = make([]float64, outputs)
	for j := range l.labels {
		l.labels[j] = l.o.absent()
	}
	l.scores, l.ratios = make([]float64, len(l.names), l.o.MaxClasses), make([]float64, len(l.names))
	if l.o.Level != nil && l.level == nil {
		level := logloss.New(*l.o.Level)
		l.level, l.scratch = level, level.NewScratch()
		l.pool = &sync.Pool{New: func() any { return level.NewScratch() }}
	}
}

// Cost is the cost of the classifier with all its classes, without the learner.
func (o Options) Cost() model.Cost {
	k := uint64(o.MaxClasses)
	cost := model.Cost{
		StateBytes:   fixedBytes + k*classBytes,
		PredictFlops: flopsPerClass * k,
		ObserveFlops: 2 * flopsPerClass * k,
	}
	if o.ChooseRecoding {
		cost.ObserveFlops += choices * k
	}
	if o.Level != nil {
		cost.StateBytes += o.Level.Bytes()
		cost.PredictFlops += o.Level.PredictFlops()
		cost.ObserveFlops += 3 * o.Level.PredictFlops()
	}
	return cost
}

const (
	// The memory beside the learner: fixedBytes, mostly the calibration, and classBytes a
	// class without its name.
	fixedBytes    = 1024
	classBytes    = 88
	flopsPerClass = 150
)

// Inner is the learner of the coded labels.
func (l *Learner) Inner() model.Learner { return l.inner }

// Classes are the names of the classes by their numbers.
func (l *Learner) Classes() []string { return l.names[:len(l.names):len(l.names)] }

// Check rejects every label: a classifier learns classes.
func (l *Learner) Check(_, _ []float64, _ float64) error {
	return &model.FieldError{Field: "label", Err: model.ErrLabelKind, Got: "a number", Want: "a class"}
}

// Observe rejects every label, as Check does.
func (l *Learner) Observe(_ *model.Outcome, x, y []float64, weight float64) error {
	return l.Check(x, y, weight)
}

// Predict answers the raw values: the learner's predictions, of indicators for the known classes alone.
func (l *Learner) Predict(p *model.Prediction, x []float64) error {
	if err := l.inner.Predict(p, l.features(x)); err != nil {
		return err
	}
	raw := l.o.raw(len(p.Values), len(l.names))
	p.Values, p.Probability = p.Values[:raw], 0
	p.StandardErrors = p.StandardErrors[:min(len(p.StandardErrors), raw)]
	return nil
}

// features cuts the tokens off, which stand behind the features. Only the level of log loss reads tokens.
func (l *Learner) features(x []float64) []float64 {
	if l.o.Level == nil {
		return x
	}
	return x[:max(0, len(x)-l.o.Level.Tokens)]
}

// PredictClass allocates nothing once its scratch is warm.
func (l *Learner) PredictClass(p *model.ClassPrediction, x []float64) error {
	if err := l.Predict(&p.Prediction, x); err != nil {
		return err
	}
	if l.level == nil {
		l.answer(p, nil, x, len(l.names))
		return nil
	}
	s := l.pool.Get().(*logloss.Scratch) //nolint:forcetypeassert // The pool holds nothing else.
	defer l.pool.Put(s)
	l.answer(p, s, x, len(l.names))
	p.Advice = l.level.Append(p.Advice, s, len(l.names))
	return nil
}

// Explain asks the learner: contributions are parts of the raw values.
func (l *Learner) Explain(p *model.Prediction) []model.Part {
	inner := *p
	if l.level != nil {
		inner.Advice, _ = l.level.Split(p.Advice)
	}
	return l.known(model.Explain(l.inner, &inner))
}

func (l *Learner) known(parts []model.Part) []model.Part {
	for i := range parts {
		outputs := min(len(parts[i].Weights), max(1, len(l.names)))
		part := &parts[i]
		part.Weights = part.Weights[:outputs]
		part.Contributions = part.Contributions[:min(outputs, len(part.Contributions))]
	}
	return parts
}

// answer writes the probabilities and the class of x, given its values. Scratch is nil without a level.
func (l *Learner) answer(p *model.ClassPrediction, s *logloss.Scratch, x []float64, classes int) {
	if cap(p.Probabilities) < classes {
		p.Probabilities = make([]float64, classes, classes+classes/2)
	}
	p.Probabilities, p.Classes = p.Probabilities[:classes], l.names[:classes:classes]
	p.Class = model.NoClass
	if classes == 0 {
		return
	}
	counts := l.counts[:classes]
	total := sum(counts)
	p.Class = l.decide(p.Probabilities, p.Values, counts, total)
	if classes == 1 {
		p.Probabilities[0] = 1
		return
	}
	scores := l.o.scores(p.Probabilities, p.Values)
	l.calibration.Probabilities(p.Probabilities, scores, counts, total)
	if l.level != nil {
		l.level.Mix(s, p.Probabilities, x, counts, total)
		p.Class = largest(p.Probabilities)
	}
}

func sum(values []float64) (total float64) {
	for _, v := range values {
		total += v
	}
	return total
}

// CheckClass reports whether ObserveClass would accept the observation.
func (l *Learner) CheckClass(x []float64, class string, weight float64) error {
	if err := l.inner.Check(l.features(x), l.labels, weight); err != nil {
		return err
	}
	if err := model.CheckClass(class); err != nil {
		return err
	}
	if _, known := l.numbers[class]; !known && len(l.names) == l.o.MaxClasses {
		return &model.FieldError{
			Field: "class", Err: model.ErrClassLimit, Got: fmt.Sprintf("the new class %q", class),
			Want: model.KnownClasses(l.o.MaxClasses),
		}
	}
	return nil
}

// ObserveClass learns one observation by one round of the learner. Unless the class is new,
// only the learner allocates once the outcome has capacity.
func (l *Learner) ObserveClass(o *model.ClassOutcome, x []float64, class string, weight float64, advice []float64) error {
	before := len(l.names)
	number, known := l.numbers[class]
	if !known {
		if err := l.CheckClass(x, class, weight); err != nil {
			return err
		}
		number = l.add(class)
	}
	var served []float64
	if l.level != nil {
		advice, served = l.level.Split(advice)
	}
	l.o.code(l.labels, number, 1)
	err := model.ObserveAdvised(l.inner, &l.outcome, l.features(x), l.labels, weight, advice)
	l.o.code(l.labels, number, l.o.absent())
	if err != nil {
		return err
	}
	p := &o.Prediction
	p.Values = append(p.Values[:0], l.outcome.Predictions[:l.o.raw(len(l.outcome.Predictions), before)]...)
	p.StandardErrors, p.Leverage, p.Probability, p.Advice = p.StandardErrors[:0], model.NoLeverage, 0, p.Advice[:0]
	l.answer(p, l.scratch, x, before)
	if l.level != nil {
		l.level.Learn(l.scratch, x, l.counts[:before], sum(l.counts), number, weight, served)
	}
	if known && before > 1 {
		scores := l.o.scores(l.scores, p.Values)
		l.calibration.Learn(scores, l.counts, sum(l.counts), number, weight)
		if l.recoding != nil {
			copy(l.scores, p.Values)
			l.recoding.learn(l.ratios, l.scores, l.counts, number, weight)
		}
	}
	if l.o.Forgetting < 1 {
		for k := range l.counts {
			l.counts[k] *= l.o.Forgetting
		}
		if l.recoding != nil {
			l.recoding.forget(l.o.Forgetting)
		}
	}
	l.counts[number] += weight
	l.bound = math.Max(l.bound, l.o.counts(weight))
	o.Class, o.Loss, o.Regret = number, l.outcome.Loss, l.outcome.Regret
	return nil
}

func (l *Learner) add(class string) (number int) {
	number = len(l.names)
	if growing, ok := l.inner.(model.Growing); ok && l.o.Indicators && number > 0 {
		growing.AddOutput()
		l.labels = append(l.labels, l.o.absent())
	}
	class = strings.Clone(class) // It may be a part of a large request.
	l.names = append(l.names, class)
	l.numbers[class] = number
	l.nameBytes += len(class)
	l.counts, l.scores, l.ratios = append(l.counts, 0), append(l.scores, 0), append(l.ratios, 0)
	return number
}

// AppendCode appends the labels of a class.
func (l *Learner) AppendCode(dst []float64, class int) []float64 {
	for j := range l.labels {
		dst = append(dst, l.o.label(j, class))
	}
	return dst
}

// LossOfClass is the learner's loss of raw values under the labels of a class, summed over
// the outputs. Missing values are 0.
func (l *Learner) LossOfClass(values []float64, class int) (loss float64) {
	for j := range max(l.o.outputs(class+1), len(values)) {
		value := 0.0
		if j < len(values) {
			value = values[j]
		}
		loss += model.LossOf(l.inner, value, l.o.label(j, class))
	}
	return loss
}

// Admit asks the learner.
func (l *Learner) Admit(x []float64, weight float64) error {
	return model.Admit(l.inner, l.features(x), weight)
}

// counts is the magnitude of a label of 1 under its weight in the bound.
func (o Options) counts(weight float64) float64 {
	if o.Indicators {
		return awv.Beta(weight)
	}
	return math.Sqrt(weight)
}

// Stats are the learner's.
func (l *Learner) Stats() model.Stats {
	s := l.inner.Stats()
	s.StateBytes = l.Size()
	if s.LabelBound == 0 { // The learner has not learned yet.
		s.LabelBound = l.bound * l.o.length(len(l.names))
	}
	return s
}

// Size is the memory of the state.
func (l *Learner) Size() uint64 {
	size := l.inner.Size() + fixedBytes + uint64(len(l.names)*classBytes+l.nameBytes)
	if l.level != nil {
		size += l.level.Bytes(len(l.names))
	}
	return size
}

// Report is the learner's, summed over the outputs.
func (l *Learner) Report(o model.ReportOptions) model.Report {
	r := l.inner.Report(o)
	r.Families = l.known(r.Families)
	if l.o.Indicators {
		r.Recoding = new(l.exponent())
	}
	if l.level != nil {
		r.LogLoss = l.level.Report()
	}
	return r
}
