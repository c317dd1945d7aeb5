package awv_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"hindsight/internal/model/awv"
	"hindsight/internal/model/feature"
	"hindsight/internal/model/modeltest"
)

// rounds is how many rounds of a stream a test takes: half of them in short mode.
func rounds(all int) int {
	if testing.Short() || modeltest.RaceDetector {
		return all / 2
	}
	return all
}

// On real streams every loss equals that of the same recursion with dense
// matrices: A_t kept whole, solved anew at every round.
func TestRealStreamsAgreeWithDenseRecursion(t *testing.T) {
	n := rounds(200)
	for _, name := range []string{"energy_adaraker.csv.gz", "casp.csv.gz"} {
		t.Run(name, func(t *testing.T) {
			samples := modeltest.Stream(t, name, n)
			modeltest.Scale(samples)
			d := len(samples[0].X)
			taylor := feature.NewTaylor(d, 1, 2)
			r := taylor.Size()
			learner, phi := awv.New(taylor, awv.Options{Lambda: 1}), modeltest.TaylorFeatures(d, 1, 2)
			a, b := mat.NewSymDense(r, nil), mat.NewVecDense(r, nil)
			for i := range r {
				a.SetSym(i, i, 1)
			}
			worst := 0.0
			for _, s := range samples {
				z := mat.NewVecDense(r, phi(s.X))
				a.SymRankOne(a, 1, z)
				var c mat.Cholesky
				if !c.Factorize(a) {
					t.Fatal("not positive definite")
				}
				var w mat.VecDense
				require.NoError(t, c.SolveVecTo(&w, b))
				miss := s.Y - mat.Dot(z, &w)
				b.AddScaledVec(b, s.Y, z)
				out := must(modeltest.Observe(learner, s.X, s.Y, 1))(t)
				worst = math.Max(worst, math.Abs(out.Loss-miss*miss)/(1+miss*miss))
			}
			t.Logf("largest deviation over %d rounds: %.2g", len(samples), worst)
			assert.LessOrEqual(t, worst, 1e-8, "losses deviate by %g", worst)
		})
	}
}
