package catalog

import (
	"fmt"
	"slices"

	"hindsight/internal/model"
	"hindsight/internal/model/auto"
	"hindsight/internal/model/awv"
	"hindsight/internal/model/feature"
	"hindsight/internal/model/logloss"
	"hindsight/internal/model/scaling"
)

const (
	defaultLags = 2
	// The default keeps every expert up to some 150 inputs.
	defaultMicroseconds = 500
	maxMicroseconds     = 1e6
	maxAutoFrequencies  = 4096
	defaultKeys         = 1 << 16
	maxAutoKeys         = 1 << 20
	// Of more classes auto learns what costs with the known classes alone: see indicators.
	maxCodedClasses = 256
)

// Levels of prediction intervals.
const (
	defaultCoverage          = 0.9 // Of auto.
	minCoverage, maxCoverage = 0.5, 0.999
	maxLevels                = 8
)

func automatic(c *completion, given *model.Auto) entry {
	if c.spec.Classes == nil && c.spec.LabelGate == "" {
		c.spec.LabelGate = model.GateOn
	}
	o := auto.Options{Dimension: c.spec.Dimension, Outputs: c.outputs, Seed: c.spec.Seed}
	o.Lags = filled(&given.Lags, defaultLags)
	if o.Lags < 0 || o.Lags > auto.MaxLags {
		c.reject("lags", o.Lags, fmt.Sprintf("0 to %d", auto.MaxLags))
	}
	o.Frequencies = c.whole("frequencies", &given.Frequencies, defaultFrequencies, maxAutoFrequencies)
	o.Microseconds = c.number("max_microseconds", &given.MaxMicroseconds, defaultMicroseconds, 1, maxMicroseconds)
	o.MaxKeys = c.whole("max_keys", &given.MaxKeys, defaultKeys, maxAutoKeys)
	if c.failed() {
		return entry{}
	}
	o.Keys = c.keys()
	o.Joint, o.Cycles = c.joint(), c.cycles()
	o.Flags = c.flags()
	e := entry{
		cost: auto.Cost(o), scalesItself: true, advice: auto.AdviceSizes(o),
		make: func(int) model.Learner { return auto.New(o) },
	}
	if c.spec.Classes != nil {
		e.level = &logloss.Options{Dimension: o.Dimension, MaxClasses: *c.spec.Classes.MaxClasses, MaxKeys: o.MaxKeys}
		e.level.Traits = e.level.MaxClasses > 2 && e.level.MaxClasses <= maxCodedClasses
		if c.schema != nil {
			e.level.Tokens, e.level.Buckets = c.schema.Tokens(), c.buckets()
		}
		e.level.Squared = c.squared()
		for _, key := range o.Keys {
			e.level.Keys = append(e.level.Keys, key.Feature)
		}
		if e.level.MaxClasses > maxCodedClasses {
			return c.indicators(e.level)
		}
	}
	return e
}

// indicators is auto of many classes: linear_awv of the indicators of the known classes below the
// level of log loss. A class costs O(dimension) a row, both levels of auto microseconds.
func (c *completion) indicators(level *logloss.Options) entry {
	d := c.spec.Dimension
	ridge := awv.Options{Lambda: 1, Outputs: c.outputs}
	o := scaling.Options{
		Dimension: d, Outputs: c.outputs, InputLimit: model.MaxMagnitude, Forgetting: 1, Warmup: classesWarmup, Running: true,
		New: func(outputs int) model.Learner {
			ridge := ridge
			ridge.Outputs = outputs
			return awv.New(feature.NewAffine(d), ridge)
		},
	}
	cost := awv.Cost(d+1, ridge, 0)
	cost.StateBytes += o.Cost()
	return entry{
		cost: cost, scalesItself: true, indicators: true, level: level,
		make: func(outputs int) model.Learner {
			o := o
			o.Outputs = outputs
			return scaling.New(o)
		},
	}
}

func (c *completion) coverage() {
	s := &c.spec
	if len(s.Coverage) == 0 {
		s.Coverage = nil
		if s.Auto != nil && s.Classes == nil {
			s.Coverage = []float64{defaultCoverage}
		}
	}
	s.Coverage = slices.Clone(s.Coverage)
	if len(s.Coverage) > maxLevels {
		c.reject("coverage", fmt.Sprintf("%d levels", len(s.Coverage)), fmt.Sprintf("at most %d", maxLevels))
	}
	for i, v := range s.Coverage {
		name := fmt.Sprintf("coverage[%d]", i)
		if !(v >= minCoverage && v <= maxCoverage) {
			c.reject(name, v, fmt.Sprintf("a number from %g to %g", minCoverage, maxCoverage))
		}
		if i > 0 && !(v > s.Coverage[i-1]) {
			c.reject(name, v, fmt.Sprintf("more than the level before, %g", s.Coverage[i-1]))
		}
	}
}
