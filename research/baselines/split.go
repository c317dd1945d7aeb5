package baselines

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
)

// Split is a sample and the rows to test on, with labels -1 and +1.
type Split struct {
	X, TestX [][]float64
	Y, TestY []float64
}

// The setting of the experiments with NYTRO and SIGM: Tables 4.2, 4.3, 6.1 and 6.2
// of the thesis of R. Camoriano. The kernels are exp(−‖x−z‖²/(2σ²)).
const (
	nytroVariance = 1
	sigmVariance  = 0.6 * 0.6
	// Centres is the largest number of centres. The thesis has 5,000.
	Centres = 512
	// NytroIterations is the number of iterations that the thesis reports,
	// 328.7 on average.
	NytroIterations = 329
	// ManyIterations is a larger number, at which the test error still falls.
	ManyIterations = 5000
	// SigmRows is the size of the small sample of ijcnn1 in Table 6.2.
	SigmRows = 1000
	// SigmDraws is how many samples are drawn. The thesis draws ten.
	SigmDraws = 3
	// SigmPasses is the largest number of passes.
	SigmPasses = 100
)

// heldOut is the share of the sample that chooses parameters.
const heldOut = 0.2

// seed is the seed of the choice of rows.
const seed = 1

// Accuracy is how NYTRO and Nyström KRLS did with m centres.
type Accuracy struct {
	M int
	// Few and Many are the root mean squared errors of NYTRO on the test rows after
	// NytroIterations and ManyIterations. Ridge is that of Nyström KRLS, with the
	// Lambda that is best on the rows held out.
	Few, Many, Ridge, Lambda float64
}

// Lambdas are the ridges of which Nyström KRLS takes one: 10⁻¹⁵, 10⁻¹⁴, ..., 1. The
// thesis has 100 of them in this range.
func Lambdas() (all []float64) {
	for power := -15; power <= 0; power++ {
		all = append(all, math.Pow10(power))
	}
	return all
}

// Accuracies runs NYTRO and Nyström KRLS with 2, 4, 8 and so on up to Centres
// centres, drawn uniformly. 20 % of the sample are held out for the choice of λ. After the
// choice all rows are learned.
func Accuracies(ctx context.Context, s Split) ([]Accuracy, error) {
	random := rand.New(rand.NewPCG(seed, 0))
	x, y := shuffled(s, random)
	most, kept := min(Centres, len(x)), len(x)-int(heldOut*float64(len(x)))
	n, err := NewNystrom(Gaussian(nytroVariance), x[:most])
	if err != nil {
		return nil, err
	}
	if err := n.Add(x[:kept], y[:kept]); err != nil {
		return nil, err
	}
	var all []Accuracy
	var fits []Fit
	for m := 2; m <= most; m *= 2 {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		lambda, err := n.choose(m, x[kept:], y[kept:])
		if err != nil {
			return nil, err
		}
		all = append(all, Accuracy{M: m, Lambda: lambda})
	}
	if err := n.Add(x[kept:], y[kept:]); err != nil {
		return nil, err
	}
	for _, a := range all {
		ridge, err := n.Ridge(a.M, a.Lambda)
		if err != nil {
			return nil, err
		}
		fits = append(append(fits, n.Descend(a.M, 1, NytroIterations, ManyIterations)...), ridge)
	}
	errs := n.Errors(s.TestX, s.TestY, fits...)
	for i := range all {
		all[i].Few, all[i].Many, all[i].Ridge = errs[3*i], errs[3*i+1], errs[3*i+2]
	}
	return all, nil
}

// choose returns the ridge whose function is best on rows. Ridges that are too
// small for the rounding are left out.
func (s *Nystrom) choose(m int, x [][]float64, y []float64) (float64, error) {
	var usable []float64
	var fits []Fit
	for _, lambda := range Lambdas() {
		if fit, err := s.Ridge(m, lambda); err == nil {
			usable, fits = append(usable, lambda), append(fits, fit)
		}
	}
	if len(fits) == 0 {
		return 0, ErrSingular
	}
	errs := s.Errors(x, y, fits...)
	return usable[slices.Index(errs, slices.Min(errs))], nil
}

// shuffled returns the sample in a random order.
func shuffled(s Split, random *rand.Rand) (x [][]float64, y []float64) {
	for _, i := range random.Perm(len(s.X)) {
		x, y = append(x, s.X[i]), append(y, s.Y[i])
	}
	return x, y
}

// Passes is how SIGM did with one kind of step: means over the draws.
type Passes struct {
	// Step names the step.
	Step string
	// Passes is the mean number of passes until the stop.
	Passes float64
	// Verdict is that of the test rows.
	Verdict
}

// SIGM draws samples of SigmRows rows, holds 20 % of each out, makes up to
// SigmPasses passes over the others, and tests the function whose hinge loss is the
// least on the rows held out.
func SIGM(ctx context.Context, s Split) ([]Passes, error) {
	results := []Passes{{Step: "1/√n"}, {Step: "(1/4)/√t"}}
	for draw := range uint64(SigmDraws) {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		random := rand.New(rand.NewPCG(seed, draw+1))
		x, y := shuffled(s, random)
		n := min(SigmRows, len(x))
		kept := n - int(heldOut*float64(n))
		sample := NewSample(Gaussian(sigmVariance), x[:kept], y[:kept])
		var fits []Fit
		for i, step := range []func(int) float64{ConstantStep(n), DecayingStep} {
			fit, passes := sample.stopEarly(step, x[kept:n], y[kept:n], random)
			fits = append(fits, fit)
			results[i].Passes += float64(passes) / SigmDraws
		}
		for i, v := range sample.Check(s.TestX, s.TestY, fits...) {
			results[i].Hinge += v.Hinge / SigmDraws
			results[i].Errors += v.Errors / SigmDraws
		}
	}
	return results, nil
}

// stopEarly makes passes from f = 0 and returns the function whose hinge loss on
// other rows is the least, and the number of its passes.
func (s *Sample) stopEarly(step func(int) float64, x [][]float64, y []float64, random *rand.Rand) (best Fit, passes int) {
	alpha := make(Fit, len(s.x))
	var fits []Fit
	for pass := range SigmPasses {
		s.Pass(alpha, pass*len(alpha), step, random)
		fits = append(fits, slices.Clone(alpha))
	}
	least := math.Inf(1)
	for i, v := range s.Check(x, y, fits...) {
		if v.Hinge < least {
			least, best, passes = v.Hinge, fits[i], i+1
		}
	}
	return best, passes
}
