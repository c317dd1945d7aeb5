// Package model holds the contract of every learner: what a learner is, what
// it is asked and what it answers. A learner is a pure state machine; it does
// no I/O, reads no clock and starts no goroutine.
package model

import "hindsight/internal/model/codec"

// MaxMagnitude bounds the absolute value of every label, and of every input
// that reaches a learner unmapped. Squares of sums of such numbers stay
// representable, so no state arithmetic can overflow below it.
const MaxMagnitude = 1e100

// Bounds of an observation's weight.
const (
	MinWeight = 1e-9
	MaxWeight = 1e9
)

// Learner is an online learner over inputs of a fixed dimension and a fixed
// number of real labels.
//
// Predict, Check, Stats, Size, Report and a Visit that appends only read and may run
// concurrently with each other; Observe and a Visit that reads need exclusive access.
type Learner interface {
	// Predict answers from the present state, which it leaves as it was, into
	// p, whose slices it reuses. It fails with the errors of Check on x alone.
	Predict(p *Prediction, x []float64) error
	// Check reports whether Observe would accept the observation. What Check
	// accepts, Observe learns without failing.
	Check(x, y []float64, weight float64) error
	// Observe learns one observation and says what came of it in o, whose
	// slices it reuses. On an error the state is as it was.
	Observe(o *Outcome, x, y []float64, weight float64) error
	// Stats tells how the learner is doing, at a cost of at most O(r) and
	// without allocating: it is read at every scrape.
	Stats() Stats
	// Size is the memory that the state takes, in bytes, at a cost of O(1).
	Size() uint64
	// Report solves what Stats does not know, in up to O(r³): ask it of a copy.
	Report(r ReportOptions) Report
	// Visit visits the whole state. Reading wants a learner without observations, which then
	// continues bit for bit; it takes any bytes, and fails on those that are no state.
	Visit(v *codec.Visitor)
}

// Wrapping is a learner around another. As asks the other learner for the optional interfaces that this one
// does not change: Admitter, Bounded, Scored, Mixing, Explaining and Comparator.
type Wrapping interface {
	Inner() Learner
}

// Admitter is a learner that learns some observations only because a log holds
// them: an earlier server accepted them. New ones of their kind are rejected.
type Admitter interface {
	// Admit rejects an observation that Check accepts, but that spoils the
	// learner. Observe does not ask it.
	Admit(x []float64, weight float64) error
}

// Bounded is a learner that takes only so many observations.
type Bounded interface {
	// Remaining is how many more observations Observe takes. After that Check
	// and Observe fail with ErrObservationLimit.
	Remaining() int
}

// Observation is what Observe learns.
type Observation struct {
	X, Y   []float64
	Weight float64
}

// Batched is a learner that learns several observations in less time than one after the other.
type Batched interface {
	// Together is how many observations ObserveAll takes at most. It is 1 while the learner
	// learns one after the other, and for a learner that heeds advice.
	Together() int
	// ObserveAll is Observe of the observations in their order, bit for bit. Outcomes has an
	// outcome for each. On an error the state is as it was.
	ObserveAll(outcomes []Outcome, all []Observation) error
}

// Foreseeing is a learner that predicts several inputs in less time than one after the other.
type Foreseeing interface {
	// PredictAll is Predict of every input, bit for bit. On an error no prediction is of use.
	PredictAll(p []*Prediction, x [][]float64) error
}

// Advised is a learner that mixes experts. What they advised when a prediction
// was served comes back with its label, however late.
type Advised interface {
	// ObserveAdvised is Observe of an input that was predicted before. Advice is
	// what Prediction.Advice held then. Advice that no state gives is ignored.
	ObserveAdvised(o *Outcome, x, y []float64, weight float64, advice []float64) error
}

// Scored is a learner of another loss than the squared.
type Scored interface {
	LossOf(prediction, label float64) float64
}

// Mixing is a learner that mixes experts and tells their weights at any time.
type Mixing interface {
	// AppendWeights appends the weight of each expert in the mixture of now, the mean
	// over the outputs. It costs O(experts · outputs), and allocates nothing when dst
	// has room for twice the experts. There are none before the first mixture.
	AppendWeights(dst []float64) []float64
	// WeightNames are the names of the experts in that order. New ones come last.
	WeightNames() []string
}

// Explaining is a learner that tells the families of its experts apart.
type Explaining interface {
	// Explain tells what each family says in a prediction of the present state, in O(experts²).
	Explain(p *Prediction) []Part
}

// Part is the part of a family of experts in a prediction.
type Part struct {
	Family string
	// Weights has the sum of the weights of the family's experts for each output, through
	// all mixtures and stacks, below 0 for some stacks. The sum over the families is 1.
	Weights []float64
	// Contributions has Σ weight · expert's prediction for each output. The contributions of
	// all families have the sum Prediction.Values. There are none without a prediction.
	Contributions []float64
	// Keys are the parts of the keys of the row, of the family of the keys. Learners leave them out.
	Keys []KeyPart
}

// KeyPart is how much a key of the row, the category of an input, changes a prediction.
type KeyPart struct {
	Input string
	// Contributions has, for each output, the prediction minus the prediction of the same row with an unseen category.
	Contributions []float64
}

// FamilyKeys is the family of the experts of the effects of keys.
const FamilyKeys = "keys"

// Comparator is a learner of experts that knows its regret on rows that the learner predicted
// and did not learn. Advice is Prediction.Advice of the row.
type Comparator interface {
	// Pass adds such a row to the losses of the learner's experts.
	Pass(y []float64, weight float64, advice []float64)
	// Passed is the loss of the best expert on the learned rows over the passed rows.
	Passed() float64
	// HindsightOf is the loss of the best expert on one row.
	HindsightOf(y []float64, weight float64, advice []float64) float64
}

// Growing is a learner whose outputs may become more.
type Growing interface {
	Learner
	// AddOutput adds an output behind the others, of which all labels so far were 0.
	// From then on it is, bit for bit, one from the start. It needs exclusive access.
	AddOutput()
}

// NoLeverage is the leverage of a learner that has no such figure.
const NoLeverage = -1

// Prediction is what a learner says of one input.
type Prediction struct {
	// Values are the predicted labels ŷ, one per output.
	Values []float64
	// StandardErrors are sqrt(σ̂² q) with σ̂² = L*/n, one per output: how sure
	// the learner is of the mean at this input. There are none if the learner
	// has no such figure, and before the first observation. For features that are
	// cut short, q is the q of the kernel: see docs/theory.md.
	StandardErrors []float64
	// Leverage is q/(1+q) in [0, 1), q = zᵀA⁻¹z before the input is added. It is
	// NoLeverage if the learner has no such figure.
	Leverage float64
	// Probability is the probability of the label 1, above 0 and below 1, while all labels
	// are -1 or 1, else 0, as for a learner without such a figure.
	Probability float64
	// Advice is what an Advised learner wants back with the label, empty for any other.
	Advice []float64
	// Horizon is given: how many rows come between the next input and this one, without their
	// labels. A learner that heeds it sets Spread, the factor of its errors; 0 is 1.
	Horizon int
	Spread  float64
	// Parametric are what the parametric part of a learner says alone, one per output:
	// the values at x of the affine functions of Report.Weights, or empty.
	Parametric []float64
}

// Resize makes room for so many outputs, of any value. What not every learner
// knows is not known then: Probability, Advice and Parametric.
func (p *Prediction) Resize(outputs int) {
	if cap(p.Values) < outputs || cap(p.StandardErrors) < outputs {
		both := make([]float64, 2*outputs)
		p.Values, p.StandardErrors = both[:outputs:outputs], both[outputs:]
	}
	p.Values, p.StandardErrors = p.Values[:outputs], p.StandardErrors[:outputs]
	p.Probability, p.Advice, p.Parametric, p.Spread = 0, p.Advice[:0], p.Parametric[:0], 0
}

// Outcome is what came of one observation.
type Outcome struct {
	// Predictions are the prequential predictions, one per output: from all
	// that was learned before this observation.
	Predictions []float64
	// Loss is the loss of Predictions, summed over the outputs, times the weight.
	Loss float64
	// Regret is the learner's regret after this observation; NaN for a
	// learner that solves it on demand only, see Stats.
	Regret float64
	// SetAside says that the label gate set the observation aside: it was predicted and
	// its loss counts, but it was not learned.
	SetAside bool
}

// Resize makes room for so many outputs, of any value.
func (o *Outcome) Resize(outputs int) {
	if cap(o.Predictions) < outputs {
		o.Predictions = make([]float64, outputs)
	}
	o.Predictions = o.Predictions[:outputs]
}

// Stats tells how a learner is doing. Losses are weighted losses of the
// prequential predictions, summed over the outputs: squared, unless the
// learner is Scored. With a forgetting factor f < 1 all but Observations and
// Loss discount the round s at round t by f^(t−s).
type Stats struct {
	// Observations counts what was learned.
	Observations uint64
	// Loss is the sum of the prequential losses.
	Loss float64
	// HindsightLoss is L*: the smallest Σ(y−w·z)² + λ‖w‖² over all w, z the features as
	// they were computed. It and Regret are NaN for a learner that leaves them to Report.
	HindsightLoss float64
	// Regret is Loss − HindsightLoss, accumulated without their cancellation.
	Regret float64
	// RegretBound is what the theory promises of Regret: B² log det(A/λ). Of online
	// Newton steps it is what it promises of the regret against functions within the
	// range: see package kons. 0, as Certificate is, unless Certified.
	RegretBound float64
	// Certificate is C = Σ y² q/(1+q), of a label of weight ω ω y² q/(2+q−ω), between
	// Regret and RegretBound; of online Newton steps ½Σωh/η.
	Certificate float64
	// CertificateOK says that Regret ≤ Certificate ≤ RegretBound holds, and
	// Regret = Loss − HindsightLoss, to rounding; for a learner that leaves the
	// regret to Report, that its sums are sums of losses. Of online Newton steps it does
	// not compare Regret. False: corrupt state.
	CertificateOK bool
	// Certified says that the theorem applies: the features of every round are fixed before
	// its label and nothing is forgotten. A round of a weight of 2 or more enters certificate and
	// bound of the AWV family with its own regret.
	Certified bool
	// Discounted: the learner forgets. All but Observations and Loss discount the past.
	Discounted bool
	// LogDeterminant is log det(A/λ).
	LogDeterminant float64
	// LabelBound is B, the largest |y| seen; with a weight ω over √(2−ω) in the AWV family,
	// times √ω in others but auto. With several outputs it is the root of the sum of their
	// squares. The AWV family leaves labels with a weight of 2 or more out of B.
	LabelBound float64
	// Features is r, the number of features.
	Features int
	// Dictionary is the number of centres, 0 for learners without any.
	Dictionary int
	// StateBytes is the memory that the state takes, as Size says.
	StateBytes uint64
	// ReportFlops counts the multiply-adds that Report takes to tell the regret.
	// It is 0 if Stats has the regret, and if the regret is not known at all.
	ReportFlops uint64
	// Gate is what the label gate did.
	Gate Gate
}

// Gate is what the label gate of a learner did. Without one all is 0.
type Gate struct {
	// On says that the learner has a gate, Compared that it can tell RegretBeside.
	On, Compared bool
	// SetAside counts the observations that were set aside when they came, or dropped from
	// the first 128; LastSetAside is the number of the newest one, from 1.
	SetAside, LastSetAside uint64
	// SetAsideLoss is the part of Stats.Loss of the observations that are set aside now.
	SetAsideLoss float64
	// RegretBeside is what the regret over all observations is beyond Stats.Regret, which
	// is that over the learned ones. It is exact and no theorem bounds it.
	RegretBeside float64
	// Starts counts the new starts, LastStart is the number of the observation of the newest.
	Starts, LastStart uint64
}

// ReportOptions say what a report is to hold.
type ReportOptions struct {
	EffectiveDimension bool
	// HindsightPath asks for the losses in hindsight of fewer features.
	HindsightPath bool
	// RegretRKHS asks for the regret against all functions of the kernel's space.
	RegretRKHS  bool
	Importances bool
	// Pause, unless nil, is called every so often by what takes long, so that others run.
	Pause func()
}

// Report is what has to be solved for. A figure that the learner cannot tell,
// or that was not asked for, is NaN.
type Report struct {
	// HindsightLoss, Regret and CertificateOK are the figures of Stats, solved where Stats is not.
	HindsightLoss, Regret float64
	CertificateOK         bool
	// RegretUnpenalized is the regret against the best ridge function in
	// hindsight without its penalty, Regret + λ‖ĝ‖².
	RegretUnpenalized float64
	// RegretRKHS is at least the regret against every function of the kernel's space, for
	// features that approximate the kernel and forget nothing, and for the kernel itself. More
	// features lower HindsightLoss by at most RegretRKHS − Regret.
	RegretRKHS float64
	// Certificate is at least Regret, for a learner whose Stats have none.
	Certificate float64
	// SwitchingRegret is the regret against the best sequence of functions with at most m
	// switches, m = 0 …, at rounds that the learner has marked. It is nil for other learners.
	SwitchingRegret []float64
	// EffectiveDimension is Tr(C(C+λI)⁻¹).
	EffectiveDimension float64
	// HindsightPath is L* of the model of the first m features alone, m = 0 … r. It
	// falls from the sum of the squared labels to HindsightLoss. It is nil for a learner
	// without an order of its features.
	HindsightPath []float64
	// ParametricShare is the part of Σy² − L* that the parametric features explain
	// alone, in [0, 1], or nil without a parametric part or an explanation.
	ParametricShare *float64
	// Recoding is the exponent by which the next decision favours rare classes, or nil.
	Recoding *float64
	// Experts are the experts of a learner that mixes some, always in one order.
	Experts []Expert
	// Families are the families of the experts with the weights of a prediction by the
	// present state. There are none unless the learner is Explaining.
	Families []Part
	// Importances are the importances of the inputs in the learner's trees.
	Importances []Importance
	// Effects are the largest effects of keys, at most MaxEffects, by size.
	Effects []Effect
	// LogLoss is the mixture of the probabilities of a classifier by log loss, nil without one.
	LogLoss *LogLoss
	// Weights are the weights of a learner whose functions are affine in its inputs, and of a
	// parametric part alone, output by output, in the order of the inputs, the constant
	// last. There are none for others, before a scaling is known, and above 2¹⁶ of them.
	Weights []Weight
}

// LogLoss is a mixture of probabilities by log loss. A row counts its weight, at most 1.
type LogLoss struct {
	// Loss is the sum of the log losses, Regret less the least of the experts', Bound at least Regret.
	Loss, Regret, Bound float64
	Experts             []Expert
}

// Weight is a weight of an affine function.
type Weight struct {
	// Output is the number of the output, Input the number of the input or NoInput for the constant.
	Output, Input int
	// Value is in units of label and input. Effect is Value times the deviation of
	// the input, NaN if that is not known.
	Value, Effect float64
}

// MaxEffects is the number of the effects of a report.
const MaxEffects = 10

// Effect is what a learner has learned of a key: how far labels with the key are from what the
// rest of the learner says.
type Effect struct {
	// Feature is the input that is the key, and Key is its value.
	Feature int
	Key     uint64
	// Output is the number of the output, Value the effect in units of its label.
	Output int
	Value  float64
	// Observations counts the observations with the key, each by its weight.
	Observations float64
}

// NoInput stands for the constant.
const NoInput = -1

// Importance is how much an input matters to the trees of a learner, as the mean over the
// outputs. The rows are a sample of the newest rows.
type Importance struct {
	// The features From to To − 1 are the input, a category or a cycle: none if From = To.
	From, To int
	// Name is PastLabels or LevelOne for what is no input, else empty.
	Name string
	// Gain is the share of the splits on the input in Σ n_l n_r/(n_l+n_r) (m_l − m_r)² over
	// all splits, m the means of the tree on the two sides and n their numbers of rows.
	Gain float64
	// Permutation is how much the mean squared error of the trees grows when the rows exchange
	// their values of the input, in variances of the label. It may be below 0.
	Permutation float64
}

// What trees split beside the inputs.
const (
	// PastLabels are earlier labels and their means.
	PastLabels = "past_labels"
	// LevelOne is the prediction of the experts without trees.
	LevelOne = "level_1"
)

// Expert is one of the predictors that a learner mixes.
type Expert struct {
	// Name says what the expert is, such as fourier_1/forgetting_0.99.
	Name string
	// Loss is the sum of its losses, of the rounds in which it was Awake.
	Loss float64
	// Weight is its part in the mixture now.
	Weight float64
	// Awake says that it predicts.
	Awake bool
}

// Cost is what a spec costs.
type Cost struct {
	// Features is r, the number of features.
	Features   int
	StateBytes uint64
	// PredictFlops and ObserveFlops count the multiply-adds of a round.
	PredictFlops, ObserveFlops uint64
}
