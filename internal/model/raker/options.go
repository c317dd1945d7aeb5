package raker

import (
	"hindsight/internal/model"
	"hindsight/internal/model/loops"
	"hindsight/internal/model/losses"
)

// maxParameter bounds steps and the ridge, so that the products of the updates stay finite.
const maxParameter = 1e9

// Options are the options of every learner of this package.
type Options struct {
	Loss losses.Loss
	// Outputs is the number of labels; 0 is 1. They share the features, nothing else.
	Outputs int
	// Adaptive makes the learner an AdaRaker, which has StepCap, BaseInterval, Cold and
	// TrackSwitches, and neither Decay nor Average.
	Adaptive bool
	// Step is η of Raker, η0 of AdaRaker, in (0, 1e9]. With the squared loss
	// steps above 1/(‖z‖²+λ), about 1, are cut to it.
	Step float64
	// StepCap is the largest step of an AdaRaker expert, in (0, 1e9].
	StepCap float64
	// WeightStep is η_w, the step of the weights of the kernels, in (0, 1e9].
	WeightStep float64
	// Lambda is λ, in [0, 1e9].
	Lambda float64
	// Decay is ϑ in [0, 1]: the step of round t is Step t^−ϑ. It is 0 but for a Raker of one kernel.
	Decay float64
	// Average makes a Raker of one kernel predict by the average of its parameters.
	Average bool
	// BaseInterval is B: AdaRaker's intervals have lengths B, 2B, 4B, …. Below 1 is 1.
	BaseInterval int
	// Cold makes an AdaRaker expert forget θ and the weights of its kernels at the start
	// of an interval, as in the paper. Otherwise only the weight of the expert restarts.
	Cold bool
	// TrackRegret keeps the moments, for the squared loss, from which Report solves for the
	// best fixed function in hindsight: O(r²) memory and time a round.
	TrackRegret bool
	// TrackSwitches keeps moments at up to 15 rounds too, from which Report solves for the best
	// sequences of functions. It needs TrackRegret.
	TrackSwitches bool
}

// DefaultOptions are the options of AdaRaker, if adaptive, else of Raker and FOGD.
//
// AdaRaker's are warm restarts with the parameters that reproduce the paper's tables or
// lead to smaller errors. Those of its text (λ = 0.01, η0 = 10, cold) do far worse on the
// same streams. Raker's steps are the best single ones over the streams of its tests.
func DefaultOptions(loss losses.Loss, adaptive bool) Options {
	o := Options{Loss: loss, Adaptive: adaptive, Step: 0.25, StepCap: 0.5, WeightStep: 0.5, Lambda: 1e-4, BaseInterval: 1}
	if adaptive {
		o.Step = 0.5
	}
	if loss != losses.Squared {
		// The slopes are bounded, so that useful steps are large.
		o.Step, o.StepCap, o.Lambda = 10, 25, 1e-5
		if adaptive {
			o.Step = 35
		}
	}
	return o
}

func (o Options) valid(kernels int) bool {
	positive := func(v float64) bool { return v > 0 && v <= maxParameter }
	return o.Loss >= losses.Squared && o.Loss <= losses.Hinge &&
		o.Decay >= 0 && o.Decay <= 1 && positive(o.Step) && positive(o.WeightStep) && (!o.Adaptive || positive(o.StepCap)) &&
		o.Lambda >= 0 && o.Lambda <= maxParameter &&
		(!o.Average && o.Decay == 0 || kernels == 1 && !o.Adaptive)
}

// certifies reports whether Report has a certificate while no step is cut: the step is constant,
// no expert forgets its θ, and the best function in hindsight is solved for.
func (o Options) certifies() bool {
	return o.TrackRegret && o.Loss == losses.Squared && !o.Average && o.Decay == 0 && !o.Cold
}

// Cost is the cost of a learner over maps of these sizes and of mapBytes together, of an AdaRaker
// with MaxExperts experts; after t rounds it has 1 + ⌊log₂(t/B)⌋.
func Cost(sizes []int, mapBytes uint64, o Options) model.Cost {
	if o.Adaptive {
		return cost(sizes, mapBytes, o, MaxExperts)
	}
	return cost(sizes, mapBytes, o, 1)
}

func cost(sizes []int, mapBytes uint64, o Options, experts int) model.Cost {
	total, pairs := uint64(0), uint64(0)
	for _, r := range sizes {
		total += uint64(r)
		pairs += uint64(r) * uint64(r+1) / 2
	}
	kernels, k := uint64(len(sizes)), uint64(max(o.Outputs, 1))
	e := uint64(experts) * k
	numbers := e*(total+3*kernels+2) + 2*total + kernels + 2 + 6*k
	flops := e * 3 * total
	if o.Average {
		numbers += e * (total + 1)
		flops += e * 2 * total
	}
	if o.TrackRegret && o.Loss == losses.Squared {
		numbers += pairs + k*total + loops.Rows*(total+1) + 2*e*kernels + 2
		if o.TrackSwitches {
			numbers += marked * (pairs + k*(total+1))
		}
		flops += pairs + k*total
	}
	return model.Cost{
		Features:     int(total),
		StateBytes:   8*numbers + mapBytes,
		PredictFlops: e * total,
		ObserveFlops: flops + 2*total,
	}
}
