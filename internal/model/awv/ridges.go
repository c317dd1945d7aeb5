package awv

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"sync"

	"hindsight/internal/model"
	"hindsight/internal/model/codec"
	"hindsight/internal/model/feature"
	"hindsight/internal/model/mix"
	"hindsight/internal/model/qr"
)

// Path lists the ridges.
type Path struct {
	// Lambdas are the ridges λ_k > 0. If not empty, they replace Options.Lambda.
	Lambdas []float64
	// Low and High are the label range of each output, nil if it is not known.
	Low, High []float64
}

// middle is what is subtracted from the labels of an output.
func (p Path) middle(output int) float64 {
	if p.Low == nil || len(p.Lambdas) < 2 {
		return 0
	}
	return p.Low[output]/2 + p.High[output]/2
}

// Ridges mixes forecasters of several ridges λ_k over the same features: see mixture. Each
// forecaster has the bits of the plain one of its ridge. A single ridge has no mixture and no
// clipping. The forecasters learn labels less the middle of their range.
//
// The best function in hindsight is that of the ridge with the least L*_k. With the
// certificate C_k of its forecaster
//
//	loss − min_k L*_k ≤ C_k + 2W² ln K ≤ B² log det(A_k/λ_k) + 2W² ln K
//
// while the range is given and holds all labels, all weights are at most 1 and nothing is
// forgotten.
//
// Source: Camoriano, thesis (Genoa, 2017), chapter 4, for the path of ridges.
type Ridges struct {
	features    feature.Map
	path        Path
	forecasters []*Forecaster
	// mixture is nil for one ridge.
	mixture *mixture
	// Scratch: labels are what the forecasters learn.
	own             []model.Outcome
	weights, advice []float64
	labels          []float64
	rooms           sync.Pool
}

// NewRidges is a learner without observations. It panics where New does, unless every output
// or none has a range, and if several ridges forget.
func NewRidges(features feature.Map, o Options, p Path) *Ridges {
	o, p = o.completed(), p.completed(o)
	if len(p.Low) != len(p.High) || (p.Low != nil && len(p.Low) != o.Outputs) {
		panic(fmt.Sprintf("awv: %d and %d ends of the ranges of %d outputs", len(p.Low), len(p.High), o.Outputs))
	}
	if len(p.Lambdas) > 1 && o.Forgetting < 1 {
		panic(fmt.Sprintf("awv: %d ridges with a forgetting factor of %g", len(p.Lambdas), o.Forgetting))
	}
	r := &Ridges{features: features, path: p}
	for _, lambda := range p.Lambdas {
		o.Lambda = lambda
		r.forecasters = append(r.forecasters, New(features, o))
	}
	if count := len(p.Lambdas); count > 1 {
		r.mixture = newMixture(o.Outputs, p)
		r.own = make([]model.Outcome, count)
		r.weights, r.advice = make([]float64, count), make([]float64, count*o.Outputs)
		r.labels = make([]float64, o.Outputs)
	}
	return r
}

func (p Path) completed(o Options) Path {
	if len(p.Lambdas) == 0 {
		p.Lambdas = []float64{o.Lambda}
	}
	return p
}

// RidgesCost is the cost of a learner with r features over a map of mapBytes.
func RidgesCost(r int, o Options, p Path, mapBytes uint64) model.Cost {
	o, p = o.completed(), p.completed(o)
	c := Cost(r, o, 0)
	count, k := uint64(len(p.Lambdas)), uint64(o.Outputs)
	c.StateBytes *= count
	c.PredictFlops *= count
	c.ObserveFlops *= count
	if count > 1 {
		c.StateBytes += mixtureBytes(o.Outputs, p) + 8*count*(2*k+1)
		c.PredictFlops += count * (4*k + exponentialFlops)
		c.ObserveFlops += count * (8*k + exponentialFlops)
	}
	c.StateBytes += mapBytes
	return c
}

const exponentialFlops = 30

// room is the scratch of Predict.
type room struct {
	features, solved, weights, advice []float64
	own                               []model.Prediction
}

func (r *Ridges) take(features int) *room {
	p, ok := r.rooms.Get().(*room)
	if !ok {
		p = &room{
			weights: make([]float64, len(r.weights)), advice: make([]float64, len(r.advice)),
			own: make([]model.Prediction, len(r.forecasters)),
		}
	}
	if len(p.features) != features {
		p.features, p.solved = make([]float64, features), qr.NewRow(features)
	}
	return p
}

// Check returns the error that Observe would return.
func (r *Ridges) Check(x, y []float64, weight float64) error {
	return r.forecasters[0].Check(x, y, weight)
}

// Predict answers the mixture of the forecasters, by one feature map and a forward solve
// each. It only reads the state, and allocates nothing once its scratch is warm.
func (r *Ridges) Predict(p *model.Prediction, x []float64) error {
	if r.mixture == nil {
		return r.forecasters[0].Predict(p, x)
	}
	if err := r.forecasters[0].checkFeatures(x); err != nil {
		return err
	}
	outputs := r.forecasters[0].o.Outputs
	room := r.take(r.features.Size())
	defer r.rooms.Put(room)
	z := room.features
	r.features.Map(z, x)
	left := r.forecasters[0].leftOut(z, x)
	for k, f := range r.forecasters {
		copy(room.solved, z)
		own := &room.own[k]
		own.Resize(outputs)
		f.answer(own, f.factor.Solve(room.solved, own.Values), left)
		r.aboutMiddle(room.advice[k*outputs:], own.Values)
	}
	p.Resize(outputs)
	r.mixture.writeWeights(room.weights)
	r.mixture.mix(p.Values, room.weights, room.advice)
	r.mixture.spread(p, room.weights, room.advice, room.own)
	return nil
}

// Observe learns (x, y) in every forecaster: one feature map, and a rotation pass each. It
// allocates nothing once the outcome has capacity.
func (r *Ridges) Observe(o *model.Outcome, x, y []float64, weight float64) error {
	if err := r.Check(x, y, weight); err != nil {
		return err
	}
	r.features.Map(r.row(), x)
	r.weigh(x, weight)
	r.learn(o, y, weight)
	return nil
}

func (r *Ridges) row() []float64 { return r.forecasters[0].row[:r.features.Size()] }

func (r *Ridges) weigh(x []float64, weight float64) {
	for _, f := range r.forecasters {
		f.weigh(x, weight)
	}
}

// learn learns the features in the row.
func (r *Ridges) learn(o *model.Outcome, y []float64, weight float64) {
	if r.mixture == nil {
		r.forecasters[0].learn(o, y, weight)
		return
	}
	r.centre(y)
	for k := len(r.forecasters) - 1; k >= 0; k-- { // The first holds the features, and spoils them.
		f := r.forecasters[k]
		copy(f.row, r.row())
		f.learn(&r.own[k], r.labels, weight)
		r.advise(k)
	}
	r.mix(o, y, weight)
}

// centre writes the labels that the forecasters learn.
func (r *Ridges) centre(y []float64) {
	for j, label := range y {
		r.labels[j] = label - r.path.middle(j)
	}
}

// advise makes the outcome of a forecaster its advice.
func (r *Ridges) advise(k int) {
	own := r.own[k].Predictions
	r.aboutMiddle(own, own)
	copy(r.advice[k*len(own):], own)
}

// mix learns the mixture of the forecasters' outcomes.
func (r *Ridges) mix(o *model.Outcome, y []float64, weight float64) {
	o.Resize(len(y))
	r.mixture.writeWeights(r.weights)
	r.mixture.mix(o.Predictions, r.weights, r.advice)
	o.Loss = r.mixture.learn(o.Predictions, r.advice, r.own, y, weight)
	best := r.best()
	o.Regret = r.own[best].Regret + r.mixture.experts[best].gap.Value()
}

// aboutMiddle adds the middles of the ranges to a forecaster's predictions.
func (r *Ridges) aboutMiddle(dst, predictions []float64) {
	for j, v := range predictions {
		dst[j] = v
		if middle := r.path.middle(j); middle != 0 {
			dst[j] += middle
		}
	}
}

// grow adds a feature to every forecaster, with its corner in each: see Forecaster.grow.
func (r *Ridges) grow(a, corners, b []float64) {
	for k, f := range r.forecasters {
		f.grow(slices.Clone(a), corners[k], slices.Clone(b))
	}
}

// best is the first ridge with the least L*.
func (r *Ridges) best() (number int) {
	smallest := math.Inf(1)
	for k, f := range r.forecasters {
		hindsight := 0.0
		for j := range f.columns {
			hindsight += f.columns[j].Hindsight.Value()
		}
		if hindsight < smallest {
			number, smallest = k, hindsight
		}
	}
	return number
}

func (r *Ridges) observations() uint64 { return r.forecasters[0].columns[0].Rounds }

// Stats costs r logarithms and, with K ridges and k outputs, rkK multiply-adds. It allocates
// nothing.
func (r *Ridges) Stats() model.Stats {
	best := r.best()
	f := r.forecasters[best]
	s := f.stats(r.mixture == nil || r.mixture.certified())
	if r.mixture == nil {
		return s
	}
	for k, other := range r.forecasters {
		s.CertificateOK = s.CertificateOK && (k == best || other.consistent())
	}
	energy := 0.0
	for j := range f.columns {
		energy += f.columns[j].Energy.Value()
	}
	s.Loss = r.mixture.loss.Value()
	s.Regret += r.mixture.experts[best].gap.Value()
	slack := f.columns[0].tolerance(f.o.Forgetting) * (s.Loss + s.HindsightLoss + energy)
	s.CertificateOK = s.CertificateOK && math.Abs(s.Loss-s.HindsightLoss-s.Regret) <= slack
	if s.Certified {
		excess := r.mixture.excess()
		s.Certificate += excess
		s.RegretBound += excess
		s.CertificateOK = s.CertificateOK && s.Regret <= s.Certificate+slack
	}
	s.StateBytes = r.Size()
	return s
}

// Size is the memory of the state.
func (r *Ridges) Size() uint64 {
	return RidgesCost(r.features.Size(), r.forecasters[0].o, r.path, r.features.Bytes()).StateBytes
}

// Report is that of the forecaster with the least L*, with the regret of the mixture. Experts
// are the ridges, with the losses of their clipped predictions.
func (r *Ridges) Report(o model.ReportOptions) model.Report { return r.report(r.Stats(), o, true) }

func (r *Ridges) report(s model.Stats, o model.ReportOptions, projected bool) model.Report {
	best := r.best()
	report := r.forecasters[best].report(s, o, projected)
	if r.mixture == nil {
		return report
	}
	report.RegretUnpenalized += r.mixture.experts[best].gap.Value()
	for k := range report.Weights {
		if w := &report.Weights[k]; w.Input == model.NoInput {
			w.Value += r.path.middle(w.Output)
		}
	}
	for k, w := range r.AppendWeights(nil) {
		report.Experts = append(report.Experts, model.Expert{
			Name: ridgeName(r.path.Lambdas[k]),
			Loss: r.mixture.experts[k].cut.Value(), Weight: w, Awake: true,
		})
	}
	return report
}

// AppendWeights appends the weights of the ridges, none for a single ridge.
func (r *Ridges) AppendWeights(dst []float64) []float64 {
	if r.mixture == nil {
		return r.forecasters[0].AppendWeights(dst)
	}
	from := len(dst)
	dst = slices.Grow(dst, len(r.forecasters))[:from+len(r.forecasters)]
	r.mixture.writeWeights(dst[from:])
	mix.Normalize(dst[from:])
	return dst
}

// WeightNames are the names of the ridges, none for a single ridge.
func (r *Ridges) WeightNames() []string {
	if r.mixture == nil {
		return r.forecasters[0].WeightNames()
	}
	names := make([]string, len(r.path.Lambdas))
	for k, lambda := range r.path.Lambdas {
		names[k] = ridgeName(lambda)
	}
	return names
}

func ridgeName(lambda float64) string { return "lambda_" + strconv.FormatFloat(lambda, 'g', -1, 64) }

// AppendBinary appends the state of every forecaster and, of several, the mixture.
func (r *Ridges) AppendBinary(dst []byte) ([]byte, error) {
	v := codec.Appending(dst)
	r.visit(&v)
	return v.Appended()
}

// Restore replaces the state by one that AppendBinary wrote for the same spec. It refuses
// numbers that no stream of observations leads to.
func (r *Ridges) Restore(state []byte) error {
	fresh := NewRidges(r.features, r.forecasters[0].o, r.path)
	if err := codec.Read(state, fresh.visit); err != nil {
		return fmt.Errorf("awv: restore: %w", err)
	}
	r.forecasters, r.mixture = fresh.forecasters, fresh.mixture
	return nil
}

func (r *Ridges) visit(v *codec.Visitor) {
	for k, f := range r.forecasters {
		f.visit(v)
		if n, want := f.columns[0].Rounds, r.observations(); v.Reading() && n != want {
			v.Corrupt("ridge %d after %d rounds, the first after %d", k, n, want)
		}
	}
	if r.mixture == nil {
		return
	}
	if v.Reading() {
		r.mixture.n = r.observations()
	}
	r.mixture.visit(v)
}
