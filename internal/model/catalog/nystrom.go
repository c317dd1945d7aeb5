package catalog

import (
	"errors"
	"fmt"
	"math"

	"hindsight/internal/model"
	"hindsight/internal/model/awv"
	"hindsight/internal/model/feature"
)

// Defaults and limits of the learner over a Nyström dictionary.
const (
	defaultMaxDictionary = 512
	maxDictionary        = 4096
	defaultMu            = 0.1
	defaultEpsilon       = 0.5
	maxWindow            = 1 << 20
)

func nystrom(c *completion, given *model.PKAWVNystrom) entry {
	o := awv.NystromOptions{
		Options:   awv.Options{Outputs: c.outputs},
		Dimension: c.spec.Dimension, Seed: c.spec.Seed, Given: given.Dictionary,
	}
	o.Kernel = c.kernel("kernel", &given.Kernel)
	o.Lambda, o.Path = c.ridges(&given.Lambda, &given.Ridges, c.ridge)
	o.Forgetting = c.forgetting(&given.Forgetting)
	c.remembers(&given.Ridges, o.Forgetting)
	o.Mu = c.ridge("mu", &given.Mu, defaultMu)
	o.Epsilon = c.scale("epsilon", &given.Epsilon, defaultEpsilon)
	o.Beta = c.oversampling(given)
	o.MaxDictionary = c.whole("max_dictionary", &given.MaxDictionary, defaultMaxDictionary, maxDictionary)
	o.Window = c.history(given)
	if c.failed() {
		return entry{}
	}
	limit := feature.KernelInputLimit(o.Kernel, o.Dimension, awv.KernelRange*o.Lambda)
	if c.dictionary(given.Dictionary, limit); c.failed() {
		return entry{}
	}
	return entry{
		cost: awv.NystromCost(o), forgetting: o.Forgetting, ranged: o.Low != nil, inputLimit: limit,
		unfit: c.unfit(o.Kernel, "lambda", o.Lambda, awv.KernelRange),
		make:  func(int) model.Learner { return awv.NewNystrom(o) },
	}
}

// oversampled replaces the horizon and δ of a completed spec by the β that
// follows from them.
func oversampled(given *model.PKAWVNystrom) {
	beta := math.Max(feature.KORSBeta(float64(*given.Horizon), *given.Delta, *given.Epsilon), minScale)
	given.Beta, given.Horizon, given.Delta = &beta, nil, nil
}

// oversampling is β of KORS. It is given, or is 1 as in the paper's experiments.
// Horizon and δ are those of a stored spec of a version that left them in the
// completed spec, and that had the β of ε = ½ for every ε.
func (c *completion) oversampling(given *model.PKAWVNystrom) float64 {
	switch {
	case (given.Horizon == nil) != (given.Delta == nil):
		c.refuse("horizon", "one of horizon and delta", "both, or neither")
		return 0
	case given.Horizon == nil:
		return c.scale("beta", &given.Beta, 1)
	case given.Beta != nil:
		c.refuse("beta", *given.Beta, "beta, or horizon and delta")
	}
	horizon, delta := filled(&given.Horizon, 0), filled(&given.Delta, 0)
	if horizon < 1 {
		c.refuse("horizon", horizon, "1 or more")
	}
	if !(delta > 0 && delta < 1) {
		c.refuse("delta", delta, "above 0 and below 1")
	}
	return math.Max(feature.KORSBeta(float64(horizon), delta, 0.5), minScale)
}

// history is the number of rounds that a growing dictionary may look back on.
func (c *completion) history(given *model.PKAWVNystrom) int {
	if given.History != model.HistoryWindow && given.HistoryWindow != nil {
		c.refuse("history_window", *given.HistoryWindow, "nothing, unless history is a window")
	}
	switch c.choice("history", &given.History, model.HistoryNone, model.HistoryWindow, model.HistoryFull) {
	case model.HistoryWindow:
		return c.whole("history_window", &given.HistoryWindow, 0, maxWindow)
	case model.HistoryFull:
		return awv.WholeHistory
	default:
		return 0
	}
}

// dictionary checks the centres that are given.
func (c *completion) dictionary(centres [][]float64, limit float64) {
	if len(centres) > maxDictionary {
		c.refuse("dictionary", fmt.Sprintf("%d centres", len(centres)), fmt.Sprintf("at most %d", maxDictionary))
	}
	for n, centre := range centres {
		err := model.CheckFeatures(centre, c.spec.Dimension, limit)
		if field := (*model.FieldError)(nil); errors.As(err, &field) {
			c.add(field.At(fmt.Sprintf("%s.dictionary[%d]", c.at, n)))
		}
	}
}
