package auto

import (
	"hindsight/internal/model"
)

// wholeGroups are the groups of the columns in all inputs, given those in the inputs without
// keys. Each key has a group of its own at the end, with its columns and its effect; the columns
// of the joint key are in a group after the last one.
func (l *Learner) wholeGroups(of []int, groups []model.Importance) []model.Importance {
	for g := range groups {
		i := &groups[g]
		switch {
		case i.Name != "":
		case len(l.numbers) == 0:
			i.To = i.From // The input in place of none.
		case l.screen != nil:
			if i.From, i.To = l.screen.span(i.From, i.To); i.From < i.To {
				i.From, i.To = l.numbers[i.From], l.numbers[i.To-1]+1
			}
		default:
			i.From, i.To = l.numbers[i.From], l.numbers[i.To-1]+1
		}
	}
	first := len(groups)
	if l.view.keys == 0 {
		return groups
	}
	for _, key := range l.keys[:l.o.keyed] {
		groups = append(groups, model.Importance{From: key.Feature, To: key.Feature + 1})
	}
	several := l.view.keyGroups()
	for i := range l.view.keys {
		of[l.view.differing()+i] = first + i%several
	}
	return groups
}

// shareKeys gives the keys equal parts of the joint key's importance, the last one, and the part
// that their effects have in the importance of level 1.
func (l *Learner) shareKeys(out []model.Importance, output int) []model.Importance {
	keys, several := l.o.keyed, l.view.keyGroups()
	if several == 0 {
		return out
	}
	level1 := len(out) - several - 1
	first := level1 + 1
	parts := l.memories[output].effectParts(several)
	from := out[level1]
	give := func(to int, of model.Importance, part float64) {
		out[to].Gain += float64(part * of.Gain)
		out[to].Permutation += float64(part * of.Permutation)
	}
	for i, part := range parts {
		give(level1, from, -part)
		give(first+i, from, part)
	}
	if several == keys {
		return out
	}
	joint := out[len(out)-1]
	out = out[:len(out)-1]
	for i := range keys {
		give(first+i, joint, 1/float64(keys))
	}
	return out
}

// effectParts are the parts of the effects of single keys and of the joint key in u, over the
// rows of the window: the covariance of μ and u over the variance of u, at least 0 and of sum 1
// at most.
func (m *memory) effectParts(several int) []float64 {
	parts, total := make([]float64, several), 0.0
	for i := range parts {
		parts[i] = max(0, m.slope(m.view.differing()+i, m.view.layout().Served()))
		total += parts[i]
	}
	if total > 1 {
		for i := range parts {
			parts[i] /= total
		}
	}
	return parts
}

// slope is the covariance of two columns of the window over the variance of the second, in units
// of labels, or 0 if it does not vary.
func (m *memory) slope(column, on int) float64 {
	var x, y, cross, square float64
	w := m.window
	for age := range w.Len() {
		slot, n := w.Slot(age), float64(age+1)
		value := w.Value(on, w.At(slot, on))
		dx, dy := w.Value(column, w.At(slot, column))-x, value-y
		x += dx / n
		y += dy / n
		cross += float64(dx * (value - y))
		square += float64(dy * (value - y))
	}
	if !(square > 0) {
		return 0
	}
	return cross / square
}
