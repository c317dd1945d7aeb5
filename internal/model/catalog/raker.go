package catalog

import (
	"fmt"
	"math"
	"math/rand/v2"

	"hindsight/internal/model"
	"hindsight/internal/model/feature"
	"hindsight/internal/model/kernel"
	"hindsight/internal/model/raker"
)

const (
	maxKernels      = 64
	maxStep         = 1e9
	maxBaseInterval = 1 << 30
)

// defaultKernels are the Gaussians of the paper's tables: σ² in {0.1, 1, 10}.
func defaultKernels() []*model.Kernel {
	var out []*model.Kernel
	for _, variance := range []float64{0.1, 1, 10} {
		sigma := math.Sqrt(variance)
		out = append(out, &model.Kernel{Kind: string(kernel.Gaussian), Sigma: &sigma})
	}
	return out
}

// features are the maps of a dictionary of kernels, not yet drawn.
type features struct {
	kernels     []kernel.Kernel
	dimension   int
	frequencies int
	seed        uint64
}

// draw makes the maps: orthogonal where the kernel is radial. Each kernel has
// a generator of its own, so that its features do not depend on the others.
func (f features) draw() []raker.Map {
	maps := make([]raker.Map, len(f.kernels))
	for p, k := range f.kernels {
		rng := rand.New(rand.NewPCG(f.seed, fourierStream+uint64(p)))
		maps[p] = feature.NewFourier(k, f.dimension, f.frequencies, k.Radial(), rng)
	}
	return maps
}

func (f features) sizes() (sizes []int, bytes uint64) {
	for range f.kernels {
		sizes = append(sizes, 2*f.frequencies)
		bytes += 8 * uint64(f.frequencies*f.dimension)
	}
	return sizes, bytes
}

// mapFlops are the multiply-adds of the features of a round.
func (f features) mapFlops() uint64 { return uint64(len(f.kernels) * f.frequencies * f.dimension) }

// firstOrder completes what the first-order learners share.
func firstOrder(field string, s model.Spec, kernels []*model.Kernel, given model.FirstOrder) (
	f features, o raker.Options, completed []*model.Kernel, done model.FirstOrder, err error,
) {
	f = features{dimension: s.Dimension, seed: s.Seed}
	if len(kernels) > maxKernels {
		return f, o, nil, done, invalid(field+".kernels", fmt.Sprintf("%d kernels", len(kernels)), fmt.Sprintf("at most %d", maxKernels))
	}
	for p, k := range kernels {
		at := fmt.Sprintf("%s.kernels[%d]", field, p)
		one, spec, err := completeKernel(at, k)
		if err == nil && !one.Spectral() {
			err = invalid(at+".kind", one.Kind, "a kernel with a spectral density")
		}
		if err != nil {
			return f, o, nil, done, err
		}
		f.kernels, completed = append(f.kernels, one), append(completed, spec)
	}
	most := MaxFeatures / 2 / len(kernels)
	if f.frequencies, err = whole(field+".frequencies", given.Frequencies, defaultFrequencies, most); err != nil {
		return f, o, nil, done, err
	}
	loss, err := lossNamed(field, given.Loss)
	if err != nil {
		return f, o, nil, done, err
	}
	o = raker.DefaultOptions(loss, field == "ada_raker")
	if err = parameter(field+".step", given.Step, &o.Step, 0); err == nil {
		err = parameter(field+".lambda", given.Lambda, &o.Lambda, -1)
	}
	if err != nil {
		return f, o, nil, done, err
	}
	o.TrackRegret = loss == raker.Squared
	if given.TrackRegret != nil {
		if o.TrackRegret = *given.TrackRegret; o.TrackRegret && loss != raker.Squared {
			return f, o, nil, done, invalid(field+".track_regret", true, "false: regret is solved for the squared loss only")
		}
	}
	return f, o, completed, model.FirstOrder{
		Frequencies: &f.frequencies, Loss: loss.String(), Step: &o.Step, Lambda: &o.Lambda, TrackRegret: &o.TrackRegret,
	}, nil
}

func lossNamed(field, name string) (raker.Loss, error) {
	switch name {
	case "", model.LossSquared:
		return raker.Squared, nil
	case model.LossLogistic:
		return raker.Logistic, nil
	case model.LossHinge:
		return raker.Hinge, nil
	default:
		return 0, invalid(field+".loss", name, "squared, logistic or hinge")
	}
}

// parameter replaces a default by the given number, which is above low, not
// negative and at most maxStep.
func parameter(field string, given, to *float64, low float64) error {
	if given == nil {
		return nil
	}
	if !(*given > low && *given <= maxStep) || *given < 0 {
		return invalid(field, *given, fmt.Sprintf("a number from %g to %g", math.Max(low, 0), maxStep))
	}
	*to = *given
	return nil
}

func rakerOf(s model.Spec) (entry, error) {
	given := *s.Raker
	if len(given.Kernels) == 0 {
		given.Kernels = defaultKernels()
	}
	f, o, kernels, done, err := firstOrder("raker", s, given.Kernels, given.FirstOrder)
	if err == nil {
		err = parameter("raker.weight_step", given.WeightStep, &o.WeightStep, 0)
	}
	if err != nil {
		return entry{}, err
	}
	s.Raker = &model.Raker{Kernels: kernels, FirstOrder: done, WeightStep: &o.WeightStep}
	return rakerEntry(s, f, o), nil
}

func rakerEntry(s model.Spec, f features, o raker.Options) entry {
	sizes, bytes := f.sizes()
	cost := raker.Cost(sizes, bytes, o)
	cost.PredictFlops += f.mapFlops()
	cost.ObserveFlops += f.mapFlops()
	return entry{
		spec: s, cost: cost, classifies: o.Loss != raker.Squared,
		make: func() model.Learner { return raker.NewRaker(f.draw(), o) },
	}
}

func fogd(s model.Spec) (entry, error) {
	given := *s.FOGD
	f, o, kernels, done, err := firstOrder("fogd", s, []*model.Kernel{given.Kernel}, given.FirstOrder)
	if err != nil {
		return entry{}, err
	}
	s.FOGD = &model.FOGD{Kernel: kernels[0], FirstOrder: done}
	return rakerEntry(s, f, o), nil
}

func adaRaker(s model.Spec) (entry, error) {
	given := *s.AdaRaker
	if len(given.Kernels) == 0 {
		given.Kernels = defaultKernels()
	}
	f, o, kernels, done, err := firstOrder("ada_raker", s, given.Kernels, given.FirstOrder)
	if err == nil {
		err = parameter("ada_raker.weight_step", given.WeightStep, &o.WeightStep, 0)
	}
	if err == nil {
		err = parameter("ada_raker.step_cap", given.StepCap, &o.StepCap, 0)
	}
	if err == nil {
		o.BaseInterval, err = whole("ada_raker.base_interval", given.BaseInterval, 1, maxBaseInterval)
	}
	restart := given.Restart
	switch restart {
	case "":
		restart = model.RestartWarm
	case model.RestartWarm, model.RestartCold:
	default:
		err = invalid("ada_raker.restart", restart, "warm or cold")
	}
	if err != nil {
		return entry{}, err
	}
	o.Cold = restart == model.RestartCold
	s.AdaRaker = &model.AdaRaker{
		Raker:   model.Raker{Kernels: kernels, FirstOrder: done, WeightStep: &o.WeightStep},
		StepCap: &o.StepCap, BaseInterval: &o.BaseInterval, Restart: restart,
	}
	sizes, bytes := f.sizes()
	cost := raker.AdaptiveCost(sizes, bytes, o)
	cost.PredictFlops += f.mapFlops()
	cost.ObserveFlops += f.mapFlops()
	return entry{
		spec: s, cost: cost, classifies: o.Loss != raker.Squared,
		make: func() model.Learner { return raker.NewAdaRaker(f.draw(), o) },
	}, nil
}
