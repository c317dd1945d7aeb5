package awv

import (
	"slices"

	"hindsight/internal/model"
	"hindsight/internal/model/compensated"
	"hindsight/internal/model/feature"
)

// Semiparametric is the forecaster over a parametric block and the features of a kernel: two
// ridges in one problem. With the gain g = √(λ/λ_p),
//
//	min over π, w of Σ (y − π·(x_P, 1) − w·φ(x))² + λ_p‖π‖² + λ‖w‖²
//
// is the problem of the features (g·(x_P, 1), φ(x)) with the ridge λ. All else, the theorem
// included, is the forecaster's. The block comes first: the first rows and columns of the
// factor belong to the parametric model alone:
//
//	π̂ = g R_pp⁻¹ u_p, which explains ‖u_p‖²/‖u‖² of all that is explained
//
// Source: Camoriano, thesis (Genoa, 2017), chapter 8, whose second stage learns the residuals
// of the parametric part. Here both are learned at once.
type Semiparametric struct {
	*Forecaster
	features *feature.Semiparametric
}

// NewSemiparametric is a forecaster without observations. It panics where New does.
func NewSemiparametric(features *feature.Semiparametric, o Options) *Semiparametric {
	return &Semiparametric{Forecaster: New(features, o), features: features}
}

// Predict adds to the forecaster's prediction the prediction of the parametric model alone, for v =
// R⁻ᵀz
//
//	π̂·(x_P, 1) = v_p·u_p
//
// the value of the function with the weights of Report, not divided by 1 + q. It costs p more
// multiply-adds an output, for p parametric features.
func (s *Semiparametric) Predict(p *model.Prediction, x []float64) error {
	if err := s.checkFeatures(x); err != nil {
		return err
	}
	buffer := s.scratch.take(s.factor.Order())
	defer s.scratch.give(buffer)
	v := *buffer
	s.predict(p, v, x)
	k := s.o.Outputs
	p.Parametric = slices.Grow(p.Parametric, k)[:k]
	clear(p.Parametric)
	block, right := len(s.features.Parametric())+1, s.factor.Right()
	for i := range block {
		for j := range k {
			p.Parametric[j] += float64(v[i] * right[i*k+j])
		}
	}
	return nil
}

// Report adds the weights of the parametric model alone, the best ridge function of (x_P, 1)
// in hindsight, and its share, at p²/2 + rk multiply-adds.
func (s *Semiparametric) Report(o model.ReportOptions) model.Report {
	r := s.Forecaster.Report(o)
	r.Weights, r.ParametricShare = s.parametricWeights(), s.parametricShare()
	return r
}

// parametricWeights are π̂ of every output, each with the constant last.
func (s *Semiparametric) parametricWeights() []model.Weight {
	inputs := s.features.Parametric()
	g := make([]float64, len(inputs)+1)
	if len(g)*s.o.Outputs > maxWeights {
		return nil
	}
	weights := make([]model.Weight, 0, len(g)*s.o.Outputs)
	for j := range s.o.Outputs {
		s.factor.Weights(g, j)
		weights = appendWeights(weights, j, inputs, g, s.features.Gain())
	}
	return weights
}

// parametricShare is ‖u_p‖²/‖u‖², nil while u is 0.
func (s *Semiparametric) parametricShare() *float64 {
	var total compensated.Sum
	part, right := 0.0, s.factor.Right()
	last := (len(s.features.Parametric()) + 1) * s.o.Outputs
	for i, u := range right {
		if i == last {
			part = total.Value()
		}
		total.Add(float64(u * u))
	}
	if !(total.Value() > 0) {
		return nil
	}
	share := part / total.Value()
	return &share
}
