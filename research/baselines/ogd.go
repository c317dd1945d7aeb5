package baselines

import "math"

// Steps is the number of step sizes that run side by side.
const Steps = 7

// Stated is the index of the step 1/√T, Tenth of a tenth of it.
const (
	Stated = 3
	Tenth  = 2
)

// Factor is c of the step c/√T with the given index: 10⁻³, 10⁻², ..., 10³, the
// steps that Tables 5 and 11 of the AdaRaker paper choose from.
func Factor(step int) float64 { return math.Pow10(step - Stated) }

// Values are one number for every step size.
type Values [Steps]float64

// divergence is the magnitude of a prediction that ends a function.
const divergence = 1e100

// leastScale is the scale below which it is multiplied into the coefficients.
const leastScale = 1e-6

// OGD is online gradient descent in the space of one kernel, with all step sizes
// side by side: RBF, POLY and LINEAR of the AdaRaker paper, section 5. It is (12)
// there with the kernel in place of random features, which is equation (11) of
// J. Kivinen, A. Smola, R. Williamson, Online learning with kernels, IEEE
// Transactions on Signal Processing 52 (2004):
//
//	f ← (1 − 2ηλ)f − η ℓ'(f(x_t), y_t) k(x_t,·)
//
// The function is f = s·Σ a_i k(x_i,·). The scale s takes the factor 1 − 2ηλ, so a
// round costs Steps multiplications for every input so far. A function whose
// prediction exceeds 1e100 has diverged: from then on it predicts NaN.
type OGD struct {
	loss         Loss
	ridge        float64
	rate, scale  Values
	coefficients []Values
	from         int // the first input that is not forgotten
	norm         Values
	value        Values
	diverged     [Steps]bool
}

// NewOGD returns f = 0 for a stream of T = rounds rounds.
func NewOGD(loss Loss, ridge float64, rounds int) *OGD {
	o := &OGD{loss: loss, ridge: ridge}
	for s := range o.rate {
		o.rate[s] = Factor(s) / math.Sqrt(float64(rounds))
		o.scale[s] = 1
	}
	return o
}

// Predict returns f(x) from the values k(x_i, x) of all inputs so far.
func (o *OGD) Predict(row []float64) Values {
	var a, b, c, d, e, f, g float64
	row = row[o.from:]
	for i, v := range o.coefficients[o.from:][:len(row)] {
		k := row[i]
		a += v[0] * k
		b += v[1] * k
		c += v[2] * k
		d += v[3] * k
		e += v[4] * k
		f += v[5] * k
		g += v[6] * k
	}
	o.value = Values{a, b, c, d, e, f, g}
	for s := range o.value {
		o.value[s] *= o.scale[s]
		if o.diverged[s] = o.diverged[s] || !(math.Abs(o.value[s]) < divergence); o.diverged[s] {
			o.value[s] = math.NaN()
		}
	}
	return o.value
}

// Losses returns ℓ(f(x), y) + λ‖f‖² of the prediction before, (10) of the AdaRaker
// paper.
func (o *OGD) Losses(y float64) (losses Values) {
	for s, f := range o.value {
		losses[s] = o.loss.Of(f, y) + o.ridge*o.norm[s]
	}
	return losses
}

// Learn makes the step for the label y of the input that Predict was asked for.
// Self is k(x, x).
func (o *OGD) Learn(y, self float64) {
	var added Values
	for s, f := range o.value {
		if o.diverged[s] {
			continue
		}
		change, shrink := -o.rate[s]*o.loss.Slope(f, y), 1-2*o.rate[s]*o.ridge
		o.norm[s] = max(0, shrink*shrink*o.norm[s]+2*shrink*change*f+change*change*self)
		o.scale[s] *= shrink
		if math.Abs(o.scale[s]) < leastScale {
			o.absorb(s)
		}
		added[s] = change / o.scale[s]
	}
	o.coefficients = append(o.coefficients, added)
}

// absorb multiplies a scale into the coefficients.
func (o *OGD) absorb(s int) {
	for i := range o.coefficients {
		o.coefficients[i][s] *= o.scale[s]
	}
	o.scale[s] = 1
}

// Forget removes the oldest input r from the function. The row has k(x_r, x_i) for
// all inputs that are not forgotten, r first.
func (o *OGD) Forget(row []float64) {
	var at Values
	for i, k := range row {
		for s, a := range o.coefficients[o.from+i] {
			at[s] += a * k
		}
	}
	for s, a := range o.coefficients[o.from] {
		scaled := a * o.scale[s]
		o.norm[s] = max(0, o.norm[s]-2*scaled*at[s]*o.scale[s]+scaled*scaled*row[0])
	}
	o.from++
}
