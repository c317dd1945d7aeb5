package model

// Spec says what a model is. It is immutable once a model exists, and is
// stored with every default filled in. Exactly one learner is set. Its JSON
// form is what logs and snapshots carry; the names are those of the API.
type Spec struct {
	// Dimension is d, the number of inputs.
	Dimension int `json:"dimension"`
	// Outputs is the number of label columns.
	Outputs int `json:"outputs"`
	// Seed seeds every random draw of the learner.
	Seed uint64 `json:"seed"`

	PKAWVTaylor *PKAWVTaylor `json:"pkawv_taylor,omitempty"`
	LinearAWV   *LinearAWV   `json:"linear_awv,omitempty"`
}

// PKAWVTaylor is PKAWV over the Taylor basis of the Gaussian kernel. Zero
// fields take their defaults when the spec is completed, so every field that
// may be left out is a pointer.
type PKAWVTaylor struct {
	// Sigma is the bandwidth σ of exp(−‖x−x'‖²/2σ²).
	Sigma *float64 `json:"sigma,omitempty"`
	// Degree is M, the largest total degree of a monomial.
	Degree *int `json:"degree,omitempty"`
	// Lambda is the ridge λ.
	Lambda *float64 `json:"lambda,omitempty"`
	// MaxFeatures is the ceiling on the number of features.
	MaxFeatures *int `json:"max_features,omitempty"`
}

// LinearAWV is the Azoury-Warmuth-Vovk forecaster over (x, 1).
type LinearAWV struct {
	// Lambda is the ridge λ.
	Lambda *float64 `json:"lambda,omitempty"`
}

// Name is the learner's name, as in the API: pkawv_taylor, linear_awv.
// It is empty when no learner is set.
func (s Spec) Name() string {
	switch {
	case s.PKAWVTaylor != nil:
		return "pkawv_taylor"
	case s.LinearAWV != nil:
		return "linear_awv"
	default:
		return ""
	}
}
