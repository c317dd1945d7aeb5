package bounds

import "hindsight/internal/model/regret"

// Class is the learner's: its functions are not projected.
func (l *Learner) Class() (c regret.Class, known bool) { return regret.ClassOf(l.inner) }

// AppendInput asks the learner.
func (l *Learner) AppendInput(dst, x []float64) []float64 { return regret.AppendInput(l.inner, dst, x) }
