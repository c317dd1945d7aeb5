package catalog

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"hindsight/internal/model"
	"hindsight/internal/model/feature"
	"hindsight/internal/model/kernel"
	"hindsight/internal/model/losses"
	"hindsight/internal/model/raker"
)

const (
	maxKernels      = 64
	maxBaseInterval = 1 << 30
)

// defaultKernels are the Gaussians of the paper's tables, σ² in {0.1, 1, 10}. Classes have σ² = 100
// too: this kernel is nearly a constant, which follows the last label.
func defaultKernels(loss string) []*model.Kernel {
	variances := []float64{0.1, 1, 10}
	if loss != "" && loss != model.LossSquared {
		variances = append(variances, 100)
	}
	var out []*model.Kernel
	for _, variance := range variances {
		sigma := math.Sqrt(variance)
		out = append(out, &model.Kernel{Kind: string(kernel.Gaussian), Sigma: &sigma})
	}
	return out
}

func (c *completion) kernels(field *[]*model.Kernel, loss string) []kernel.Kernel {
	given := *field
	if len(given) == 0 {
		given = defaultKernels(loss)
	}
	if len(given) > maxKernels {
		c.reject("kernels", fmt.Sprintf("%d kernels", len(given)), fmt.Sprintf("at most %d", maxKernels))
		return nil
	}
	*field = slices.Clone(given) // The caller's list is not written to.
	var out []kernel.Kernel
	for p := range *field {
		out = append(out, c.spectral(fmt.Sprintf("kernels[%d]", p), &(*field)[p], "a kernel with a spectral density"))
	}
	return out
}

// firstOrder completes what first-order learners share. Maps are orthogonal where the kernel is radial. Each
// kernel has its own generator: its features do not depend on the other kernels.
func (c *completion) firstOrder(kernels []kernel.Kernel, given *model.FirstOrder, adaptive bool) ([]waves, raker.Options) {
	frequencies := c.whole("frequencies", &given.Frequencies, defaultFrequencies, MaxFeatures/2/max(len(kernels), 1))
	var loss losses.Loss
	switch c.choice("loss", &given.Loss, model.LossSquared, model.LossLogistic, model.LossHinge) {
	case model.LossLogistic:
		loss = losses.Logistic
	case model.LossHinge:
		loss = losses.Hinge
	default:
		loss = losses.Squared
	}
	o := raker.DefaultOptions(loss, adaptive)
	o.Outputs = c.outputs
	o.Step = c.step("step", &given.Step, o.Step)
	o.Lambda = c.number("lambda", &given.Lambda, o.Lambda, 0, maxStep)
	o.TrackRegret = filled(&given.TrackRegret, loss == losses.Squared)
	if o.TrackRegret && loss != losses.Squared {
		c.reject("track_regret", true, "false: regret is solved for the squared loss only")
	}
	var maps []waves
	for p, k := range kernels {
		maps = append(maps, newWaves(k, c.spec.Dimension, frequencies, k.Radial(), rand.NewPCG(c.spec.Seed, fourierStream+uint64(p))))
	}
	return maps, o
}

func rakers(c *completion, given *model.Raker) entry {
	f, o := c.firstOrder(c.kernels(&given.Kernels, given.Loss), &given.FirstOrder, false)
	o.WeightStep = c.step("weight_step", &given.WeightStep, o.WeightStep)
	return c.raker(f, o)
}

func fogd(c *completion, given *model.FOGD) entry {
	kernels := []*model.Kernel{given.Kernel}
	f, o := c.firstOrder(c.kernels(&kernels, given.Loss), &given.FirstOrder, false)
	given.Kernel = kernels[0]
	o.Decay, o.Average = c.number("decay", &given.Decay, 0, 0, 1), filled(&given.Average, false)
	// A field that is off is absent, as in earlier specs.
	if o.Decay == 0 {
		given.Decay = nil
	}
	if !o.Average {
		given.Average = nil
	}
	return c.raker(f, o)
}

func (c *completion) raker(maps []waves, o raker.Options) entry {
	if c.failed() {
		return entry{}
	}
	var sizes []int
	var all waves
	for _, w := range maps {
		sizes = append(sizes, w.size)
		all.bytes += w.bytes
	}
	return entry{
		cost: all.cost(raker.Cost(sizes, all.bytes, o)), classifies: o.Loss != losses.Squared,
		make: func(int) model.Learner {
			var drawn []feature.Map
			for _, w := range maps {
				drawn = append(drawn, w.draw())
			}
			return raker.New(drawn, o)
		},
	}
}

func adaRaker(c *completion, given *model.AdaRaker) entry {
	cold := c.choice("restart", &given.Restart, model.RestartWarm, model.RestartCold) == model.RestartCold
	f, o := c.firstOrder(c.kernels(&given.Kernels, given.Loss), &given.FirstOrder, true)
	o.Cold = cold
	o.WeightStep = c.step("weight_step", &given.WeightStep, o.WeightStep)
	o.StepCap = c.step("step_cap", &given.StepCap, o.StepCap)
	o.BaseInterval = c.whole("base_interval", &given.BaseInterval, 1, maxBaseInterval)
	if o.TrackSwitches = filled(&given.TrackSwitches, false); !o.TrackSwitches {
		given.TrackSwitches = nil // A field that is off is absent, as in earlier specs.
	} else if !o.TrackRegret {
		c.reject("track_switches", true, "false without track_regret")
	}
	return c.raker(f, o)
}
