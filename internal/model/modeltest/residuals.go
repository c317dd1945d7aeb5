package modeltest

import (
	"strings"
	"testing"

	"hindsight/internal/model"
	"hindsight/internal/model/catalog"
)

// Regressions are the streams with real labels.
func Regressions() []string {
	return []string{"air", "air_raw", "energy", "energy_adaraker", "energy_appliances", "bike", "casp"}
}

// Residuals are y − ŷ of every row of a stream, in order, for a learner that does well on all
// Regressions: a forecaster over Fourier features that forgets, behind a warm-up, of the
// row's inputs and the label before. Rows of air_raw without a label are left out.
func Residuals(t *testing.T, name string) []float64 {
	t.Helper()
	samples := Stream(t, name+".csv.gz", -1)
	forgetting, lambda, last := 0.999, 0.1, 0.0
	learner, err := catalog.New(model.Spec{
		Dimension: len(samples[0].X) + 1, Outputs: 1, Seed: 1,
		FourierAWV: &model.FourierAWV{Forgetting: &forgetting, Lambda: &lambda},
		Scaling:    &model.Scaling{Warmup: &model.WarmupScaling{Observations: 100}},
	})
	if err != nil {
		t.Fatal(err)
	}
	var residuals []float64
	for _, s := range samples {
		if strings.HasPrefix(name, "air_raw") && s.Y == -200 {
			continue
		}
		o, err := Observe(learner, append(s.X, last), s.Y, 1)
		if err != nil {
			t.Fatal(err)
		}
		last = s.Y
		residuals = append(residuals, s.Y-o.Prediction)
	}
	return residuals
}
