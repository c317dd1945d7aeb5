package kons

import (
	"hindsight/internal/model/feature"
	"hindsight/internal/model/losses"
	"hindsight/internal/model/regret"
)

// class is the class of the certificate: functions within the range or the clip, with λ = αΩ/2. For the
// squared loss without a range it has no limit, and the λ = αΩ of a tracked regret.
func (o *Options) class(a *account) regret.Class {
	c := regret.Class{Loss: o.Loss, Lambda: a.ridge(o) / 2, Limit: o.clip(), Middle: o.middle()}
	if o.Loss == losses.Squared && !o.ranged() {
		c.Lambda = a.ridge(o)
	}
	return c
}

// Class is the functions of the features that the certificate is against.
func (n *Newton) Class() (c regret.Class, known bool) {
	c = n.o.class(&n.outputs[0].account)
	c.Maps = []feature.Map{n.features}
	return c, true
}

// Class is the functions of the kernel's space that the certificate is against.
func (e *Exact) Class() (c regret.Class, known bool) {
	c = e.o.class(&e.outputs[0].account)
	c.Kernel = &e.o.Kernel
	return c, true
}
