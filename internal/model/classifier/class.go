package classifier

import "hindsight/internal/model/regret"

// Class is the class of the learner of the coded labels.
func (l *Learner) Class() (c regret.Class, known bool) { return regret.ClassOf(l.inner) }

// AppendInput asks the learner.
func (l *Learner) AppendInput(dst, x []float64) []float64 { return regret.AppendInput(l.inner, dst, x) }

// AppendCode appends the labels of a class.
func (l *Learner) AppendCode(dst []float64, class int) []float64 {
	for j := range l.labels {
		dst = append(dst, l.o.label(j, class))
	}
	return dst
}
