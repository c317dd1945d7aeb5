package baselines

import (
	"math"
	"math/rand/v2"
)

// Sample is a sample of labels -1 and +1 for SGM and SIGM, with the kernel matrix
// of its inputs.
type Sample struct {
	kernel Kernel
	x      [][]float64
	y      []float64
	matrix [][]float64
}

// NewSample computes the kernel matrix: n²/2 kernel values.
func NewSample(kernel Kernel, x [][]float64, y []float64) *Sample {
	s := &Sample{kernel: kernel, x: x, y: y}
	for i := range x {
		s.matrix = append(s.matrix, make([]float64, len(x)))
		for j := range i + 1 {
			s.matrix[i][j] = kernel.Value(x[i], x[j])
			s.matrix[j][i] = s.matrix[i][j]
		}
	}
	return s
}

// Pass makes n steps of the stochastic gradient method with the hinge loss
// max(0, 1 − yf) from the function f = Σ α_i k(x_i,·): the thesis of R. Camoriano,
// Algorithm 1 of section 6.2,
//
//	j uniform in 1..n,   α_j ← α_j + η_t y_j   if y_j f(x_j) < 1
//
// t counts the steps of all passes from 1, and done is the number of those before.
// One pass is SGM, more are SIGM. A pass costs n².
func (s *Sample) Pass(alpha Fit, done int, step func(t int) float64, random *rand.Rand) {
	for t := range alpha {
		j := random.IntN(len(alpha))
		f := 0.0
		for i, a := range alpha {
			f += a * s.matrix[j][i]
		}
		if s.y[j]*f < 1 {
			alpha[j] += step(done+t+1) * s.y[j]
		}
	}
}

// ConstantStep is the step of SIGM with θ = 0: η_t = 1/√n.
func ConstantStep(n int) func(t int) float64 {
	return func(int) float64 { return 1 / math.Sqrt(float64(n)) }
}

// DecayingStep is the step of SIGM with θ = ½: η_t = (1/4)/√t.
func DecayingStep(t int) float64 { return 0.25 / math.Sqrt(float64(t)) }

// Verdict is how a function did on rows: its mean hinge loss, and the share of the
// rows whose sign it has wrong. 0 is wrong.
type Verdict struct{ Hinge, Errors float64 }

// Check tests functions over the inputs of the sample on rows. It costs one kernel
// value for every input and row.
func (s *Sample) Check(rows [][]float64, y []float64, fits ...Fit) []Verdict {
	verdicts, values := make([]Verdict, len(fits)), make([]float64, len(fits))
	share := 1 / float64(len(y))
	for t, row := range rows {
		clear(values)
		for i, x := range s.x {
			k := s.kernel.Value(x, row)
			for f, fit := range fits {
				values[f] += fit[i] * k
			}
		}
		for f, v := range values {
			verdicts[f].Hinge += max(0, 1-y[t]*v) * share
			if !(y[t]*v > 0) {
				verdicts[f].Errors += share
			}
		}
	}
	return verdicts
}
