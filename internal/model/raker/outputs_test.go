package raker_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"hindsight/internal/model"
	"hindsight/internal/model/codec"
	"hindsight/internal/model/feature"
	"hindsight/internal/model/losses"
	"hindsight/internal/model/modeltest"
	"hindsight/internal/model/raker"
)

// A learner of several outputs is so many learners of one over the same features, bit
// for bit: what each says, loses, and weighs its kernels by is its own.
func TestOutputsAreLearnersThatShareFeatures(t *testing.T) {
	const dimension, outputs = 2, 3
	maps := gaussians(1, dimension, 3)
	for name, create := range map[string]func(o raker.Options) model.Learner{
		"raker":    func(o raker.Options) model.Learner { return raker.NewRaker(maps, o) },
		"adaraker": func(o raker.Options) model.Learner { return raker.NewAdaRaker(maps, o) },
	} {
		for _, l := range everyLoss() {
			t.Run(fmt.Sprint(name, " ", l), func(t *testing.T) {
				o := raker.DefaultOptions(l, name == "adaraker")
				o.TrackRegret = true
				var single []model.Learner
				for range outputs {
					single = append(single, create(o))
				}
				o.Outputs = outputs
				whole := create(o)
				for n, s := range modeltest.Samples(31, dimension, 150) {
					y := []float64{label(l, s.Y), label(l, s.X[0]), label(l, s.Y-2*s.X[1])}
					sameRound(t, n, whole, single, s, y)
				}
				sameReport(t, whole, single)
			})
		}
	}
}

// sameRound predicts and learns one observation.
func sameRound(t *testing.T, n int, whole model.Learner, single []model.Learner, s modeltest.Sample, y []float64) {
	t.Helper()
	var p model.Prediction
	var o model.Outcome
	require.NoError(t, whole.Predict(&p, s.X))
	require.NoError(t, whole.Observe(&o, s.X, y, s.Weight))
	var values, predictions []float64
	loss := 0.0
	for j, l := range single {
		said, err := modeltest.Predict(l, s.X)
		require.NoError(t, err)
		out, err := modeltest.Observe(l, s.X, y[j], s.Weight)
		require.NoError(t, err)
		values, predictions, loss = append(values, said.Value), append(predictions, out.Prediction), loss+out.Loss
	}
	if !slices.Equal(p.Values, values) || !slices.Equal(o.Predictions, predictions) || o.Loss != loss {
		t.Fatalf("round %d: %+v and %+v, one by one %v and %v with a loss of %g", n, p, o, values, predictions, loss)
	}
}

// sameReport compares statistics and reports with the sums of those of the outputs.
func sameReport(t *testing.T, whole model.Learner, single []model.Learner) {
	t.Helper()
	var s model.Stats
	var r model.Report
	for _, l := range single {
		own, report := l.Stats(), l.Report(model.ReportOptions{})
		s.Observations, s.Loss = own.Observations, s.Loss+own.Loss
		s.LabelBound = math.Hypot(s.LabelBound, own.LabelBound)
		r.HindsightLoss += report.HindsightLoss
		r.RegretUnpenalized += report.RegretUnpenalized
	}
	got, report := whole.Stats(), whole.Report(model.ReportOptions{EffectiveDimension: true})
	assert.True(t, got.Observations == s.Observations && got.Loss == s.Loss && got.LabelBound == s.LabelBound && got.CertificateOK, "%+v, one by one %+v", got, s)
	for _, c := range []struct{ got, want float64 }{
		{report.HindsightLoss, r.HindsightLoss},
		{report.Regret, s.Loss - r.HindsightLoss},
		{report.RegretUnpenalized, r.RegretUnpenalized},
	} {
		assert.False(t, math.IsNaN(c.got) != math.IsNaN(c.want) || math.Abs(c.got-c.want) > 1e-9*(1+math.Abs(c.want)), "reported %g, one by one %g", c.got, c.want)
	}
	own := single[0].Size()
	assert.True(t, got.StateBytes < uint64(len(single))*own && got.StateBytes > own, "%d bytes, one output takes %d", got.StateBytes, own)
}

func TestConform(t *testing.T) {
	const dimension = 3
	maps := gaussians(1, dimension, 4)
	learners := map[string]func(o raker.Options) model.Learner{
		"fogd":     func(o raker.Options) model.Learner { return raker.NewRaker(maps[:1], o) },
		"raker":    func(o raker.Options) model.Learner { return raker.NewRaker(maps, o) },
		"adaraker": func(o raker.Options) model.Learner { return raker.NewAdaRaker(maps, o) },
		"switches": func(o raker.Options) model.Learner {
			o.TrackSwitches = true
			return raker.NewAdaRaker(maps, o)
		},
		"cold": func(o raker.Options) model.Learner {
			o.Cold, o.BaseInterval = true, 2
			return raker.NewAdaRaker(maps, o)
		},
	}
	for name, create := range learners {
		for n, l := range everyLoss() {
			outputs := 1 + (n+len(name))%2 // Each loss and each learner has both.
			t.Run(fmt.Sprint(name, " ", l, ", ", outputs), func(t *testing.T) {
				modeltest.Conform(t, modeltest.Subject{
					New: func() model.Learner {
						o := raker.DefaultOptions(l, name != "raker" && name != "fogd")
						o.TrackRegret, o.Outputs = true, outputs
						return create(o)
					},
					Dimension: dimension, Outputs: outputs,
					Label:   func(y float64) float64 { return label(l, y) },
					Rejects: func(magnitude float64) bool { return magnitude > model.MaxMagnitude },
					// Of an AdaRaker the next expert then comes at 2047 or later.
					Warm: 1100,
				})
			})
		}
	}
}

// From the first round on, over the appearance of experts, a state restored
// in the middle ends where the whole run does, bit for bit.
func TestRestoreAcrossNewExperts(t *testing.T) {
	const dimension = 2
	maps := gaussians(1, dimension, 3)
	for _, l := range everyLoss() {
		for _, cold := range []bool{false, true} {
			o := raker.DefaultOptions(l, true)
			o.TrackRegret, o.Cold = true, cold
			samples := modeltest.Samples(12, dimension, 140)
			whole := raker.NewAdaRaker(maps, o)
			var states [][]byte
			for _, s := range samples {
				states = append(states, modeltest.State(t, whole.Visit))
				s.Y = label(l, s.Y)
				observe(t, whole, s)
			}
			for _, at := range []int{0, 1, 2, 3, 6, 7, 8, 62, 63, 64, 126, 127, 128} {
				half := raker.NewAdaRaker(maps, o)
				require.NoError(t, codec.Read(states[at], half.Visit))
				for n := at; n < len(samples); n++ {
					require.True(t, bytes.Equal(states[n], modeltest.State(t, half.Visit)), "%v: restored at %d, differs at %d", l, at, n)
					observe(t, half, modeltest.Sample{X: samples[n].X, Y: label(l, samples[n].Y), Weight: samples[n].Weight})
				}
			}
		}
	}
}

// A state holds the second moments of all rounds, those that wait for a pass too,
// with the bits that one pass a round gives; and goes on from any round with the
// bits of the whole run. There are 70 features, more than are added at a time.
func TestMomentsHaveTheBitsOfOnePassARound(t *testing.T) {
	const dimension, rounds = 3, 20
	maps := gaussians(9, dimension, 35)[:2]
	o := raker.DefaultOptions(losses.Squared, false)
	o.TrackRegret = true
	samples := modeltest.Samples(17, dimension, rounds)
	whole := raker.NewRaker(maps, o)
	plain := make([][]float64, len(maps))
	var states [][]byte
	for n := range rounds + 1 {
		states = append(states, modeltest.State(t, whole.Visit))
		// A tag, a shape of three numbers and an account of six.
		rest := states[n][10*8:]
		for p, m := range maps {
			r := m.Size()
			if plain[p] == nil {
				plain[p] = make([]float64, r*(r+1)/2)
			}
			for at, want := range plain[p] {
				got := binary.LittleEndian.Uint64(rest[8*at:])
				require.Equal(t, math.Float64bits(want), got, "after %d rounds, kernel %d: moment %d is %g, want %g", n, p, at, math.Float64frombits(got), want)
			}
			rest = rest[8*(len(plain[p])+r):]
		}
		if n == rounds {
			break
		}
		observe(t, whole, samples[n])
		for p, z := range features(maps, samples[n].X) {
			at := 0
			for i, v := range z {
				for _, w := range z[i:] {
					plain[p][at] += float64(float64(samples[n].Weight*v) * w)
					at++
				}
			}
		}
	}
	for from, s := range states {
		half := raker.NewRaker(maps, o)
		require.NoError(t, codec.Read(s, half.Visit))
		for n := from; n < rounds; n++ {
			observe(t, half, samples[n])
		}
		require.True(t, bytes.Equal(modeltest.State(t, half.Visit), states[rounds]), "restored after %d rounds, it ends elsewhere", from)
	}
}

// The defaults do on the paper's streams what its tables say, or better:
// mean squared errors of 1.3e-3 (air) and 13.8e-3 (energy) in Table 4, 1.10 %
// errors (movement) in Table 10. The features are drawn anew, so the third
// digit is the seed's.
func TestTables_JMLR_2019(t *testing.T) {
	for _, c := range []struct {
		name        string
		loss        losses.Loss
		most, paper float64
	}{
		{"air.csv.gz", losses.Squared, 1.1e-3, 1.3e-3},
		{"energy_adaraker.csv.gz", losses.Squared, 13.2e-3, 13.8e-3},
		{"movement.csv.gz", losses.Logistic, 1.31e-2, 1.1e-2},
	} {
		t.Run(c.name, func(t *testing.T) {
			samples := modeltest.Stream(t, c.name, -1)
			if testing.Short() || modeltest.RaceDetector {
				t.Skip("long")
			}
			for _, seed := range []uint64{1, 11, 21} {
				maps := gaussians(seed, len(samples[0].X), 50)
				o := raker.DefaultOptions(c.loss, true)
				a := raker.NewAdaRaker(maps, o)
				squared, wrong := modeltest.Scores(t, a, samples)
				got := squared
				if c.loss != losses.Squared {
					got = wrong
				}
				r := raker.NewRaker(maps, raker.DefaultOptions(c.loss, false))
				rakerSquared, rakerWrong := modeltest.Scores(t, r, samples)
				t.Logf("seed %d: AdaRaker %.4g (paper %g); Raker: squared %.4g, wrong %.4g; weights %.2g",
					seed, got, c.paper, rakerSquared, rakerWrong, r.Weights(0))
				assert.LessOrEqual(t, got, c.most, "seed %d: %g, want at most %g", seed, got, c.most)
			}
		})
	}
}

// The last label has 162 errors on movement, as many as the learners in the tables of classes: the default
// kernels of classes follow it.
func TestTableOfClasses_JMLR_2019(t *testing.T) {
	samples := modeltest.Stream(t, "movement.csv.gz", -1)
	if testing.Short() || modeltest.RaceDetector {
		t.Skip("long")
	}
	var maps []feature.Map
	for n, square := range []float64{0.1, 1, 10, 100} {
		maps = append(maps, newFourier(uint64(n), len(samples[0].X), 50, math.Sqrt(square)))
	}
	for _, adaptive := range []bool{false, true} {
		_, wrong := modeltest.Scores(t, raker.New(maps, raker.DefaultOptions(losses.Logistic, adaptive)), samples)
		assert.LessOrEqual(t, math.Round(wrong*float64(len(samples))), 164.0, adaptive)
	}
}

// What tracking regret says on a real stream: the best fixed function of the
// best kernel in hindsight.
func TestRegretOnStream(t *testing.T) {
	samples := modeltest.Stream(t, "air.csv.gz", -1)
	if testing.Short() || modeltest.RaceDetector {
		t.Skip("long")
	}
	o := raker.DefaultOptions(losses.Squared, true)
	o.TrackRegret = true
	a := raker.NewAdaRaker(gaussians(1, len(samples[0].X), 50), o)
	modeltest.Scores(t, a, samples)
	s, r := a.Stats(), a.Report(model.ReportOptions{EffectiveDimension: true})
	t.Logf("loss %.4g, in hindsight %.4g, regret %.4g, without penalty %.4g, effective dimension %.4g of 100",
		s.Loss, r.HindsightLoss, r.Regret, r.RegretUnpenalized, r.EffectiveDimension)
	assert.True(t, r.CertificateOK && math.Abs(s.Loss-r.HindsightLoss-r.Regret) <= 1e-9*s.Loss, "%+v, %+v", s, r)
}

// ends are the rounds that a learner has marked, and the last one: multiples of a length that
// doubles when there would be 16.
func ends(rounds int) []int {
	length := 64
	for rounds/length >= 16 {
		length *= 2
	}
	var all []int
	for end := length; end < rounds; end += length {
		all = append(all, end)
	}
	return append(all, rounds)
}

// The benchmark of Theorem 3 changes its function at most m times. Its loss is the least over all
// choices of switches among the marks, each piece solved densely from its rows.
func TestSwitchingRegret_JMLR_Thm3(t *testing.T) {
	maps := gaussians(60, 3, 3)[:2]
	o := options(losses.Squared)
	o.TrackRegret, o.TrackSwitches = true, true
	stream := switching(61, 1100)
	l := raker.NewAdaRaker(maps, o)
	loss, energy := 0.0, 0.0
	for n, s := range stream {
		loss += observe(t, l, s).Loss
		energy += s.Weight * s.Y * s.Y
		rounds := n + 1
		if rounds != 1 && rounds != 64 && rounds != 300 && rounds != 1024 && rounds != 1100 {
			continue
		}
		at := append([]int{0}, ends(rounds)...)
		pieces := make([][]float64, len(at))
		for i := range at {
			pieces[i] = make([]float64, len(at))
			for j := i + 1; j < len(at); j++ {
				pieces[i][j] = math.Inf(1)
				for _, m := range maps {
					h, _, _ := ridge(t, m, stream[at[i]:at[j]], o.Lambda)
					pieces[i][j] = math.Min(pieces[i][j], h)
				}
			}
		}
		got := l.Report(model.ReportOptions{})
		if len(got.SwitchingRegret) != len(at)-1 || math.Abs(got.SwitchingRegret[0]-got.Regret) > 1e-9*energy {
			t.Fatalf("round %d: %v of %d pieces, regret %g", rounds, got.SwitchingRegret, len(at)-1, got.Regret)
		}
		for m, regret := range got.SwitchingRegret {
			assert.InDelta(t, loss-cheapest(pieces, 0, m), regret, 1e-9*energy, "%v %v", rounds, m)
		}
		last := len(got.SwitchingRegret) - 1
		assert.True(t, rounds <= 600 || got.SwitchingRegret[1] > got.SwitchingRegret[0] && got.SwitchingRegret[last] >= got.SwitchingRegret[1], "round %d: %v", rounds, got.SwitchingRegret)
	}
	state := modeltest.State(t, l.Visit)
	restored := raker.NewAdaRaker(maps, o)
	require.NoError(t, codec.Read(state, restored.Visit))
	for _, s := range modeltest.Samples(1, 3, 100) {
		observe(t, l, s)
		observe(t, restored, s)
	}
	a, b := l.Report(model.ReportOptions{}).SwitchingRegret, restored.Report(model.ReportOptions{}).SwitchingRegret
	for m := range a {
		assert.True(t, a[m] == b[m], "%d switches: %g, restored %g", m, a[m], b[m])
	}
}

// cheapest is the least loss from end i on with at most m switches, by trying all.
func cheapest(pieces [][]float64, i, m int) float64 {
	last := len(pieces) - 1
	least := pieces[i][last]
	for j := i + 1; j < last && m > 0; j++ {
		least = math.Min(least, pieces[i][j]+cheapest(pieces, j, m-1))
	}
	return least
}

// sgm are the options of SGM.
type sgm struct {
	decay   float64
	average bool
	lambda  float64
}

func sgms() []sgm {
	return []sgm{{0.5, false, 0}, {0, true, 0}, {0.25, true, 0}, {1, true, 1e-3}, {0, false, 0}}
}

// FOGD with a decay and an average is the loop of the stochastic gradient method: the
// average of the iterates before each step, weighted by the steps.
//
// Source: Camoriano, thesis (2017), eq. (6.4).
func TestFOGDIsSGM_Camoriano_Eq64(t *testing.T) {
	for _, l := range everyLoss() {
		for _, c := range sgms() {
			t.Run(fmt.Sprint(l, c), func(t *testing.T) {
				o := options(l)
				o.Decay, o.Average, o.Lambda, o.Step = c.decay, c.average, c.lambda, 0.4
				maps := gaussians(4, 3, 5)[:1]
				learner := raker.NewRaker(maps, o)
				w := make([]float64, maps[0].Size())
				weighted, steps := make([]float64, len(w)), 0.0
				worst := 0.0
				for round, s := range samples(l, 400) {
					z := features(maps, s.X)[0]
					said := w
					if c.average {
						said = make([]float64, len(w))
						for i := range said {
							if steps > 0 {
								said[i] = weighted[i] / steps
							}
						}
					}
					want := inner(said, z)
					p, err := modeltest.Predict(learner, s.X)
					require.NoError(t, err)
					out := observe(t, learner, s)
					worst = max(worst, math.Abs(p.Value-want), math.Abs(out.Prediction-want),
						math.Abs(out.Loss-s.Weight*naiveLoss(l, want, s.Y)))
					step := s.Weight * 0.4 * math.Pow(float64(round+1), -c.decay)
					steps += step
					slope := naiveSlope(l, inner(w, z), s.Y)
					for i, v := range w {
						weighted[i] += step * v
						w[i] = v - step*(slope*z[i]+2*c.lambda*v)
					}
				}
				t.Logf("largest deviation %.2g", worst)
				assert.LessOrEqual(t, worst, 1e-11, "predictions or losses deviate by %g", worst)
			})
		}
	}
}

// The stable limit cuts a step that decays too, and the average weighs what was taken.
func TestSGMStepsAreStable(t *testing.T) {
	o := options(losses.Squared)
	o.Step, o.Decay, o.Average, o.Lambda = 1e9, 0.1, true, 0
	l := raker.NewRaker(gaussians(2, 2, 8)[:1], o)
	for n, s := range modeltest.Samples(5, 2, 3000) {
		out := observe(t, l, modeltest.Sample{X: s.X, Y: math.Sin(s.X[0]), Weight: math.Pow(10, float64(n%19)-9)})
		require.LessOrEqual(t, math.Abs(out.Prediction), 100.0, "round %d: %g", n, out.Prediction)
	}
}

func TestSGMConforms(t *testing.T) {
	const dimension = 3
	maps := gaussians(1, dimension, 4)[:1]
	for n, l := range everyLoss() {
		for k, c := range sgms() {
			outputs := 1 + (n+k)%2 // Each loss and each kind has both.
			t.Run(fmt.Sprint(l, c, ", ", outputs), func(t *testing.T) {
				modeltest.Conform(t, modeltest.Subject{
					New: func() model.Learner {
						o := raker.DefaultOptions(l, false)
						o.TrackRegret, o.Outputs = true, outputs
						o.Decay, o.Average, o.Lambda = c.decay, c.average, c.lambda
						return raker.NewRaker(maps, o)
					},
					Dimension: dimension, Outputs: outputs,
					Label:   func(y float64) float64 { return label(l, y) },
					Rejects: func(magnitude float64) bool { return magnitude > model.MaxMagnitude },
				})
			})
		}
	}
}

// What is not used takes no memory: an average is r + 1 numbers an output, a decay none.
func TestSGMStateIsWhatItUses(t *testing.T) {
	maps := gaussians(1, 2, 4)[:1]
	size := func(decay float64, average bool) (encoded int, told uint64) {
		o := options(losses.Squared)
		o.Outputs, o.Decay, o.Average = 2, decay, average
		l := raker.NewRaker(maps, o)
		return len(modeltest.State(t, l.Visit)), l.Size()
	}
	plain, plainTold := size(0, false)
	added := 2 * (maps[0].Size() + 1)
	for _, c := range []struct {
		decay   float64
		average bool
		numbers int
	}{{0.5, false, 0}, {0, true, added}, {0.5, true, added}} {
		got, told := size(c.decay, c.average)
		assert.True(t, got == plain+8*c.numbers && told == plainTold+8*uint64(c.numbers), "%+v: %d and %d bytes, %d and %d without", c, got, told, plain, plainTold)
	}
}

// Options that have no meaning are rejected.
func TestSGMIsOfOneKernel(t *testing.T) {
	maps := gaussians(1, 2, 4)
	for name, create := range map[string]func(o raker.Options){
		"average of kernels": func(o raker.Options) { o.Average = true; raker.NewRaker(maps, o) },
		"decay of kernels":   func(o raker.Options) { o.Decay = 0.5; raker.NewRaker(maps, o) },
		"AdaRaker":           func(o raker.Options) { o.Average = true; raker.NewAdaRaker(maps[:1], o) },
		"AdaRaker, decay":    func(o raker.Options) { o.Decay = 0.5; raker.NewAdaRaker(maps[:1], o) },
		"growing steps":      func(o raker.Options) { o.Decay = -0.5; raker.NewRaker(maps[:1], o) },
	} {
		func() {
			defer func() { assert.NotNil(t, recover(), "%s was made", name) }()
			create(options(losses.Squared))
		}()
	}
}

// What docs/theory.md says of the two options: of rows without an order in time, as those
// of casp, a step that decays and an average lose less than a constant step does; on a
// stream that drifts, as air, they lose more.
func TestSGMOnStreams(t *testing.T) {
	for _, c := range []struct {
		name string
		// sigma is the root of the mean squared distance of two rows.
		sigma float64
		// helps says that both options lose less.
		helps bool
	}{{"casp.csv.gz", 0.53, true}, {"air.csv.gz", 0.9, false}} {
		t.Run(c.name, func(t *testing.T) {
			if testing.Short() || modeltest.RaceDetector {
				t.Skip("long")
			}
			stream := modeltest.Stream(t, c.name, -1)
			modeltest.Scale(stream)
			top := 0.0
			for _, s := range stream {
				top = max(top, s.Y)
			}
			mean := func(step, decay float64, average bool) float64 {
				o := raker.DefaultOptions(losses.Squared, false)
				o.Step, o.Decay, o.Average, o.Lambda, o.TrackRegret = step, decay, average, 0, false
				l := raker.NewRaker([]feature.Map{newFourier(1, len(stream[0].X), 50, c.sigma)}, o)
				for _, s := range stream {
					observe(t, l, modeltest.Sample{X: s.X, Y: s.Y / top, Weight: 1})
				}
				return l.Stats().Loss / float64(len(stream))
			}
			constant, decays, averages := mean(0.25, 0, false), mean(0.25, 0.25, false), mean(0.5, 0, true)
			t.Logf("constant %.4g, decay %.4g, average %.4g", constant, decays, averages)
			assert.Equal(t, []bool{c.helps, c.helps}, []bool{decays < constant, averages < constant}, "constant %g, decay %g, average %g", constant, decays, averages)
		})
	}
}
