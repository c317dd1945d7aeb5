package wide

import (
	"math"

	"hindsight/internal/model/codec"
	"hindsight/internal/model/loops"
)

const (
	// Changes of a weight of all fits after loops.Rows rows.
	mostChanges = 512
	// A change that moves the predictions by less than this part of σ, on average, waits.
	leastChange = 1e-3
)

// products are Σωzz', the upper triangle by rows. Rows wait until they are loops.Rows, because
// a pass over the triangle costs as much for all of them as for one.
type products struct {
	order   int
	packed  []float64
	waiting []float64
	counts  [loops.Rows]float64
	count   int
}

// add takes a row, and reports whether no row waits.
func (p *products) add(z []float64, counts float64) bool {
	copy(p.waiting[p.count*p.order:][:p.order], z)
	p.counts[p.count] = counts
	if p.count++; p.count < loops.Rows {
		return false
	}
	loops.AddSquares(p.packed, p.waiting, p.order, p.order, p.counts[:])
	p.count = 0
	return true
}

func (p *products) row(i int) int { return i*p.order - i*(i-1)/2 }

// diagonal is Σωz_j².
func (p *products) diagonal(j int) float64 { return p.packed[p.row(j)] }

// subtract takes a times column j from c.
func (p *products) subtract(c []float64, j int, a float64) {
	at := j
	for i := range j {
		c[i] -= float64(a * p.packed[at])
		at += p.order - i - 1
	}
	loops.Axpy(c[j:], p.packed[at:][:p.order-j], -a)
}

func (p *products) visit(v *codec.Visitor) {
	v.FloatsWithin(maxProduct, p.packed)
	v.Int(loops.Rows-1, &p.count)
	if v.Err() != nil {
		return
	}
	v.FloatsWithin(maxProduct, p.waiting[:p.count*p.order])
	v.FloatsWithin(1, p.counts[:p.count])
	for j := range p.order {
		if v.Reading() && p.diagonal(j) < 0 {
			v.Corrupt("feature %d has squares of sum %g", j, p.diagonal(j))
		}
	}
}

// γ of firm, and of the other regressions.
const firmReach, endless = 3, math.MaxFloat64

// fit is a lasso, firm if γ is firmReach, or the ridge regression if κ = 0.
type fit struct {
	kappa, gamma float64
	weights      []float64
	// rest is Σω z (y − w·z) over all rows.
	rest []float64
	// noise is the discounted mean square of the misses, squares is Σω(y − w·z)² of the present weights.
	noise, squares float64
	at             int // The next coordinate.
}

func newFit(features int, kappa, gamma float64) fit {
	return fit{kappa: kappa, gamma: gamma, weights: make([]float64, features), rest: make([]float64, features), noise: 1}
}

func (f *fit) learn(z []float64, miss, counts float64) {
	f.noise = newNoise(f.noise, miss, counts)
	f.squares = math.Min(maxProduct, f.squares+float64(float64(counts*miss)*miss))
	loops.Axpy(f.rest, z, float64(counts*miss))
}

// variance is σ², given Σω. Of misses alone it is too large as long as the weights learn fast.
func (f *fit) variance(counted float64) float64 {
	if f.kappa == 0 {
		return f.noise
	}
	nonzero := 0.0
	for _, w := range f.weights[:len(f.weights)-1] {
		if w != 0 {
			nonzero++
		}
	}
	if counted <= nonzero {
		return f.noise
	}
	next := f.squares / counted * ((counted + nonzero) / (counted - nonzero))
	return math.Max(leastNoise, math.Min(f.noise, next))
}

// newNoise is the mean square of misses after a miss.
func newNoise(noise, miss, counts float64) float64 {
	noise += float64(float64(counts*(1-discount)) * (float64(miss*miss) - noise))
	return math.Max(leastNoise, math.Min(maxWeight, noise))
}

// descend goes once through the coordinates, and changes most of them at most. Unit is
// √(2 Σω ln r). With G = Σωzz', λ_j = λ s_j and the ridge ρ, the best w_j beside the other weights is
//
//	S(rest_j + G_jj w_j, λ_j)/(G_jj + ρ),  S(a, λ) = sign(a) max(0, |a| − λ)/(1 − 1/γ), a if |a| > γλ
func (f *fit) descend(p *products, unit float64, most int) {
	last := p.order - 1
	total := p.diagonal(last) // Σω.
	sigma := math.Sqrt(f.variance(total))
	threshold, ridge := float64(float64(f.kappa*sigma)*unit), 1.0
	if f.kappa == 0 {
		ridge = float64(f.noise * float64(p.order))
	}
	small := float64(leastChange * sigma)
	for range p.order {
		j := f.at
		if f.at++; f.at == p.order {
			f.at = 0
		}
		square := p.diagonal(j)
		if square == 0 {
			continue
		}
		next := f.rest[j] + float64(square*f.weights[j])
		if j == last {
			next /= square
		} else {
			next = f.shrunk(next, float64(threshold*math.Sqrt(square/total))) / (square + ridge)
		}
		next = math.Max(-maxWeight, math.Min(maxWeight, next))
		change := next - f.weights[j]
		if float64(change*change)*square <= float64(small*small)*total {
			continue
		}
		f.weights[j] = next
		f.squares = math.Max(0, f.squares-float64(change*(float64(2*f.rest[j])-float64(square*change))))
		p.subtract(f.rest, j, change)
		if most--; most == 0 {
			return
		}
	}
}

// shrunk is S.
func (f *fit) shrunk(a, threshold float64) float64 {
	if math.Abs(a) > float64(f.gamma*threshold) {
		return a
	}
	return soft(a, threshold) / (1 - 1/f.gamma)
}

func soft(a, threshold float64) float64 {
	switch {
	case a > threshold:
		return a - threshold
	case a < -threshold:
		return a + threshold
	default:
		return 0
	}
}

func (f *fit) visit(v *codec.Visitor) {
	v.FloatsWithin(maxWeight, f.weights)
	v.FloatsWithin(maxProduct, f.rest)
	visitNoise(v, &f.noise)
	if v.Within(maxProduct, &f.squares); v.Reading() && f.squares < 0 {
		v.Corrupt("squares of misses of sum %g", f.squares)
	}
	v.Int(len(f.weights)-1, &f.at)
}

func visitNoise(v *codec.Visitor, noise *float64) {
	if v.Within(maxWeight, noise); v.Reading() && !(*noise >= leastNoise) {
		v.Corrupt("misses of mean square %g", *noise)
	}
}
