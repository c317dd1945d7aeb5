package effects

import "math"

// The factors p_c ∈ Rᵏ of single keys, k = rank, multiply the factors of the other keys of the row: with labels of deviation
// d and g_c = Σ p_c' over the other keys c',
//
//	said    e + d Σ_{c<c'} p_cᵀp_c'
//	learned p_c ← p_c + T_c g_c/τ (r − e − d Σ pᵀp)/d,  T_c ← T_c − (T_c g_c)²/τ
//	        τ = Σ s + Σ_c g_cᵀT_c g_c + Σ_{c<c'} tr T_c T_c' + 1/ω
//
// with a diagonal T_c. A new key has T = t_0 and p = ±p_0 with signs of its hash: factors of 0 would learn nothing.
//
// Sources: Rendle, Factorization machines (ICDM 2010), for the model; Stern, Herbrich and Graepel, Matchbox (WWW
// 2009), for the filter.

const (
	rank                        = 8
	firstFactor, factorVariance = .07, .3
)

// factorsOf returns p and T of a slot for an output.
func (o Options) factorsOf(numbers []float64, output int) (values, variances []float64) {
	part := o.productsOf(numbers, output)[2*o.slopeNumbers():]
	return part[:rank], part[rank:]
}

func beginFactors(values, variances []float64, hash uint64) {
	signs := Permute(hash)
	for i := range values {
		values[i], variances[i] = firstFactor, factorVariance
		if signs>>i&1 == 1 {
			values[i] = -firstFactor
		}
	}
}

// sums returns Σ p, Σ p², Σ T and Σ T² of the known keys of a row.
func (e *Effects) sums(r *Row, output int) (p, pp, t, tt [rank]float64) {
	for _, slot := range r.slots[:e.o.Inputs] {
		if slot == none {
			continue
		}
		values, variances := e.o.factorsOf(e.numbers(slot), output)
		for i, value := range values {
			p[i] += value
			pp[i] += float64(value * value)
			t[i] += variances[i]
			tt[i] += float64(variances[i] * variances[i])
		}
	}
	return p, pp, t, tt
}

// pairsOf is Σ_{c<c'} a_cᵀa_c', given Σ a and Σ a².
func pairsOf(sums, squares *[rank]float64) (total float64) {
	for i, sum := range sums {
		total += float64(sum*sum) - squares[i]
	}
	return total / 2
}

// factored is Σ_{c<c'} p_cᵀp_c'.
func (e *Effects) factored(r *Row, output int) float64 {
	p, pp, _, _ := e.sums(r, output)
	return pairsOf(&p, &pp)
}

// learnFactors learns a miss in deviations, given Σ s + 1/ω.
func (e *Effects) learnFactors(r *Row, output int, total, miss float64) {
	p, _, t, tt := e.sums(r, output)
	total += math.Max(0, pairsOf(&t, &tt))
	each := func(visit func(value, variance *float64, g float64)) {
		for _, slot := range r.slots[:e.o.Inputs] {
			if slot == none {
				continue
			}
			values, variances := e.o.factorsOf(e.numbers(slot), output)
			for i := range values {
				visit(&values[i], &variances[i], p[i]-values[i])
			}
		}
	}
	each(func(_, variance *float64, g float64) { total += float64(float64(*variance*g) * g) })
	each(func(value, variance *float64, g float64) {
		gain := float64(*variance*g) / total
		*value = within(*value + float64(gain*miss))
		*variance = math.Max(0, *variance-float64(float64(gain*g)**variance))
	})
}
