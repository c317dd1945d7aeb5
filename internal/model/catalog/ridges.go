package catalog

import (
	"fmt"

	"hindsight/internal/model"
	"hindsight/internal/model/awv"
	"hindsight/internal/model/feature"
)

const (
	minRidges = 2
	maxRidges = 16
)

// ridges completes λ by one ridge, or several, which replace it, and returns the smallest.
func (c *completion) ridges(
	lambda **float64, several *model.Ridges, one func(name string, field **float64, otherwise float64) float64,
) (float64, []float64) {
	lambdas := several.Lambdas
	if len(lambdas) == 0 {
		several.Lambdas = nil
		return one("lambda", lambda, defaultLambda), nil
	}
	if *lambda != nil {
		c.reject("lambda", **lambda, "lambda or lambdas")
	}
	if len(lambdas) < minRidges || len(lambdas) > maxRidges {
		c.reject("lambdas", fmt.Sprintf("%d ridges", len(lambdas)), fmt.Sprintf("%d to %d", minRidges, maxRidges))
	}
	before := 0.0
	for k, v := range lambdas {
		name, field := fmt.Sprintf("lambdas[%d]", k), &v
		if one(name, &field, 1); v <= before {
			c.reject(name, v, fmt.Sprintf("more than %g, the one before", before))
		}
		before = v
	}
	return lambdas[0], lambdas
}

// forecaster is the forecaster of one ridge, or a mixture over several.
func forecaster(features feature.Map, o awv.Options, lambdas []float64) model.Learner {
	if len(lambdas) == 0 {
		return awv.New(features, o)
	}
	return awv.NewRidges(features, o, lambdas)
}

func (c *completion) remembers(several *model.Ridges, forgetting float64) {
	if len(several.Lambdas) > 0 && forgetting < 1 {
		c.reject("forgetting", forgetting, "1 with lambdas")
	}
}

// mixesPrefixes completes a field that mixes fewer features in, which wants one ridge and no
// forgetting. A field that is off is absent.
func (c *completion) mixesPrefixes(name string, field **bool, several *model.Ridges, forgetting float64) bool {
	if !filled(field, false) {
		*field = nil
		return false
	}
	switch {
	case len(several.Lambdas) > 0:
		c.reject(name, true, "false with lambdas")
	case forgetting < 1:
		c.reject(name, true, "false with forgetting below 1")
	}
	return true
}
