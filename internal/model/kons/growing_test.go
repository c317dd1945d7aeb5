package kons_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"hindsight/internal/model/kons"
	"hindsight/internal/model/losses"
	"hindsight/internal/model/modeltest"
)

// A dictionary that grows, whose new features are 0 in the past, has the theorem: against
// the best function, within the range, of the features as they were computed.
func TestTheoremOverAGrowingDictionary(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	for name, o := range certified() {
		for kind := range 2 {
			rng := rand.New(rand.NewPCG(seed, uint64(kind)))
			l := nystrom(o, func(o *kons.NystromOptions) { o.Dictionary.Capacity = 15 })
			k := gaussian(1)
			middle, c := (o.Low+o.High)/2, (o.High-o.Low)/2+o.Clip
			samples, loss := modeltest.Samples(rng.Uint64(), 2, 200), 0.0
			var centres [][]float64
			sizes := make([]int, len(samples))
			for i := range samples {
				s := &samples[i]
				p, err := modeltest.Predict(l, s.X)
				require.NoError(t, err)
				if s.Y = middle + c*math.Tanh(2*s.X[0]); kind == 1 {
					s.Y = middle + math.Copysign(c, middle-p.Value)
				}
				if o.Loss != losses.Squared {
					s.Y = sign(s.Y)
				}
				loss += observe(t, l, *s).Loss
				if sizes[i] = l.Stats().Dictionary; sizes[i] > len(centres) {
					centres = append(centres, s.X)
				}
			}
			m := len(centres)
			gram := mat.NewSymDense(m, nil)
			for i, a := range centres {
				for j := range i + 1 {
					gram.SetSym(i, j, k.At(a, centres[j]))
				}
			}
			var chol mat.Cholesky
			require.True(t, chol.Factorize(gram), "the centres are not independent")
			var lower mat.TriDense
			chol.LTo(&lower)
			rows := map[*float64][]float64{}
			for n, s := range samples {
				row := make([]float64, m)
				for i := range sizes[n] {
					v := k.At(centres[i], s.X)
					for j := range i {
						v -= lower.At(i, j) * row[j]
					}
					row[i] = v / lower.At(i, i)
				}
				rows[&samples[n].X[0]] = row
			}
			stats := l.Stats()
			require.True(t, stats.Certified && stats.CertificateOK && stats.Certificate <= stats.RegretBound && m >= 5, "%s, %d centres: %+v", name, m, stats)
			best := minOver(o, func(x []float64) []float64 { return rows[&x[0]] }, samples, middle, c)
			if left := loss - best; !(left <= stats.Certificate*(1+1e-9)) {
				t.Errorf("%s, labels %d: loss %g, best %g: %g, certificate %g", name, kind, loss, best, left, stats.Certificate)
			} else {
				t.Logf("%s: %.4g ≤ %.4g ≤ %.4g", name, left, stats.Certificate, stats.RegretBound)
			}
		}
	}
}
