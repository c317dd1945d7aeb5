package raker

import (
	"math"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/lapack/lapack64"

	"hindsight/internal/model"
	"hindsight/internal/model/codec"
	"hindsight/internal/model/loops"
)

// moments are the sufficient statistics of every kernel under the squared loss:
// C = Σ w z zᵀ and b = Σ w y z.
//
// The comparator of the regret is the best fixed function of the best kernel,
//
//	L* = min_p min_θ Σ w (y − θ·z_p)² + λ‖θ‖²
//
// with the penalty once, as everywhere in this module. The paper's loss
// carries λ‖θ‖² in every round; that comparator pays more and is the easier
// one, so the regret reported here is no smaller, as long as the weights sum
// to 1 or more. The learner's own loss is the plain Σ w (y − ŷ)².
//
// One pass over C takes loops.Rows rounds in, which have waited for it. That
// gives the bits of one pass a round. So what waits is no state of its own: a
// state that is written has it in C.
type moments struct {
	kernels []kernelMoments
	// b holds the b of all kernels, one after the other.
	b []float64
	// rows are the features of the rounds that wait, of all kernels, weights
	// their w.
	rows    []float64
	weights [loops.Rows]float64
	waiting int
}

// kernelMoments are those of one kernel.
type kernelMoments struct {
	// packed is C by rows of its upper triangle, without what waits.
	packed []float64
	b      []float64
	// offset says where the kernel's features start in a row.
	offset int
}

// newMoments are those of no observation. The features of kernel p are
// offsets[p] to offsets[p+1].
func newMoments(offsets []int) *moments {
	kernels := len(offsets) - 1
	total := offsets[kernels]
	m := &moments{
		kernels: make([]kernelMoments, kernels),
		b:       make([]float64, total), rows: make([]float64, loops.Rows*total),
	}
	for p := range m.kernels {
		from, to := offsets[p], offsets[p+1]
		m.kernels[p] = kernelMoments{packed: make([]float64, (to-from)*(to-from+1)/2), b: m.b[from:to], offset: from}
	}
	return m
}

// add takes one observation in, at a copy of its features. Every loops.Rows-th
// time it costs loops.Rows r²/2 multiply-adds a kernel, in one pass over C.
func (m *moments) add(z []float64, y, weight float64) {
	loops.Axpy(m.b, z, float64(weight*y))
	copy(m.rows[m.waiting*len(z):], z)
	m.weights[m.waiting] = weight
	if m.waiting++; m.waiting < loops.Rows {
		return
	}
	for _, k := range m.kernels {
		loops.AddSquares(k.packed, m.rows[k.offset:], len(m.b), len(k.b), m.weights[:])
	}
	m.waiting = 0
}

// settle adds the rounds that wait to a copy of C_ij of a kernel, for the j from
// some on. It leaves m as it is, since several may read it at a time.
func (m *moments) settle(copied []float64, k *kernelMoments, i, from int) {
	for n, w := range m.weights[:m.waiting] {
		z := m.rows[n*len(m.b)+k.offset:][:len(k.b)]
		loops.Axpy(copied, z[from:], float64(w*z[i]))
	}
}

// appendBinary appends C, with the rounds that wait, and b of every kernel.
func (m *moments) appendBinary(dst []byte) []byte {
	var room [64]float64
	for p := range m.kernels {
		k := &m.kernels[p]
		rest := k.packed
		for i := range k.b {
			for from := i; from < len(k.b); from += len(room) {
				piece := room[:min(len(room), len(k.b)-from)]
				rest = rest[copy(piece, rest):]
				m.settle(piece, k, i, from)
				dst = codec.AppendFloats(dst, piece...)
			}
		}
		dst = codec.AppendFloats(dst, k.b...)
	}
	return dst
}

// solution is the best function of one kernel.
type solution struct {
	// loss is L*, penalty the λ‖θ̂‖² in it.
	loss, penalty float64
	// ridge is the λ that was used, factor the Cholesky factor of C+λI. It is
	// without data when C has none.
	ridge  float64
	factor blas64.Triangular
}

// ridgeFloor keeps C+λI positive definite in floating point, relative to
// tr C: features of a smooth kernel are collinear to rounding. It matters when
// λ is below a millionth of a millionth of the summed weights; L* then
// penalizes by the floor.
const ridgeFloor = 1e-12

// regularized is C+λI of a kernel as a dense matrix, with the λ that it took.
func (m *moments) regularized(k *kernelMoments, lambda float64) (blas64.Symmetric, float64) {
	r := len(k.b)
	full := blas64.Symmetric{N: r, Stride: r, Data: make([]float64, r*r), Uplo: blas.Upper}
	rest, trace := k.packed, 0.0
	for i := range r {
		row := full.Data[i*r+i : (i+1)*r]
		rest = rest[copy(row, rest):]
		m.settle(row, k, i, i)
		trace += row[0]
	}
	lambda = math.Max(lambda, ridgeFloor*trace)
	if lambda == 0 {
		lambda = 1 // Nothing was seen, or only z = 0: any ridge gives θ̂ = 0.
	}
	for i := range r {
		full.Data[i*r+i] += lambda
	}
	return full, lambda
}

// solve finds θ̂ = (C+λI)⁻¹ b and L* = Σ w y² − b·θ̂, at r³/3 multiply-adds
// and a scratch of r² numbers. It answers NaN when C is no matrix of moments:
// corrupt state.
func (m *moments) solve(k *kernelMoments, lambda, energy float64, pause func()) solution {
	full, lambda := m.regularized(k, lambda)
	factor, ok := cholesky(full, pause)
	if !ok {
		return solution{loss: math.NaN(), penalty: math.NaN(), ridge: lambda}
	}
	b := blas64.Vector{N: len(k.b), Inc: 1, Data: k.b}
	theta := blas64.Vector{N: len(k.b), Inc: 1, Data: append([]float64(nil), k.b...)}
	lapack64.Potrs(factor, blas64.General{Rows: theta.N, Cols: 1, Stride: 1, Data: theta.Data})
	norm := blas64.Nrm2(theta)
	return solution{
		// The difference of two nearly equal sums may round below 0.
		loss:    math.Max(0, energy-blas64.Dot(b, theta)),
		penalty: lambda * norm * norm,
		ridge:   lambda, factor: factor,
	}
}

// effectiveDimension is r − λ tr (C+λI)⁻¹, at r³/6 multiply-adds.
func (s *solution) effectiveDimension(pause func()) float64 {
	if s.factor.N == 0 {
		return math.NaN()
	}
	return math.Max(0, float64(s.factor.N)-s.ridge*traceInverse(s.factor, pause))
}

// tracked are the moments of the kernels, none unless regret is tracked.
func (c *core) tracked() []kernelMoments {
	if c.hindsight == nil {
		return nil
	}
	return c.hindsight.kernels
}

// best solves for the best fixed function of the best kernel. It keeps one
// factor beside the one that it works on.
func (c *core) best(pause func()) solution {
	energy := c.ledger.energy.Value()
	best := solution{loss: math.Inf(1)}
	for p := range c.hindsight.kernels {
		s := c.hindsight.solve(&c.hindsight.kernels[p], c.options.Lambda, energy, pause)
		if s.loss < best.loss || math.IsNaN(s.loss) {
			best = s
		}
	}
	return best
}

// reportFlops are the multiply-adds of best.
func (c *core) reportFlops() uint64 {
	flops := uint64(0)
	for _, k := range c.tracked() {
		r := uint64(len(k.b))
		flops += r * r * r / 3
	}
	return flops
}

// Report solves for the best kernel in hindsight, at r³/3 multiply-adds a
// kernel of r features, and for the effective dimension of that kernel, when
// asked, at r³/6. Without TrackRegret all but CertificateOK is NaN.
func (c *core) Report(o model.ReportOptions) model.Report {
	nan := math.NaN()
	r := model.Report{
		HindsightLoss: nan, Regret: nan, RegretUnpenalized: nan, EffectiveDimension: nan,
		CertificateOK: c.sumsOK(),
	}
	if c.hindsight == nil {
		return r
	}
	best, loss, energy := c.best(o.Pause), c.ledger.loss.Value(), c.ledger.energy.Value()
	r.HindsightLoss, r.Regret = best.loss, loss-best.loss
	r.RegretUnpenalized = loss - (best.loss - best.penalty)
	// θ = 0 is a candidate, so L* ≤ Σ w y²; corrupt moments break that or
	// leave it NaN.
	r.CertificateOK = r.CertificateOK && best.loss <= energy*(1+1e-8)
	if o.EffectiveDimension {
		r.EffectiveDimension = best.effectiveDimension(o.Pause)
	}
	return r
}
