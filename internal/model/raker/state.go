package raker

import (
	"fmt"
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

// AppendBinary appends the accounts, the moments and θ with the weights, output after
// output.
func (r *Raker) AppendBinary(dst []byte) ([]byte, error) {
	v := codec.Appending(dst)
	r.visit(&v)
	return v.Appended()
}

// Restore replaces the state by one that AppendBinary wrote for the same
// spec. It refuses numbers that no stream of observations leads to.
func (r *Raker) Restore(state []byte) error {
	fresh := NewRaker(r.maps, r.options)
	if err := codec.Read(state, fresh.visit); err != nil {
		return fmt.Errorf("raker: restore: %w", err)
	}
	*r = *fresh
	return nil
}

func (r *Raker) visit(v *codec.Visitor) {
	r.core.visit(v, tagRaker)
	for j := range r.experts {
		r.experts[j].visit(v)
	}
}

// AppendBinary appends the accounts, the moments and, for every expert, θ
// with the weights and log h, output after output.
func (a *AdaRaker) AppendBinary(dst []byte) ([]byte, error) {
	v := codec.Appending(dst)
	a.visit(&v)
	return v.Appended()
}

// Restore replaces the state by one that AppendBinary wrote for the same
// spec. It refuses numbers that no stream of observations leads to. The number of
// experts follows from the count of observations.
func (a *AdaRaker) Restore(state []byte) error {
	fresh := NewAdaRaker(a.maps, a.options)
	if err := codec.Read(state, fresh.visit); err != nil {
		return fmt.Errorf("raker: restore: %w", err)
	}
	*a = *fresh
	return nil
}

func (a *AdaRaker) visit(v *codec.Visitor) {
	a.core.visit(v, tagAdaRaker)
	for k := range a.outputs {
		for j := range a.active(a.accounts[0].Rounds + 1) {
			if v.Reading() && j == len(a.outputs[k]) {
				a.outputs[k] = append(a.outputs[k], a.newHedged(j))
			}
			if v.Err() != nil {
				return
			}
			e := &a.outputs[k][j]
			e.visit(v)
			v.Within(ledger.MaxSum, &e.logh)
		}
	}
}

// visit visits the tag, the shape, the accounts and the moments.
func (c *core) visit(v *codec.Visitor, tag uint64) {
	v.Expect("the tag of the learner", tag)
	v.Expect("the number of kernels", uint64(len(c.maps)))
	v.Expect("the number of features", uint64(c.total()))
	v.Expect("the number of kernels with moments", uint64(len(c.tracked())))
	for j := range c.accounts {
		a := &c.accounts[j]
		v.Uint64(&a.Rounds)
		v.Within(ledger.MaxSum, &a.Loss.High, &a.Loss.Low, &a.Energy.High, &a.Energy.Low)
		v.Within(ledger.MaxBound, &a.Bound)
		if v.Reading() && (a.Rounds >= ledger.MaxRounds || a.Bound < 0 || a.Rounds != c.accounts[0].Rounds) {
			v.Corrupt("accounts of %d rounds, label bound %g", a.Rounds, a.Bound)
		}
	}
	if c.hindsight != nil {
		c.hindsight.visit(v)
	}
	if c.grid != nil {
		c.visitGrid(v)
	}
	if c.certifies() {
		v.Bool(&c.cut)
		v.Within(ledger.MaxSum, &c.weights)
		if v.Reading() && !(c.weights >= 0) {
			v.Corrupt("a sum of weights of %g", c.weights)
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
