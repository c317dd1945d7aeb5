package logloss

import (
	"math"

	"hindsight/internal/model/codec"
)

// regression is logistic regression of one class on many features, most of which are 0. The weights are
// independent and normal, with the variances s_j = 1/(¼ + C_j). With the truth y, a row of weight ω that says
// p of the class has h = ω max(1/10, p(1 − p)), and learns
//
//	w_j ← w_j − s_j v_j ω(p − y)/(1 + h Σ_i s_i v_i²),  C_j ← C_j + h v_j²
//
// The weight of a rare feature has a large variance, and takes most of the step of a row.
//
// Sources: Crammer, Kulesza and Dredze, Adaptive Regularization of Weight Vectors (NIPS 2009), §3, for the
// diagonal; Graepel, Quiñonero Candela, Borchert and Herbrich, Web-Scale Bayesian Click-Through Rate Prediction
// (ICML 2010), for classes.
type regression struct{ weights, curvatures []float64 }

const (
	leastPrecision  = 0.25
	leastCurvature  = 0.1
	maxSparseWeight = 1e6
)

// entry is the value of a feature. The feature is unknown if number < 0.
type entry struct {
	number int
	value  float64
}

func newRegression(features int) regression {
	return regression{weights: make([]float64, features), curvatures: make([]float64, features)}
}

func (r *regression) add() { r.weights, r.curvatures = append(r.weights, 0), append(r.curvatures, 0) }

// odds are w·v.
func (r *regression) odds(row []entry) (sum float64) {
	for _, e := range row {
		if e.number >= 0 {
			sum += float64(r.weights[e.number] * e.value)
		}
	}
	return sum
}

// spread is Σ s_j v_j².
func (r *regression) spread(row []entry) (sum float64) {
	for _, e := range row {
		sum += float64(e.value*e.value) / (leastPrecision + r.curvatures[e.number])
	}
	return sum
}

// learn learns of a row that says p, given the spread of all its features.
func (r *regression) learn(row []entry, p, y, spread, weight float64) {
	h := float64(weight * math.Max(leastCurvature, float64(p*(1-p))))
	step := float64(weight*(p-y)) / (1 + float64(h*spread))
	for _, e := range row {
		w, c := &r.weights[e.number], &r.curvatures[e.number]
		*w -= float64(step*e.value) / (leastPrecision + *c)
		*w = math.Max(-maxSparseWeight, math.Min(maxSparseWeight, *w))
		*c = math.Min(maxCount, *c+float64(float64(h*e.value)*e.value))
	}
}

func (r *regression) visit(v *codec.Visitor) {
	v.FloatsWithin(maxSparseWeight, r.weights)
	v.FloatsWithin(maxCount, r.curvatures)
	for j, c := range r.curvatures {
		if v.Reading() && c < 0 {
			v.Corrupt("weight %d has a curvature of %g", j, c)
			return
		}
	}
}

func indicator(class, k int) float64 {
	if class == k {
		return 1
	}
	return 0
}
