package catalog_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"hindsight/internal/model"
	"hindsight/internal/model/catalog"
)

// The effective dimension Tr(C(C+λI)⁻¹) of a model that has learned nothing is 0,
// whatever its ridge: C is 0, and rounding leaves no dimension, nor a negative one.
func TestUntrainedEffectiveDimensionIsZero(t *testing.T) {
	track := model.FirstOrder{TrackRegret: ptr(true)}
	for _, lambda := range []float64{1e-6, 0.1, 1, 3, 1e6} {
		for _, spec := range []model.Spec{
			{PKAWVTaylor: &model.PKAWVTaylor{Lambda: &lambda}},
			{PKAWVTaylor: &model.PKAWVTaylor{Lambda: &lambda, Forgetting: ptr(0.99)}},
			{LinearAWV: &model.LinearAWV{Lambda: &lambda}},
			{FourierAWV: &model.FourierAWV{Lambda: &lambda}},
			{PKAWVNystrom: &model.PKAWVNystrom{Lambda: &lambda}},
			{PKAWVNystrom: &model.PKAWVNystrom{Lambda: &lambda, Dictionary: [][]float64{{1, 2, 3}, {3, 1, 2}}}},
			{KernelAWV: &model.KernelAWV{Lambda: &lambda}},
			{RLSC: &model.RLSC{Lambda: &lambda}},
			{Raker: &model.Raker{FirstOrder: track}},
			{AdaRaker: &model.AdaRaker{Raker: model.Raker{FirstOrder: track}}},
			{FOGD: &model.FOGD{FirstOrder: track}},
			{FOGD: &model.FOGD{FirstOrder: model.FirstOrder{TrackRegret: ptr(true), Lambda: &lambda}}},
		} {
			spec.Dimension, spec.Scaling = 3, model.Unscaled()
			learner, err := catalog.New(spec)
			require.NoError(t, err, "%s, lambda = %g", spec.Name(), lambda)
			got := learner.Report(model.ReportOptions{EffectiveDimension: true}).EffectiveDimension
			assert.EqualValues(t, 0, math.Float64bits(got), "%s, lambda = %g: an effective dimension of %g", spec.Name(), lambda, got)
		}
	}
}
