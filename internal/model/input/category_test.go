package input_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"hindsight/internal/model"
	"hindsight/internal/model/input"
)

// An integer and its text are one category.
func TestNumberAsCategory(t *testing.T) {
	s := schemaOf(t, []*model.Input{{Name: "c", Categorical: &model.CategoricalInput{MaxCategories: ptr(2)}}})
	for text, number := range map[string]float64{"7": 7, "1000185": 1000185, "-20000000": -2e7, "9007199254740991": 1<<53 - 1, "0.5": 0.5} {
		e := input.NewEncoder(s)
		e.Learn(record(t, s, row{"c": text}))
		got := e.Encode(nil, record(t, s, row{"c": number}))
		assert.EqualValues(t, 1, got[0], "%s: the number has the features %v, want the category of the text", text, got)
	}
}
