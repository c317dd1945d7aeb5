package catalog

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"

	"hindsight/internal/model"
	"hindsight/internal/model/awv"
	"hindsight/internal/model/feature"
	"hindsight/internal/model/kernel"
)

// Defaults and limits of the kernel learners.
const (
	defaultFrequencies     = 50
	defaultMaxDictionary   = 512
	maxDictionary          = 4096
	defaultMaxObservations = 4000
	maxObservations        = 20_000
	defaultMu              = 0.1
	defaultEpsilon         = 0.5
	maxDegree              = 10
	maxWindow              = 1 << 20
	minRidge               = 1e-12      // A smaller one drowns in the rounding of a Gram matrix.
	fourierStream          = 0x666f7572 // Of the generator that draws frequencies.
)

func kinds() []kernel.Kind {
	return []kernel.Kind{
		kernel.Gaussian, kernel.Laplacian, kernel.Matern12, kernel.Matern32, kernel.Matern52,
		kernel.Cauchy, kernel.RationalQuadratic, kernel.Polynomial, kernel.Linear,
	}
}

// completeKernel checks a kernel and fills in its defaults: Gaussian, σ = 1.
// Parameters that the kind does not use are refused.
func completeKernel(field string, given *model.Kernel) (kernel.Kernel, *model.Kernel, error) {
	if given == nil {
		given = &model.Kernel{}
	}
	k := kernel.Kernel{Kind: kernel.Kind(given.Kind)}
	if k.Kind == "" {
		k.Kind = kernel.Gaussian
	}
	known := false
	var names []string
	for _, kind := range kinds() {
		known = known || kind == k.Kind
		names = append(names, string(kind))
	}
	if !known {
		return k, nil, invalid(field+".kind", given.Kind, "one of "+strings.Join(names, ", "))
	}
	spec := &model.Kernel{Kind: string(k.Kind)}
	for _, p := range []struct {
		name  string
		used  bool
		given *float64
		to    *float64
		set   func(*float64)
	}{
		{"sigma", k.ShiftInvariant(), given.Sigma, &k.Sigma, func(v *float64) { spec.Sigma = v }},
		{"alpha", k.Kind == kernel.RationalQuadratic, given.Alpha, &k.Alpha, func(v *float64) { spec.Alpha = v }},
		{"offset", k.Kind == kernel.Polynomial, given.Offset, &k.Offset, func(v *float64) { spec.Offset = v }},
	} {
		if !p.used {
			if p.given != nil {
				return k, nil, invalid(field+"."+p.name, *p.given, "nothing: a "+string(k.Kind)+" kernel has none")
			}
			continue
		}
		value, err := positive(field+"."+p.name, p.given)
		if err != nil {
			return k, nil, err
		}
		*p.to = value
		p.set(&value)
	}
	degree, err := kernelDegree(field, k.Kind, given.Degree)
	if err != nil {
		return k, nil, err
	}
	k.Degree = degree
	if k.Kind == kernel.Polynomial {
		spec.Degree = &degree
	}
	return k, spec, nil
}

func kernelDegree(field string, kind kernel.Kind, given *int) (int, error) {
	switch {
	case kind != kernel.Polynomial && given != nil:
		return 0, invalid(field+".degree", *given, "nothing: a "+string(kind)+" kernel has none")
	case kind != kernel.Polynomial:
		return 0, nil
	case given == nil:
		return 2, nil
	case *given < 1 || *given > maxDegree:
		return 0, invalid(field+".degree", *given, fmt.Sprintf("1 to %d", maxDegree))
	default:
		return *given, nil
	}
}

// ridge is positive, and not below what a Gram matrix can carry.
func ridge(field string, given *float64) (float64, error) {
	lambda, err := positive(field, given)
	if err == nil && lambda < minRidge {
		err = invalid(field, lambda, fmt.Sprintf("a number from %g to %g", minRidge, maxScale))
	}
	return lambda, err
}

// whole is the given number, or the default, checked to be from 1 to most.
func whole(field string, given *int, otherwise, most int) (int, error) {
	value := otherwise
	if given != nil {
		value = *given
	}
	if value < 1 || value > most {
		return 0, invalid(field, value, fmt.Sprintf("1 to %d", most))
	}
	return value, nil
}

func fourier(s model.Spec) (entry, error) {
	given := *s.FourierAWV
	k, kernelSpec, err := completeKernel("fourier_awv.kernel", given.Kernel)
	if err != nil {
		return entry{}, err
	}
	if !k.Spectral() {
		return entry{}, invalid("fourier_awv.kernel.kind", k.Kind, "a kernel with a spectral density: gaussian, laplacian, matern_12, matern_32, matern_52 or cauchy")
	}
	lambda, err := positive("fourier_awv.lambda", given.Lambda)
	if err != nil {
		return entry{}, err
	}
	frequencies, err := whole("fourier_awv.frequencies", given.Frequencies, defaultFrequencies, MaxFeatures/2)
	if err != nil {
		return entry{}, err
	}
	orthogonal := k.Radial()
	if given.Orthogonal != nil {
		orthogonal = *given.Orthogonal
	}
	if orthogonal && !k.Radial() {
		return entry{}, invalid("fourier_awv.orthogonal", true, "false: a "+string(k.Kind)+" kernel is not radial")
	}
	o, err := forecaster(s, "fourier_awv", lambda, given.Forgetting)
	if err != nil {
		return entry{}, err
	}
	s.FourierAWV = &model.FourierAWV{
		Kernel: kernelSpec, Frequencies: &frequencies, Orthogonal: &orthogonal, Lambda: &lambda, Forgetting: &o.Forgetting,
	}
	cost := awv.Cost(2*frequencies, o, 8*uint64(frequencies*s.Dimension))
	cost.PredictFlops += uint64(frequencies * s.Dimension)
	cost.ObserveFlops += uint64(frequencies * s.Dimension)
	return entry{spec: s, cost: cost, forgetting: o.Forgetting, make: func() model.Learner {
		rng := rand.New(rand.NewPCG(s.Seed, fourierStream))
		return awv.New(feature.NewFourier(k, s.Dimension, frequencies, orthogonal, rng), o)
	}}, nil
}

func exact(s model.Spec) (entry, error) {
	given := *s.KernelAWV
	k, kernelSpec, err := completeKernel("kernel_awv.kernel", given.Kernel)
	if err != nil {
		return entry{}, err
	}
	lambda, err := ridge("kernel_awv.lambda", given.Lambda)
	if err != nil {
		return entry{}, err
	}
	capacity, err := whole("kernel_awv.max_observations", given.MaxObservations, defaultMaxObservations, maxObservations)
	if err != nil {
		return entry{}, err
	}
	s.KernelAWV = &model.KernelAWV{Kernel: kernelSpec, Lambda: &lambda, MaxObservations: &capacity}
	o := awv.KernelOptions{Kernel: k, Dimension: s.Dimension, Lambda: lambda, Outputs: s.Outputs, Capacity: capacity}
	limit := feature.KernelInputLimit(k, s.Dimension, awv.KernelRange*lambda)
	return entry{spec: s, cost: awv.KernelCost(o), inputLimit: limit, make: func() model.Learner { return awv.NewKernel(o) }}, nil
}

func nystrom(s model.Spec) (entry, error) {
	given := *s.PKAWVNystrom
	k, kernelSpec, err := completeKernel("pkawv_nystrom.kernel", given.Kernel)
	if err != nil {
		return entry{}, err
	}
	done := model.PKAWVNystrom{
		Kernel: kernelSpec, History: given.History, HistoryWindow: given.HistoryWindow, Dictionary: given.Dictionary,
	}
	o := awv.NystromOptions{Kernel: k, Dimension: s.Dimension, Seed: s.Seed, Given: given.Dictionary}
	lambda, err := ridge("pkawv_nystrom.lambda", given.Lambda)
	if err != nil {
		return entry{}, err
	}
	if o.Options, err = forecaster(s, "pkawv_nystrom", lambda, given.Forgetting); err != nil {
		return entry{}, err
	}
	if err := sampling(&o, given, &done); err != nil {
		return entry{}, err
	}
	if o.MaxDictionary, err = whole("pkawv_nystrom.max_dictionary", given.MaxDictionary, defaultMaxDictionary, maxDictionary); err != nil {
		return entry{}, err
	}
	if err := history(&o, given, &done); err != nil {
		return entry{}, err
	}
	if err := beforehand(o); err != nil {
		return entry{}, err
	}
	done.Lambda, done.MaxDictionary, done.Forgetting = &o.Lambda, &o.MaxDictionary, &o.Forgetting
	s.PKAWVNystrom = &done
	return entry{
		spec: s, cost: awv.NystromCost(o), forgetting: o.Forgetting,
		inputLimit: feature.KernelInputLimit(k, s.Dimension, awv.KernelRange*lambda),
		make:       func() model.Learner { return awv.NewNystrom(o) },
	}, nil
}

// sampling completes KORS's parameters: β is given, follows from horizon and
// δ, or is 1 as in the paper's experiments.
func sampling(o *awv.NystromOptions, given model.PKAWVNystrom, done *model.PKAWVNystrom) (err error) {
	mu, epsilon := defaultMu, defaultEpsilon
	if given.Mu != nil {
		mu = *given.Mu
	}
	if given.Epsilon != nil {
		epsilon = *given.Epsilon
	}
	if o.Mu, err = ridge("pkawv_nystrom.mu", &mu); err != nil {
		return err
	}
	if o.Epsilon, err = positive("pkawv_nystrom.epsilon", &epsilon); err != nil {
		return err
	}
	switch {
	case (given.Horizon == nil) != (given.Delta == nil):
		return invalid("pkawv_nystrom.horizon", "one of horizon and delta", "both, or neither")
	case given.Horizon != nil && given.Beta != nil:
		return invalid("pkawv_nystrom.beta", *given.Beta, "beta, or horizon and delta")
	case given.Horizon != nil:
		if *given.Horizon < 1 {
			return invalid("pkawv_nystrom.horizon", *given.Horizon, "1 or more")
		}
		if !(*given.Delta > 0 && *given.Delta < 1) {
			return invalid("pkawv_nystrom.delta", *given.Delta, "above 0 and below 1")
		}
		o.Beta = math.Max(feature.KORSBeta(float64(*given.Horizon), *given.Delta), minScale)
		done.Horizon, done.Delta = given.Horizon, given.Delta
	default:
		if o.Beta, err = positive("pkawv_nystrom.beta", given.Beta); err != nil {
			return err
		}
	}
	done.Mu, done.Epsilon = &o.Mu, &o.Epsilon
	if given.Horizon == nil {
		done.Beta = &o.Beta
	}
	return nil
}

func history(o *awv.NystromOptions, given model.PKAWVNystrom, done *model.PKAWVNystrom) (err error) {
	if given.History != model.HistoryWindow && given.HistoryWindow != nil {
		return invalid("pkawv_nystrom.history_window", *given.HistoryWindow, "nothing, unless history is a window")
	}
	switch given.History {
	case "", model.HistoryNone:
		done.History = model.HistoryNone
	case model.HistoryFull:
		o.Window = awv.WholeHistory
	case model.HistoryWindow:
		o.Window, err = whole("pkawv_nystrom.history_window", given.HistoryWindow, 0, maxWindow)
	default:
		err = invalid("pkawv_nystrom.history", given.History, "none, window or full")
	}
	return err
}

// beforehand checks a given dictionary.
func beforehand(o awv.NystromOptions) error {
	if len(o.Given) > maxDictionary {
		return invalid("pkawv_nystrom.dictionary", fmt.Sprintf("%d centres", len(o.Given)), fmt.Sprintf("at most %d", maxDictionary))
	}
	limit := feature.KernelInputLimit(o.Kernel, o.Dimension, awv.KernelRange*o.Lambda)
	for n, centre := range o.Given {
		if err := model.CheckFeatures(centre, o.Dimension, limit); err != nil {
			var field *model.FieldError
			if errors.As(err, &field) {
				return field.At(fmt.Sprintf("spec.pkawv_nystrom.dictionary[%d]", n))
			}
			return err
		}
	}
	return nil
}
