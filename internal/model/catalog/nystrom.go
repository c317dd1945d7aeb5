package catalog

import (
	"cmp"
	"fmt"
	"math"

	"hindsight/internal/model"
	"hindsight/internal/model/awv"
	"hindsight/internal/model/feature"
)

const (
	defaultMaxDictionary = 512
	maxDictionary        = 4096
	defaultMu            = 0.1
	defaultEpsilon       = 0.5
	maxWindow            = 1 << 20
	windowOfFull         = 8 // Rounds a centre of a full dictionary.
)

func nystrom(c *completion, given *model.PKAWVNystrom) entry {
	o := awv.NystromOptions{
		Options:    awv.Options{Outputs: c.outputs},
		Dictionary: feature.SampledOptions{Dimension: c.spec.Dimension, Seed: c.spec.Seed, Given: given.Dictionary},
	}
	d := &o.Dictionary
	d.Kernel = c.kernel("kernel", &given.Kernel)
	o.Lambda, o.Lambdas = c.ridges(&given.Lambda, &given.Ridges, c.ridge)
	o.Forgetting = c.forgetting(&given.Forgetting)
	c.remembers(&given.Ridges, o.Forgetting)
	mixes := c.mixesPrefixes("mix_sizes", &given.MixSizes, &given.Ridges, o.Forgetting)
	d.Mu = c.ridge("mu", &given.Mu, defaultMu)
	d.Epsilon = c.scale("epsilon", &given.Epsilon, defaultEpsilon)
	d.Beta = c.oversampling(given, d.Epsilon)
	d.Capacity = c.whole("max_dictionary", &given.MaxDictionary, defaultMaxDictionary, maxDictionary)
	o.Window, o.Frees = c.history(given, d.Capacity)
	if c.keepsRidge(d.Kernel, "lambda", o.Lambda, awv.KernelRange); c.failed() {
		return entry{}
	}
	limit := feature.KernelInputLimit(d.Kernel, d.Dimension, awv.KernelRange*o.Lambda)
	if c.dictionary(given.Dictionary, limit); c.failed() {
		return entry{}
	}
	if mixes {
		o.Prefixes = dictionarySizes(cmp.Or(len(d.Given), d.Capacity))
	}
	return entry{
		cost: awv.NystromCost(o), forgetting: o.Forgetting, inputLimit: limit,
		make: func(int) model.Learner { return awv.NewNystrom(o) },
	}
}

// dictionarySizes are the prefixes of 1, 2, 4, … centres, and of all.
func dictionarySizes(largest int) (prefixes []awv.Prefix) {
	for m := 1; m < largest; m *= 2 {
		prefixes = append(prefixes, awv.Prefix{Name: fmt.Sprint("centres_", m), Size: m})
	}
	return append(prefixes, awv.Prefix{Name: fmt.Sprint("centres_", largest), Size: largest})
}

// oversampling is β of KORS, 1 as in the paper's experiments, or what horizon and δ determine.
func (c *completion) oversampling(given *model.PKAWVNystrom, epsilon float64) float64 {
	switch {
	case (given.Horizon == nil) != (given.Delta == nil):
		c.reject("horizon", "one of horizon and delta", "both, or neither")
		return 0
	case given.Horizon == nil:
		return c.scale("beta", &given.Beta, 1)
	case given.Beta != nil:
		c.reject("beta", *given.Beta, "beta, or horizon and delta")
	}
	horizon, delta := *given.Horizon, *given.Delta
	if horizon < 1 {
		c.reject("horizon", horizon, "1 or more")
	}
	if !(delta > 0 && delta < 1) {
		c.reject("delta", delta, "above 0 and below 1")
	}
	beta := math.Max(feature.KORSBeta(float64(horizon), delta, epsilon), minScale)
	given.Beta, given.Horizon, given.Delta = &beta, nil, nil
	return beta
}

// history is the window of a growing dictionary, and whether a full dictionary frees it.
func (c *completion) history(given *model.PKAWVNystrom, maxDictionary int) (window int, frees bool) {
	history := c.choice("history", &given.History, model.HistoryNone, model.HistoryWindow, model.HistoryFull)
	switch {
	case history == model.HistoryNone && given.HistoryWindow != nil:
		c.reject("history_window", *given.HistoryWindow, "nothing without a history")
	case history == model.HistoryFull:
		return c.whole("history_window", &given.HistoryWindow, windowOfFull*maxDictionary, maxWindow), true
	case history == model.HistoryWindow:
		return c.whole("history_window", &given.HistoryWindow, 0, maxWindow), false
	}
	return 0, false
}

func (c *completion) dictionary(centres [][]float64, limit float64) {
	if len(centres) > maxDictionary {
		c.reject("dictionary", fmt.Sprintf("%d centres", len(centres)), fmt.Sprintf("at most %d", maxDictionary))
	}
	for n, centre := range centres {
		c.addAt(fmt.Sprintf("%s.dictionary[%d]", c.at, n), model.CheckFeatures(centre, c.spec.Dimension, limit))
	}
}
