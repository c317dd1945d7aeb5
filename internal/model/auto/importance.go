package auto

import (
	"slices"

	"hindsight/internal/model"
)

// groups are what the columns of a window belong to: inputs, past labels, and level 1.
func (v view) groups() (of []int, groups []model.Importance) {
	layout := v.layout()
	of = make([]int, layout.Columns())
	for i, j := range v.numbers {
		of[i] = i
		groups = append(groups, model.Importance{From: j, To: j + 1})
	}
	for i, span := range v.categories {
		of[len(v.numbers)+i] = len(groups)
		of[v.discretes()+len(v.cycles)+i] = len(groups)
		groups = append(groups, model.Importance{From: span.From, To: span.To})
	}
	for i, c := range v.cycles {
		of[v.discretes()+i] = len(groups)
		groups = append(groups, model.Importance{From: c, To: c + 2})
	}
	for j := layout.Lag(); j < layout.Delta(); j++ {
		of[j] = len(groups)
	}
	of[layout.Served()] = len(groups) + 1
	for i := range layout.Deltas {
		of[layout.Delta()+i] = of[i]
	}
	return of, append(groups, model.Importance{Name: model.PastLabels}, model.Importance{Name: model.LevelOne})
}

// normalize makes weights of sum 1: equal ones if none is above 0.
func normalize(weights []float64) {
	total := 0.0
	for c, w := range weights {
		weights[c] = max(0, w)
		total += weights[c]
	}
	for c := range weights {
		if total > 0 {
			weights[c] /= total
		} else {
			weights[c] = 1 / float64(len(weights))
		}
	}
}

// importances are the means over the outputs of what matters to the trees. The columns have
// the weights of level 2, and one weight if none has any.
func (l *Learner) importances(pause func()) []model.Importance {
	if !l.awake() {
		return nil
	}
	of, out := l.view.groups()
	out = l.wholeGroups(of, out)
	count := len(out)
	if l.view.keyGroups() > 1 {
		count++ // The joint key.
	}
	k := l.plan.experts()
	experts := make([]float64, k+l.lineup.experts()+l.o.keyExperts())
	for j, memory := range l.memories {
		clear(experts)
		l.expertWeights(experts, j, nil, false)
		weights := experts[k:][:len(l.lineup.columns)]
		normalize(weights)
		own := make([]model.Importance, count)
		for g, i := range memory.forest.Importances(of, count, weights, pause) {
			own[g].Gain, own[g].Permutation = i.Gain, i.Permutation
		}
		for g, i := range l.shareKeys(own, j) {
			out[g].Gain += i.Gain / float64(len(l.memories))
			out[g].Permutation += i.Permutation / float64(len(l.memories))
		}
	}
	return slices.DeleteFunc(out, func(i model.Importance) bool { return l.screen != nil && i.Name == "" && i.From == i.To })
}
