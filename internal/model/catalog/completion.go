package catalog

import (
	"fmt"
	"slices"
	"strings"

	"hindsight/internal/model"
	"hindsight/internal/model/input"
)

const (
	minScale, maxScale = 1e-30, 1e30
	maxStep            = 1e9
	minForgetting      = 0.01
	minRidge           = 1e-12 // A smaller one drowns in the rounding of a Gram matrix.
)

// completion fills in and checks a spec field by field, and collects every wrong field. After
// a failure the values that its methods return have no meaning: a learner calls failed before
// it computes with them.
//
// The methods take the field's name below at and a pointer to the field. They set the field
// to a copy of its value or to the default, and return the value.
type completion struct {
	spec    model.Spec
	schema  *input.Schema
	outputs int
	// at is the path of the part of the spec under completion.
	at    string
	wrong model.FieldErrors
}

const maxWrong = 100

func (c *completion) failed() bool { return len(c.wrong) > 0 }

// reject records an invalid field, unless the field is already recorded.
func (c *completion) reject(name string, got any, want string) {
	c.fail(model.ErrInvalidSpec, c.at+"."+name, got, want)
}

func (c *completion) fail(sentinel error, field string, got any, want string) {
	c.add(&model.FieldError{Field: field, Err: sentinel, Got: fmt.Sprint(got), Want: want})
}

func (c *completion) add(errs ...*model.FieldError) {
	for _, err := range errs {
		known := slices.ContainsFunc(c.wrong, func(e *model.FieldError) bool { return e.Field == err.Field })
		if !known && len(c.wrong) < maxWrong {
			c.wrong = append(c.wrong, err)
		}
	}
}

// filled sets a field that is nil to the default, and any other to a copy of its value.
func filled[T any](field **T, otherwise T) T {
	value := otherwise
	if *field != nil {
		value = **field
	}
	*field = &value
	return value
}

func (c *completion) number(name string, field **float64, otherwise, lowest, limit float64) float64 {
	value := filled(field, otherwise)
	if !(value >= lowest && value <= limit) {
		c.reject(name, value, fmt.Sprintf("a number from %g to %g", lowest, limit))
	}
	return value
}

// scale is a positive number that cannot overflow the arithmetic.
func (c *completion) scale(name string, field **float64, otherwise float64) float64 {
	return c.number(name, field, otherwise, minScale, maxScale)
}

// ridge is a scale that a Gram matrix does not round away.
func (c *completion) ridge(name string, field **float64, otherwise float64) float64 {
	value := c.scale(name, field, otherwise)
	if value < minRidge {
		c.reject(name, value, fmt.Sprintf("a number from %g to %g", minRidge, maxScale))
	}
	return value
}

func (c *completion) step(name string, field **float64, otherwise float64) float64 {
	value := c.number(name, field, otherwise, 0, maxStep)
	if value == 0 {
		c.reject(name, value, fmt.Sprintf("a number from 0 to %g", maxStep))
	}
	return value
}

// forgetting is the factor by which the past counts less each round; the default is 1.
func (c *completion) forgetting(field **float64) float64 {
	return c.number("forgetting", field, 1, minForgetting, 1)
}

func (c *completion) whole(name string, field **int, otherwise, limit int) int {
	value := filled(field, otherwise)
	if value < 1 || value > limit {
		c.reject(name, value, fmt.Sprintf("1 to %d", limit))
	}
	return value
}

// choice is one of the names. The default is the first.
func (c *completion) choice(name string, field *string, names ...string) string {
	if *field == "" {
		*field = names[0]
	}
	if !slices.Contains(names, *field) {
		last := len(names) - 1
		c.reject(name, *field, strings.Join(names[:last], ", ")+" or "+names[last])
	}
	return *field
}

func (c *completion) bounds(given []float64) (low, high float64) {
	want := fmt.Sprintf("a lowest and a highest label, of magnitudes up to %g and at least %g apart", model.MaxMagnitude, minScale)
	if len(given) != 2 {
		c.reject("range", fmt.Sprintf("%d numbers", len(given)), want)
		return 0, 0
	}
	if low, high = given[0], given[1]; !isOffset(low) || !isOffset(high) || !(high-low >= minScale) {
		c.reject("range", given, want)
		return 0, 0
	}
	return low, high
}
