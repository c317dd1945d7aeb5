package raker

import (
	"fmt"
	"slices"

	"hindsight/internal/model"
	"hindsight/internal/model/codec"
	"hindsight/internal/model/ledger"
)

// Tags say which learner wrote a state.
const (
	tagRaker    = 0x5241_4b45_0001
	tagAdaRaker = 0x4144_4152_0001
)

// AppendBinary appends the accounts, the moments and θ with the weights, output after
// output.
func (r *Raker) AppendBinary(dst []byte) ([]byte, error) {
	dst = slices.Grow(dst, r.coreBytes()+len(r.experts)*r.expertStateBytes())
	dst = r.appendCore(dst, tagRaker)
	for j := range r.experts {
		dst = r.experts[j].appendBinary(dst)
	}
	return dst, nil
}

// Restore replaces the state by one that AppendBinary wrote for the same
// spec. It refuses numbers that no stream of observations leads to.
func (r *Raker) Restore(state []byte) error {
	reader := codec.NewReader(state)
	l, tracked, err := r.readCore(reader, tagRaker)
	if err != nil {
		return err
	}
	experts, ok := r.newExperts(), true
	for j := range experts {
		ok = experts[j].read(reader) && ok
	}
	if err := end(reader, ok); err != nil {
		return err
	}
	r.accounts, r.hindsight, r.experts = l, tracked, experts
	return nil
}

// AppendBinary appends the accounts, the moments and, for every expert, θ
// with the weights and log h, output after output.
func (a *AdaRaker) AppendBinary(dst []byte) ([]byte, error) {
	dst = slices.Grow(dst, a.coreBytes()+len(a.outputs)*len(a.outputs[0])*(a.expertStateBytes()+8))
	dst = a.appendCore(dst, tagAdaRaker)
	for _, experts := range a.outputs {
		for j := range experts {
			e := &experts[j]
			dst = codec.AppendFloats(e.appendBinary(dst), e.logh)
		}
	}
	return dst, nil
}

// Restore replaces the state by one that AppendBinary wrote for the same
// spec. It refuses numbers that no stream of observations leads to. How many
// experts there are follows from the count of observations.
func (a *AdaRaker) Restore(state []byte) error {
	reader := codec.NewReader(state)
	l, tracked, err := a.readCore(reader, tagAdaRaker)
	if err != nil {
		return err
	}
	count, outputs := a.active(l[0].Rounds+1), len(l)
	// Checked before memory is taken: the count was only read.
	if reader.Len() != outputs*count*(a.expertStateBytes()+8) {
		return fmt.Errorf("raker: restore %d experts of %d outputs from %d bytes: %w", count, outputs, reader.Len(), model.ErrCorruptState)
	}
	restored, ok := make([]hedge, outputs), true
	for k := range restored {
		restored[k] = make(hedge, count)
		for j := range restored[k] {
			e := a.newHedged(j)
			ok = e.read(reader) && ok
			reader.Within(ledger.MaxSum, &e.logh)
			restored[k][j] = e
		}
	}
	if err := end(reader, ok); err != nil {
		return err
	}
	a.accounts, a.hindsight, a.outputs = l, tracked, restored
	return nil
}

// coreBytes is what appendCore appends, expertStateBytes what an expert does.
func (c *core) coreBytes() int {
	numbers := 4 + 6*len(c.accounts)
	for _, k := range c.tracked() {
		numbers += len(k.packed) + len(c.accounts)*k.size
	}
	return 8 * numbers
}

func (c *core) expertStateBytes() int {
	numbers := c.total() + len(c.maps)
	if c.options.Average {
		numbers += c.total() + 1
	}
	return 8 * numbers
}

// appendCore appends the tag, the shape, the accounts and the moments.
func (c *core) appendCore(dst []byte, tag uint64) []byte {
	dst = codec.AppendUint64(dst, tag)
	for _, v := range []int{len(c.maps), c.total(), len(c.tracked())} {
		dst = codec.AppendUint64(dst, uint64(v))
	}
	for j := range c.accounts {
		dst = appendAccount(dst, &c.accounts[j])
	}
	if c.hindsight == nil {
		return dst
	}
	return c.hindsight.appendBinary(dst)
}

// readCore reads what appendCore wrote, into new memory.
func (c *core) readCore(r *codec.Reader, tag uint64) ([]ledger.Account, *moments, error) {
	for _, want := range []uint64{tag, uint64(len(c.maps)), uint64(c.total()), uint64(len(c.tracked()))} {
		if got := r.Uint64(); r.Err() == nil && got != want {
			return nil, nil, fmt.Errorf("raker: restore: header holds %d, want %d: %w", got, want, model.ErrCorruptState)
		}
	}
	accounts := make([]ledger.Account, len(c.accounts))
	for j := range accounts {
		accounts[j] = readAccount(r)
	}
	var tracked *moments
	if c.hindsight != nil {
		tracked = newMoments(c.offsets, len(accounts))
		tracked.read(r)
	}
	if err := r.Err(); err != nil {
		return nil, nil, fmt.Errorf("raker: restore: %w", err)
	}
	for j := range accounts {
		if l := &accounts[j]; l.Rounds >= ledger.MaxRounds || l.Bound < 0 || l.Rounds != accounts[0].Rounds {
			return nil, nil, fmt.Errorf("raker: restore: accounts of %d rounds, label bound %g: %w", l.Rounds, l.Bound, model.ErrCorruptState)
		}
	}
	return accounts, tracked, nil
}

func (e *expert) appendBinary(dst []byte) []byte {
	dst = codec.AppendFloats(codec.AppendFloats(dst, e.theta...), e.logw...)
	if e.average != nil {
		dst = codec.AppendFloats(codec.AppendFloats(dst, e.average...), e.steps)
	}
	return dst
}

// read fills e and tells whether it could be a state: the logarithms of the
// weights are relative to the largest.
func (e *expert) read(r *codec.Reader) bool {
	r.FloatsWithin(maxTheta, e.theta)
	r.FloatsWithin(ledger.MaxSum, e.logw)
	if e.average != nil {
		r.FloatsWithin(maxTheta, e.average)
		r.Within(ledger.MaxSum, &e.steps)
		if e.steps < 0 {
			return false
		}
	}
	best := false
	for _, v := range e.logw {
		if v > 0 {
			return false
		}
		best = best || v == 0
	}
	return best
}

func end(r *codec.Reader, ok bool) error {
	if err := r.End(); err != nil {
		return fmt.Errorf("raker: restore: %w", err)
	}
	if !ok {
		return fmt.Errorf("raker: restore: parameters are out of range: %w", model.ErrCorruptState)
	}
	return nil
}
