package model

// Spec says what a model is. It is immutable once a model exists, and is
// stored with every default filled in. Exactly one learner is set. Its JSON
// form is what logs and snapshots carry; the names are those of the API.
type Spec struct {
	// Dimension is d, the number of inputs.
	Dimension int `json:"dimension"`
	// Outputs is the number of label columns.
	Outputs int `json:"outputs"`
	// Seed seeds every random draw of the learner.
	Seed uint64 `json:"seed"`
	// Scaling is what happens to inputs and labels before the learner, nil for
	// nothing.
	Scaling *Scaling `json:"scaling,omitempty"`

	PKAWVTaylor  *PKAWVTaylor  `json:"pkawv_taylor,omitempty"`
	PKAWVNystrom *PKAWVNystrom `json:"pkawv_nystrom,omitempty"`
	FourierAWV   *FourierAWV   `json:"fourier_awv,omitempty"`
	LinearAWV    *LinearAWV    `json:"linear_awv,omitempty"`
	KernelAWV    *KernelAWV    `json:"kernel_awv,omitempty"`
	Raker        *Raker        `json:"raker,omitempty"`
	AdaRaker     *AdaRaker     `json:"ada_raker,omitempty"`
	FOGD         *FOGD         `json:"fogd,omitempty"`
}

// Scaling is one of its kinds.
type Scaling struct {
	Fixed  *FixedScaling  `json:"fixed,omitempty"`
	Warmup *WarmupScaling `json:"warmup,omitempty"`
}

// FixedScaling is given: (x − offset)·scale, and the same for labels. What is
// left out is offset 0 and scale 1.
type FixedScaling struct {
	Offset      []float64 `json:"offset,omitempty"`
	Scale       []float64 `json:"scale,omitempty"`
	LabelOffset []float64 `json:"label_offset,omitempty"`
	LabelScale  *float64  `json:"label_scale,omitempty"`
}

// WarmupScaling is determined from the first observations.
type WarmupScaling struct {
	// Observations is how many.
	Observations int `json:"observations"`
	// Labels says whether labels are scaled too.
	Labels *bool `json:"labels,omitempty"`
}

// Losses of the first-order learners.
const (
	LossSquared  = "squared"
	LossLogistic = "logistic"
	LossHinge    = "hinge"
)

// What an AdaRaker expert keeps at the start of its next interval.
const (
	RestartWarm = "warm"
	RestartCold = "cold"
)

// FirstOrder is what the first-order learners share.
type FirstOrder struct {
	// Frequencies is D, per kernel.
	Frequencies *int `json:"frequencies,omitempty"`
	// Loss is squared, logistic or hinge.
	Loss string `json:"loss,omitempty"`
	// Step is η of Raker and FOGD, η0 of AdaRaker.
	Step *float64 `json:"step,omitempty"`
	// Lambda is the ridge λ.
	Lambda *float64 `json:"lambda,omitempty"`
	// TrackRegret keeps what regret is solved from.
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
	// StepCap bounds the steps of the experts.
	StepCap *float64 `json:"step_cap,omitempty"`
	// BaseInterval is the length of the shortest interval.
	BaseInterval *int `json:"base_interval,omitempty"`
	// Restart is warm or cold.
	Restart string `json:"restart,omitempty"`
}

// FOGD is Fourier online gradient descent: Raker with one kernel.
type FOGD struct {
	Kernel *Kernel `json:"kernel,omitempty"`
	FirstOrder
}

// Kernel names a kernel and its parameters, of which those that the kind does
// not use are left out.
type Kernel struct {
	// Kind is gaussian, laplacian, matern_12, matern_32, matern_52, cauchy,
	// rational_quadratic, polynomial or linear.
	Kind string `json:"kind,omitempty"`
	// Sigma is the bandwidth σ of the shift-invariant kernels.
	Sigma *float64 `json:"sigma,omitempty"`
	// Alpha is the shape of the rational quadratic kernel.
	Alpha *float64 `json:"alpha,omitempty"`
	// Degree and Offset are the polynomial kernel's.
	Degree *int     `json:"degree,omitempty"`
	Offset *float64 `json:"offset,omitempty"`
}

// Histories that a growing dictionary may keep.
const (
	HistoryNone   = "none"
	HistoryWindow = "window"
	HistoryFull   = "full"
)

// PKAWVNystrom is PKAWV over a Nyström dictionary grown by KORS.
type PKAWVNystrom struct {
	Kernel *Kernel  `json:"kernel,omitempty"`
	Lambda *float64 `json:"lambda,omitempty"`
	// Mu, Epsilon and Beta are KORS's; Beta may follow from Horizon and
	// Delta.
	Mu      *float64 `json:"mu,omitempty"`
	Epsilon *float64 `json:"epsilon,omitempty"`
	Beta    *float64 `json:"beta,omitempty"`
	Horizon *int64   `json:"horizon,omitempty"`
	Delta   *float64 `json:"delta,omitempty"`
	// MaxDictionary caps the centres.
	MaxDictionary *int `json:"max_dictionary,omitempty"`
	// History is none, window or full; HistoryWindow the rounds of a window.
	History       string `json:"history,omitempty"`
	HistoryWindow *int   `json:"history_window,omitempty"`
	// Dictionary is given beforehand, and frozen.
	Dictionary [][]float64 `json:"dictionary,omitempty"`
	// Forgetting is f: the past counts f times as much each round.
	Forgetting *float64 `json:"forgetting,omitempty"`
}

// FourierAWV is the forecaster over random Fourier features.
type FourierAWV struct {
	Kernel *Kernel `json:"kernel,omitempty"`
	// Frequencies is D; the features are 2D.
	Frequencies *int     `json:"frequencies,omitempty"`
	Orthogonal  *bool    `json:"orthogonal,omitempty"`
	Lambda      *float64 `json:"lambda,omitempty"`
	// Forgetting is f: the past counts f times as much each round.
	Forgetting *float64 `json:"forgetting,omitempty"`
}

// KernelAWV is exact Kernel-AWV.
type KernelAWV struct {
	Kernel *Kernel  `json:"kernel,omitempty"`
	Lambda *float64 `json:"lambda,omitempty"`
	// MaxObservations is how many it takes.
	MaxObservations *int `json:"max_observations,omitempty"`
}

// PKAWVTaylor is PKAWV over the Taylor basis of the Gaussian kernel. Zero
// fields take their defaults when the spec is completed, so every field that
// may be left out is a pointer.
type PKAWVTaylor struct {
	// Sigma is the bandwidth σ of exp(−‖x−x'‖²/2σ²).
	Sigma *float64 `json:"sigma,omitempty"`
	// Degree is M, the largest total degree of a monomial.
	Degree *int `json:"degree,omitempty"`
	// Lambda is the ridge λ.
	Lambda *float64 `json:"lambda,omitempty"`
	// MaxFeatures is the ceiling on the number of features.
	MaxFeatures *int `json:"max_features,omitempty"`
	// Forgetting is f: the past counts f times as much each round.
	Forgetting *float64 `json:"forgetting,omitempty"`
}

// LinearAWV is the Azoury-Warmuth-Vovk forecaster over (x, 1).
type LinearAWV struct {
	// Lambda is the ridge λ.
	Lambda *float64 `json:"lambda,omitempty"`
	// Forgetting is f: the past counts f times as much each round.
	Forgetting *float64 `json:"forgetting,omitempty"`
}

// Name is the learner's name, as in the API: pkawv_taylor, linear_awv.
// It is empty when no learner is set.
func (s Spec) Name() string {
	switch {
	case s.PKAWVTaylor != nil:
		return "pkawv_taylor"
	case s.PKAWVNystrom != nil:
		return "pkawv_nystrom"
	case s.FourierAWV != nil:
		return "fourier_awv"
	case s.LinearAWV != nil:
		return "linear_awv"
	case s.KernelAWV != nil:
		return "kernel_awv"
	case s.Raker != nil:
		return "raker"
	case s.AdaRaker != nil:
		return "ada_raker"
	case s.FOGD != nil:
		return "fogd"
	default:
		return ""
	}
}
