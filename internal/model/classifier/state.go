package classifier

import (
	"math"
	"slices"

	"hindsight/internal/model"
	"hindsight/internal/model/codec"
)

// maxCount bounds n_k: weights are within model.MaxWeight, rounds below 2^62.
const maxCount = 1e30

// Visit visits the number of classes; the length of each name and the name; the counts; the bound;
// the calibration; the recoding; the level of log loss; the learner's state.
func (l *Learner) Visit(v *codec.Visitor) {
	k := len(l.names)
	if v.Int(l.o.MaxClasses, &k); v.Reading() && k > 0 {
		l.names, l.counts = make([]string, k), make([]float64, k)
	}
	for number := range l.names {
		l.visitName(v, number)
	}
	v.FloatsWithin(maxCount, l.counts)
	v.Within(math.Sqrt(model.MaxWeight), &l.bound)
	l.calibration.Visit(v)
	if l.recoding != nil {
		v.FloatsWithin(maxCount, l.recoding.right[:])
	}
	if v.Reading() {
		l.begin()
	}
	if l.level != nil {
		l.level.Visit(v, k)
	}
	if l.inner.Visit(v); v.Reading() {
		l.check(v)
	}
}

func (l *Learner) visitName(v *codec.Visitor, number int) {
	name := &l.names[number]
	length := len(*name)
	v.Int(model.MaxClassBytes, &length)
	if v.Text(name, length); !v.Reading() {
		return
	}
	if err := model.CheckClass(*name); err != nil {
		v.Corrupt("class %d: %v", number, err)
	}
	if _, twice := l.numbers[*name]; twice {
		v.Corrupt("class %d is %q, as another", number, *name)
	}
	l.numbers[*name] = number
	l.nameBytes += len(*name)
}

func (l *Learner) check(v *codec.Visitor) {
	for k, count := range l.counts {
		if count < 0 {
			v.Corrupt("class %d was observed %g times", k, count)
		}
	}
	if l.recoding != nil && slices.Min(l.recoding.right[:]) < 0 {
		v.Corrupt("recodings were right %g times", l.recoding.right)
	}
	classes := len(l.names)
	if classes > 0 && sum(l.counts) < model.MinWeight/2 {
		v.Corrupt("counts of %g", l.counts)
	}
	n := l.inner.Stats().Observations
	if n < uint64(classes) || (n > 0) != (classes > 0) || (classes == 0 && l.bound > 0) {
		v.Corrupt("%d classes in %d observations of a root of a weight of at most %g", classes, n, l.bound)
	}
	if l.level != nil && l.level.Rows() != n {
		v.Corrupt("%d rows of log loss in %d observations", l.level.Rows(), n)
	}
}
