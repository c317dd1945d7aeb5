package raker

import (
	"fmt"
	"slices"

	"hindsight/internal/model"
	"hindsight/internal/model/codec"
)

// Tags say which learner wrote a state.
const (
	tagRaker    = 0x5241_4b45_0001
	tagAdaRaker = 0x4144_4152_0001
)

// AppendBinary appends the accounts, the moments and θ with the weights.
func (r *Raker) AppendBinary(dst []byte) ([]byte, error) {
	dst = r.appendCore(slices.Grow(dst, r.coreBytes()+r.expertStateBytes()), tagRaker)
	return r.expert.appendBinary(dst), nil
}

// Restore replaces the state by one that AppendBinary wrote for the same
// spec. It refuses numbers that no stream of observations leads to.
func (r *Raker) Restore(state []byte) error {
	reader := codec.NewReader(state)
	l, tracked, err := r.readCore(reader, tagRaker)
	if err != nil {
		return err
	}
	e := r.newExpert()
	ok := e.read(reader)
	if err := end(reader, ok); err != nil {
		return err
	}
	r.ledger, r.hindsight, r.expert = l, tracked, e
	return nil
}

// AppendBinary appends the accounts, the moments and, for every expert, θ
// with the weights and log h.
func (a *AdaRaker) AppendBinary(dst []byte) ([]byte, error) {
	dst = slices.Grow(dst, a.coreBytes()+len(a.experts)*(a.expertStateBytes()+8))
	dst = a.appendCore(dst, tagAdaRaker)
	for j := range a.experts {
		e := &a.experts[j]
		dst = codec.AppendFloats(e.appendBinary(dst), e.logh)
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
	count := a.active(l.n + 1)
	// Checked before memory is taken: the count was only read.
	if reader.Len() != count*(a.expertStateBytes()+8) {
		return fmt.Errorf("raker: restore %d experts from %d bytes: %w", count, reader.Len(), model.ErrCorruptState)
	}
	experts, ok := make([]hedged, count), true
	for j := range experts {
		e := a.newHedged(j)
		ok = e.read(reader) && ok
		reader.Within(maxSum, &e.logh)
		experts[j] = e
	}
	if err := end(reader, ok); err != nil {
		return err
	}
	a.ledger, a.hindsight, a.experts = l, tracked, experts
	return nil
}

// coreBytes is what appendCore appends, expertStateBytes what an expert does.
func (c *core) coreBytes() int {
	numbers := 4 + 6
	for _, k := range c.tracked() {
		numbers += len(k.packed) + len(k.b)
	}
	return 8 * numbers
}

func (c *core) expertStateBytes() int { return 8 * (c.total() + len(c.maps)) }

// appendCore appends the tag, the shape, the accounts and the moments.
func (c *core) appendCore(dst []byte, tag uint64) []byte {
	dst = codec.AppendUint64(dst, tag)
	for _, v := range []int{len(c.maps), c.total(), len(c.tracked())} {
		dst = codec.AppendUint64(dst, uint64(v))
	}
	dst = c.ledger.appendBinary(dst)
	if c.hindsight == nil {
		return dst
	}
	return c.hindsight.appendBinary(dst)
}

// readCore reads what appendCore wrote, into new memory.
func (c *core) readCore(r *codec.Reader, tag uint64) (ledger, *moments, error) {
	for _, want := range []uint64{tag, uint64(len(c.maps)), uint64(c.total()), uint64(len(c.tracked()))} {
		if got := r.Uint64(); r.Err() == nil && got != want {
			return ledger{}, nil, fmt.Errorf("raker: restore: header holds %d, want %d: %w", got, want, model.ErrCorruptState)
		}
	}
	l := readLedger(r)
	ok := l.valid()
	var tracked *moments
	if c.hindsight != nil {
		tracked = newMoments(c.offsets)
		for _, k := range tracked.kernels {
			r.FloatsWithin(maxSum, k.packed)
			r.FloatsWithin(maxSum, k.b)
		}
	}
	if err := r.Err(); err != nil {
		return ledger{}, nil, fmt.Errorf("raker: restore: %w", err)
	}
	if !ok {
		return ledger{}, nil, fmt.Errorf("raker: restore: accounts of %d rounds, label bound %g: %w", l.n, l.bound, model.ErrCorruptState)
	}
	return l, tracked, nil
}

func (e *expert) appendBinary(dst []byte) []byte {
	return codec.AppendFloats(codec.AppendFloats(dst, e.theta...), e.logw...)
}

// read fills e and tells whether it could be a state: the logarithms of the
// weights are relative to the largest.
func (e *expert) read(r *codec.Reader) bool {
	r.FloatsWithin(maxTheta, e.theta)
	r.FloatsWithin(maxSum, e.logw)
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
