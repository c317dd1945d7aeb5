// Package catalog turns a spec into a learner. It is the only place that
// knows every learner.
package catalog

import (
	"fmt"
	"math"
	"strconv"

	"hindsight/internal/model"
	"hindsight/internal/model/awv"
	"hindsight/internal/model/feature"
)

// Limits of a spec.
const (
	// MaxDimension is the largest number of inputs.
	MaxDimension = 1 << 16
	// MaxFeatures is the largest number of features: the factor then takes
	// 1 GiB.
	MaxFeatures = 1 << 14
	// AutoDegree is the largest Taylor degree that a spec without one gets:
	// inside the unit ball of bandwidths its kernel is exact to 1/9!.
	AutoDegree = 8

	defaultFeatures      = 512
	defaultGivenFeatures = 4096
	minScale, maxScale   = 1e-30, 1e30

	// MaxOutputs is the largest number of label columns.
	MaxOutputs = 1024

	minForgetting = 0.01
)

// entry is what the catalogue knows of one completed spec.
type entry struct {
	spec model.Spec
	cost model.Cost
	make func() model.Learner
	// inputLimit is the largest magnitude of an input, 0 for any; forgetting
	// the learner's factor, 0 for none.
	inputLimit, forgetting float64
	// classifies says that labels are classes, -1 and 1.
	classifies bool
}

// Complete checks a spec and fills in its defaults.
func Complete(s model.Spec) (model.Spec, model.Cost, error) {
	e, err := look(s)
	return e.spec, e.cost, err
}

// New is a learner of the spec that has seen nothing.
func New(s model.Spec) (model.Learner, error) {
	e, err := look(s)
	if err != nil {
		return nil, err
	}
	return e.make(), nil
}

func look(s model.Spec) (entry, error) {
	e, err := lookUnscaled(s)
	if err != nil {
		return entry{}, err
	}
	return scaled(e)
}

func lookUnscaled(s model.Spec) (entry, error) {
	if s.Dimension < 1 || s.Dimension > MaxDimension {
		return entry{}, invalid("dimension", s.Dimension, fmt.Sprintf("1 to %d", MaxDimension))
	}
	if s.Outputs == 0 {
		s.Outputs = 1
	}
	if s.Outputs < 1 || s.Outputs > MaxOutputs {
		return entry{}, invalid("outputs", s.Outputs, fmt.Sprintf("1 to %d", MaxOutputs))
	}
	if firstOrder := s.Raker != nil || s.AdaRaker != nil || s.FOGD != nil; firstOrder && s.Outputs != 1 {
		return entry{}, invalid("outputs", s.Outputs, "1: "+s.Name()+" learns a single label")
	}
	learners := 0
	for _, set := range []bool{
		s.PKAWVTaylor != nil, s.PKAWVNystrom != nil, s.FourierAWV != nil, s.LinearAWV != nil, s.KernelAWV != nil,
		s.Raker != nil, s.AdaRaker != nil, s.FOGD != nil,
	} {
		if set {
			learners++
		}
	}
	switch {
	case learners != 1:
		return entry{}, &model.FieldError{
			Field: "spec.learner", Err: model.ErrInvalidSpec,
			Got: fmt.Sprintf("%d learners", learners), Want: "exactly one, such as pkawv_taylor: {}",
		}
	case s.PKAWVTaylor != nil:
		return taylor(s)
	case s.PKAWVNystrom != nil:
		return nystrom(s)
	case s.FourierAWV != nil:
		return fourier(s)
	case s.KernelAWV != nil:
		return exact(s)
	case s.Raker != nil:
		return rakerOf(s)
	case s.AdaRaker != nil:
		return adaRaker(s)
	case s.FOGD != nil:
		return fogd(s)
	default:
		return linear(s)
	}
}

func taylor(s model.Spec) (entry, error) {
	given := *s.PKAWVTaylor
	lambda, err := positive("pkawv_taylor.lambda", given.Lambda)
	if err != nil {
		return entry{}, err
	}
	sigma, err := positive("pkawv_taylor.sigma", given.Sigma)
	if err != nil {
		return entry{}, err
	}
	// Left to the server, the degree is at least 1: a wide input gets the
	// linear part of its kernel rather than a constant.
	ceiling := min(max(defaultFeatures, s.Dimension+1), defaultGivenFeatures)
	if given.Degree != nil {
		ceiling = defaultGivenFeatures
	}
	if given.MaxFeatures != nil {
		ceiling = *given.MaxFeatures
	}
	if ceiling < 1 || ceiling > MaxFeatures {
		return entry{}, invalid("pkawv_taylor.max_features", ceiling, fmt.Sprintf("1 to %d", MaxFeatures))
	}
	degree := feature.LargestTaylorDegree(s.Dimension, ceiling, AutoDegree)
	if given.Degree != nil {
		degree = *given.Degree
	}
	if given.Degree == nil && degree == 0 {
		return entry{}, &model.FieldError{
			Field: "spec.dimension", Err: model.ErrSpecTooLarge,
			Got: strconv.Itoa(s.Dimension), Want: fmt.Sprintf("below max_features = %d, or a degree given", ceiling),
		}
	}
	if degree < 0 {
		return entry{}, invalid("pkawv_taylor.degree", degree, "0 or more")
	}
	size := feature.TaylorSize(s.Dimension, degree, ceiling)
	if size > ceiling {
		return entry{}, &model.FieldError{
			Field: "spec.pkawv_taylor.degree", Err: model.ErrSpecTooLarge,
			Got: fmt.Sprintf("%d, whose features in dimension %d outnumber max_features = %d", degree, s.Dimension, ceiling),
			Want: fmt.Sprintf("at most %d, the largest degree that fits",
				feature.LargestTaylorDegree(s.Dimension, ceiling, degree)),
		}
	}
	spans := 0 // One for every monomial below the last level.
	if degree > 0 {
		spans = feature.TaylorSize(s.Dimension, degree-1, ceiling)
	}
	o, err := forecaster(s, "pkawv_taylor", lambda, given.Forgetting)
	if err != nil {
		return entry{}, err
	}
	s.PKAWVTaylor = &model.PKAWVTaylor{
		Sigma: &sigma, Degree: &degree, Lambda: &lambda, MaxFeatures: &ceiling, Forgetting: &o.Forgetting,
	}
	return entry{
		spec: s, forgetting: o.Forgetting,
		cost: awv.Cost(size, o, 16*uint64(spans)),
		make: func() model.Learner {
			return awv.New(feature.NewTaylor(s.Dimension, sigma, degree), o)
		},
	}, nil
}

func linear(s model.Spec) (entry, error) {
	lambda, err := positive("linear_awv.lambda", s.LinearAWV.Lambda)
	if err != nil {
		return entry{}, err
	}
	if s.Dimension+1 > MaxFeatures {
		return entry{}, &model.FieldError{
			Field: "spec.dimension", Err: model.ErrSpecTooLarge,
			Got: strconv.Itoa(s.Dimension), Want: fmt.Sprintf("at most %d for linear_awv", MaxFeatures-1),
		}
	}
	o, err := forecaster(s, "linear_awv", lambda, s.LinearAWV.Forgetting)
	if err != nil {
		return entry{}, err
	}
	s.LinearAWV = &model.LinearAWV{Lambda: &lambda, Forgetting: &o.Forgetting}
	return entry{
		spec: s, forgetting: o.Forgetting,
		cost: awv.Cost(s.Dimension+1, o, 0),
		make: func() model.Learner { return awv.New(feature.NewAffine(s.Dimension), o) },
	}, nil
}

// forecaster is what the AWV learners share. Unless a forgetting factor is
// given, nothing is forgotten.
func forecaster(s model.Spec, learner string, lambda float64, forgetting *float64) (awv.Options, error) {
	o := awv.Options{Lambda: lambda, Outputs: s.Outputs, Forgetting: 1}
	if forgetting != nil {
		o.Forgetting = *forgetting
	}
	if !(o.Forgetting >= minForgetting && o.Forgetting <= 1) {
		return o, invalid(learner+".forgetting", o.Forgetting, fmt.Sprintf("a number from %g to 1", minForgetting))
	}
	return o, nil
}

// positive is the given value, 1 when none is, checked to be a scale that
// arithmetic survives.
func positive(field string, given *float64) (float64, error) {
	value := 1.0
	if given != nil {
		value = *given
	}
	if !(value >= minScale && value <= maxScale) || math.IsInf(value, 0) {
		return 0, invalid(field, value, fmt.Sprintf("a number from %g to %g", minScale, maxScale))
	}
	return value, nil
}

func invalid(field string, got any, want string) error {
	return &model.FieldError{
		Field: "spec." + field, Err: model.ErrInvalidSpec,
		Got: fmt.Sprint(got), Want: want,
	}
}
