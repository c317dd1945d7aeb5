package papers

import (
	hindsightv1 "hindsight/api/proto/hindsight/v1"
)

// The names of the learners, as the API spells them.
const (
	NameAuto     = "auto"
	NameLinear   = "linear_awv"
	NameTaylor   = "pkawv_taylor"
	NameNystrom  = "pkawv_nystrom"
	NameFourier  = "fourier_awv"
	NameKernel   = "kernel_awv"
	NameFogd     = "fogd"
	NameRaker    = "raker"
	NameAdaRaker = "ada_raker"

	NameSemiparametric = "semiparametric_awv"
	NameFourierKons    = "fourier_kons"
	NameProsNKons      = "pros_n_kons"
	NameKons           = "kons"
)

// Behind the name of a learner: running says that the server scales its inputs,
// several that it has several ridges, sgm that it is the stochastic gradient method.
const (
	running = ".running"
	several = ".lambdas"
	sgm     = ".sgm"
)

// Seed is the seed of every model.
const Seed = 1

// KernelRows is how many rows of a stream kernel_awv and kons take. The cost of a
// round grows with the square of the number of rounds before it.
const KernelRows = 4000

// decay is the exponent of the steps of the stochastic gradient method.
const decay = 0.5

// lambdas are the ridges of a learner with several of them.
func lambdas() []float64 { return []float64{1e-3, 1e-2, 1e-1, 1, 10} }

// Learner is a learner of the server, and how its spec depends on a stream.
type Learner struct {
	// Name is the name in the API.
	Name string
	// MaxRows is how many rows it takes at most; 0: all.
	MaxRows int
	// Centred says that the mean of every input column is subtracted.
	Centred bool
	// OwnLoss says that its spec names a loss. The other learners have the squared
	// loss.
	OwnLoss bool
	// Defaults says that its spec has no bandwidth and no scaling: those of the
	// server apply.
	Defaults bool

	learner func(spec *hindsightv1.ModelSpec, k *hindsightv1.Kernel, loss hindsightv1.Loss)
}

// Coverages are the levels of the prediction intervals of every model of a
// quantity. The tables show the first.
func Coverages() []float64 { return []float64{0.9, 0.99} }

// Loss names the loss of the learner on a stream.
func (l Learner) Loss(s Stream) string {
	if l.OwnLoss && s.Signs {
		return "logistic"
	}
	return squared
}

// squared is the loss of all learners, except those of signs whose specs name one.
const squared = "squared"

// Spec returns the learner's spec for a stream with dimension inputs. Sigma is
// the bandwidth of the learners with one kernel. All parameters that the preface of
// the report does not name are the server's defaults.
func (l Learner) Spec(s Stream, dimension int, sigma float64) *hindsightv1.ModelSpec {
	spec := &hindsightv1.ModelSpec{Dimension: int32(dimension), Seed: Seed}
	loss := hindsightv1.Loss_LOSS_LOGISTIC
	if !s.Signs {
		loss = hindsightv1.Loss_LOSS_SQUARED
		spec.Coverage = Coverages()
	}
	kernel := &hindsightv1.Kernel{Kind: hindsightv1.Kernel_KIND_GAUSSIAN, Sigma: &sigma}
	if l.Defaults {
		kernel = nil
	} else { // The columns are scaled beforehand.
		spec.Scaling = &hindsightv1.Scaling{Kind: &hindsightv1.Scaling_None{None: &hindsightv1.NoScaling{}}}
	}
	if l.learner != nil { // Else the server picks it: auto.
		l.learner(spec, kernel, loss)
	}
	return spec
}

// Learners returns every learner, in the order of the report.
func Learners() []Learner {
	all := append([]Learner{{Name: NameAuto, Defaults: true}}, forecasters()...)
	all = append(all, newtons()...)
	all = append(all, descents()...)
	// Those that were best of their family, as a user gets them who sets nothing.
	for _, l := range all {
		switch l.Name {
		case NameNystrom, NameFourier, NameFourierKons, NameProsNKons, NameAdaRaker:
			l.Name += running
			l.Defaults = true
			all = append(all, l)
		}
	}
	return all
}

// forecasters are the learners after Azoury, Warmuth and Vovk.
func forecasters() []Learner {
	return []Learner{
		{
			Name: NameLinear,
			learner: func(spec *hindsightv1.ModelSpec, _ *hindsightv1.Kernel, _ hindsightv1.Loss) {
				spec.Learner = &hindsightv1.ModelSpec_LinearAwv{LinearAwv: &hindsightv1.LinearAwv{}}
			},
		},
		{
			Name: NameTaylor, Centred: true,
			learner: func(spec *hindsightv1.ModelSpec, k *hindsightv1.Kernel, _ hindsightv1.Loss) {
				spec.Learner = &hindsightv1.ModelSpec_PkawvTaylor{PkawvTaylor: &hindsightv1.PkawvTaylor{Sigma: k.Sigma}}
			},
		},
		{
			Name: NameNystrom,
			learner: func(spec *hindsightv1.ModelSpec, k *hindsightv1.Kernel, _ hindsightv1.Loss) {
				spec.Learner = &hindsightv1.ModelSpec_PkawvNystrom{PkawvNystrom: &hindsightv1.PkawvNystrom{Kernel: k}}
			},
		},
		{
			Name: NameFourier,
			learner: func(spec *hindsightv1.ModelSpec, k *hindsightv1.Kernel, _ hindsightv1.Loss) {
				spec.Learner = &hindsightv1.ModelSpec_FourierAwv{FourierAwv: &hindsightv1.FourierAwv{Kernel: k}}
			},
		},
		{
			Name: NameFourier + several,
			learner: func(spec *hindsightv1.ModelSpec, k *hindsightv1.Kernel, _ hindsightv1.Loss) {
				spec.Learner = &hindsightv1.ModelSpec_FourierAwv{FourierAwv: &hindsightv1.FourierAwv{Kernel: k, Lambdas: lambdas()}}
			},
		},
		{
			Name: NameSemiparametric, Centred: true,
			learner: func(spec *hindsightv1.ModelSpec, k *hindsightv1.Kernel, _ hindsightv1.Loss) {
				spec.Learner = &hindsightv1.ModelSpec_SemiparametricAwv{SemiparametricAwv: &hindsightv1.SemiparametricAwv{Kernel: k}}
			},
		},
		{
			Name: NameKernel, MaxRows: KernelRows,
			learner: func(spec *hindsightv1.ModelSpec, k *hindsightv1.Kernel, _ hindsightv1.Loss) {
				spec.Learner = &hindsightv1.ModelSpec_KernelAwv{KernelAwv: &hindsightv1.KernelAwv{Kernel: k}}
			},
		},
	}
}

// newtons are the learners by online Newton steps. The range of the labels is told of
// the squared loss, unless the server scales.
func newtons() []Learner {
	known := func(k *hindsightv1.Kernel, loss hindsightv1.Loss) []float64 {
		if k == nil || loss != hindsightv1.Loss_LOSS_SQUARED {
			return nil
		}
		return []float64{0, 1}
	}
	return []Learner{
		{
			Name: NameFourierKons, OwnLoss: true,
			learner: func(spec *hindsightv1.ModelSpec, k *hindsightv1.Kernel, loss hindsightv1.Loss) {
				spec.Learner = &hindsightv1.ModelSpec_FourierKons{FourierKons: &hindsightv1.FourierKons{Kernel: k, Loss: loss, Range: known(k, loss)}}
			},
		},
		{
			Name: NameProsNKons, OwnLoss: true,
			learner: func(spec *hindsightv1.ModelSpec, k *hindsightv1.Kernel, loss hindsightv1.Loss) {
				spec.Learner = &hindsightv1.ModelSpec_ProsNKons{ProsNKons: &hindsightv1.ProsNKons{Kernel: k, Loss: loss, Range: known(k, loss)}}
			},
		},
		{
			Name: NameKons, OwnLoss: true, MaxRows: KernelRows,
			learner: func(spec *hindsightv1.ModelSpec, k *hindsightv1.Kernel, loss hindsightv1.Loss) {
				spec.Learner = &hindsightv1.ModelSpec_Kons{Kons: &hindsightv1.Kons{Kernel: k, Loss: loss, Range: known(k, loss)}}
			},
		},
	}
}

// descents are the learners that descend a gradient. Raker and AdaRaker have the
// kernels of the paper.
func descents() []Learner {
	return []Learner{
		{
			Name: NameFogd, OwnLoss: true,
			learner: func(spec *hindsightv1.ModelSpec, k *hindsightv1.Kernel, loss hindsightv1.Loss) {
				spec.Learner = &hindsightv1.ModelSpec_Fogd{Fogd: &hindsightv1.Fogd{Kernel: k, Loss: loss}}
			},
		},
		{
			Name: NameFogd + sgm, OwnLoss: true,
			learner: func(spec *hindsightv1.ModelSpec, k *hindsightv1.Kernel, loss hindsightv1.Loss) {
				spec.Learner = &hindsightv1.ModelSpec_Fogd{Fogd: &hindsightv1.Fogd{
					Kernel: k, Loss: loss, Lambda: new(float64), Decay: new(decay), Average: new(true),
				}}
			},
		},
		{
			Name: NameRaker, OwnLoss: true,
			learner: func(spec *hindsightv1.ModelSpec, _ *hindsightv1.Kernel, loss hindsightv1.Loss) {
				spec.Learner = &hindsightv1.ModelSpec_Raker{Raker: &hindsightv1.Raker{Loss: loss}}
			},
		},
		{
			Name: NameAdaRaker, OwnLoss: true,
			learner: func(spec *hindsightv1.ModelSpec, _ *hindsightv1.Kernel, loss hindsightv1.Loss) {
				spec.Learner = &hindsightv1.ModelSpec_AdaRaker{AdaRaker: &hindsightv1.AdaRaker{Loss: loss}}
			},
		},
	}
}
