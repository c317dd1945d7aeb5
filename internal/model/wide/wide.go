// Package wide holds affine regressions on many features: of hundreds of inputs few may matter,
// and a factor of all costs too much. All regressions of all outputs share the features z of a
// row, of which the last is 1:
//
//	lasso    min_w ½ Σω(y − w·z)² + λ Σ_{j<last} s_j |w_j| + ½ Σ_{j<last} w_j²,  λ = κ σ √(2 Σω ln r)
//	firm     the lasso, whose penalty of a weight no longer grows when Σω z_j² |w_j| exceeds 3λs_j
//	ridge    min_w ½ Σω(y − w·z)² + ½ σ² r Σ_{j<last} w_j²
//	adagrad  gradient descent whose steps of a weight shrink with its own past gradients
//
// The number of features is r, and κ is 0.25, of firm 0.5. With s_j² = Σω z_j²/Σω the penalty does not depend on
// the units of z: a feature that is 0 in most rows has a poor unit for long. The variance σ² is the discounted mean square of the
// regression's misses before each row; of lasso and firm, with k nonzero weights, it is at most
//
//	Σω(y − w·z)²/Σω · (Σω + k)/(Σω − k)
//
// This is Akaike's estimate of the mean square miss of a next row: earlier misses say little of weights that
// change. The lasso draws all weights towards 0, and finds out early which matter; firm leaves the large weights
// as they are. All three descend one coordinate after another; the
// products Σωzz' that they need are r²/2 numbers, so that above MostDense features adagrad with and
// without the penalty λ takes their place. A row counts ω, see model.Weights.
//
// Sources: Angelosante, Bazerque and Giannakis, Online Adaptive Estimation of Sparse Signals:
// Where RLS Meets the l1-Norm (IEEE Transactions on Signal Processing 58, 2010), §III, for
// coordinate descent on running products; Zhang, Nearly Unbiased Variable Selection under Minimax
// Concave Penalty (Annals of Statistics 38, 2010), for firm; Akaike, Fitting Autoregressive Models for
// Prediction (Annals of the Institute of Statistical Mathematics 21, 1969), for σ; Duchi, Hazan and Singer, Adaptive
// Subgradient Methods for Online Learning and Stochastic Optimization (JMLR 12, 2011), §1.1 and
// §5.1, for adagrad and its soft threshold.
package wide

import (
	"math"

	"hindsight/internal/model/codec"
	"hindsight/internal/model/exponential"
	"hindsight/internal/model/loops"
)

// Options of Regressions.
type Options struct {
	// Features is r, the number of features, at least 2. The last is 1.
	Features int
	// Outputs is the number of labels of a row.
	Outputs int
}

const (
	// MostDense is the largest number of features with lasso, firm and ridge.
	MostDense = 1100

	lassoKappa, firmKappa = 0.25, 0.5

	discount = 0.99 // Of the mean square of misses.
	// The smallest mean square of misses: labels have a deviation of about 1.
	leastNoise = 1e-12
	// Most that a weight and a sum of products may be.
	maxWeight, maxProduct = 1e30, 1e60
)

// dense reports whether Σωzz' is affordable, so that lasso, firm and ridge learn.
func (o Options) dense() bool { return o.Features <= MostDense }

// Names are the regressions of an output. The first one screens inputs.
func (o Options) Names() []string {
	if o.dense() {
		return []string{"lasso", "firm", "ridge", "adagrad"}
	}
	return []string{"adagrad/sparse", "adagrad"}
}

// Experts is the number of regressions of an output.
func (o Options) Experts() int { return len(o.Names()) }

// Regressions are the regressions of all outputs. Predict may run concurrently with itself.
type Regressions struct {
	o Options
	// counted is Σω.
	counted float64
	// products is nil unless the options are dense.
	products *products
	// fits and descents are by outputs.
	fits     []fit
	descents []descent
}

// New has learned nothing.
func New(o Options) *Regressions {
	g := &Regressions{o: o}
	if o.dense() {
		n := o.Features
		g.products = &products{order: n, packed: make([]float64, n*(n+1)/2), waiting: make([]float64, loops.Rows*n)}
	}
	for range o.Outputs {
		if o.dense() {
			g.fits = append(g.fits,
				newFit(o.Features, lassoKappa, endless), newFit(o.Features, firmKappa, firmReach), newFit(o.Features, 0, endless))
		} else {
			g.descents = append(g.descents, newDescent(o.Features, lassoKappa))
		}
		g.descents = append(g.descents, newDescent(o.Features, 0))
	}
	return g
}

// Predict writes the predictions of the regressions of an output.
func (g *Regressions) Predict(dst, z []float64, output int) {
	fits, descents := g.of(output)
	for i := range fits {
		dst[i] = loops.Dot(fits[i].weights, z)
	}
	for i := range descents {
		dst[len(fits)+i] = loops.Dot(descents[i].weights, z)
	}
}

func (g *Regressions) of(output int) ([]fit, []descent) {
	f, d := len(g.fits)/g.o.Outputs, len(g.descents)/g.o.Outputs
	return g.fits[output*f:][:f], g.descents[output*d:][:d]
}

// Weight is the weight of a feature in a regression of an output.
func (g *Regressions) Weight(output, expert, feature int) float64 {
	fits, descents := g.of(output)
	if expert < len(fits) {
		return fits[expert].weights[feature]
	}
	return descents[expert-len(fits)].weights[feature]
}

// Learn teaches the regressions the labels of a row that counts ω, given what Predict said.
func (g *Regressions) Learn(z, labels, said []float64, counts float64) {
	g.counted += counts
	root := math.Sqrt(2 * exponential.Log(float64(g.o.Features)) / g.counted)
	experts := g.o.Experts()
	for j, y := range labels {
		fits, descents := g.of(j)
		said := said[j*experts:][:experts]
		for i := range fits {
			fits[i].learn(z, y-said[i], counts)
		}
		for i := range descents {
			descents[i].learn(z, y-said[len(fits)+i], counts, root)
		}
	}
	if g.products != nil && g.products.add(z, counts) {
		each := max(1, mostChanges/len(g.fits))
		for i := range g.fits {
			g.fits[i].descend(g.products, float64(root*g.counted), each)
		}
	}
}

// Visit visits the state.
func (g *Regressions) Visit(v *codec.Visitor) {
	if v.Within(maxProduct, &g.counted); v.Reading() && g.counted < 0 {
		v.Corrupt("rows that count %g", g.counted)
	}
	if g.products != nil {
		g.products.visit(v)
	}
	for i := range g.fits {
		g.fits[i].visit(v)
	}
	for i := range g.descents {
		g.descents[i].visit(v)
	}
}

// Bytes is the memory of regressions.
func (o Options) Bytes() uint64 {
	r, k := uint64(o.Features), uint64(o.Outputs*o.Experts())
	size := 8*k*(2*r+4) + 256
	if o.dense() {
		size += 8 * (r*(r+1)/2 + 2*loops.Rows*r)
	}
	return size
}

// Flops are the multiply-adds to learn a row, and to predict one.
func (o Options) Flops() (learn, predict uint64) {
	r, k := uint64(o.Features), uint64(o.Outputs)
	predict = r * k * uint64(o.Experts())
	learn = 2*predict + 30*r*k
	if o.dense() {
		learn += r*(r+1)/2 + mostChanges*r*2/loops.Rows
	}
	return learn, predict
}
