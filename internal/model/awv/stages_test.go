package awv_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"hindsight/internal/model"
	"hindsight/internal/model/awv"
	"hindsight/internal/model/feature"
	"hindsight/internal/model/modeltest"
)

// stages is a learner of two stages with so many frequencies.
func stages(o awv.StagesOptions, frequencies int) *awv.Stages {
	return awv.NewStages(waves(len(o.KernelInputs())+o.Outputs, frequencies), o)
}

// ownStages has parameters of each output, sharedStages one vector of two for both.
func ownStages() awv.StagesOptions {
	return awv.StagesOptions{Dimension: 3, Parametric: []int{0, 2}, ParametricLambda: 0.3, Lambda: 1.5, Outputs: 2}
}

func sharedStages() awv.StagesOptions {
	return awv.StagesOptions{Dimension: 5, Parametric: []int{0, 1, 3, 4}, Shared: true, ParametricLambda: 0.3, Lambda: 1.5, Outputs: 2}
}

func TestStagesConform(t *testing.T) {
	for name, o := range map[string]awv.StagesOptions{
		"own": ownStages(), "shared": sharedStages(),
		"all of one input": {Dimension: 1, Parametric: []int{0}, ParametricLambda: 1, Lambda: 1, Outputs: 1},
	} {
		t.Run(name, func(t *testing.T) {
			modeltest.Conform(t, modeltest.Subject{
				Dimension: o.Dimension, Outputs: o.Outputs, Rejects: tooLarge,
				New: func() model.Learner { return stages(o, 4) },
			})
		})
	}
}

// regressors is Φ(x) with a row an output, as dense matrices have it: of own parameters block
// diagonal.
func regressors(o awv.StagesOptions, x []float64) *mat.Dense {
	if o.Shared {
		var flat []float64
		for _, i := range o.Parametric {
			flat = append(flat, x[i])
		}
		return mat.NewDense(o.Outputs, len(flat)/o.Outputs, flat)
	}
	width := len(o.Parametric) + 1
	phi := mat.NewDense(o.Outputs, o.Outputs*width, nil)
	for j := range o.Outputs {
		for k, i := range o.Parametric {
			phi.Set(j, j*width+k, x[i])
		}
		phi.Set(j, j*width+width-1, 1)
	}
	return phi
}

// Each round is equal to the two stages of the text, solved anew: π̂ of (8.4) from all rows of Φ of
// (8.3), and a forecaster of the residuals Δy = y − ŷ over features of (x, ŷ/2√d).
// Camoriano, thesis, §8.2.1 and §8.3.
func TestTheStagesAreThoseOfThesis83(t *testing.T) {
	for name, o := range map[string]awv.StagesOptions{"own": ownStages(), "shared": sharedStages()} {
		t.Run(name, func(t *testing.T) {
			l, rest := stages(o, 7), waves(len(o.KernelInputs())+o.Outputs, 7)
			second := make([]*modeltest.AWV, o.Outputs)
			for j := range second {
				second[j] = &modeltest.AWV{Phi: mapped(rest), Features: rest.Size(), Lambda: o.Lambda}
			}
			_, parameters := regressors(o, make([]float64, o.Dimension)).Dims()
			gram, right := mat.NewDense(parameters, parameters, nil), mat.NewVecDense(parameters, nil)
			for k := range parameters {
				gram.Set(k, k, o.ParametricLambda)
			}
			var p model.Prediction
			var out model.Outcome
			pi, total := mat.NewVecDense(parameters, nil), 0.0
			for round, s := range modeltest.Samples(27, o.Dimension, 120) {
				s.Weight = math.Min(s.Weight, 1.9) // Heavier ones have another bound.
				phi := regressors(o, s.X)
				require.NoError(t, pi.SolveVec(gram, right))
				var said mat.VecDense
				said.MulVec(phi, pi)
				var inputs []float64
				for _, i := range o.KernelInputs() {
					inputs = append(inputs, s.X[i])
				}
				for j := range o.Outputs {
					inputs = append(inputs, said.AtVec(j)/(2*math.Sqrt(float64(o.Dimension))))
				}
				y := []float64{s.Y + s.X[0], math.Sin(3*s.X[1]) - 2*s.X[2]}
				require.NoError(t, l.Predict(&p, s.X))
				require.NoError(t, l.Observe(&out, s.X, y, s.Weight))
				for j, oracle := range second {
					left, missed := oracle.Observe(inputs, y[j]-said.AtVec(j), s.Weight)
					total += missed
					near(t, fmt.Sprint("round ", round, ", ŷ"), p.Parametric[j], said.AtVec(j), 1, 1e-10)
					near(t, fmt.Sprint("round ", round, ", ỹ"), p.Values[j], said.AtVec(j)+left, 1, 1e-10)
					near(t, fmt.Sprint("round ", round, ", ỹ learned"), out.Predictions[j], said.AtVec(j)+left, 1, 1e-10)
				}
				var outer mat.Dense
				outer.Mul(phi.T(), phi)
				outer.Scale(s.Weight, &outer)
				gram.Add(gram, &outer)
				var b mat.VecDense
				b.MulVec(phi.T(), mat.NewVecDense(o.Outputs, y))
				right.AddScaledVec(right, s.Weight, &b)
			}
			stats := l.Stats()
			var hindsight, certificate float64
			for _, oracle := range second {
				f := oracle.Figures()
				hindsight += f.Hindsight
				certificate += f.Certificate
			}
			near(t, "loss", stats.Loss, total, total, 1e-10)
			near(t, "hindsight loss", stats.HindsightLoss, hindsight, hindsight, 1e-9)
			near(t, "certificate", stats.Certificate, certificate, certificate, 1e-9)
			assert.True(t, stats.Certified && stats.CertificateOK && stats.Regret <= stats.Certificate, "%+v", stats)
			require.NoError(t, pi.SolveVec(gram, right))
			for k, w := range l.Report(model.ReportOptions{}).Weights {
				near(t, fmt.Sprint("weight ", k), w.Value, pi.AtVec(k%parameters), 1, 1e-10)
			}
		})
	}
}

// arm are the torques of a planar arm of two links, whose motion goes from one circle to another:
// the regressors Φ(q, q̇, q̈) of the rigid body, linear in the base parameters, and friction,
// which is not. The inputs are Φ, row by row, and then q, q̇ and q̈.
func arm(n int, friction float64) (xs, ys [][]float64) {
	const step, g = 0.1, 9.81
	rng := rand.New(rand.NewPCG(8, 8))
	for t := range n {
		time, wide := step*float64(t), 0.4
		if t >= n/2 { // Another part of the space.
			wide = 0.9
		}
		q := []float64{0.5 + wide*math.Sin(1.1*time), -0.8 + wide*math.Cos(1.7*time)}
		v := []float64{1.1 * wide * math.Cos(1.1*time), -1.7 * wide * math.Sin(1.7*time)}
		a := []float64{-1.21 * wide * math.Sin(1.1*time), -2.89 * wide * math.Cos(1.7*time)}
		s, c := math.Sin(q[1]), math.Cos(q[1])
		// The parameters: the inertia of both links, that of the second and its coupling to the
		// first, and two first moments of mass.
		phi := []float64{
			a[0], a[1], c*(2*a[0]+a[1]) - s*(v[1]*v[1]+2*v[0]*v[1]), g * math.Cos(q[0]), g * math.Cos(q[0]+q[1]),
			0, a[0] + a[1], c*a[0] + s*v[0]*v[0], 0, g * math.Cos(q[0]+q[1]),
		}
		y := []float64{rng.NormFloat64() * 0.02, rng.NormFloat64() * 0.02}
		for k, p := range []float64{0.6, 0.2, 0.15, 0.5, 0.25} {
			y[0] += p * phi[k]
			y[1] += p * phi[5+k]
		}
		for j := range y {
			y[j] += friction * (math.Tanh(8*v[j]) + 0.5*math.Sin(3*q[j]))
		}
		xs, ys = append(xs, append(append(append(phi, q...), v...), a...)), append(ys, y)
	}
	return xs, ys
}

// Two stages with the shared regressors of a rigid arm learn it sooner than features of the kernel,
// and follow what is not rigid. Camoriano, thesis, Figure 8.4.
func TestStagesOfAnArm_Thesis_Figure84(t *testing.T) {
	phi, state := []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, []int{10, 11, 12, 13, 14, 15}
	for _, friction := range []float64{0, 1} {
		xs, ys := arm(2000, friction)
		o := awv.StagesOptions{Dimension: 16, Parametric: phi, Shared: true, ParametricLambda: 0.1, Lambda: 0.1, Outputs: 2}
		rng := func() *rand.Rand { return rand.New(rand.NewPCG(3, 9)) }
		l := awv.NewStages(feature.NewFourier(gaussian(2), 8, 100, true, rng()), o)
		kernel := awv.New(feature.NewFourier(gaussian(2), 6, 100, true, rng()), awv.Options{Lambda: 0.1, Outputs: 2})
		var losses [4][3]float64 // Of quarters: two stages, the parametric part, the kernel.
		var p model.Prediction
		var out model.Outcome
		for n, x := range xs {
			quarter := &losses[4*n/len(xs)]
			require.NoError(t, l.Predict(&p, x))
			for j, said := range p.Parametric {
				quarter[1] += (ys[n][j] - said) * (ys[n][j] - said)
			}
			require.NoError(t, l.Observe(&out, x, ys[n], 1))
			quarter[0] += out.Loss
			inputs := make([]float64, len(state))
			for k, i := range state {
				inputs[k] = x[i]
			}
			require.NoError(t, kernel.Observe(&out, inputs, ys[n], 1))
			quarter[2] += out.Loss
		}
		t.Logf("friction %g: two stages, parametric, kernel: %.3g", friction, losses)
		assert.False(t, losses[0][0] > losses[0][2] || losses[2][0] > losses[2][2] || friction > 0 && losses[3][0] > losses[3][1]/4, "friction %g: %v", friction, losses)
	}
}
