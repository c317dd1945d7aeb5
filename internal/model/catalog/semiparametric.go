package catalog

import (
	"fmt"
	"math"

	"hindsight/internal/model"
	"hindsight/internal/model/awv"
	"hindsight/internal/model/feature"
)

const semiparametricLambda = 0.1

func semiparametric(c *completion, given *model.SemiparametricAWV) entry {
	o := awv.Options{Outputs: c.outputs}
	parametric := c.parametric(given)
	weight := c.scale("parametric_lambda", &given.ParametricLambda, semiparametricLambda)
	o.Lambda = c.scale("lambda", &given.Lambda, semiparametricLambda)
	left := MaxFeatures - len(parametric) - 1
	if left < 2 {
		field := c.at + ".parametric"
		if len(given.ParametricInputs) > 0 {
			field += "_inputs"
		}
		c.fail(model.ErrSpecTooLarge, field, fmt.Sprintf("%d features", len(parametric)), fmt.Sprintf("at most %d", MaxFeatures-3))
		return entry{}
	}
	var orthogonal *bool // The kernel says it.
	if stages := c.whole("stages", &given.Stages, 1, 2); stages == 2 {
		return c.stages(given, awv.StagesOptions{
			Dimension: c.spec.Dimension, Parametric: parametric, Shared: filled(&given.SharedParameters, false),
			ParametricLambda: weight, Lambda: o.Lambda, Outputs: c.outputs,
		}, left)
	}
	given.Stages = nil // A field that is off is absent.
	if given.SharedParameters != nil && *given.SharedParameters {
		c.reject("shared_parameters", true, "false unless stages is 2")
	}
	given.SharedParameters = nil
	w := c.waves(c.spec.Dimension, &given.Kernel, &given.Frequencies, &orthogonal, left/2)
	o.Forgetting = c.forgetting(&given.Forgetting)
	if c.failed() {
		return entry{}
	}
	gain := math.Sqrt(o.Lambda / weight)
	cost := w.cost(awv.Cost(len(parametric)+1+w.size, o, w.bytes+8*uint64(len(parametric))))
	cost.PredictFlops += uint64((len(parametric) + 1) * o.Outputs) // What the parametric part says alone.
	return entry{
		cost:       cost,
		forgetting: o.Forgetting, inputLimit: feature.SemiparametricInputLimit(gain),
		make: func(int) model.Learner {
			return awv.NewSemiparametric(feature.NewSemiparametric(parametric, gain, w.draw()), o)
		},
	}
}

func (c *completion) stages(given *model.SemiparametricAWV, o awv.StagesOptions, left int) entry {
	if !o.Shared {
		given.SharedParameters = nil
	}
	if o.Shared && (len(given.Parametric)+len(given.ParametricInputs) == 0 || len(o.Parametric)%o.Outputs != 0) {
		c.reject("shared_parameters", fmt.Sprintf("%d parametric features", len(o.Parametric)),
			fmt.Sprintf("a named number of them that %d outputs divide, one row an output", o.Outputs))
		return entry{}
	}
	if s := c.spec.Scaling; o.Shared && s == nil {
		c.spec.Scaling = model.Unscaled()
	} else if o.Shared && s.None == nil {
		c.reject("shared_parameters", true, "false unless the scaling is none: others scale each regressor on its own")
	}
	if f := c.forgetting(&given.Forgetting); f < 1 {
		c.reject("forgetting", f, "1 with two stages")
	}
	var orthogonal *bool // The kernel says it.
	w := c.waves(len(o.KernelInputs())+o.Outputs, &given.Kernel, &given.Frequencies, &orthogonal, left/2)
	if c.failed() {
		return entry{}
	}
	return entry{
		cost: w.cost(awv.StagesCost(w.size, o, w.bytes)), forgetting: 1,
		make: func(int) model.Learner { return awv.NewStages(w.draw(), o) },
	}
}

// parametric are the numbers of the parametric features. The spec of all features is empty.
func (c *completion) parametric(given *model.SemiparametricAWV) []int {
	d := c.spec.Dimension
	if len(given.ParametricInputs) > 0 {
		return c.parametricInputs(given)
	}
	given.ParametricInputs = nil
	if len(given.Parametric) == 0 {
		given.Parametric = nil
		all := make([]int, d)
		for i := range all {
			all[i] = i
		}
		return all
	}
	before := -1
	for k, i := range given.Parametric {
		if i <= before || i >= d {
			c.reject(fmt.Sprintf("parametric[%d]", k), i, fmt.Sprintf("numbers of features, from 0 to %d and ascending", d-1))
			break
		}
		before = i
	}
	return given.Parametric
}

// parametricInputs are the numbers of the features of the named inputs. The names stay in the
// spec, in the order of the declarations.
func (c *completion) parametricInputs(given *model.SemiparametricAWV) []int {
	const field = "parametric_inputs"
	switch {
	case len(given.Parametric) > 0:
		c.reject(field, fmt.Sprintf("%.64q beside parametric", given.ParametricInputs[0]), "one of the two fields")
		return nil
	case c.schema == nil:
		c.reject(field, fmt.Sprintf("%.64q", given.ParametricInputs[0]), "parametric, the numbers of features: the spec has no inputs")
		return nil
	}
	places, chosen := make(map[string]int), make([]bool, c.schema.Len())
	for k, name := range given.ParametricInputs {
		at := fmt.Sprintf("%s[%d]", field, k)
		i, known := c.schema.Find(name)
		first, twice := places[name]
		switch {
		case twice:
			c.reject(at, fmt.Sprintf("%q", name), fmt.Sprintf("a name other than that of %s[%d]", field, first))
			return nil
		case !known:
			among := make(map[string]bool, len(given.ParametricInputs))
			for _, other := range given.ParametricInputs {
				among[other] = true
			}
			c.reject(at, fmt.Sprintf("%.64q, which no input has", name), c.schema.Suggest(name, among))
			return nil
		}
		places[name], chosen[i] = k, true
	}
	given.Parametric, given.ParametricInputs = nil, nil
	var features []int
	for i, is := range chosen {
		if !is {
			continue
		}
		given.ParametricInputs = append(given.ParametricInputs, c.schema.Name(i))
		from, to := c.schema.Span(i)
		for f := from; f < to; f++ {
			features = append(features, f)
		}
	}
	return features
}
