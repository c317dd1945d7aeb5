package raker

import (
	"fmt"
	"math"
	"math/bits"
	"strconv"

	"hindsight/internal/model"
	"hindsight/internal/model/exponential"
	"hindsight/internal/model/feature"
	"hindsight/internal/model/mix"
)

// MaxExperts bounds the experts, and the memory, of an AdaRaker: after 2^39 intervals of the
// shortest length no longer ones are added.
const MaxExperts = 40

// maxMetaStep is the largest step in the exponents of the experts' weights.
const maxMetaStep = 0.5

// AdaRaker hedges over Rakers of many step sizes. Expert j lives on
// consecutive intervals I of length |I| = B·2^j with the step
//
//	η_j = min(cap, η0/√|I|)
//
// and at slot t, with h_j = η_j already at the first slot of an interval,
//
//	ŷ = Σ h_j f_j / Σ h_j,  r_j = C(ŷ, y) − C(f_j, y)
//	h_j ← η_j after the first slot, else h_j exp(min(η_j, 1/2) r_j)
//
// where f_j is the prediction of expert j, a Raker, and losses are times the observation's
// weight. In the exponent the step is at most 1/2: the paper's steps are, its analysis wants
// them below 1, and with the large steps that bounded slopes need, h_j would follow single
// losses. Slots count from 1, in blocks of B; expert j appears at block 2^j and starts again
// at every multiple of it: block k has 1+⌊log₂ k⌋ experts. At the start of an interval a
// cold expert forgets θ and its weights, a warm one keeps them.
//
// All experts share the random features: a round costs one feature map and O(PD log t).
// Several outputs are as many AdaRakers over the same features.
//
// Source: AdaRaker (JMLR 2019), Algorithm 2, eqs (31)-(33) and Figure 2. The paper's (31)
// and (32) together shrink the weight of the better expert; the sign here is that of Daniely
// et al. (ICML 2015). Its (31) also leaves h = 0 at a first slot: at t = 2^j, the first slot
// of all experts, ŷ would be 0/0.
type AdaRaker struct {
	core
	// outputs are the experts of each output, equally many.
	outputs []hedge
	// exponentials are Observe's scratch: what weigh appends.
	exponentials []float64
}

// hedge are the experts of an output, those of the shortest intervals first.
type hedge []hedged

// hedged is an expert with its meta weight.
type hedged struct {
	expert
	// step is η_j, meta the same in the exponent of h_j.
	step, meta float64
	// logh is log h_j, not shifted: new intervals begin at log η_j.
	logh float64
	// value is scratch: f_j of the round.
	value float64
}

// NewAdaRaker is an AdaRaker before its first observation. It panics unless there are maps,
// all of one dimension, if an option is out of range, and for SGM.
func NewAdaRaker(maps []feature.Map, o Options) *AdaRaker {
	if !o.valid(true) || o.Average || o.Decay > 0 {
		panic(fmt.Sprintf("raker: options %+v", o))
	}
	a := &AdaRaker{core: newCore(maps, o)}
	a.outputs = make([]hedge, a.options.Outputs)
	a.begin(1)
	return a
}

// block is the number, from 1, of the block of slot t, and whether t is its first slot.
func (a *AdaRaker) block(t uint64) (number uint64, first bool) {
	base := uint64(a.options.BaseInterval)
	return (t-1)/base + 1, (t-1)%base == 0
}

// active is the number of experts at slot t.
func (a *AdaRaker) active(t uint64) int {
	number, _ := a.block(t)
	return min(bits.Len64(number), MaxExperts)
}

// starting is the number of first experts that start an interval at slot t: expert j does
// in every block whose number 2^j divides.
func (a *AdaRaker) starting(t uint64) int {
	number, first := a.block(t)
	if !first {
		return 0
	}
	return bits.TrailingZeros64(number) + 1
}

func (a *AdaRaker) length(j int) float64 {
	return math.Ldexp(float64(a.options.BaseInterval), j)
}

func (a *AdaRaker) newHedged(j int) hedged {
	step := math.Min(a.options.StepCap, a.options.Step/math.Sqrt(a.length(j)))
	return hedged{
		expert: a.newExpert(), step: step, logh: exponential.Log(step),
		meta: math.Min(step, maxMetaStep),
	}
}

// begin prepares the experts for slot t: it restarts those whose interval starts there, and
// at a power of two adds one, which allocates. Observe calls begin for the next slot, so
// that Predict only reads.
func (a *AdaRaker) begin(t uint64) {
	for k, experts := range a.outputs {
		for j := range min(a.starting(t), len(experts)) {
			e := &experts[j]
			e.logh = exponential.Log(e.step)
			if a.options.Cold {
				e.restart()
			}
		}
		for len(a.outputs[k]) < a.active(t) {
			a.outputs[k] = append(a.outputs[k], a.newHedged(len(a.outputs[k])))
		}
	}
}

// topWeight is the largest log h_j: weights are taken relative to it.
func (h hedge) topWeight() float64 {
	top := math.Inf(-1)
	for j := range h {
		top = max(top, h[j].logh)
	}
	return top
}

// appendWeights appends the weights of the kernels of every expert to dst, expert after expert, and
// then the weights h_j of the experts, relative to the largest. One call takes all
// exponentials of a round.
func (h hedge) appendWeights(dst []float64) []float64 {
	from := len(dst)
	for j := range h {
		dst = append(dst, h[j].logw...)
	}
	top := h.topWeight()
	for j := range h {
		dst = append(dst, h[j].logh-top)
	}
	exponential.Exp(dst[from:], dst[from:])
	return dst
}

// Predict is Raker.Predict.
func (a *AdaRaker) Predict(p *model.Prediction, x []float64) error {
	if err := a.checkFeatures(x); err != nil {
		return err
	}
	buffer := a.scratch.Get().(*[]float64) // The pool holds nothing else.
	defer a.scratch.Put(buffer)
	z, room := a.split(*buffer)
	a.features(z, x)
	a.answer(p)
	kernels := len(a.maps)
	for k, experts := range a.outputs {
		w := experts.appendWeights(room)
		h := w[len(experts)*kernels:]
		value, total := 0.0, 0.0
		for j := range experts {
			value += float64(h[j] * a.mix(&experts[j].expert, z, w[j*kernels:(j+1)*kernels], nil))
			total += h[j]
		}
		p.Values[k] = value / total
	}
	return nil
}

// Observe learns (x, y) in every expert and updates their weights: one feature map, two
// passes over the features an expert, and with TrackRegret what moments.add costs. It
// allocates only the expert that appears if the count of blocks reaches a power of two. The
// regret of the outcome is NaN.
func (a *AdaRaker) Observe(o *model.Outcome, x, labels []float64, weight float64) error {
	if err := a.Check(x, labels, weight); err != nil {
		return err
	}
	a.prepare(x)
	a.outcome(o)
	t := a.accounts[0].Rounds + 1
	for k, y := range labels {
		a.round(o, k, t, y, weight)
	}
	a.finish(labels, weight)
	a.begin(t + 1)
	return nil
}

// round is slot t of an output, whose features prepare has made.
func (a *AdaRaker) round(o *model.Outcome, output int, t uint64, y, weight float64) {
	experts, kernels := a.outputs[output], len(a.maps)
	a.exponentials = experts.appendWeights(a.exponentials[:0])
	w := a.exponentials
	h := w[len(experts)*kernels:]
	value, total := 0.0, 0.0
	for j := range experts {
		e := &experts[j]
		e.value = a.mix(&e.expert, a.z, w[j*kernels:(j+1)*kernels], e.f)
		value += float64(h[j] * e.value)
		total += h[j]
		// It learns from its own losses alone, while its θ is at hand.
		a.learn(&e.expert, e.step, y, weight)
	}
	loss := a.record(o, output, y, weight, value/total)
	for j := min(a.starting(t), len(experts)); j < len(experts); j++ {
		e := &experts[j]
		gain := loss - float64(weight*a.options.Loss.Value(e.value, y))
		e.logh += float64(e.meta * gain)
	}
}

// AppendWeights appends the mean weights of the experts over the outputs, none for one expert.
func (a *AdaRaker) AppendWeights(dst []float64) []float64 {
	n := len(a.outputs[0])
	if n == 1 {
		return dst
	}
	dst, mean := withRoom(dst, n)
	for _, experts := range a.outputs {
		own := dst
		for j := range experts {
			own = append(own, experts[j].logh)
		}
		own = own[len(dst):]
		mix.Exponential(own)
		addShares(mean, own, len(a.outputs))
	}
	return dst
}

// WeightNames are the names of the experts, by the lengths of their intervals, none for
// one expert.
func (a *AdaRaker) WeightNames() []string {
	n := len(a.outputs[0])
	if n == 1 {
		return nil
	}
	names := make([]string, n)
	for j := range names {
		names[j] = "interval_" + strconv.FormatUint(uint64(a.options.BaseInterval)<<j, 10)
	}
	return names
}

// Report has the regret, and the certificate of the best kernel by the expert with the least.
func (a *AdaRaker) Report(o model.ReportOptions) model.Report {
	return a.report(o, func(output int) []descender {
		var all []descender
		for j := range a.outputs[output] {
			e := &a.outputs[output][j]
			all = append(all, descender{&e.expert, e.step})
		}
		return all
	})
}

// Stats has no regret: Report solves for it.
func (a *AdaRaker) Stats() model.Stats { return a.stats(a.Size()) }

// Size is the memory of the state.
func (a *AdaRaker) Size() uint64 { return a.fixedBytes + uint64(len(a.outputs[0]))*a.expertBytes }
