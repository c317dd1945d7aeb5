package awv

import (
	"slices"

	"hindsight/internal/model/feature"
	"hindsight/internal/model/regret"
)

// Class is the functions of the features with the ridge λ, also of a forecaster that forgets.
func (f *Forecaster) Class() (c regret.Class, known bool) {
	return regret.Class{Lambda: f.o.Lambda, Maps: []feature.Map{f.features}}, true
}

// Class is the functions with the smallest ridge, whose L* is the smallest.
func (r *Ridges) Class() (c regret.Class, known bool) {
	return regret.Class{Lambda: slices.Min(r.lambdas), Maps: []feature.Map{r.features}}, true
}

// Class is the class of the ridges. With a history, new features are summed over earlier rounds.
func (n *Nystrom) Class() (c regret.Class, known bool) {
	c, known = n.Ridges.Class()
	c.Now = n.o.Window > 0
	return c, known
}

// Class is the functions that the second stage adds to what the first says.
func (s *Stages) Class() (c regret.Class, known bool) {
	c, known = s.second.Class()
	c.Baselines = s.o.Outputs
	return c, known
}

// AppendInput appends the inputs of the second stage, and what the first says.
func (s *Stages) AppendInput(dst, x []float64) []float64 {
	room := s.newRoom()
	s.say(room, x)
	return append(append(dst, room.inputs...), room.said...)
}

// Class is the whole space of the kernel.
func (k *Kernel) Class() (c regret.Class, known bool) {
	return regret.Class{Lambda: k.o.Lambda, Kernel: &k.o.Kernel}, true
}
