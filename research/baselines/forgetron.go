package baselines

import "math"

// deviation is the constant of the Forgetron paper, Theorem 5.2.
const deviation = 15.0 / 32

// Forgetron is the self-tuned Forgetron: O. Dekel, S. Shalev-Shwartz, Y. Singer,
// The Forgetron: a kernel-based perceptron on a budget, SIAM Journal on Computing
// 37 (2008), section 5. It is a perceptron that keeps the inputs of its last B
// mistakes. Before the oldest one r is forgotten, all coefficients shrink by the
// largest φ ≤ 1 with
//
//	Q + Ψ(φβ_r, φμ) ≤ (15/32) M,   Ψ(λ,μ) = λ² + 2λ − 2λμ,   μ = y_r f(x_r)
//
// where M counts the mistakes so far, Q is the sum of Ψ before, and β_r = |α_r|. The
// formula supposes k(x,x) ≤ 1. The AdaRaker paper also uses it with the linear and
// the polynomial kernel, where it is not a bound.
type Forgetron struct {
	kernel   Kernel
	budget   int
	support  []int     // rounds, oldest first
	weights  []float64 // α_i
	damage   float64   // Q
	mistakes int       // M
	value    float64
}

// NewForgetron returns f = 0.
func NewForgetron(kernel Kernel, budget int) *Forgetron {
	return &Forgetron{kernel: kernel, budget: budget}
}

// Predict returns f(x) from the values k(x_i, x) of all inputs so far. It costs B.
func (f *Forgetron) Predict(row []float64) float64 {
	f.value = 0
	for j, i := range f.support {
		f.value += f.weights[j] * row[i]
	}
	return f.value
}

// Learn takes the label, -1 or +1, of the last of the inputs. It reports whether the
// prediction had the wrong sign; 0 is wrong. A mistake costs Bd.
func (f *Forgetron) Learn(inputs [][]float64, y float64) (mistake bool) {
	if f.value*y > 0 {
		return false
	}
	f.mistakes++
	f.support, f.weights = append(f.support, len(inputs)-1), append(f.weights, y)
	if len(f.support) > f.budget {
		f.forget(inputs)
	}
	return true
}

// forget shrinks the function and removes its oldest input.
func (f *Forgetron) forget(inputs [][]float64) {
	oldest := inputs[f.support[0]]
	at := 0.0
	for j, i := range f.support {
		at += f.weights[j] * f.kernel.Value(inputs[i], oldest)
	}
	beta, mu := math.Abs(f.weights[0]), math.Copysign(1, f.weights[0])*at
	square, linear := beta*beta-2*beta*mu, 2*beta
	phi := shrinkage(square, linear, f.damage-deviation*float64(f.mistakes))
	f.damage += phi*phi*square + phi*linear
	f.support, f.weights = f.support[1:], f.weights[1:]
	for j := range f.weights {
		f.weights[j] *= phi
	}
}

// Damage returns Q and its bound (15/32) M.
func (f *Forgetron) Damage() (damage, bound float64) {
	return f.damage, deviation * float64(f.mistakes)
}

// Size is the number of inputs that the function keeps.
func (f *Forgetron) Size() int { return len(f.support) }

// shrinkage is the largest φ in (0, 1] with aφ² + bφ + c ≤ 0, for b > 0 and c < 0:
// figure 4 of the Forgetron paper.
func shrinkage(a, b, c float64) float64 {
	discriminant := b*b - 4*a*c
	root := math.Sqrt(max(0, discriminant))
	switch {
	case a == 0:
		return min(1, -c/b)
	case a > 0, discriminant > 0 && (-b-root)/(2*a) > 1:
		return min(1, (-b+root)/(2*a))
	default:
		return 1
	}
}

// MForgetron mixes one Forgetron for every kernel of the dictionary: M-Forgetron of
// the AdaRaker paper, section 5. The weights are those of (21) with the number of
// mistakes as the loss.
type MForgetron struct {
	budget     int
	forgetrons []*Forgetron
	mixture    *Mixture
	values     []Values
}

// NewMForgetron returns f = 0.
func NewMForgetron(budget int) *MForgetron {
	m := &MForgetron{budget: budget, mixture: NewMixture(Dictionary), values: make([]Values, Dictionary)}
	for _, k := range Kernels()[:Dictionary] {
		m.forgetrons = append(m.forgetrons, NewForgetron(k, budget))
	}
	return m
}

// Predict returns f(x) of the last input.
func (m *MForgetron) Predict(p *Past) float64 {
	for k, f := range m.forgetrons {
		m.values[k] = Values{f.Predict(p.Row(k))}
	}
	return m.mixture.Predict(m.values)[0]
}

// Learn takes the label, -1 or +1, of the last input.
func (m *MForgetron) Learn(p *Past, y float64) {
	for k, f := range m.forgetrons {
		m.values[k] = Values{}
		if f.Learn(p.inputs, y) {
			m.values[k][0] = 1
		}
	}
	m.mixture.Learn(m.values)
}
