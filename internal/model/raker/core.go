package raker

import (
	"fmt"
	"math"
	"sync"

	"hindsight/internal/model"
	"hindsight/internal/model/feature"
	"hindsight/internal/model/ledger"
	"hindsight/internal/model/loops"
	"hindsight/internal/model/losses"
)

// maxParameter bounds steps and the ridge, so that the products of the updates stay finite.
const maxParameter = 1e9

// Options are the options of every learner of this package.
type Options struct {
	// Loss is what is minimized.
	Loss losses.Loss
	// Outputs is the number of labels; 0 is 1. They share the features, nothing else.
	Outputs int
	// Step is η of Raker, η0 of AdaRaker, in (0, 1e9]. With the squared loss
	// steps above 1/(‖z‖²+λ), about 1, are cut to it.
	Step float64
	// StepCap is the largest step of an AdaRaker expert, in (0, 1e9].
	StepCap float64
	// WeightStep is η_w, the step of the weights of the kernels, in (0, 1e9].
	WeightStep float64
	// Lambda is λ, in [0, 1e9].
	Lambda float64
	// Decay is ϑ in [0, 1]: the step of round t is Step t^−ϑ. A Raker of one kernel alone
	// may have ϑ > 0.
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
	o := Options{Loss: loss, Step: 0.25, StepCap: 0.5, WeightStep: 0.5, Lambda: 1e-4, BaseInterval: 1}
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

func (o Options) valid(adaptive bool) bool {
	positive := func(v float64) bool { return v > 0 && v <= maxParameter }
	return o.Loss >= losses.Squared && o.Loss <= losses.Hinge &&
		o.Decay >= 0 && o.Decay <= 1 && positive(o.Step) && positive(o.WeightStep) && (!adaptive || positive(o.StepCap)) &&
		o.Lambda >= 0 && o.Lambda <= maxParameter
}

// core is what Raker and AdaRaker share: features, accounts and checks.
type core struct {
	maps    []feature.Map
	options Options
	// offsets says where the features of each kernel start in z.
	offsets []int
	limit   float64
	// fixedBytes is the memory without the experts, expertBytes that of one.
	fixedBytes, expertBytes uint64
	// accounts has an entry for each output.
	accounts []ledger.Account
	// hindsight is nil unless regret is tracked.
	hindsight *moments
	// grid is nil unless switches are tracked.
	grid *grid
	// cut: a step was not η times the weight, so that there is no certificate. weights is Σω. Both
	// stay 0 unless the learner certifies.
	cut     bool
	weights float64
	// z and stable are the scratch of Observe: the features of all kernels, and their
	// 1/(‖z_p‖²+λ).
	z, stable []float64
	// scratch holds *[]float64 for concurrent calls of Predict: room for the features and
	// for the weights of MaxExperts experts.
	scratch *sync.Pool
}

func newCore(maps []feature.Map, o Options) core {
	if len(maps) == 0 || !o.valid(false) {
		panic(fmt.Sprintf("raker: %d maps, options %+v", len(maps), o))
	}
	o.BaseInterval, o.Outputs = max(o.BaseInterval, 1), max(o.Outputs, 1)
	c := core{
		maps: maps, options: o, offsets: make([]int, len(maps)+1), limit: model.MaxMagnitude,
		accounts: make([]ledger.Account, o.Outputs),
	}
	for p, m := range maps {
		if m.Dimension() != maps[0].Dimension() {
			panic(fmt.Sprintf("raker: maps of %d and %d dimensions", maps[0].Dimension(), m.Dimension()))
		}
		c.offsets[p+1] = c.offsets[p] + m.Size()
		c.limit = math.Min(c.limit, m.InputLimit())
	}
	if o.TrackRegret && o.Loss == losses.Squared {
		c.hindsight = newMoments(c.offsets, o.Outputs)
		if o.TrackSwitches {
			c.grid = c.newGrid()
		}
	}
	c.expertBytes = c.bytes(1) - c.bytes(0)
	c.fixedBytes = c.bytes(0)
	total := c.total()
	c.z, c.stable = make([]float64, total), make([]float64, len(maps))
	c.scratch = &sync.Pool{New: func() any {
		z := make([]float64, total+MaxExperts*(len(maps)+1))
		return &z
	}}
	return c
}

// total is the number of features of all kernels.
func (c *core) total() int { return c.offsets[len(c.offsets)-1] }

// split splits a buffer of scratch: room for the features, and for weights to append.
func (c *core) split(buffer []float64) (z, room []float64) {
	total := c.total()
	return buffer[:total], buffer[total:total]
}

// Check returns the error that Observe would return. Labels of the logistic and the hinge
// loss are −1 or 1.
func (c *core) Check(x, y []float64, weight float64) error {
	if err := c.checkFeatures(x); err != nil {
		return err
	}
	if err := c.options.Loss.CheckLabels(y, c.options.Outputs); err != nil {
		return err
	}
	return model.CheckWeight(weight)
}

func (c *core) checkFeatures(x []float64) error {
	return model.CheckFeatures(x, c.maps[0].Dimension(), c.limit)
}

// features writes the features of all kernels into z.
func (c *core) features(z, x []float64) {
	for p, m := range c.maps {
		m.Map(z[c.offsets[p]:c.offsets[p+1]], x)
	}
}

// answer makes room for a prediction without standard error and leverage.
func (c *core) answer(p *model.Prediction) {
	p.Resize(c.options.Outputs)
	p.StandardErrors, p.Leverage = p.StandardErrors[:0], model.NoLeverage
}

// outcome makes room for an outcome. Its regret is NaN.
func (c *core) outcome(o *model.Outcome) {
	o.Resize(c.options.Outputs)
	o.Loss, o.Regret = 0, math.NaN()
}

// prepare maps x into the scratch of Observe.
func (c *core) prepare(x []float64) {
	c.features(c.z, x)
	for p := range c.maps {
		z := c.z[c.offsets[p]:c.offsets[p+1]]
		c.stable[p] = 1 / (loops.Dot(z, z) + c.options.Lambda)
	}
}

// record accounts for an output of a round, given its label and the prediction. It returns
// the loss times the weight.
func (c *core) record(o *model.Outcome, output int, y, weight, prediction float64) (loss float64) {
	loss = float64(weight * c.options.Loss.Value(prediction, y))
	c.accounts[output].Add(loss, float64(weight*float64(y*y)), math.Abs(float64(math.Sqrt(weight)*y)))
	o.Predictions[output] = prediction
	o.Loss += loss
	return loss
}

// finish ends a round.
func (c *core) finish(y []float64, weight float64) {
	if c.hindsight != nil {
		c.hindsight.add(c.z, y, weight)
	}
	if c.grid != nil {
		c.follow()
	}
	if c.certifies() {
		c.weights += weight
	}
}

// stats are the Stats of a learner of the given size.
func (c *core) stats(size uint64) model.Stats {
	var s model.Stats
	for j := range c.accounts {
		ledger.Sum(&s, c.accounts[j].Stats())
	}
	s.Features, s.StateBytes = c.total(), size
	s.HindsightLoss, s.Regret = math.NaN(), math.NaN() // Report solves for them.
	s.ReportFlops, s.CertificateOK = c.reportFlops(), c.sumsOK()
	return s
}

// sumsOK tells whether the sums can be those of losses and labels: all that can be
// checked without solving.
func (c *core) sumsOK() bool {
	for j := range c.accounts {
		if !c.accounts[j].Plausible() {
			return false
		}
	}
	return true
}

// Cost is the cost of a Raker over maps of these sizes and of mapBytes together.
func Cost(sizes []int, mapBytes uint64, o Options) model.Cost {
	return cost(sizes, mapBytes, o, 1)
}

// AdaptiveCost is the cost of an AdaRaker with MaxExperts experts; after t rounds it has
// 1 + ⌊log₂(t/B)⌋.
func AdaptiveCost(sizes []int, mapBytes uint64, o Options) model.Cost {
	return cost(sizes, mapBytes, o, MaxExperts)
}

// bytes is the memory of the state with so many experts.
func (c *core) bytes(experts int) uint64 {
	sizes, maps := make([]int, len(c.maps)), uint64(0)
	for p, m := range c.maps {
		sizes[p] = m.Size()
		maps += m.Bytes()
	}
	return cost(sizes, maps, c.options, experts).StateBytes
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
			numbers += marked * markNumbers(pairs, total, k)
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

// LossOf is the loss of a prediction under a label, without its weight.
func (c *core) LossOf(prediction, label float64) float64 {
	return c.options.Loss.Value(prediction, label)
}
