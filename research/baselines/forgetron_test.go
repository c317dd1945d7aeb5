package baselines_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"hindsight/cmd/research/baselines"
)

// forgetful is the self-tuned Forgetron by the book: φ is found by bisection.
type forgetful struct {
	kernel           baselines.Kernel
	budget, mistakes int
	x                [][]float64
	alpha            []float64
	damage           float64
}

func (f *forgetful) predict(x []float64) (v float64) {
	for i, a := range f.alpha {
		v += a * f.kernel.Value(f.x[i], x)
	}
	return v
}

func (f *forgetful) learn(x []float64, y float64) bool {
	if y*f.predict(x) > 0 {
		return false
	}
	f.mistakes++
	f.x, f.alpha = append(f.x, x), append(f.alpha, y)
	if len(f.x) <= f.budget {
		return true
	}
	oldest := math.Copysign(1, f.alpha[0])
	lambda, mu := math.Abs(f.alpha[0]), oldest*f.predict(f.x[0])
	damage := func(phi float64) float64 {
		return phi*phi*lambda*lambda + 2*phi*lambda - 2*phi*lambda*phi*mu
	}
	allowed := func(phi float64) bool { return f.damage+damage(phi) <= 15.0/32*float64(f.mistakes) }
	phi := 1.0
	if !allowed(1) {
		// Ψ is 0 at φ = 0 and first grows, so the allowed part below 1 ends once, or
		// the largest allowed φ is found from above on a grid.
		low, high := 0.0, 1.0
		for g := 999; g >= 0; g-- {
			if v := float64(g) / 1000; allowed(v) {
				low, high = v, v+0.001
				break
			}
		}
		for range 60 {
			if middle := (low + high) / 2; allowed(middle) {
				low = middle
			} else {
				high = middle
			}
		}
		phi = low
	}
	f.damage += damage(phi)
	f.x, f.alpha = f.x[1:], f.alpha[1:]
	for i := range f.alpha {
		f.alpha[i] *= phi
	}
	return true
}

// The Forgetron and M-Forgetron predict what they predict by the book. The size is
// within the budget, and for the Gaussian kernels the damage within its bound:
// Forgetron paper, section 5.
func TestForgetron(t *testing.T) {
	const rounds, d = 400, 2
	random := rand.New(rand.NewPCG(5, 5))
	x := inputs(random, rounds, d)
	y := labels(random, baselines.Logistic, x)
	for i := range y { // Otherwise there are too few mistakes.
		if random.IntN(5) == 0 {
			y[i] = -y[i]
		}
	}
	for _, budget := range []int{1, 7, 1000} {
		past, mixed := &baselines.Past{}, baselines.NewMForgetron(budget)
		var all []*baselines.Forgetron
		var books []*forgetful
		m := mixture{make([]float64, baselines.Dictionary)}
		for _, k := range baselines.Kernels()[:baselines.Dictionary] {
			all = append(all, baselines.NewForgetron(k, budget))
			books = append(books, &forgetful{kernel: k, budget: budget})
		}
		for i := range x {
			past.Look(x[i])
			var values []float64
			for k, f := range all {
				what := fmt.Sprintf("budget %d, kernel %d, round %d", budget, k, i)
				want := books[k].predict(x[i])
				values = append(values, want)
				near(t, what, f.Predict(past.Row(k)), want, 1e-7)
			}
			near(t, "mixture", mixed.Predict(past), m.predict(values), 1e-7)
			mixed.Learn(past, y[i])
			for k, f := range all {
				wrong := books[k].learn(x[i], y[i])
				if f.Learn(x[:i+1], y[i]) != wrong {
					t.Fatalf("budget %d, kernel %d, round %d: mistake %v", budget, k, i, !wrong)
				}
				if wrong {
					m.sums[k]++
				}
				if damage, bound := f.Damage(); f.Size() > budget || damage > bound+1e-9 {
					t.Fatalf("budget %d, kernel %d, round %d: size %d, damage %v of %v", budget, k, i, f.Size(), damage, bound)
				}
			}
		}
		for k, f := range all {
			if damage, _ := f.Damage(); budget == 1000 && damage != 0 {
				t.Errorf("kernel %d: a budget that is not reached, damage %v", k, damage)
			}
		}
	}
}
