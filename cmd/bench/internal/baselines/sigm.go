package baselines

import (
	"math"
	"math/rand/v2"
)

// Sample is the kernel matrix of a sample with labels -1 and +1, for SGM and SIGM.
type Sample struct {
	matrix [][]float64
	labels []float64
}

// NewSample computes the kernel matrix. It takes n²/2 kernel values.
func NewSample(kernel Kernel, x [][]float64, y []float64) *Sample {
	s := &Sample{labels: y}
	for range x {
		s.matrix = append(s.matrix, make([]float64, len(x)))
	}
	for i := range x {
		for j := range i + 1 {
			s.matrix[i][j] = kernel.Value(x[i], x[j])
			s.matrix[j][i] = s.matrix[i][j]
		}
	}
	return s
}

// Epoch makes n steps of the stochastic gradient method with the hinge loss
// max(0, 1 − yf) from the function f = Σ α_i k(x_i,·), after the thesis of
// R. Camoriano, Algorithm 1 of section 6.2:
//
//	j uniform in 1..n,  α_j ← α_j + η_t y_j  if y_j f(x_j) ≤ 1
//
// (6.3) takes the left derivative, which is not 0 at y f = 1 for y = 1; the other
// side has probability 0. Step is η_t, with t counted from 1 over all epochs; done
// is the number of steps before. An epoch costs n² at most. One epoch is SGM, more
// are SIGM.
func (s *Sample) Epoch(alpha []float64, done int, step func(t int) float64, random *rand.Rand) {
	for t := range alpha {
		j := random.IntN(len(alpha))
		f := 0.0
		for i, a := range alpha {
			f += a * s.matrix[j][i]
		}
		if s.labels[j]*f <= 1 {
			alpha[j] += step(done+t+1) * s.labels[j]
		}
	}
}

// Constant is the step of SIGM with θ = 0: 1/√n.
func Constant(n int) func(int) float64 {
	return func(int) float64 { return 1 / math.Sqrt(float64(n)) }
}

// Decaying is the step of SIGM with θ = ½: (1/4)/√t.
func Decaying(t int) float64 { return 0.25 / math.Sqrt(float64(t)) }

// Hinge returns the mean hinge loss and the share of wrong signs of a function
// over the inputs x on other rows.
func Hinge(kernel Kernel, alpha []float64, x, rows [][]float64, y []float64) (loss, wrong float64) {
	n := float64(len(y))
	for t, row := range rows {
		f := 0.0
		for i, a := range alpha {
			if a != 0 {
				f += a * kernel.Value(x[i], row)
			}
		}
		loss += max(0, 1-y[t]*f) / n
		if y[t]*f <= 0 {
			wrong += 1 / n
		}
	}
	return loss, wrong
}
