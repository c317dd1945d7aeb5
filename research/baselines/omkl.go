package baselines

// OMKL mixes the functions of OGD of the kernels of the dictionary, each of which
// makes its own steps: AdaRaker paper, section 5, after D. Sahoo, S. Hoi, B. Li,
// Online multiple kernel regression, KDD 2014. The weights are those of (21).
type OMKL struct {
	descents []*OGD
	mixture  *Mixture
	values   []Values
}

// NewOMKL returns the mixture of functions that others predict and teach.
func NewOMKL(descents []*OGD) *OMKL {
	return &OMKL{descents: descents, mixture: NewMixture(len(descents)), values: make([]Values, len(descents))}
}

// Predict mixes what the functions predicted last.
func (o *OMKL) Predict() Values {
	for k, d := range o.descents {
		o.values[k] = d.value
	}
	return o.mixture.Predict(o.values)
}

// Learn weighs the functions by their losses under the label. It is called before
// the functions learn it.
func (o *OMKL) Learn(y float64) {
	for k, d := range o.descents {
		o.values[k] = d.Losses(y)
	}
	o.mixture.Learn(o.values)
}
