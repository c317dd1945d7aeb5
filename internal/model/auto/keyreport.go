package auto

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"hindsight/internal/model"
	"hindsight/internal/model/effects"
)

// largestEffects are the largest effects of the keys of single inputs, by magnitude. An effect is
// how much higher the labels of a key are than level 1 predicts, beyond the mean row of the input.
func (l *Learner) largestEffects() []model.Effect {
	if l.keyed == nil {
		return nil
	}
	var all []model.Effect
	for j := range l.mixers {
		for _, e := range l.keyed.effects.Largest(model.MaxEffects, j) {
			all = append(all, model.Effect{
				Feature: l.keys[e.Input].Feature, Key: e.Key, Output: j, Value: e.Mean, Observations: e.Count,
			})
		}
	}
	slices.SortStableFunc(all, func(a, b model.Effect) int { return cmp.Compare(math.Abs(b.Value), math.Abs(a.Value)) })
	return all[:min(model.MaxEffects, len(all))]
}

func (o Options) keyNames() (names []string) {
	if o.keyed == 0 {
		return nil
	}
	for _, name := range effects.Names()[:o.effects().Experts()] {
		names = append(names, model.FamilyKeys+"/"+name)
	}
	names = append(names, effects.ProductNames()[:o.effects().Products()]...)
	for i := range o.keyForecasters() {
		name := model.FamilyKeys + "/affine"
		if i > 0 {
			name = fmt.Sprintf("%s/means/forgetting_%g", model.FamilyKeys, keyForgettings()[i])
		}
		names = append(names, name+"/value", name+"/residual")
	}
	return names
}

// keyShares adds the weights of the experts of the keys in the prediction of an output, given the
// weight of u. It returns the weight of v: with through, also the weight that v has as a part of
// v + e.
func (l *Learner) keyShares(dst []float64, output int, share float64, through bool) float64 {
	weights := make([]float64, 1+len(dst))
	l.keyed.mixers[output].mixture.Weights(weights, nil)
	v := float64(share * weights[0])
	for i, w := range weights[1:] {
		dst[i] += float64(share * w)
		if through && l.o.addsToV(i) {
			v += dst[i]
		}
	}
	return v
}

// addsToV reports whether an expert of the keys predicts v and an effect.
func (o Options) addsToV(expert int) bool {
	expert -= o.effects().Experts() + o.effects().Products()
	return expert < 0 || expert%keyTargets == 1
}

// keyEffects are what the experts of the keys add to v, and what the others predict.
func (l *Learner) keyEffects(a *advice, output int) []float64 {
	_, said, _ := a.keyed.of(output)
	_, _, _, v := a.level1.of(output)
	said = slices.Clone(said)
	for i := range said {
		if l.o.addsToV(i) {
			said[i] -= v
		}
	}
	return said
}
