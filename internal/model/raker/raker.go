// Package raker holds the first-order learners over random features: Raker,
// online gradient descent in several kernels at once with exponential weights
// over them, its one-kernel case FOGD, and AdaRaker, which hedges over Rakers
// of many step sizes.
//
// A round costs O(PD) for P kernels of D frequencies, where the second-order forecaster of
// package awv costs O(r²). With the squared loss and TrackRegret, Report has a certificate.
package raker

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"sync"

	"hindsight/internal/model"
	"hindsight/internal/model/exponential"
	"hindsight/internal/model/feature"
	"hindsight/internal/model/ledger"
	"hindsight/internal/model/loops"
	"hindsight/internal/model/losses"
	"hindsight/internal/model/mix"
	"hindsight/internal/model/regret"
)

// Raker runs online gradient descent in every kernel and mixes the kernels by
// exponential weights. Per round, with z_p = z_p(x):
//
//	f_p = θ_p·z_p,  ŷ = Σ w_p f_p / Σ w_p
//	θ_p ← θ_p − η ∇(C(θ_p·z_p, y) + λ‖θ_p‖²)
//	w_p ← w_p exp(−η_w (C(f_p, y) + λ‖θ_p‖²))
//
// Both losses are taken before the step, and times the observation's weight. With one
// kernel this is FOGD, Fourier online gradient descent. Several outputs are as many Rakers
// over the same features.
//
// FOGD may be SGM, the stochastic gradient method. With the decay ϑ and s_t the step of
// round t after all cuts, see safeStep,
//
//	η_t = η t^−ϑ,  a ← a + s_t,  θ̄ ← θ̄ + (θ − θ̄) s_t/a,  then the step on θ
//
// and ŷ = θ̄·z if it averages.
//
// Raker has one expert, AdaRaker several: see hedge.
//
// Source: AdaRaker (JMLR 2019), Algorithm 1, eqs (18), (19), (21). The
// gradients are the gradients of the losses, see Loss. SGM: Camoriano, thesis (Genoa, 2017),
// chapter 6, with the average of eq. (6.4).
type Raker struct {
	maps    []feature.Map
	options Options
	// offsets says where the features of each kernel start in z.
	offsets []int
	limit   float64
	// fixedBytes is the memory without the experts, expertBytes the memory of one.
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
	// z and stable are scratch of Observe: the features of all kernels, and their 1/(‖z_p‖²+λ).
	z, stable []float64
	// scratch holds *[]float64 for concurrent calls of Predict: room for the features and
	// for the weights of MaxExperts experts.
	scratch *sync.Pool
	// outputs are the experts of each output, equally many.
	outputs []hedge
	// exponentials are Observe's scratch: what appendWeights appends.
	exponentials []float64
}

// New is a learner before its first observation. It panics unless there are maps, all of one
// dimension, if an option is out of range, and for SGM over several kernels.
func New(maps []feature.Map, o Options) *Raker {
	if len(maps) == 0 || !o.valid(len(maps)) {
		panic(fmt.Sprintf("raker: %d maps, options %+v", len(maps), o))
	}
	o.BaseInterval, o.Outputs = max(o.BaseInterval, 1), max(o.Outputs, 1)
	r := &Raker{
		maps: maps, options: o, offsets: make([]int, len(maps)+1), limit: model.MaxMagnitude,
		accounts: make([]ledger.Account, o.Outputs),
	}
	for p, m := range maps {
		if m.Dimension() != maps[0].Dimension() {
			panic(fmt.Sprintf("raker: maps of %d and %d dimensions", maps[0].Dimension(), m.Dimension()))
		}
		r.offsets[p+1] = r.offsets[p] + m.Size()
		r.limit = math.Min(r.limit, m.InputLimit())
	}
	if o.TrackRegret && o.Loss == losses.Squared {
		r.hindsight = newMoments(r.offsets, o.Outputs)
		if o.TrackSwitches {
			r.grid = &grid{length: firstLength}
			for n := range r.grid.marks {
				r.grid.marks[n] = r.newMark()
			}
		}
	}
	r.expertBytes = r.bytes(1) - r.bytes(0)
	r.fixedBytes = r.bytes(0)
	total := r.total()
	r.z, r.stable = make([]float64, total), make([]float64, len(maps))
	r.outputs = make([]hedge, o.Outputs)
	r.begin(1)
	r.scratch = &sync.Pool{New: func() any {
		z := make([]float64, total+MaxExperts*(len(maps)+1))
		return &z
	}}
	return r
}

func (r *Raker) total() int { return r.offsets[len(r.offsets)-1] }

// split splits a buffer of scratch: room for the features, and for weights to append.
func (r *Raker) split(buffer []float64) (z, room []float64) {
	total := r.total()
	return buffer[:total], buffer[total:total]
}

// Check returns the error that Observe would return. Labels of the logistic and the hinge
// loss are −1 or 1.
func (r *Raker) Check(x, y []float64, weight float64) error {
	return cmp.Or(r.checkFeatures(x), r.options.Loss.CheckLabels(y, r.options.Outputs), model.CheckWeight(weight))
}

func (r *Raker) checkFeatures(x []float64) error {
	return model.CheckFeatures(x, r.maps[0].Dimension(), r.limit)
}

func (r *Raker) features(z, x []float64) {
	for p, m := range r.maps {
		m.Map(z[r.offsets[p]:r.offsets[p+1]], x)
	}
}

// Predict answers ŷ, for a loss of classes the score, whose sign is the class. It reads the
// state alone. There are no standard error and no leverage.
func (r *Raker) Predict(p *model.Prediction, x []float64) error {
	if err := r.checkFeatures(x); err != nil {
		return err
	}
	buffer := r.scratch.Get().(*[]float64) // The pool holds nothing else.
	defer r.scratch.Put(buffer)
	z, room := r.split(*buffer)
	r.features(z, x)
	p.Resize(r.options.Outputs)
	p.StandardErrors, p.Leverage = p.StandardErrors[:0], model.NoLeverage
	kernels := len(r.maps)
	for k, experts := range r.outputs {
		w := experts.appendWeights(room)
		h := w[len(experts)*kernels:]
		value, total := 0.0, 0.0
		for j := range experts {
			value += float64(h[j] * r.mix(&experts[j], z, w[j*kernels:(j+1)*kernels], nil))
			total += h[j]
		}
		p.Values[k] = value / total
	}
	return nil
}

// Observe learns (x, y) by one gradient step a kernel of every expert, and updates the weights of
// the experts: one feature map, two passes over the features an expert, and with TrackRegret what
// moments.add costs. It allocates only the expert of an AdaRaker that appears if the count of
// blocks reaches a power of two. The regret of the outcome is NaN.
func (r *Raker) Observe(o *model.Outcome, x, labels []float64, weight float64) error {
	if err := r.Check(x, labels, weight); err != nil {
		return err
	}
	r.prepare(x)
	o.Resize(r.options.Outputs)
	o.Loss, o.Regret = 0, math.NaN()
	t, decay := r.accounts[0].Rounds+1, r.decay()
	for k, y := range labels {
		r.round(o, k, t, decay, y, weight)
	}
	r.finish(labels, weight)
	r.begin(t + 1)
	return nil
}

// round is slot t of an output, whose features prepare has made.
func (r *Raker) round(o *model.Outcome, output int, t uint64, decay, y, weight float64) {
	experts, kernels := r.outputs[output], len(r.maps)
	r.exponentials = experts.appendWeights(r.exponentials[:0])
	w := r.exponentials
	h := w[len(experts)*kernels:]
	value, total := 0.0, 0.0
	for j := range experts {
		e := &experts[j]
		e.value = r.mix(e, r.z, w[j*kernels:(j+1)*kernels], e.f)
		value += float64(h[j] * e.value)
		total += h[j]
		// It learns from its own losses alone, while its θ is at hand.
		r.learn(e, float64(e.step*decay), y, weight)
	}
	loss := r.record(o, output, y, weight, value/total)
	if !r.options.Adaptive {
		return
	}
	for j := min(r.starting(t), len(experts)); j < len(experts); j++ {
		e := &experts[j]
		gain := loss - float64(weight*r.options.Loss.Value(e.value, y))
		e.logh += float64(e.meta * gain)
	}
}

// decay is t^−ϑ of the next round t. It has the same bits on every target.
func (r *Raker) decay() float64 {
	if r.options.Decay == 0 {
		return 1
	}
	return exponential.Of(-float64(r.options.Decay * exponential.Log(float64(r.accounts[0].Rounds+1))))
}

func (r *Raker) prepare(x []float64) {
	r.features(r.z, x)
	for p := range r.maps {
		z := r.z[r.offsets[p]:r.offsets[p+1]]
		r.stable[p] = 1 / (loops.Dot(z, z) + r.options.Lambda)
	}
}

// record accounts for an output of a round, and returns the loss times the weight.
func (r *Raker) record(o *model.Outcome, output int, y, weight, prediction float64) (loss float64) {
	loss = float64(weight * r.options.Loss.Value(prediction, y))
	r.accounts[output].Add(loss, float64(weight*float64(y*y)), math.Abs(float64(math.Sqrt(weight)*y)))
	o.Predictions[output] = prediction
	o.Loss += loss
	return loss
}

func (r *Raker) finish(y []float64, weight float64) {
	if r.hindsight != nil {
		r.hindsight.add(r.z, y, weight)
	}
	if r.grid != nil {
		r.follow()
	}
	if r.options.certifies() {
		r.weights += weight
	}
}

// logWeights appends the logarithms of the weights that AppendWeights names.
func (r *Raker) logWeights(dst []float64, experts hedge) []float64 {
	if !r.options.Adaptive {
		return append(dst, experts[0].logw...)
	}
	for j := range experts {
		dst = append(dst, experts[j].logh)
	}
	return dst
}

// weighed is how many weights AppendWeights appends.
func (r *Raker) weighed() int {
	n := len(r.maps)
	if r.options.Adaptive {
		n = len(r.outputs[0])
	}
	if n == 1 {
		return 0
	}
	return n
}

// AppendWeights appends the mean weights, over the outputs, of the kernels or the experts of an
// AdaRaker, none of a single one.
func (r *Raker) AppendWeights(dst []float64) []float64 {
	n, from := r.weighed(), len(dst)
	if n == 0 {
		return dst
	}
	dst = slices.Grow(dst, 2*n)[:from+n]
	mean := dst[from:]
	clear(mean)
	for _, experts := range r.outputs {
		weights := r.logWeights(dst, experts)[len(dst):]
		mix.Exponential(weights)
		mix.Normalize(weights)
		for k, w := range weights {
			mean[k] += w / float64(len(r.outputs))
		}
	}
	return dst
}

// WeightNames are the names of the kernels, or of the experts of an AdaRaker by the lengths of
// their intervals, none of a single one.
func (r *Raker) WeightNames() []string {
	names := make([]string, r.weighed())
	for k := range names {
		if names[k] = "kernel_" + strconv.Itoa(k); r.options.Adaptive {
			names[k] = "interval_" + strconv.FormatUint(uint64(r.options.BaseInterval)<<k, 10)
		}
	}
	return names
}

// Stats has no regret: Report solves for it.
func (r *Raker) Stats() model.Stats {
	var s model.Stats
	for j := range r.accounts {
		ledger.Sum(&s, r.accounts[j].Stats())
	}
	s.Features, s.StateBytes = r.total(), r.Size()
	s.HindsightLoss, s.Regret = math.NaN(), math.NaN() // Report solves for them.
	s.ReportFlops, s.CertificateOK = r.reportFlops(), true
	for j := range r.accounts { // All that can be checked without solving.
		s.CertificateOK = s.CertificateOK && r.accounts[j].Plausible()
	}
	return s
}

// Size is the memory of the state.
func (r *Raker) Size() uint64 { return r.fixedBytes + uint64(len(r.outputs[0]))*r.expertBytes }

func (r *Raker) bytes(experts int) uint64 {
	sizes, maps := make([]int, len(r.maps)), uint64(0)
	for p, m := range r.maps {
		sizes[p] = m.Size()
		maps += m.Bytes()
	}
	return cost(sizes, maps, r.options, experts).StateBytes
}

// Class is the functions of one kernel, penalized once.
func (r *Raker) Class() (c regret.Class, known bool) {
	return regret.Class{Loss: r.options.Loss, Lambda: r.options.Lambda, Maps: r.maps}, true
}

// LossOf is the loss of a prediction under a label, without its weight.
func (r *Raker) LossOf(prediction, label float64) float64 {
	return r.options.Loss.Value(prediction, label)
}
