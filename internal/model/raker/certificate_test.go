package raker_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"hindsight/internal/model"
	"hindsight/internal/model/losses"
	"hindsight/internal/model/modeltest"
	"hindsight/internal/model/raker"
)

// switching labels change their function halfway, and have weights of at most 1.
func switching(seed uint64, n int) []modeltest.Sample {
	all := bounded(losses.Squared, seed, n)
	for i := range all {
		all[i].Weight = []float64{1, 0.4, 0.9}[i%3]
	}
	return all
}

// The certificate of the report is what the learner lost beyond the best kernel's descent, and
// the bound of eq. (46) on this descent, for θ̂ solved densely and gradients written out:
//
//	loss − L_p + ‖θ̂‖²/2η + (η/2) Σω²‖∇_p‖² + λ(Ω−1)‖θ̂‖²
//
// of AdaRaker the least over its experts. No regret exceeds it.
func TestCertificateOfDescent_JMLR_Lemma1_Eq46(t *testing.T) {
	const rounds = 300
	for seed := range uint64(3) {
		maps := gaussians(40+seed, 3, 5)
		o := options(losses.Squared)
		o.TrackRegret = true
		stream := switching(50+seed, rounds)
		r, a := raker.NewRaker(maps, o), raker.NewAdaRaker(maps, o)
		n, ada := newNaive(maps, o), &naiveAda{maps: maps, o: o, rakers: map[span]*naive{}, h: map[span]float64{}}
		loss, adaLoss, weights, energy := 0.0, 0.0, 0.0, 0.0
		for round, s := range stream {
			z := features(maps, s.X)
			miss, adaMiss := s.Y-n.predict(z), s.Y-ada.observe(z, s.Y, s.Weight)
			n.update(z, s.Y, s.Weight, o.Step)
			loss, adaLoss = loss+s.Weight*miss*miss, adaLoss+s.Weight*adaMiss*adaMiss
			weights, energy = weights+s.Weight, energy+s.Weight*s.Y*s.Y
			observe(t, r, s)
			observe(t, a, s)
			for name, l := range map[string]model.Learner{"raker": r, "ada_raker": a} {
				got := l.Report(model.ReportOptions{})
				require.False(t, !got.CertificateOK || got.Regret > got.Certificate, "seed %d, round %d, %s: regret %g, certificate %g", seed, round, name, got.Regret, got.Certificate)
			}
		}
		best, norm, p := math.Inf(1), 0.0, 0
		for k, m := range maps {
			if h, penalty, _ := ridge(t, m, stream, o.Lambda); h < best {
				best, norm, p = h, penalty/o.Lambda, k
			}
		}
		of := func(n *naive, step float64) float64 {
			return -n.lost[p] + norm/(2*step) + step/2*n.slopes[p] + o.Lambda*(weights-1)*norm
		}
		least := math.Inf(1)
		for _, i := range spans(rounds) {
			least = math.Min(least, of(ada.rakers[i], ada.step(i)))
		}
		for name, c := range map[string]struct {
			got  model.Report
			want float64
		}{"raker": {r.Report(model.ReportOptions{}), loss + of(n, o.Step)}, "ada_raker": {a.Report(model.ReportOptions{}), adaLoss + least}} {
			assert.False(t, math.Abs(c.got.Certificate-c.want) > 1e-9*(energy+math.Abs(c.want)), "seed %d, %s: %g, want %g", seed, name, c.got.Certificate, c.want)
			t.Logf("seed %d, %s: regret %.3g, certificate %.3g", seed, name, c.got.Regret, c.got.Certificate)
		}
	}
}

// A step that is cut, a decay, an average and cold experts have no certificate.
func TestDescentsWithoutACertificate(t *testing.T) {
	plain := options(losses.Squared)
	plain.TrackRegret = true
	maps := gaussians(1, 3, 5)[:1]
	cut, decay, average, cold, unsolved := plain, plain, plain, plain, plain
	cut.Step, decay.Decay, average.Average, cold.Cold, unsolved.TrackRegret = 50, 0.5, true, true, false
	for name, l := range map[string]model.Learner{
		"cut": raker.NewRaker(maps, cut), "decay": raker.NewRaker(maps, decay), "average": raker.NewRaker(maps, average),
		"cold": raker.NewAdaRaker(maps, cold), "unsolved": raker.NewRaker(maps, unsolved),
	} {
		for _, s := range switching(2, 20) {
			observe(t, l, s)
		}
		got := l.Report(model.ReportOptions{}).Certificate
		assert.True(t, math.IsNaN(got), "%s: %g", name, got)
	}
}
