package awv_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"hindsight/internal/model"
	"hindsight/internal/model/awv"
	"hindsight/internal/model/feature"
)

// With a ridge of 1e30 the losses are 1e22 and the regret is some digits below the last of them:
// the certificate of a mixture still bounds it, in every round, to no tolerance.
func TestMixturesOfLargeRidges(t *testing.T) {
	affine := feature.NewAffine(2)
	for name, l := range map[string]model.Learner{
		"ridges":   awv.NewRidges(affine, awv.Options{}, []float64{1e29, 1e30}),
		"prefixes": awv.New(affine, awv.Options{Lambda: 1e30, Prefixes: []awv.Prefix{{Size: 1}, {Size: 2}, {Size: 3}}}),
		"all":      awv.NewRidges(affine, awv.Options{}, []float64{1e-30, 1, 1e30}),
	} {
		rng := rand.New(rand.NewPCG(1, 1))
		var o model.Outcome
		for round := range 200 {
			x := []float64{100 * rng.NormFloat64(), rng.NormFloat64()}
			require.NoError(t, l.Observe(&o, x, []float64{1e10 * (1 + rng.NormFloat64())}, math.Exp(rng.NormFloat64())/3))
			if s := l.Stats(); !s.Certified || !s.CertificateOK || s.Regret > s.Certificate || s.Certificate > s.RegretBound {
				t.Fatalf("%s, round %d: regret %g, certificate %g, bound %g, loss %g", name, round, s.Regret, s.Certificate, s.RegretBound, s.Loss)
			}
		}
	}
}
