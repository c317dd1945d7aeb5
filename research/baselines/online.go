package baselines

import "fmt"

// MaxRounds is how many rounds of a stream the methods take. The AdaRaker paper
// runs those without a budget on up to 18,600 rounds, and leaves them out of its
// stream of 100,000.
const MaxRounds = 20000

// The ridges λ of the AdaRaker paper, sections 5.2 and 5.3.
const (
	ridgeRegression     = 0.01
	ridgeClassification = 0.005
)

// Budgets are the sizes B of OMKL-B and M-Forgetron in Tables 8 and 13 of the
// AdaRaker paper.
func Budgets() []int { return []int{10, 50, 100} }

// NoStep is the step of a course whose method has none.
const NoStep = -1

// Course is a method with a step size.
type Course struct {
	// Method is the name in the AdaRaker paper.
	Method string
	// Step is the index of its step, NoStep without one. See Factor.
	Step int
}

// Online runs the online methods of the AdaRaker paper side by side on one stream,
// every step size of each. A round costs t kernel values of each kernel, and
// 8·Steps·t multiplications.
type Online struct {
	past       Past
	loss       Loss
	descents   []*OGD
	average    *AvgMKL
	mixed      *OMKL
	budgeted   []*OMKLB
	forgetrons []*MForgetron
	courses    []Course
	told       []float64
}

// NewOnline returns the methods before a stream of so many rounds. If the labels
// are signs, the loss is logistic and M-Forgetron is among the methods.
func NewOnline(signs bool, rounds int) *Online {
	o := &Online{loss: Squared}
	ridge := ridgeRegression
	if signs {
		o.loss, ridge = Logistic, ridgeClassification
	}
	for _, k := range Kernels() {
		o.descents = append(o.descents, NewOGD(o.loss, ridge, rounds))
		o.add(k.Name)
	}
	o.average = NewAvgMKL(o.loss, ridge, rounds)
	o.add("AvgMKL")
	o.mixed = NewOMKL(o.descents[:Dictionary])
	o.add("OMKL")
	for _, b := range Budgets() {
		o.budgeted = append(o.budgeted, NewOMKLB(o.loss, ridge, rounds, b))
		o.add(fmt.Sprintf("OMKL-B, B = %d", b))
	}
	if !signs {
		return o
	}
	for _, b := range Budgets() {
		o.forgetrons = append(o.forgetrons, NewMForgetron(b))
		o.courses = append(o.courses, Course{Method: fmt.Sprintf("M-Forgetron, B = %d", b), Step: NoStep})
	}
	return o
}

// add adds the courses of a method with all steps.
func (o *Online) add(method string) {
	for s := range Steps {
		o.courses = append(o.courses, Course{Method: method, Step: s})
	}
}

// Courses returns the methods and steps, in the order of the predictions.
func (o *Online) Courses() []Course { return o.courses }

// Loss is the loss that the methods descend.
func (o *Online) Loss() Loss { return o.loss }

// Observe returns the prediction of every course for x, made before the label is
// learned, and learns the label. A course that has diverged predicts NaN. The
// predictions are valid until the next call. The input is kept.
func (o *Online) Observe(x []float64, y float64) []float64 {
	o.past.Look(x)
	o.told = o.told[:0]
	tell := func(v Values) { o.told = append(o.told, v[:]...) }
	for k, d := range o.descents {
		tell(d.Predict(o.past.Row(k)))
	}
	tell(o.average.Predict(&o.past))
	tell(o.mixed.Predict())
	for _, b := range o.budgeted {
		tell(b.Predict(&o.past))
	}
	for _, f := range o.forgetrons {
		o.told = append(o.told, f.Predict(&o.past))
	}
	o.mixed.Learn(y)
	for k, d := range o.descents {
		d.Learn(y, o.past.Self(k))
	}
	o.average.Learn(&o.past, y)
	for _, b := range o.budgeted {
		b.Learn(&o.past, y)
	}
	for _, f := range o.forgetrons {
		f.Learn(&o.past, y)
	}
	return o.told
}
