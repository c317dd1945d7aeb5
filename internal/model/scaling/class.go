package scaling

import (
	"slices"

	"hindsight/internal/model/regret"
)

// Class is the learner's, known after the warm-up.
func (l *Learner) Class() (c regret.Class, known bool) {
	if l.warm != nil {
		return c, false
	}
	c, known = regret.ClassOf(l.inner)
	c.Offsets, c.Scales = slices.Clone(l.affine.LabelOffset), slices.Repeat([]float64{l.affine.LabelScale}, l.o.Outputs)
	return c, known
}

// AppendInput appends the scaled input, nothing while a warm-up keeps rows.
func (l *Learner) AppendInput(dst, x []float64) []float64 {
	if l.warm != nil {
		return dst
	}
	scaled := make([]float64, l.o.Dimension)
	l.scaleInput(scaled, x)
	return regret.AppendInput(l.inner, dst, scaled)
}
