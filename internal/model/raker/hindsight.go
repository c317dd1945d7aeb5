package raker

import (
	"math"
	"slices"

	"hindsight/internal/model"
	"hindsight/internal/model/codec"
	"hindsight/internal/model/ledger"
	"hindsight/internal/model/loops"
	"hindsight/internal/model/qr"
)

// moments are the sufficient statistics of every kernel under the squared loss:
// C = Σ w z zᵀ, which all outputs share, and b = Σ w y z of each output.
//
// The comparator of the regret is the best fixed function of the best kernel of each
// output, summed over the outputs,
//
//	L* = min_p min_θ Σ w (y − θ·z_p)² + λ‖θ‖²
//
// The paper's loss carries λ‖θ‖² in every round. That comparator pays more and is the
// easier one: the regret reported here is no smaller if the weights sum to 1 or more. The
// learner's own loss is the plain Σ w (y − ŷ)².
//
// One pass over C adds loops.Rows rounds, with the bits of one pass a round. States hold C of all rounds.
type moments struct {
	kernels []kernelMoments
	// b holds, for each output, the b of all kernels, one after the other.
	b [][]float64
	// total is the number of features of all kernels.
	total int
	// rows are the features of the waiting rounds, weights their w.
	rows    []float64
	weights [loops.Rows]float64
	waiting int
}

type kernelMoments struct {
	// packed is the upper triangle of C by rows, without the waiting rounds.
	packed []float64
	// offset is the place of the first feature in a row, size their number.
	offset, size int
}

// newMoments are 0. The features of kernel p are offsets[p] to offsets[p+1].
func newMoments(offsets []int, outputs int) *moments {
	kernels := len(offsets) - 1
	total := offsets[kernels]
	m := &moments{
		kernels: make([]kernelMoments, kernels), b: make([][]float64, outputs),
		rows: make([]float64, loops.Rows*total), total: total,
	}
	for j := range m.b {
		m.b[j] = make([]float64, total)
	}
	for p := range m.kernels {
		r := offsets[p+1] - offsets[p]
		m.kernels[p] = kernelMoments{packed: make([]float64, r*(r+1)/2), offset: offsets[p], size: r}
	}
	return m
}

func (m *moments) right(k *kernelMoments, output int) []float64 {
	return m.b[output][k.offset : k.offset+k.size]
}

// add adds an observation. It copies the features; every loops.Rows-th time it costs
// loops.Rows r²/2 multiply-adds a kernel, in one pass over C.
func (m *moments) add(z, labels []float64, weight float64) {
	for j, y := range labels {
		loops.Axpy(m.b[j], z, float64(weight*y))
	}
	copy(m.rows[m.waiting*len(z):], z)
	m.weights[m.waiting] = weight
	if m.waiting++; m.waiting < loops.Rows {
		return
	}
	for _, k := range m.kernels {
		loops.AddSquares(k.packed, m.rows[k.offset:], m.total, k.size, m.weights[:])
	}
	m.waiting = 0
}

// addWaiting adds the waiting rounds to a copy of C_ij of a kernel, j ≥ from. It only reads m.
func (m *moments) addWaiting(copied []float64, k *kernelMoments, i, from int) {
	for n, w := range m.weights[:m.waiting] {
		z := m.rows[n*m.total+k.offset:][:k.size]
		loops.Axpy(copied, z[from:], float64(w*z[i]))
	}
}

// visit visits C, with the waiting rounds, and the b of every output, kernel after kernel.
// Reading wants moments without waiting rounds.
func (m *moments) visit(v *codec.Visitor) {
	var room [64]float64
	for p := range m.kernels {
		k := &m.kernels[p]
		if m.waiting == 0 {
			v.FloatsWithin(ledger.MaxSum, k.packed)
		} else {
			rest := k.packed
			for i := range k.size {
				for from := i; from < k.size; from += len(room) {
					piece := room[:min(len(room), k.size-from)]
					rest = rest[copy(piece, rest):]
					m.addWaiting(piece, k, i, from)
					v.Floats(piece)
				}
			}
		}
		for j := range m.b {
			v.FloatsWithin(ledger.MaxSum, m.right(k, j))
		}
	}
}

// solution is the best function of one kernel for each output.
type solution struct {
	// losses are L*, penalties the λ‖θ̂‖² in them, norms the ‖θ̂‖², kernels their kernels.
	losses, penalties, norms []float64
	kernels                  []int
	// ridge is the λ that was used, factor the factor of C+λI, nil if C has none.
	ridge  float64
	factor *qr.Factor
}

// ridgeFloor keeps C+λI positive definite in floating point, relative to
// tr C: features of a smooth kernel are collinear to rounding. It matters when
// λ is below 1e-12 of the summed weights; L* then penalizes by the floor.
const ridgeFloor = 1e-12

// gram writes the upper triangle of C of a kernel, with the waiting rounds, packed by rows.
func (m *moments) gram(dst []float64, k *kernelMoments) {
	copy(dst, k.packed)
	for i := range k.size {
		m.addWaiting(dst[:k.size-i], k, i, i)
		dst = dst[k.size-i:]
	}
}

// regularize adds λI to the upper triangle of C of order size, and returns the λ used.
func regularize(gram []float64, size int, lambda float64) float64 {
	diagonal := func(yield func(entry *float64) bool) {
		rest := gram
		for i := range size {
			if !yield(&rest[0]) {
				return
			}
			rest = rest[size-i:]
		}
	}
	trace := 0.0
	for entry := range diagonal {
		trace += *entry
	}
	lambda = math.Max(lambda, ridgeFloor*trace)
	if lambda == 0 {
		lambda = 1 // Before the first z ≠ 0: any ridge gives θ̂ = 0.
	}
	for entry := range diagonal {
		*entry += lambda
	}
	return lambda
}

// solve is solve for a kernel over all rounds, given the Σ w y² of each output.
func (m *moments) solve(k *kernelMoments, lambda float64, energies []float64, pause func()) solution {
	rights := make([][]float64, len(energies))
	for j := range rights {
		rights[j] = m.right(k, j)
	}
	gram := make([]float64, len(k.packed))
	m.gram(gram, k)
	return solve(gram, rights, lambda, energies, pause)
}

// solve finds θ̂ = (C+λI)⁻¹ b and L* = Σ w y² − b·θ̂ of each output, given C, which it
// overwrites, and b and Σ w y² of each output, at r³/6 multiply-adds. It answers NaN for a corrupt C.
func solve(gram []float64, rights [][]float64, lambda float64, energies []float64, pause func()) solution {
	size := len(rights[0])
	lambda = regularize(gram, size, lambda)
	outputs := len(energies)
	s := solution{losses: make([]float64, outputs), penalties: make([]float64, outputs), norms: make([]float64, outputs), ridge: lambda}
	factor, err := qr.Cholesky(size, outputs, gram, pause)
	if err == nil {
		s.factor = factor
	}
	theta := make([]float64, size)
	for j, energy := range energies {
		if err != nil {
			s.losses[j], s.penalties[j], s.norms[j] = math.NaN(), math.NaN(), math.NaN()
			continue
		}
		copy(theta, rights[j])
		// The difference of two nearly equal sums may round below 0.
		s.losses[j] = math.Max(0, energy-factor.SetLabels(theta, j))
		factor.Weights(theta, j)
		s.norms[j] = loops.Dot(theta, theta)
		s.penalties[j] = lambda * s.norms[j]
	}
	return s
}

// effectiveDimension is r − λ tr (C+λI)⁻¹, at r³/6 multiply-adds.
func (s *solution) effectiveDimension(pause func()) float64 {
	if s.factor == nil {
		return math.NaN()
	}
	return math.Max(0, float64(s.factor.Order())-s.ridge*s.factor.InverseNorm2(pause))
}

// tracked are the moments of the kernels, nil unless regret is tracked.
func (r *Raker) tracked() []kernelMoments {
	if r.hindsight == nil {
		return nil
	}
	return r.hindsight.kernels
}

// best solves for the best fixed function of the best kernel of each output. Ridge and
// factor of the solution belong to the kernel with the smallest sum of losses.
func (r *Raker) best(pause func()) solution {
	energies := make([]float64, len(r.accounts))
	for j := range energies {
		energies[j] = r.accounts[j].Energy.Value()
	}
	var best solution
	smallest := math.Inf(1)
	for p := range r.hindsight.kernels {
		s := r.hindsight.solve(&r.hindsight.kernels[p], r.options.Lambda, energies, pause)
		if p == 0 {
			best.losses, best.penalties, best.norms = slices.Clone(s.losses), slices.Clone(s.penalties), slices.Clone(s.norms)
			best.kernels = make([]int, len(s.losses))
		}
		sum := 0.0
		for j, loss := range s.losses {
			sum += loss
			if loss < best.losses[j] || math.IsNaN(loss) {
				best.losses[j], best.penalties[j], best.norms[j], best.kernels[j] = loss, s.penalties[j], s.norms[j], p
			}
		}
		if sum < smallest || math.IsNaN(sum) {
			smallest, best.ridge, best.factor = sum, s.ridge, s.factor
		}
	}
	return best
}

func (r *Raker) reportFlops() uint64 {
	flops := uint64(0)
	for _, k := range r.tracked() {
		n := uint64(k.size)
		flops += n * n * n / 3
		if r.grid != nil {
			flops += marked * (marked + 1) / 2 * n * n * n / 6
		}
	}
	return flops
}

// Report solves for the best kernel in hindsight of each output, at r³/6 multiply-adds
// a kernel of r features, and if asked for the effective dimension of the kernel with the
// least sum of losses, at r³/6. Without TrackRegret all but CertificateOK is NaN.
func (r *Raker) Report(o model.ReportOptions) model.Report {
	out := ledger.Report(r.Stats())
	if r.hindsight == nil {
		return out
	}
	best, loss, smallest, penalty := r.best(o.Pause), 0.0, 0.0, 0.0
	for j := range r.accounts {
		l := &r.accounts[j]
		loss += l.Loss.Value()
		smallest += best.losses[j]
		penalty += best.penalties[j]
		// θ = 0 is a candidate, so L* ≤ Σ w y²; corrupt moments break that or
		// leave it NaN.
		out.CertificateOK = out.CertificateOK && best.losses[j] <= l.Energy.Value()*(1+1e-8)
	}
	out.HindsightLoss, out.Regret = smallest, loss-smallest
	out.RegretUnpenalized = loss - (smallest - penalty)
	if r.options.certifies() && !r.cut {
		out.Certificate = r.certificate(&best)
		out.CertificateOK = out.CertificateOK && r.covers(out.Certificate, out.Regret, loss)
	}
	out.SwitchingRegret = r.switchingRegret(loss, o.Pause)
	if o.EffectiveDimension {
		out.EffectiveDimension = 0 // C is 0 before the first round.
		if r.accounts[0].Rounds > 0 {
			out.EffectiveDimension = best.effectiveDimension(o.Pause)
		}
	}
	return out
}
