package model_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"hindsight/internal/model"
)

// The dimension of named inputs follows from them: a caller who changes an input has sent no dimension.
func TestDifferencesOmitTheDimensionOfInputs(t *testing.T) {
	spec := func(dimension int, inputs ...*model.Input) model.Spec {
		return model.Spec{Dimension: dimension, Inputs: inputs, LinearAWV: &model.LinearAWV{}}
	}
	number := &model.Input{Name: "x", Numeric: &model.NumericInput{}}
	class := &model.Input{Name: "x", Categorical: &model.CategoricalInput{}}
	fields := func(errs model.FieldErrors) (out []string) {
		for _, e := range errs {
			out = append(out, e.Field)
		}
		return out
	}
	assert.Equal(t, []string{"spec.inputs[0].categorical", "spec.inputs[0].numeric"}, fields(spec(2, number).Differences(spec(65, class))))
	assert.Equal(t, []string{"spec.dimension"}, fields(spec(2).Differences(spec(3))))
	assert.Equal(t, []string{"spec.dimension", "spec.inputs"}, fields(spec(2, number).Differences(spec(3))))
	assert.Equal(t, []string{"spec.dimension"}, fields(spec(2, number).Differences(spec(3, number))), "two specs that differ are not the same")
}
