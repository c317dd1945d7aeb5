package regret

import (
	"math"

	"hindsight/internal/model/compensated"
	"hindsight/internal/model/loops"
	"hindsight/internal/model/losses"
	"hindsight/internal/model/qr"
)

// bounds are lower ≤ L* ≤ upper.
type bounds struct{ lower, upper float64 }

// maps are the rows of each map, or of the kernel, as coordinates of one length: fewer than features
// if there are fewer rows.
func (c *Class) maps(rows []row, pause func()) [][][]float64 {
	if c.Kernel != nil {
		return [][][]float64{compress(len(rows), func(a, b int) float64 { return c.Kernel.At(rows[a].features, rows[b].features) }, pause)}
	}
	sizes := c.Sizes
	for _, m := range c.Maps {
		sizes = append(sizes, m.Size())
	}
	all, from := make([][][]float64, len(sizes)), 0
	for m, size := range sizes {
		of := make([][]float64, len(rows))
		for n := range rows {
			z := rows[n].features[min(from, len(rows[n].features)):]
			if of[n] = z[:min(size, len(z))]; len(of[n]) < size {
				of[n] = append(make([]float64, 0, size), of[n]...)[:size]
			}
		}
		if len(rows) < size {
			of = compress(len(rows), func(a, b int) float64 { return loops.Dot(of[a], of[b]) }, pause)
		}
		all[m], from = of, from+size
	}
	return all
}

// compress are coordinates of points in an orthonormal basis of their span, given their inner products,
// by a Cholesky factor with pivots: the next of the basis is the point that the others leave most of.
func compress(points int, product func(a, b int) float64, pause func()) [][]float64 {
	const rounding = 1e-15 // Of the square of a point: small points beside large ones count.
	out, left, squares := make([][]float64, points), make([]float64, points), make([]float64, points)
	for n := range out {
		squares[n] = product(n, n)
	}
	copy(left, squares)
	for range points {
		pause()
		pivot := 0
		for n, v := range left {
			if !(v > rounding*squares[n]) {
				left[n] = 0
			} else if v > left[pivot] {
				pivot = n
			}
		}
		if left[pivot] == 0 {
			break
		}
		root, of := math.Sqrt(left[pivot]), out[pivot]
		for n, v := range out {
			next := (product(n, pivot) - loops.Dot(v, of)) / root
			if n == pivot {
				next = root
			}
			out[n] = append(v, next)
			left[n] -= float64(next * next)
		}
		left[pivot] = 0
	}
	return out
}

func (c *Class) solve(rows []row, z [][]float64, windows []Window, outputs int, pause func()) [][]bounds {
	if !c.newton() {
		return c.leastSquares(rows, z, windows, outputs, pause)
	}
	out := make([][]bounds, len(windows))
	for k := range windows {
		from := len(rows) - windows[k].Rounds
		p := problem{loss: c.Loss, lambda: c.Lambda, limit: c.Limit, rows: z[from:], pause: pause}
		if p.limit == 0 {
			p.limit = math.Inf(1)
		}
		p.weights, p.labels = make([]float64, len(p.rows)), make([]float64, len(p.rows))
		for j := range outputs {
			for n := range p.rows {
				p.weights[n], p.labels[n] = rows[from+n].weight, c.label(&rows[from+n], j)
			}
			out[k] = append(out[k], p.least())
		}
	}
	return out
}

// ridgeFloor keeps a factor without a ridge positive definite, relative to the squares of the rows. A
// ridge needs no floor: rotations work with its root, which is far above the rounding of large rows.
const ridgeFloor = 1e-12

// leastSquares learns the rows by rotations, the newest first: rotated labels raise L* by their squares.
func (c *Class) leastSquares(rows []row, z [][]float64, windows []Window, outputs int, pause func()) [][]bounds {
	size, lambda := len(z[0]), c.Lambda
	if lambda == 0 {
		for n := range z {
			lambda += float64(rows[n].weight * loops.Dot(z[n], z[n]))
		}
		if lambda *= ridgeFloor; lambda == 0 {
			lambda = 1 // All features are 0.
		}
	}
	factor, row, priors := qr.New(size, outputs, lambda), qr.NewRow(size+outputs), make([]float64, outputs)
	sums := make([]compensated.Sum, outputs)
	var out [][]bounds
	for n := len(rows) - 1; n >= 0; n-- {
		pause()
		root := math.Sqrt(rows[n].weight)
		copy(row, z[n])
		for j := range outputs {
			row[size+j] = c.label(&rows[n], j)
		}
		loops.Scale(row, root)
		factor.Rotate(row, priors)
		for j, residual := range row[size:] {
			sums[j].Add(float64(residual * residual))
		}
		if len(rows)-n == windows[len(out)].Rounds {
			found := make([]bounds, outputs)
			for j := range found {
				found[j] = bounds{sums[j].Value(), sums[j].Value()}
			}
			out = append(out, found)
		}
	}
	return out
}

// problem is min over w of P(w) = Σ ωℓ(w·z, y) + λ‖w‖² with |w·z| ≤ C at all rows. With the dual
//
//	D(α) = −Σ ωψ*(α) − ‖Σ ωα z‖²/4λ,  ψ = ℓ on [−C, C], else ∞
//
// D(α) ≤ min P ≤ P(w) for all α and all admitted w, so that the distance of the two bounds says how
// well the problem is solved, whatever the solver does.
//
// The solver is the method of multipliers. Given α and σ it minimizes, by Newton steps with a line
// search,
//
//	λ‖w‖² + Σ ω min over p of ψ(p) + σ/2 (w·z + α/σ − p)²
//
// and α becomes σ(w·z + α/σ − p), a subgradient of ψ at p, so that ψ*(α) = αp − ψ(p). The
// product σω is at least σ times the mean weight: the limit holds for light rows as for heavy ones.
//
// Source: Rockafellar, Augmented Lagrangians and applications of the proximal point algorithm in convex
// programming (1976).
type problem struct {
	loss            losses.Loss
	lambda, limit   float64
	rows            [][]float64
	labels, weights []float64
	pause           func()
}

const (
	// A problem is solved when the bounds differ by tolerance of the upper one.
	tolerance = 1e-10
	// The solver stops after maxOuter changes of α with maxInner steps each.
	maxOuter, maxInner = 60, 50
	// From 1, of the hinge loss from firstHinge, σ grows by growth with each change up to maxSigma. A small
	// σ makes the kink of the hinge loss wide, so that Newton steps find which rows are at it.
	firstHinge, growth, maxSigma = 1e-4, 4, 1e6
)

// least bounds min P. Without a ridge α has no feasible values, and the lower bound is 0.
func (p *problem) least() bounds {
	n, size := len(p.rows), len(p.rows[0])
	s := solver{
		problem: p, w: make([]float64, size), values: make([]float64, n), multipliers: make([]float64, n),
		slopes: make([]float64, n), points: make([]float64, n), curvatures: make([]float64, n), sigmas: make([]float64, n),
		gradient: make([]float64, size), step: make([]float64, size), along: make([]float64, n),
		gram: make([]float64, size*(size+1)/2), active: make([]float64, loops.Rows*size),
	}
	mean, sigma := 0.0, 1.0
	if p.loss == losses.Hinge {
		sigma = firstHinge
	}
	for _, weight := range p.weights {
		mean += weight / float64(n)
	}
	for i, weight := range p.weights {
		s.sigmas[i] = sigma * math.Max(1, mean/weight)
	}
	s.best.upper = s.primal()
	if p.lambda == 0 {
		return s.best
	}
	for range maxOuter {
		if s.best.upper-s.best.lower <= tolerance*s.best.upper {
			break
		}
		s.minimize()
		copy(s.multipliers, s.slopes)
		s.best.lower = math.Max(s.best.lower, s.dual())
		s.best.upper = math.Min(s.best.upper, s.primal())
		if sigma < maxSigma {
			sigma *= growth
			loops.Scale(s.sigmas, growth)
		}
	}
	return s.best
}

// solver has w, w·z of each row, the multipliers α and σ, and of the present w the α to come, its p, and
// how fast α grows with w·z.
type solver struct {
	*problem
	best                                bounds
	w, values, multipliers, sigmas      []float64
	slopes, points, curvatures          []float64
	gradient, step, along, gram, active []float64
}

// minimize moves w to the minimum for the present α.
func (s *solver) minimize() {
	value, unchecked := s.evaluate(0), 0
	for range maxInner {
		s.pause()
		square := s.newGradient()
		if square/(4*s.lambda) <= 0.1*tolerance*s.best.upper || !s.newStep() {
			return
		}
		descent := loops.Dot(s.gradient, s.step)
		for n, z := range s.rows {
			s.along[n] = loops.Dot(z, s.step)
		}
		// A step below the rounding of the value cannot be checked, and a third one has no use.
		length, small := 1.0, descent <= 1e-12*math.Abs(value)
		if small {
			if unchecked++; unchecked == 3 {
				return
			}
		}
		for try := 0; ; try++ {
			next := s.evaluate(-length)
			if small || next <= value-float64(1e-4*length*descent) {
				value = next
				break
			}
			if length /= 2; try == 50 {
				s.evaluate(0)
				return
			}
		}
		loops.Axpy(s.w, s.step, -length)
		loops.Axpy(s.values, s.along, -length)
	}
}

// evaluate is what minimize minimizes at w + length·step.
func (s *solver) evaluate(length float64) float64 {
	var sum compensated.Sum
	square := 0.0
	for i, v := range s.w {
		v += float64(length * s.step[i])
		square += float64(v * v)
	}
	sum.Add(float64(s.lambda * square))
	for n, u := range s.values {
		sigma := s.sigmas[n]
		at := u + float64(length*s.along[n]) + s.multipliers[n]/sigma
		point, curvature := proximal(s.loss, at, s.labels[n], sigma, s.limit)
		miss := at - point
		s.points[n], s.curvatures[n], s.slopes[n] = point, curvature, float64(sigma*miss)
		sum.Add(float64(s.weights[n] * (s.loss.Value(point, s.labels[n]) + float64(sigma*float64(miss*miss))/2)))
	}
	return sum.Value()
}

// newGradient is 2λw + Σωα z, and returns its square.
func (s *solver) newGradient() float64 {
	for i, v := range s.w {
		s.gradient[i] = float64(2 * s.lambda * v)
	}
	for n, z := range s.rows {
		loops.Axpy(s.gradient, z, float64(s.weights[n]*s.slopes[n]))
	}
	return loops.Dot(s.gradient, s.gradient)
}

// newStep is the Newton step. It fails unless the second derivative is positive definite.
func (s *solver) newStep() bool {
	size := len(s.w)
	clear(s.gram)
	weights, count := [loops.Rows]float64{}, 0
	for n, z := range s.rows {
		if weight := float64(s.weights[n] * s.curvatures[n]); weight > 0 {
			copy(s.active[count*size:], z)
			weights[count] = weight
			count++
		}
		if count == loops.Rows || n == len(s.rows)-1 {
			loops.AddSquares(s.gram, s.active, size, size, weights[:count])
			count = 0
		}
	}
	rest := s.gram
	for i := range size {
		rest[0] += 2 * s.lambda
		rest = rest[size-i:]
	}
	factor, err := qr.Cholesky(size, 1, s.gram, s.pause)
	if err != nil {
		return false
	}
	copy(s.step, s.gradient)
	factor.SetLabels(s.step, 0)
	factor.Weights(s.step, 0)
	return true
}

// dual is D of the slopes.
func (s *solver) dual() float64 {
	var sum compensated.Sum
	clear(s.step)
	for n, z := range s.rows {
		slope, point := s.slopes[n], s.points[n]
		if math.Abs(point) < s.limit && s.loss != losses.Hinge { // Without the error of the point.
			slope = s.loss.Slope(point, s.labels[n])
		}
		sum.Add(-float64(s.weights[n] * (float64(slope*point) - s.loss.Value(point, s.labels[n]))))
		loops.Axpy(s.step, z, float64(s.weights[n]*slope))
	}
	sum.Add(-loops.Dot(s.step, s.step) / (4 * s.lambda))
	return sum.Value()
}

// primal is P(θw) for the largest θ ≤ 1 that is admitted.
func (s *solver) primal() float64 {
	largest := 0.0
	for _, u := range s.values {
		largest = math.Max(largest, math.Abs(u))
	}
	theta := math.Min(1, s.limit/largest)
	if largest == 0 {
		theta = 1
	}
	var sum compensated.Sum
	sum.Add(float64(s.lambda * float64(float64(theta*theta)*loops.Dot(s.w, s.w))))
	for n, u := range s.values {
		sum.Add(float64(s.weights[n] * s.loss.Value(float64(theta*u), s.labels[n])))
	}
	return sum.Value()
}
