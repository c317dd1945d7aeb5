package raker_test

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"hindsight/internal/model"
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
