package classifier_test

import (
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"hindsight/internal/model"
	"hindsight/internal/model/modeltest"
)

// Of raw columns and two classes, every learner by its name alone says probabilities
// that hold: every bin of the reliability table that has 500 members or more is within
// 0.05 of what it promised.
func TestReliabilityOfEveryLearner(t *testing.T) {
	if modeltest.RaceDetector {
		t.Skip("too slow with the race detector")
	}
	hinge := model.FirstOrder{Loss: model.LossHinge}
	logistic := model.FirstOrder{Loss: model.LossLogistic}
	for _, name := range []string{"elec2.csv.gz", "ijcnn1.csv.gz"} {
		stream := modeltest.Stream(t, name, 8000)
		for what, spec := range map[string]model.Spec{
			"rlsc":            {RLSC: &model.RLSC{}},
			"rlsc, gaussian":  {RLSC: &model.RLSC{Kernel: &model.Kernel{}}},
			"linear_awv":      {LinearAWV: &model.LinearAWV{}},
			"fourier_awv":     {FourierAWV: &model.FourierAWV{}},
			"pkawv_nystrom":   {PKAWVNystrom: &model.PKAWVNystrom{MaxDictionary: ptr(60)}},
			"auto":            {},
			"fogd":            {FOGD: &model.FOGD{}},
			"fogd, hinge":     {FOGD: &model.FOGD{FirstOrder: hinge}},
			"raker, hinge":    {Raker: &model.Raker{FirstOrder: hinge}},
			"raker":           {Raker: &model.Raker{}},
			"ada_raker":       {AdaRaker: &model.AdaRaker{}},
			"ada, hinge":      {AdaRaker: &model.AdaRaker{Raker: model.Raker{FirstOrder: hinge}}},
			"fogd, logistic":  {FOGD: &model.FOGD{FirstOrder: logistic}},
			"raker, logistic": {Raker: &model.Raker{FirstOrder: logistic}},
			"ada, logistic":   {AdaRaker: &model.AdaRaker{Raker: model.Raker{FirstOrder: logistic}}},
		} {
			t.Run(name+"/"+what, func(t *testing.T) {
				t.Parallel()
				rounds := stream
				if what == "auto" { // It is the slowest by far.
					rounds = stream[:2000]
				}
				spec.Dimension, spec.Classes = len(stream[0].X), &model.Classes{}
				y := run(t, create(t, spec), rounds)
				t.Log(y)
				worst, bins := y.worst()
				assert.False(t, worst > 0.05 || bins == 0, "a bin of %d is off by %.3f", bins, worst)
			})
		}
	}
}

// run observes a stream, whose labels are the classes.
func run(t *testing.T, l model.Classifier, stream []modeltest.Sample) *tally {
	t.Helper()
	var y tally
	var o model.ClassOutcome
	for _, s := range stream {
		require.NoError(t, l.ObserveClass(&o, s.X, strconv.Itoa(int(s.Y)), 1, nil))
		y.add(&o)
	}
	s := l.Stats()
	assert.True(t, s.CertificateOK, "%+v", s)
	return &y
}
