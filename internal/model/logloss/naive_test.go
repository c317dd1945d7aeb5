package logloss_test

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/mat"

	"hindsight/internal/model/moments"
)

// naive is a level for two classes and more without keys, as the formulas of the package say:
// matrices with gonum, posteriors by their precision, probabilities by math.
type naive struct {
	numbers, classes int
	squared          []int
	scale            moments.Table
	// precisions are S⁻¹ of the logistic regressions, weights their w.
	precisions []*mat.SymDense
	weights    []*mat.VecDense
	rows       [][]float64
	truths     []int
	counts     []float64
	stacks     []*naiveStack
	mixture    []float64
	rounds     int
	losses     []float64
}

type naiveStack struct {
	decay float64
	theta []float64
	a     *mat.SymDense
}

func newNaive(numbers, classes int, squared ...int) *naive {
	n := &naive{numbers: numbers, classes: classes, squared: squared, scale: moments.NewTable(numbers), mixture: make([]float64, 7), losses: make([]float64, 8)}
	for i := range n.mixture {
		n.mixture[i] = 1. / 7
	}
	for _, decay := range []float64{0.999, 0.9999, 1} {
		s := &naiveStack{decay, []float64{1. / 3, 1. / 3, 1. / 3, 0}, mat.NewSymDense(4, nil)}
		for i := range 4 {
			s.a.SetSym(i, i, 10)
		}
		n.stacks = append(n.stacks, s)
	}
	return n
}

func sigmoid(a float64) float64 { return 1 / (1 + math.Exp(-math.Max(-15, math.Min(15, a)))) }

// probabilities are at least 1e-7 before they are divided by their sum.
func probabilities(p []float64) []float64 {
	out, sum := make([]float64, len(p)), 0.0
	for k, v := range p {
		out[k] = math.Max(1e-7, v)
		sum += out[k]
	}
	for k := range out {
		out[k] /= sum
	}
	return out
}

func softmax(logs []float64) []float64 {
	out, largest, sum := make([]float64, len(logs)), math.Inf(-1), 0.0
	for _, v := range logs {
		largest = math.Max(largest, v)
	}
	for k, v := range logs {
		out[k] = math.Exp(v - largest)
		sum += out[k]
	}
	for k := range out {
		out[k] /= sum
	}
	return out
}

func (n *naive) standardized(x []float64) (raw []float64, z *mat.VecDense) {
	raw, z = make([]float64, n.numbers), mat.NewVecDense(n.numbers+len(n.squared)+1, nil)
	for j, v := range x {
		raw[j] = n.scale.Cut(j, v)
		if s := n.scale.Deviation(j); s > 0 {
			z.SetVec(j, math.Max(-8, math.Min(8, (raw[j]-n.scale.Mean(j))/s)))
		}
	}
	for i, j := range n.squared {
		z.SetVec(n.numbers+i, math.Min(8, (z.AtVec(j)*z.AtVec(j)-1)/math.Sqrt2))
	}
	z.SetVec(z.Len()-1, 1)
	return raw, z
}

// spread is z'Sz and S z.
func (n *naive) spread(k int, z *mat.VecDense) (q float64, sz *mat.VecDense) {
	sz = mat.NewVecDense(z.Len(), nil)
	if err := sz.SolveVec(n.precisions[k], z); err != nil {
		panic(fmt.Sprint("naive: ", err))
	}
	return mat.Dot(z, sz), sz
}

func (n *naive) logistic(z *mat.VecDense) []float64 {
	var p []float64
	for k := range n.weights {
		q, _ := n.spread(k, z)
		p = append(p, sigmoid(mat.Dot(n.weights[k], z)/math.Sqrt(1+math.Pi*q/8)))
	}
	if n.classes == 2 {
		return []float64{1 - p[0], p[0]}
	}
	sum := 0.0
	for _, v := range p {
		sum += v
	}
	for k := range p {
		p[k] /= sum
	}
	return probabilities(p)
}

// conditional are the densities, of the rows so far.
func (n *naive) conditional(raw []float64) []float64 {
	k := len(n.counts)
	total, all, means := 0.0, make([]float64, n.numbers), make([][]float64, k)
	for _, c := range n.counts {
		total += c
	}
	sums := make([]float64, k)
	within, deviations := make([]float64, n.numbers), 0.0
	for c := range means {
		means[c] = make([]float64, n.numbers)
	}
	for t, row := range n.rows {
		c, w := n.truths[t], row[n.numbers]
		for j := range n.numbers {
			all[j] += w * row[j] / total
			if sums[c] > 0 {
				within[j] += w * sums[c] / (sums[c] + w) * (row[j] - means[c][j]) * (row[j] - means[c][j])
			}
			means[c][j] = (sums[c]*means[c][j] + w*row[j]) / (sums[c] + w)
		}
		if sums[c] > 0 {
			deviations += w
		}
		sums[c] += w
	}
	logs := make([]float64, k)
	for c := range logs {
		logs[c] = math.Log(n.counts[c] / total)
		for j := range n.numbers {
			mean := (sums[c]*means[c][j] + all[j]) / (sums[c] + 1)
			if within[j] > 0 {
				logs[c] -= (raw[j] - mean) * (raw[j] - mean) / (2 * within[j] / deviations)
			}
		}
	}
	return probabilities(softmax(logs))
}

func (n *naive) features(experts [][]float64) (phi [][]float64) {
	total := 0.0
	for _, c := range n.counts {
		total += c
	}
	for k, c := range n.counts {
		phi = append(phi, []float64{
			math.Log(experts[0][k]), math.Log(experts[1][k]), math.Log(experts[2][k]), math.Log(math.Max(1e-9, c/total)),
		})
	}
	return phi
}

// experts are the probabilities of all experts.
func (n *naive) experts(x, calibrated []float64) [][]float64 {
	raw, z := n.standardized(x)
	experts := [][]float64{probabilities(calibrated), n.conditional(raw), n.logistic(z)}
	phi := n.features(experts)
	for _, s := range n.stacks {
		logs := make([]float64, len(phi))
		for k := range phi {
			for i, v := range phi[k] {
				logs[k] += s.theta[i] * v
			}
		}
		largest := math.Inf(-1)
		for _, v := range logs {
			largest = math.Max(largest, v)
		}
		for k := range logs {
			logs[k] = math.Max(logs[k], largest-30)
		}
		experts = append(experts, probabilities(softmax(logs)))
	}
	return append(experts, n.shares())
}

// shares are of Laplace's kind, with a half of each class.
func (n *naive) shares() []float64 {
	p, total := make([]float64, len(n.counts)), float64(len(n.counts))/2
	for _, c := range n.counts {
		total += c
	}
	for k, c := range n.counts {
		p[k] = (c + 0.5) / total
	}
	return p
}

func (n *naive) mix(experts [][]float64) []float64 {
	out := make([]float64, len(n.counts))
	for i, p := range experts {
		for k, v := range p {
			out[k] += n.mixture[i] * v
		}
	}
	return out
}

func (n *naive) learn(x, calibrated []float64, class int, weight float64) {
	raw, z := n.standardized(x)
	known := len(n.counts)
	if known > 1 && class < known {
		n.learnMixture(n.experts(x, calibrated), class, weight)
	}
	total := 0.0
	for _, c := range n.counts {
		total += c
	}
	switch {
	case n.classes > 2 && class == len(n.weights), n.classes == 2 && class == 1 && len(n.weights) == 0:
		precision, w := mat.NewSymDense(z.Len(), nil), mat.NewVecDense(z.Len(), nil)
		for i := range z.Len() - 1 {
			precision.SetSym(i, i, 1/0.2)
		}
		precision.SetSym(z.Len()-1, z.Len()-1, 1./100)
		w.SetVec(z.Len()-1, math.Max(-15, math.Log(weight/(total+weight))))
		n.precisions, n.weights = append(n.precisions, precision), append(n.weights, w)
	}
	for k, w := range n.weights {
		y := 0.0
		if class == k && n.classes > 2 || class == 1 && n.classes == 2 {
			y = 1
		}
		p := sigmoid(mat.Dot(w, z))
		n.precisions[k].SymRankOne(n.precisions[k], weight*p*(1-p), z)
		_, step := n.spread(k, z)
		w.AddScaledVec(w, weight*(y-p), step)
	}
	n.rows, n.truths = append(n.rows, append(raw, weight)), append(n.truths, class)
	if class == known {
		n.counts = append(n.counts, 0)
	}
	n.counts[class] += weight
	n.scale.Add(x, math.Min(1, weight))
}

func (n *naive) learnMixture(experts [][]float64, class int, weight float64) {
	n.rounds++
	counts := math.Min(1, weight)
	n.losses[7] -= counts * math.Log(n.mix(experts)[class])
	sum := 0.0
	for i, p := range experts {
		n.losses[i] -= counts * math.Log(p[class])
		n.mixture[i] *= math.Pow(p[class], counts)
		sum += n.mixture[i]
	}
	alpha := 1 / float64(n.rounds+1)
	for i := range n.mixture {
		n.mixture[i] = (1-alpha)*n.mixture[i]/sum + alpha/7
	}
	phi := n.features(experts)
	for i, s := range n.stacks {
		s.learn(phi, experts[3+i], class, weight)
	}
}

func (s *naiveStack) learn(phi [][]float64, p []float64, class int, weight float64) {
	mean := mat.NewVecDense(4, nil)
	for k, f := range phi {
		mean.AddScaledVec(mean, p[k], mat.NewVecDense(4, f))
	}
	s.a.ScaleSym(s.decay, s.a)
	for i := range 4 {
		s.a.SetSym(i, i, s.a.At(i, i)+10*(1-s.decay))
	}
	for k, f := range phi {
		var off mat.VecDense
		off.SubVec(mat.NewVecDense(4, f), mean)
		s.a.SymRankOne(s.a, weight*p[k], &off)
	}
	var gradient, step mat.VecDense
	gradient.SubVec(mean, mat.NewVecDense(4, phi[class]))
	gradient.ScaleVec(weight, &gradient)
	if err := step.SolveVec(s.a, &gradient); err != nil {
		panic(fmt.Sprint("naive: ", err))
	}
	for i := range s.theta {
		s.theta[i] -= step.AtVec(i)
	}
}
