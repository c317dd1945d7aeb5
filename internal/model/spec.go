package model

import (
	"reflect"
	"strings"
)

// Spec says what a model is. It is immutable once a model exists, and is stored as JSON with
// every default filled in. The JSON name of a field is its name in the API: by it
// internal/rpc copies between the two.
type Spec struct {
	Dimension int    `json:"dimension"`
	Outputs   int    `json:"outputs"`
	Seed      uint64 `json:"seed"`
	// Scaling is applied to inputs and labels before the learner. Nil is the default. A
	// completed spec has one, unless its learner scales for itself.
	Scaling *Scaling `json:"scaling,omitempty"`
	// Coverage are the levels of the prediction intervals, ascending.
	Coverage []float64 `json:"coverage,omitempty"`
	// Inputs are the named inputs, which determine Dimension; none for vectors.
	Inputs []*Input `json:"inputs,omitempty"`
	// Classes says that labels are classes. Nil: labels are real.
	Classes *Classes `json:"classes,omitempty"`
	// LabelGate is GateOn, GateOff or empty: off. A completed spec of auto of real labels has one.
	LabelGate string `json:"label_gate,omitempty"`
	// Label says which labels are possible. Nil: every real label, or classes.
	Label *Label `json:"label,omitempty"`

	// At most one learner is set, in a completed spec exactly one. Its JSON name is its name.
	PKAWVTaylor  *PKAWVTaylor  `json:"pkawv_taylor,omitempty" oneof:"learner"`
	PKAWVNystrom *PKAWVNystrom `json:"pkawv_nystrom,omitempty" oneof:"learner"`
	FourierAWV   *FourierAWV   `json:"fourier_awv,omitempty" oneof:"learner"`
	LinearAWV    *LinearAWV    `json:"linear_awv,omitempty" oneof:"learner"`
	KernelAWV    *KernelAWV    `json:"kernel_awv,omitempty" oneof:"learner"`
	Raker        *Raker        `json:"raker,omitempty" oneof:"learner"`
	AdaRaker     *AdaRaker     `json:"ada_raker,omitempty" oneof:"learner"`
	FOGD         *FOGD         `json:"fogd,omitempty" oneof:"learner"`
	Auto         *Auto         `json:"auto,omitempty" oneof:"learner"`
	RLSC         *RLSC         `json:"rlsc,omitempty" oneof:"learner"`
	FourierKONS  *FourierKONS  `json:"fourier_kons,omitempty" oneof:"learner"`
	ProsNKONS    *ProsNKONS    `json:"pros_n_kons,omitempty" oneof:"learner"`
	KONS         *KONS         `json:"kons,omitempty" oneof:"learner"`

	SemiparametricAWV *SemiparametricAWV `json:"semiparametric_awv,omitempty" oneof:"learner"`
}

// Values of Spec.LabelGate.
const (
	GateOn  = "on"
	GateOff = "off"
)

// Classes says that labels are classes.
type Classes struct {
	MaxClasses *int `json:"max_classes,omitempty"`
}

// RLSC is regularised least squares classification.
type RLSC struct {
	// Kernel is the kernel of the random features, nil for (x, 1).
	Kernel *Kernel `json:"kernel,omitempty"`
	// Frequencies is D, nil without a kernel.
	Frequencies *int     `json:"frequencies,omitempty"`
	Lambda      *float64 `json:"lambda,omitempty"`
	Ridges
	// Recoding is how much decisions favour rare classes, nil if the learner chooses.
	Recoding   *float64 `json:"recoding,omitempty"`
	Forgetting *float64 `json:"forgetting,omitempty"`
}

// DefaultLearner is the learner of a spec that names none.
const DefaultLearner = "auto"

// Name is the name of the set learner, as in the API: pkawv_taylor, linear_awv. It is the
// first if several are set, and DefaultLearner if none is.
func (s Spec) Name() string {
	fields := reflect.ValueOf(s)
	for i := range fields.NumField() {
		if f := fields.Field(i); f.Kind() != reflect.Pointer || f.IsNil() {
			continue
		}
		if name, ok := learnerName(fields.Type().Field(i)); ok {
			return name
		}
	}
	return DefaultLearner
}

// LearnerNames are the names of all learners, in the order of the API.
func LearnerNames() []string {
	var names []string
	for _, f := range reflect.VisibleFields(reflect.TypeFor[Spec]()) {
		if name, ok := learnerName(f); ok {
			names = append(names, name)
		}
	}
	return names
}

// SquaredLoss reports whether a completed spec is scored by the squared loss of real labels.
func (s Spec) SquaredLoss() bool {
	loss := LossSquared
	switch {
	case s.Classes != nil:
		return false
	case s.Raker != nil:
		loss = s.Raker.Loss
	case s.AdaRaker != nil:
		loss = s.AdaRaker.Loss
	case s.FOGD != nil:
		loss = s.FOGD.Loss
	case s.FourierKONS != nil:
		loss = s.FourierKONS.Loss
	case s.ProsNKONS != nil:
		loss = s.ProsNKONS.Loss
	case s.KONS != nil:
		loss = s.KONS.Loss
	}
	return loss == LossSquared
}

func learnerName(f reflect.StructField) (name string, ok bool) {
	name, _, _ = strings.Cut(f.Tag.Get("json"), ",")
	return name, f.Tag.Get("oneof") == "learner"
}

// Auto mixes many learners.
type Auto struct {
	// Lags is how many of the last observed labels are inputs too.
	Lags *int `json:"lags,omitempty"`
	// Frequencies is D, per feature map.
	Frequencies *int `json:"frequencies,omitempty"`
	// MaxMicroseconds is the nominal time of an Observe, which decides on the experts.
	MaxMicroseconds *float64 `json:"max_microseconds,omitempty"`
	// MaxKeys is the number of keys that have effects, and of texts of keys.
	MaxKeys *int `json:"max_keys,omitempty"`
}

// MaxKeys is how many keys the model of a completed spec remembers, 0 if its learner has no keys.
func (s Spec) MaxKeys() int {
	if s.Auto == nil || s.Auto.MaxKeys == nil {
		return 0
	}
	return *s.Auto.MaxKeys
}

// HasTokens reports whether tokens of texts follow the features. They do where auto learns classes.
func (s Spec) HasTokens() bool { return s.MaxKeys() > 0 && s.Classes != nil }

// Scaling is one of its kinds.
type Scaling struct {
	Fixed   *FixedScaling   `json:"fixed,omitempty"`
	Warmup  *WarmupScaling  `json:"warmup,omitempty"`
	Running *RunningScaling `json:"running,omitempty"`
	None    *NoScaling      `json:"none,omitempty"`
}

// Unscaled leaves inputs and labels as they are.
func Unscaled() *Scaling { return &Scaling{None: &NoScaling{}} }

// FixedScaling is (x − offset)·scale, and the same for labels; by default 0 and 1.
type FixedScaling struct {
	Offset      []float64 `json:"offset,omitempty"`
	Scale       []float64 `json:"scale,omitempty"`
	LabelOffset []float64 `json:"label_offset,omitempty"`
	LabelScale  *float64  `json:"label_scale,omitempty"`
}

// WarmupScaling follows from the first observations.
type WarmupScaling struct {
	Observations int `json:"observations"`
	// Labels says whether labels are scaled too.
	Labels *bool `json:"labels,omitempty"`
}

// RunningScaling follows the observations.
type RunningScaling struct{}

// NoScaling leaves inputs and labels as they are.
type NoScaling struct{}

// Losses. Only online Newton steps have the squared hinge loss.
const (
	LossSquared      = "squared"
	LossLogistic     = "logistic"
	LossHinge        = "hinge"
	LossSquaredHinge = "squared_hinge"
)

// What an AdaRaker expert keeps at the start of its next interval.
const (
	RestartWarm = "warm"
	RestartCold = "cold"
)

// FirstOrder is what the first-order learners share.
type FirstOrder struct {
	Frequencies *int   `json:"frequencies,omitempty"`
	Loss        string `json:"loss,omitempty"`
	// Step is η of Raker and FOGD, η0 of AdaRaker.
	Step   *float64 `json:"step,omitempty"`
	Lambda *float64 `json:"lambda,omitempty"`
	// TrackRegret keeps the statistics from which Report solves for the regret.
	TrackRegret *bool `json:"track_regret,omitempty"`
}

// Raker is online multi-kernel learning with random features.
type Raker struct {
	Kernels []*Kernel `json:"kernels,omitempty"`
	FirstOrder
	// WeightStep is η_w, the step of the kernel weights.
	WeightStep *float64 `json:"weight_step,omitempty"`
}

// AdaRaker is Raker experts over a hierarchy of intervals.
type AdaRaker struct {
	Raker
	StepCap      *float64 `json:"step_cap,omitempty"`
	BaseInterval *int     `json:"base_interval,omitempty"`
	Restart      string   `json:"restart,omitempty"`
	// TrackSwitches keeps what Report solves for the best sequences of functions. Nil is false.
	TrackSwitches *bool `json:"track_switches,omitempty"`
}

// FOGD is Fourier online gradient descent: Raker with one kernel.
type FOGD struct {
	Kernel *Kernel `json:"kernel,omitempty"`
	FirstOrder
	// Decay is ϑ: the step of round t is Step t^−ϑ. Nil is 0.
	Decay *float64 `json:"decay,omitempty"`
	// Average predicts by the average of the functions. Nil is false.
	Average *bool `json:"average,omitempty"`
}

// Ridges are several ridges in place of one.
type Ridges struct {
	// Lambdas are the ridges, ascending, which replace Lambda.
	Lambdas []float64 `json:"lambdas,omitempty"`
}

// Kernel is a kernel and its parameters. Parameters that the kind does not use are absent.
type Kernel struct {
	Kind   string   `json:"kind,omitempty"`
	Sigma  *float64 `json:"sigma,omitempty"`
	Alpha  *float64 `json:"alpha,omitempty"`
	Degree *int     `json:"degree,omitempty"`
	Offset *float64 `json:"offset,omitempty"`
}

// Values of PKAWVNystrom.History.
const (
	HistoryNone   = "none"
	HistoryWindow = "window"
	HistoryFull   = "full"
)

// PKAWVNystrom is PKAWV over a Nyström dictionary grown by KORS.
type PKAWVNystrom struct {
	Kernel *Kernel  `json:"kernel,omitempty"`
	Lambda *float64 `json:"lambda,omitempty"`
	Ridges
	// Mu, Epsilon and Beta are the parameters of KORS. Horizon and Delta determine an absent Beta.
	Mu            *float64 `json:"mu,omitempty"`
	Epsilon       *float64 `json:"epsilon,omitempty"`
	Beta          *float64 `json:"beta,omitempty"`
	Horizon       *int64   `json:"horizon,omitempty"`
	Delta         *float64 `json:"delta,omitempty"`
	MaxDictionary *int     `json:"max_dictionary,omitempty"`
	// History is none, window or full; HistoryWindow is the most kept rounds. A stored spec
	// of full without it keeps all.
	History       string `json:"history,omitempty"`
	HistoryWindow *int   `json:"history_window,omitempty"`
	// Dictionary holds the centres of a given, frozen dictionary.
	Dictionary [][]float64 `json:"dictionary,omitempty"`
	Forgetting *float64    `json:"forgetting,omitempty"`
	// MixSizes mixes the first 1, 2, 4, … centres. Nil is false.
	MixSizes *bool `json:"mix_sizes,omitempty"`
}

// FourierAWV is the forecaster over random Fourier features.
type FourierAWV struct {
	Kernel      *Kernel  `json:"kernel,omitempty"`
	Frequencies *int     `json:"frequencies,omitempty"`
	Orthogonal  *bool    `json:"orthogonal,omitempty"`
	Lambda      *float64 `json:"lambda,omitempty"`
	Ridges
	Forgetting *float64 `json:"forgetting,omitempty"`
}

// NewtonSteps are what the learners by online Newton steps share.
type NewtonSteps struct {
	Kernel *Kernel   `json:"kernel,omitempty"`
	Loss   string    `json:"loss,omitempty"`
	Range  []float64 `json:"range,omitempty"`
	// Clip is C, the largest score, of the other losses.
	Clip *float64 `json:"clip,omitempty"`
	// Eta is the step η, nil if the step follows the labels: of the squared loss without a range.
	Eta   *float64 `json:"eta,omitempty"`
	Alpha *float64 `json:"alpha,omitempty"`
}

// FourierKONS is online Newton steps over random Fourier features.
type FourierKONS struct {
	NewtonSteps
	Frequencies *int  `json:"frequencies,omitempty"`
	Orthogonal  *bool `json:"orthogonal,omitempty"`
	// TrackRegret keeps a second factor, from which the regret follows.
	TrackRegret *bool `json:"track_regret,omitempty"`
}

// What a new centre does to what was learned.
const (
	GrowthGrow    = "grow"
	GrowthRestart = "restart"
)

// ProsNKONS is online Newton steps over a Nyström dictionary grown by KORS.
type ProsNKONS struct {
	NewtonSteps
	Mu            *float64 `json:"mu,omitempty"`
	Epsilon       *float64 `json:"epsilon,omitempty"`
	Beta          *float64 `json:"beta,omitempty"`
	MaxDictionary *int     `json:"max_dictionary,omitempty"`
	// Dictionary holds the centres of a given, frozen dictionary.
	Dictionary  [][]float64 `json:"dictionary,omitempty"`
	Growth      string      `json:"growth,omitempty"`
	TrackRegret *bool       `json:"track_regret,omitempty"`
}

// KONS is online Newton steps in the whole space of a kernel, or sketched.
type KONS struct {
	NewtonSteps
	// Gamma is γ, the least probability with which a round enters the matrix.
	Gamma *float64 `json:"gamma,omitempty"`
	// Epsilon and Beta are the parameters of KORS, of a sketch alone.
	Epsilon         *float64 `json:"epsilon,omitempty"`
	Beta            *float64 `json:"beta,omitempty"`
	MaxObservations *int     `json:"max_observations,omitempty"`
}

// KernelAWV is exact Kernel-AWV.
type KernelAWV struct {
	Kernel          *Kernel  `json:"kernel,omitempty"`
	Lambda          *float64 `json:"lambda,omitempty"`
	MaxObservations *int     `json:"max_observations,omitempty"`
}

// PKAWVTaylor is PKAWV over the Taylor basis of the Gaussian kernel.
type PKAWVTaylor struct {
	// Sigma is the bandwidth σ of exp(−‖x−x'‖²/2σ²).
	Sigma *float64 `json:"sigma,omitempty"`
	// Degree is M, the largest total degree of a monomial.
	Degree *int     `json:"degree,omitempty"`
	Lambda *float64 `json:"lambda,omitempty"`
	Ridges
	MaxFeatures *int     `json:"max_features,omitempty"`
	Forgetting  *float64 `json:"forgetting,omitempty"`
	// MixDegrees mixes the degrees 0 to Degree. Nil is false.
	MixDegrees *bool `json:"mix_degrees,omitempty"`
}

// LinearAWV is the Azoury-Warmuth-Vovk forecaster over (x, 1).
type LinearAWV struct {
	Lambda *float64 `json:"lambda,omitempty"`
	Ridges
	Forgetting *float64 `json:"forgetting,omitempty"`
}

// SemiparametricAWV is the forecaster over (x_P, 1) and random Fourier features.
type SemiparametricAWV struct {
	// Parametric are the numbers of the features P, ascending.
	Parametric []int `json:"parametric,omitempty"`
	// ParametricInputs are the names of the inputs whose features are P, in place of Parametric.
	ParametricInputs []string `json:"parametric_inputs,omitempty"`
	// Stages is 2 for two stages, nil for one. With SharedParameters P are the matrix of regressors.
	Stages           *int  `json:"stages,omitempty"`
	SharedParameters *bool `json:"shared_parameters,omitempty"`
	// ParametricLambda is the ridge of (x_P, 1), Lambda the ridge of the others.
	ParametricLambda *float64 `json:"parametric_lambda,omitempty"`
	Kernel           *Kernel  `json:"kernel,omitempty"`
	Frequencies      *int     `json:"frequencies,omitempty"`
	Lambda           *float64 `json:"lambda,omitempty"`
	Forgetting       *float64 `json:"forgetting,omitempty"`
}
