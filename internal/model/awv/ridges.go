package awv

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"sync"

	"hindsight/internal/model"
	"hindsight/internal/model/codec"
	"hindsight/internal/model/compensated"
	"hindsight/internal/model/feature"
	"hindsight/internal/model/ledger"
	"hindsight/internal/model/qr"
)

// Ridges mixes forecasters of several ridges λ_k over the same features by ML-Poly, for each output
// of its own. Each forecaster has the bits of the plain one of its ridge. A single ridge has no
// mixture.
//
// L* is the smallest of the L*_k, and the best function in hindsight is the function of its ridge. With the
// certificate C_k of a forecaster, and the certificate E_k of the mixture against it,
//
//	loss − L* ≤ min_k (C_k + E_k + L*_k − L*)
//
// for every sequence while nothing is forgotten.
//
// Source: Camoriano, thesis (Genoa, 2017), chapter 4, for the path of ridges; Gaillard, Stoltz and
// van Erven, COLT 2014, see package mix.
type Ridges struct {
	features    feature.Map
	lambdas     []float64
	forecasters []*Forecaster
	// outputs has the mixture of each output, nil for one ridge. gaps[k] is its loss minus forecaster k's.
	outputs []mixed
	gaps    []compensated.Sum
	// Scratch.
	outcomes []model.Outcome
	advice   []float64
	rooms    sync.Pool
}

// NewRidges returns a learner without observations. Without lambdas its only ridge is o.Lambda. It
// panics where New does, and if several ridges forget or mix prefixes.
func NewRidges(features feature.Map, o Options, lambdas []float64) *Ridges {
	o, lambdas = o.completed(), completedLambdas(o, lambdas)
	if len(lambdas) > MaxPrefixes || len(lambdas) > 1 && (o.Forgetting < 1 || len(o.Prefixes) > 0) {
		panic(fmt.Sprintf("awv: %d ridges with %d prefixes and a forgetting factor of %g", len(lambdas), len(o.Prefixes), o.Forgetting))
	}
	r := &Ridges{features: features, lambdas: lambdas}
	for _, lambda := range lambdas {
		o.Lambda = lambda
		r.forecasters = append(r.forecasters, New(features, o))
	}
	if count := len(lambdas); count > 1 {
		r.outputs, r.gaps = newMixed(count, o.Outputs), make([]compensated.Sum, count)
		r.outcomes, r.advice = make([]model.Outcome, count), make([]float64, count)
	}
	return r
}

func completedLambdas(o Options, lambdas []float64) []float64 {
	if len(lambdas) == 0 {
		return []float64{o.Lambda}
	}
	return lambdas
}

// RidgesCost is the cost of a learner with r features over a map of mapBytes.
func RidgesCost(r int, o Options, lambdas []float64, mapBytes uint64) model.Cost {
	o, lambdas = o.completed(), completedLambdas(o, lambdas)
	c := Cost(r, o, 0)
	count, k := uint64(len(lambdas)), uint64(o.Outputs)
	c.StateBytes *= count
	c.PredictFlops *= count
	c.ObserveFlops *= count
	if count > 1 {
		c.StateBytes += mixedBytes(len(lambdas), o.Outputs) + 8*count*(k+3)
		c.PredictFlops += 8 * count * k
		c.ObserveFlops += 16 * count * k
	}
	c.StateBytes += mapBytes
	return c
}

type room struct {
	features, solved, advice, deviations, leverages []float64
	predictions                                     []model.Prediction
}

func (r *Ridges) take(features int) *room {
	p, ok := r.rooms.Get().(*room)
	if !ok {
		count := len(r.forecasters)
		p = &room{
			advice: make([]float64, count), deviations: make([]float64, count), leverages: make([]float64, count),
			predictions: make([]model.Prediction, count),
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
	if r.outputs == nil {
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
		alone := &room.predictions[k]
		alone.Resize(outputs)
		f.answer(alone, f.factor.Solve(room.solved, alone.Values), left)
		room.leverages[k] = alone.Leverage
	}
	p.Resize(outputs)
	p.Leverage = 0
	for j := range p.Values {
		for k := range room.predictions {
			room.advice[k], room.deviations[k] = room.predictions[k].Values[j], room.predictions[k].StandardErrors[:outputs][j]
		}
		r.outputs[j].combine(p, j, room.advice, room.deviations, room.leverages)
	}
	known(p, r.observations())
	return nil
}

// Observe learns (x, y) in every forecaster: one feature map, and a rotation pass each. It
// allocates nothing once the outcome has capacity.
func (r *Ridges) Observe(o *model.Outcome, x, y []float64, weight float64) error {
	if err := r.Check(x, y, weight); err != nil {
		return err
	}
	r.features.Map(r.row(), x)
	r.addTrace(x, weight)
	r.learn(o, y, weight)
	return nil
}

func (r *Ridges) row() []float64 { return r.forecasters[0].row[:r.features.Size()] }

func (r *Ridges) addTrace(x []float64, weight float64) {
	for _, f := range r.forecasters {
		f.addTrace(x, weight)
	}
}

func (r *Ridges) learn(o *model.Outcome, y []float64, weight float64) {
	if r.outputs == nil {
		r.forecasters[0].learn(o, y, weight)
		return
	}
	for k, f := range slices.Backward(r.forecasters) { // The first holds the features, and spoils them.
		copy(f.row, r.row())
		f.learn(&r.outcomes[k], y, weight)
	}
	r.mix(o, y, weight)
}

func (r *Ridges) mix(o *model.Outcome, y []float64, weight float64) {
	o.Resize(len(y))
	o.Loss = 0
	for j, label := range y {
		for k := range r.outcomes {
			r.advice[k] = r.outcomes[k].Predictions[j]
		}
		prediction, loss := r.outputs[j].learn(r.advice, label, weight)
		for k, f := range r.advice {
			r.gaps[k].Add(excess(prediction, f, label, weight))
		}
		o.Predictions[j] = prediction
		o.Loss += loss
	}
	best := r.best()
	o.Regret = r.outcomes[best].Regret + r.gaps[best].Value()
}

// grow adds a feature to every forecaster, with its corner in each: see Forecaster.grow.
func (r *Ridges) grow(a, corners, b []float64) {
	for k, f := range r.forecasters {
		f.grow(slices.Clone(a), corners[k], slices.Clone(b))
	}
}

// AddOutput adds a last output whose labels so far were all 0: see Forecaster.AddOutput. No
// forecaster had a gain over another.
func (r *Ridges) AddOutput() {
	for _, f := range r.forecasters {
		f.AddOutput()
	}
	if r.outputs != nil {
		late := newMixed(len(r.lambdas), 1)
		late[0].mixture.Skip(r.observations())
		r.outputs = append(r.outputs, late...)
	}
}

// best is the first ridge with the smallest L*.
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

// Stats costs rK logarithms and rkK multiply-adds of k outputs and K ridges. It allocates nothing.
func (r *Ridges) Stats() model.Stats {
	best := r.best()
	s := r.forecasters[best].Stats()
	if r.outputs == nil {
		return s
	}
	s.Loss = 0
	for j := range r.outputs {
		s.Loss += r.outputs[j].loss.Value()
	}
	s.Regret += r.gaps[best].Value()
	energy := 0.0
	for j := range r.forecasters[best].columns {
		energy += r.forecasters[best].columns[j].Energy.Value()
	}
	slack := r.forecasters[best].columns[0].tolerance(1) * (s.Loss + s.HindsightLoss + energy)
	var certificates, bounds [MaxPrefixes]float64 // Of the mixtures, over the outputs.
	for j := range r.outputs {
		m := r.outputs[j].mixture
		potential := m.Potential()
		for k := range r.forecasters {
			certificates[k] += m.Certificate(potential, k)
			bounds[k] += m.Bound(k)
		}
	}
	s.Certificate, s.RegretBound = math.Inf(1), math.Inf(1)
	for k, f := range r.forecasters {
		alone := f.Stats()
		// L*_k − L*, which differences of two L* do not have for a large ridge.
		above := math.Max(0, s.Regret-r.gaps[k].Value()-alone.Regret)
		certificate := alone.Certificate + above + certificates[k]
		bound := math.Max(alone.RegretBound, alone.Certificate) + above + bounds[k]
		s.Certificate, s.RegretBound = math.Min(s.Certificate, certificate), math.Min(s.RegretBound, bound)
		s.CertificateOK = s.CertificateOK && alone.CertificateOK
	}
	s.CertificateOK = s.CertificateOK && math.Abs(s.Loss-s.HindsightLoss-s.Regret) <= slack &&
		s.Regret <= s.Certificate+slack && s.Certificate <= s.RegretBound+slack
	s.Certificate = math.Max(s.Certificate, s.Regret) // Rounding may reverse the order of equal sums.
	s.RegretBound = math.Max(s.RegretBound, s.Certificate)
	s.StateBytes = r.Size()
	return s
}

// Size is the memory of the state.
func (r *Ridges) Size() uint64 {
	return RidgesCost(r.features.Size(), r.forecasters[0].o, r.lambdas, r.features.Bytes()).StateBytes
}

// Report is the report of the smallest L*, with the regret of the mixture. Experts are the ridges.
func (r *Ridges) Report(o model.ReportOptions) model.Report { return r.report(r.Stats(), o, true) }

func (r *Ridges) report(s model.Stats, o model.ReportOptions, projected bool) model.Report {
	best := r.best()
	report := r.forecasters[best].report(s, o, projected)
	if r.outputs == nil {
		return report
	}
	report.RegretUnpenalized += r.gaps[best].Value()
	for k, w := range r.AppendWeights(nil) {
		e := model.Expert{Name: ridgeName(r.lambdas[k]), Weight: w, Awake: true}
		for j := range r.forecasters[k].columns {
			e.Loss += r.forecasters[k].columns[j].Loss.Value()
		}
		report.Experts = append(report.Experts, e)
	}
	return report
}

// AppendWeights appends the weights of the ridges, none for a single ridge.
func (r *Ridges) AppendWeights(dst []float64) []float64 {
	if r.outputs == nil {
		return r.forecasters[0].AppendWeights(dst)
	}
	return appendMean(dst, r.outputs)
}

// WeightNames are the names of the ridges, none for a single ridge.
func (r *Ridges) WeightNames() []string {
	if r.outputs == nil {
		return r.forecasters[0].WeightNames()
	}
	names := make([]string, len(r.lambdas))
	for k, lambda := range r.lambdas {
		names[k] = ridgeName(lambda)
	}
	return names
}

func ridgeName(lambda float64) string { return "lambda_" + strconv.FormatFloat(lambda, 'g', -1, 64) }

// Visit visits the state of every forecaster and, of several, the mixture.
func (r *Ridges) Visit(v *codec.Visitor) {
	for k, f := range r.forecasters {
		f.Visit(v)
		if n, want := f.columns[0].Rounds, r.observations(); v.Reading() && n != want {
			v.Corrupt("ridge %d after %d rounds, the first after %d", k, n, want)
		}
	}
	for j := range r.outputs {
		r.outputs[j].visit(v)
	}
	for k := range r.gaps {
		v.Within(ledger.MaxSum, &r.gaps[k].High, &r.gaps[k].Low)
	}
}
