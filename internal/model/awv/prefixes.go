package awv

import (
	"fmt"
	"math"

	"hindsight/internal/model"
	"hindsight/internal/model/codec"
	"hindsight/internal/model/compensated"
	"hindsight/internal/model/exponential"
	"hindsight/internal/model/ledger"
	"hindsight/internal/model/qr"
)

// Prefix is the forecaster of the first Size features, or of all features while the map has fewer.
type Prefix struct {
	Name string
	Size int
}

// MaxPrefixes bounds the prefixes of a forecaster.
const MaxPrefixes = 64

// prefixes mix the forecasters of the first m features for several m. The last forecaster has
// all features. The first m rows and columns of R and entries of u are the factor of the
// first m features, so that the forward solve v = R⁻ᵀz of a round has every forecaster:
//
//	ŷ_m = Σ_{i≤m} v_i u_i / (1 + Σ_{i≤m} v_i²),  ŷ = Σ_m w_m ŷ_m
//
// ML-Poly weighs the forecasters for each output apart. With the loss L*_m in hindsight and
// the certificate C_m of forecaster m, and the certificate E_m of the mixture against it,
//
//	loss ≤ loss_m + E_m ≤ L*_m + C_m + E_m
//
// for every m and every sequence. L* = L*_r of all r features is the smallest of the L*_m:
//
//	loss − L* ≤ min_m (C_m + E_m + L*_m − L*)
//
// Source: PKAWV, HAL 2019, §4, whose degree M this leaves open; Camoriano, thesis (Genoa, 2017),
// chapter 4, for the number of features as a regulariser; Gaillard, Stoltz and van Erven, COLT
// 2014, see package mix.
type prefixes struct {
	list []Prefix
	// parts has the accounts of every forecaster but the last, one an output.
	parts [][]account
	// outputs has the mixture of each output, gaps its loss minus the loss of the last forecaster.
	outputs []mixed
	gaps    []compensated.Sum
	// Scratch of Observe: v; ‖v‖² and v·u of every prefix; v·u of all features.
	v, squares, priors, whole []float64
}

func newPrefixes(r int, o Options) *prefixes {
	count := len(o.Prefixes)
	for k, p := range o.Prefixes {
		if p.Size < 1 || (k > 0 && p.Size <= o.Prefixes[k-1].Size) {
			panic(fmt.Sprintf("awv: prefixes %v", o.Prefixes))
		}
	}
	if count > MaxPrefixes || o.Prefixes[count-1].Size < r || o.Forgetting < 1 {
		panic(fmt.Sprintf("awv: %d prefixes up to %d of %d features with a forgetting factor of %g",
			count, o.Prefixes[count-1].Size, r, o.Forgetting))
	}
	p := &prefixes{
		list: o.Prefixes, parts: make([][]account, count-1), outputs: newMixed(count, o.Outputs), gaps: make([]compensated.Sum, o.Outputs),
		v: qr.NewRow(r), squares: make([]float64, count), priors: make([]float64, count*o.Outputs), whole: make([]float64, o.Outputs),
	}
	for k := range p.parts {
		p.parts[k] = make([]account, o.Outputs)
	}
	return p
}

func addPrefixes(c *model.Cost, r int, o Options) {
	count, n, k := uint64(len(o.Prefixes)), uint64(r), uint64(o.Outputs)
	if count == 0 {
		return
	}
	const accountNumbers = 14
	c.StateBytes += 8*(k*(count-1)*accountNumbers+n+count*(k+1)+3*k) + mixedBytes(len(o.Prefixes), o.Outputs)
	c.PredictFlops += n * (k + 2)
	c.ObserveFlops += n*(n+1)/2 + n*(2*k+1) + 20*count*k
}

func (f *Forecaster) accounts(k int) []account {
	if k == len(f.prefixes.parts) {
		return f.columns
	}
	return f.prefixes.parts[k]
}

// cumulate writes Σ v_i b_i over the features of every prefix, b_i every stride-th number of b.
func (p *prefixes) cumulate(dst, v, b []float64, stride int) {
	sum, i := 0.0, 0
	for k, prefix := range p.list {
		for ; i < min(prefix.Size, len(v)); i++ {
			sum += float64(v[i] * b[i*stride])
		}
		dst[k] = sum
	}
}

func (f *Forecaster) predictMixed(p *model.Prediction, v, x []float64) {
	var lengths, squares, advice, deviations, leverages [MaxPrefixes]float64
	mixed, count := f.prefixes, len(f.prefixes.list)
	f.features.Map(v, x)
	p.Resize(f.o.Outputs)
	mixed.cumulate(lengths[:], v, v, 1)
	f.factor.Solve(v, p.Values)
	mixed.cumulate(squares[:], v, v, 1)
	p.Leverage = 0
	for j := range p.Values {
		mixed.cumulate(advice[:], v, f.factor.Right()[j:], f.o.Outputs)
		for k := range count {
			advice[k] /= 1 + squares[k]
			whole := squares[k] + f.beyond(x, lengths[k], min(mixed.list[k].Size, len(v)))/f.o.Lambda
			deviations[k] = f.accounts(k)[j].deviation(1) * math.Sqrt(whole)
			leverages[k] = whole / (1 + whole)
		}
		mixed.outputs[j].combine(p, j, advice[:count], deviations[:count], leverages[:count])
	}
	known(p, f.columns[0].Rounds)
}

// solvePrefixes computes the prediction of every prefix for the row, before learn learns the row.
func (f *Forecaster) solvePrefixes() {
	p := f.prefixes
	copy(p.v, f.row)
	f.factor.Solve(p.v, p.whole)
	p.cumulate(p.squares, p.v, p.v, 1)
	for j := range p.outputs {
		p.cumulate(p.priors[j*len(p.list):], p.v, f.factor.Right()[j:], f.o.Outputs)
	}
}

// mixPrefixes learns the mixture and its outcome, given the outcome of the last forecaster.
func (f *Forecaster) mixPrefixes(o *model.Outcome, y []float64, weight float64) {
	var advice [MaxPrefixes]float64
	p, count, root := f.prefixes, len(f.prefixes.list), math.Sqrt(weight)
	o.Loss = 0
	for j, label := range y {
		all := o.Predictions[j]
		for k := range p.parts {
			prior, q := p.priors[j*count+k], p.squares[k]
			rotation := qr.Rotation{Gamma: 1 / math.Sqrt(1+q), Leverage: q / (1 + q)}
			residual := float64(rotation.Gamma * (float64(root*label) - prior))
			advice[k], _ = p.parts[k][j].add(label, prior, residual, weight, rotation)
		}
		advice[count-1] = all
		prediction, loss := p.outputs[j].learn(advice[:count], label, weight)
		p.gaps[j].Add(excess(prediction, all, label, weight))
		o.Predictions[j] = prediction
		o.Loss += loss
		o.Regret += p.gaps[j].Value()
	}
}

// grow accounts for feature number r, whose entry is u for an output.
func (p *prefixes) grow(r, output int, u float64) {
	for k := range p.parts {
		if p.list[k].Size > r {
			p.parts[k][output].grow(u)
		}
	}
}

// mixedStats turns the Stats of the forecaster of all features into the Stats of the mixture. It costs r
// logarithms and rk multiply-adds of k outputs, and allocates nothing.
func (f *Forecaster) mixedStats(s *model.Stats) {
	p, diagonal, right := f.prefixes, f.factor.Diagonal(), f.factor.Right()
	var logDets [MaxPrefixes]float64
	root, logDet, i := math.Sqrt(f.o.Lambda), 0.0, 0
	for k, prefix := range p.list {
		for ; i < min(prefix.Size, len(diagonal)); i++ {
			logDet += float64(2 * exponential.Log(diagonal[i]/root))
		}
		logDets[k] = logDet
	}
	tolerance, energy := f.columns[0].tolerance(1), 0.0
	s.Loss, s.Certificate, s.RegretBound = 0, 0, 0
	for j := range p.outputs {
		m, all := &p.outputs[j], &f.columns[j]
		s.Loss += m.loss.Value()
		s.Regret += p.gaps[j].Value()
		energy += all.Energy.Value()
		potential, explained := m.mixture.Potential(), compensated.Sum{}
		certificate, bound, i := math.Inf(1), math.Inf(1), 0
		above := p.above(right, f.o.Outputs, j)
		for k, prefix := range p.list {
			for ; i < min(prefix.Size, len(diagonal)); i++ {
				u := right[i*f.o.Outputs+j]
				explained.Add(float64(u * u))
			}
			a := &f.accounts(k)[j]
			s.CertificateOK = s.CertificateOK && a.Reconciles(explained.Value(), tolerance)
			alone := a.Certificate.Value()
			certificate = math.Min(certificate, alone+m.mixture.Certificate(potential, k)+above[k])
			alone = math.Max(alone, float64(a.Bound*a.Bound*logDets[k])+a.incurred.Value())
			bound = math.Min(bound, alone+m.mixture.Bound(k)+above[k])
		}
		s.Certificate += certificate
		s.RegretBound += bound
	}
	slack := tolerance * (s.Loss + s.HindsightLoss + energy)
	s.CertificateOK = s.CertificateOK && math.Abs(s.Loss-s.HindsightLoss-s.Regret) <= slack
	if !s.Certified {
		s.Certificate, s.RegretBound = 0, 0
		return
	}
	s.CertificateOK = s.CertificateOK && s.Regret <= s.Certificate+slack && s.Certificate <= s.RegretBound*(1+tolerance)+slack
	s.Certificate = math.Max(s.Certificate, s.Regret) // Rounding may reverse the order of equal sums.
	s.RegretBound = math.Max(s.RegretBound, s.Certificate)
}

// above is L*_m − L* = Σ_{i>m} u_i² of each prefix of an output, exact for a large ridge too.
func (p *prefixes) above(right []float64, outputs, output int) (above [MaxPrefixes]float64) {
	var sum compensated.Sum
	end := len(right) / outputs
	for k := len(p.list) - 1; k >= 0; k-- {
		from := min(p.list[k].Size, end)
		for ; end > from; end-- {
			u := right[(end-1)*outputs+output]
			sum.Add(float64(u * u))
		}
		above[k] = sum.Value()
	}
	return above
}

// mixedReport adds the prefixes as experts, and adds to the regret the loss of the mixture minus
// the loss of the forecaster of all features.
func (f *Forecaster) mixedReport(r *model.Report) {
	for j := range f.prefixes.gaps {
		r.RegretUnpenalized += f.prefixes.gaps[j].Value()
	}
	for k, w := range f.AppendWeights(nil) {
		e := model.Expert{Name: f.prefixes.list[k].Name, Weight: w, Awake: true}
		for _, a := range f.accounts(k) {
			e.Loss += a.Loss.Value()
		}
		r.Experts = append(r.Experts, e)
	}
}

// AppendWeights appends the mean weights of the prefixes over the outputs, none without prefixes.
func (f *Forecaster) AppendWeights(dst []float64) []float64 {
	if f.prefixes == nil {
		return dst
	}
	return appendMean(dst, f.prefixes.outputs)
}

// WeightNames are the names of the prefixes.
func (f *Forecaster) WeightNames() []string {
	if f.prefixes == nil {
		return nil
	}
	names := make([]string, len(f.prefixes.list))
	for k, p := range f.prefixes.list {
		names[k] = p.Name
	}
	return names
}

func (p *prefixes) visit(v *codec.Visitor, first *account) {
	for _, part := range p.parts {
		for j := range part {
			part[j].visit(v, first)
		}
	}
	for j := range p.outputs {
		p.outputs[j].visit(v)
		v.Within(ledger.MaxSum, &p.gaps[j].High, &p.gaps[j].Low)
	}
}
