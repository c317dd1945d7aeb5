package baselines

// OMKLB is OMKL whose functions keep the last B inputs only: OMKL-B of the AdaRaker
// paper, section 5, "modified from its single kernel version (Kivinen et al.,
// 2004)". That version drops the oldest coefficient when there are more than B.
type OMKLB struct {
	budget   int
	descents []*OGD
	mixed    *OMKL
	row      []float64
	products [][2]float64
}

// NewOMKLB returns f = 0 for a stream of so many rounds.
func NewOMKLB(loss Loss, ridge float64, rounds, budget int) *OMKLB {
	o := &OMKLB{budget: budget}
	for range Dictionary {
		o.descents = append(o.descents, NewOGD(loss, ridge, rounds))
	}
	o.mixed = NewOMKL(o.descents)
	return o
}

// Predict returns f(x) of the last input.
func (o *OMKLB) Predict(p *Past) Values {
	for k, d := range o.descents {
		d.Predict(p.Row(k))
	}
	return o.mixed.Predict()
}

// Learn makes the steps for the label of the last input, and forgets the oldest
// input of more than B. It costs B(d + 5) multiplications.
func (o *OMKLB) Learn(p *Past, y float64) {
	o.mixed.Learn(y)
	for k, d := range o.descents {
		d.Learn(y, p.Self(k))
	}
	oldest := len(p.inputs) - o.budget - 1
	if oldest < 0 {
		return
	}
	o.products = o.products[:0]
	for _, x := range p.inputs[oldest:] {
		dot, square := products(p.inputs[oldest], x)
		o.products = append(o.products, [2]float64{dot, square})
	}
	for k, d := range o.descents {
		o.row = o.row[:0]
		for _, v := range o.products {
			o.row = append(o.row, p.kinds[k].of(v[0], v[1]))
		}
		d.Forget(o.row)
	}
}
