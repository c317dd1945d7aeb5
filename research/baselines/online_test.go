package baselines_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"hindsight/cmd/research/baselines"
)

// mixture is (21) of the AdaRaker paper by the book: weights from sums of losses.
type mixture struct{ sums []float64 }

func (m *mixture) predict(values []float64) (f float64) {
	total := 0.0
	for p, v := range values {
		w := math.Exp(-0.5 * m.sums[p])
		f, total = f+w*v, total+w
	}
	return f / total
}

// book is every online method by the book, for one step.
type book struct {
	singles  []*descent
	average  *descent
	mixed    mixture
	budgeted [][]*descent
	budgets  []mixture
}

func newBook(loss baselines.Loss, ridge, rate float64) *book {
	single := func(kernel func(x, z []float64) float64, budget int) *descent {
		return &descent{kernel: kernel, loss: loss, ridge: ridge, rate: rate, budget: budget}
	}
	b := &book{average: single(average, 0), mixed: mixture{make([]float64, baselines.Dictionary)}}
	for _, k := range baselines.Kernels() {
		b.singles = append(b.singles, single(k.Value, 0))
	}
	for _, budget := range baselines.Budgets() {
		var all []*descent
		for _, k := range baselines.Kernels()[:baselines.Dictionary] {
			all = append(all, single(k.Value, budget))
		}
		b.budgeted = append(b.budgeted, all)
		b.budgets = append(b.budgets, mixture{make([]float64, baselines.Dictionary)})
	}
	return b
}

// observe returns the predictions in the order of Courses, and learns.
func (b *book) observe(x []float64, y float64) (told []float64) {
	for _, d := range b.singles {
		told = append(told, d.predict(x))
	}
	told = append(told, b.average.predict(x), b.mixed.predict(told[:baselines.Dictionary]))
	for i, all := range b.budgeted {
		var values []float64
		for _, d := range all {
			values = append(values, d.predict(x))
		}
		told = append(told, b.budgets[i].predict(values))
	}
	for k := range b.mixed.sums {
		b.mixed.sums[k] += b.singles[k].objective(x, y)
	}
	for i, all := range b.budgeted {
		for k, d := range all {
			b.budgets[i].sums[k] += d.objective(x, y)
			d.learn(x, y)
		}
	}
	for _, d := range b.singles {
		d.learn(x, y)
	}
	b.average.learn(x, y)
	return told
}

// RBF, POLY, LINEAR, AvgMKL, OMKL and OMKL-B of Online predict what the methods of
// the AdaRaker paper, sections 3.2 and 5, predict when they are computed from
// scratch: with the ridges 0.01 and 0.005, and the steps 0.1/√T and 1/√T. The stream is
// longer than every budget.
func TestOnline(t *testing.T) {
	const rounds, d = 130, 3
	for _, signs := range []bool{false, true} {
		loss, ridge := baselines.Squared, 0.01
		if signs {
			loss, ridge = baselines.Logistic, 0.005
		}
		random := rand.New(rand.NewPCG(4, 4))
		x := inputs(random, rounds, d)
		y := labels(random, loss, x)
		online := baselines.NewOnline(signs, rounds)
		steps := []int{baselines.Tenth, baselines.Stated}
		books := make(map[int]*book)
		for _, s := range steps {
			books[s] = newBook(loss, ridge, baselines.Factor(s)/math.Sqrt(rounds))
		}
		for i := range x {
			told := online.Observe(x[i], y[i])
			if len(told) != len(online.Courses()) {
				t.Fatalf("%d predictions of %d courses", len(told), len(online.Courses()))
			}
			for _, s := range steps {
				want := books[s].observe(x[i], y[i])
				for c, course := range online.Courses() {
					if course.Step == s {
						near(t, fmt.Sprintf("%s, step %d, round %d", course.Method, s, i), told[c], want[0], 1e-9)
						want = want[1:]
					}
				}
				if len(want) != 0 {
					t.Fatalf("%d methods too few", len(want))
				}
			}
		}
		if forgetrons := len(online.Courses()) % baselines.Steps; signs != (forgetrons == len(baselines.Budgets())) {
			t.Errorf("signs %v: %d methods without a step", signs, forgetrons)
		}
	}
}

// A function that has diverged has no part in the mixture. If all have, there is no
// prediction.
func TestMixtureDiverged(t *testing.T) {
	m := baselines.NewMixture(2)
	bad, good := baselines.Values{}, baselines.Values{}
	for s := range bad {
		bad[s], good[s] = math.NaN(), 3
	}
	if got := m.Predict([]baselines.Values{bad, good})[0]; got != 3 {
		t.Errorf("mixed with a function that has diverged: %v", got)
	}
	m.Learn([]baselines.Values{bad, {}})
	if got := m.Predict([]baselines.Values{{0: 7}, good})[0]; got != 3 {
		t.Errorf("after a loss without end: %v", got)
	}
	if got := m.Predict([]baselines.Values{bad, bad})[0]; !math.IsNaN(got) {
		t.Errorf("all have diverged: %v", got)
	}
}

// Equal losses keep the weights equal, and the one with less loss wins.
func TestMixture(t *testing.T) {
	m := baselines.NewMixture(2)
	values := []baselines.Values{{0: 1}, {0: 5}}
	m.Learn([]baselines.Values{{0: 2}, {0: 2}})
	near(t, "equal", m.Predict(values)[0], 3, 1e-15)
	m.Learn([]baselines.Values{{0: 2}, {0: 0}})
	near(t, "one loss of 2 more", m.Predict(values)[0], (math.Exp(-1)+5)/(math.Exp(-1)+1), 1e-15)
}
