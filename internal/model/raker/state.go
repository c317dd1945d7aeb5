package raker

import (
	"slices"

	"hindsight/internal/model/codec"
	"hindsight/internal/model/ledger"
)

// Tags say which learner wrote a state.
const (
	tagRaker    = 0x5241_4b45_0001
	tagAdaRaker = 0x4144_4152_0001
)

// maxTheta bounds a parameter in a state: see safeStep.
const maxTheta = 1e140

// Visit visits the accounts, the moments and, for every expert, θ with the weights, of
// an AdaRaker with log h, output after output.
func (r *Raker) Visit(v *codec.Visitor) {
	tag := uint64(tagRaker)
	if r.options.Adaptive {
		tag = tagAdaRaker
	}
	r.visitShared(v, tag)
	for k := range r.outputs {
		for j := range r.active(r.accounts[0].Rounds + 1) {
			if v.Reading() && j == len(r.outputs[k]) {
				r.outputs[k] = append(r.outputs[k], r.newExpert(j))
			}
			if v.Err() != nil {
				return
			}
			e := &r.outputs[k][j]
			e.visit(v)
			if r.options.Adaptive {
				v.Within(ledger.MaxSum, &e.logh)
			}
		}
	}
}

func (r *Raker) visitShared(v *codec.Visitor, tag uint64) {
	v.Expect("the tag of the learner", tag)
	v.Expect("the number of kernels", uint64(len(r.maps)))
	v.Expect("the number of features", uint64(r.total()))
	v.Expect("the number of kernels with moments", uint64(len(r.tracked())))
	for j := range r.accounts {
		a := &r.accounts[j]
		v.Uint64(&a.Rounds)
		v.Within(ledger.MaxSum, &a.Loss.High, &a.Loss.Low, &a.Energy.High, &a.Energy.Low)
		v.Within(ledger.MaxBound, &a.Bound)
		if v.Reading() && (a.Rounds >= ledger.MaxRounds || a.Bound < 0 || a.Rounds != r.accounts[0].Rounds) {
			v.Corrupt("accounts of %d rounds, label bound %g", a.Rounds, a.Bound)
		}
	}
	if r.hindsight != nil {
		r.hindsight.visit(v)
	}
	if r.grid != nil {
		r.visitGrid(v)
	}
	if r.options.certifies() {
		v.Bool(&r.cut)
		v.Within(ledger.MaxSum, &r.weights)
		if v.Reading() && !(r.weights >= 0) {
			v.Corrupt("a sum of weights of %g", r.weights)
		}
	}
}

// visit visits the parameters. The logarithms of the weights are relative to the largest.
func (e *expert) visit(v *codec.Visitor) {
	v.FloatsWithin(maxTheta, e.theta)
	v.FloatsWithin(ledger.MaxSum, e.logw)
	if e.average != nil {
		v.FloatsWithin(maxTheta, e.average)
		v.Within(ledger.MaxSum, &e.steps)
	}
	for p := range e.descents {
		e.descents[p].visit(v)
	}
	if v.Reading() && (slices.Max(e.logw) != 0 || e.steps < 0) {
		v.Corrupt("a largest weight of exp(%g) after steps of %g", slices.Max(e.logw), e.steps)
	}
}
