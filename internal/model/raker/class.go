package raker

import "hindsight/internal/model/regret"

// Class is the functions of one kernel, penalized once.
func (r *Raker) Class() (c regret.Class, known bool) {
	return regret.Class{Loss: r.options.Loss, Lambda: r.options.Lambda, Maps: r.maps}, true
}
