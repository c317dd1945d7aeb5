package auto

import (
	"fmt"

	"hindsight/internal/model/codec"
)

// AppendBinary appends the state to dst: that of level 1, then that of level 2.
func (l *Second) AppendBinary(dst []byte) ([]byte, error) {
	size := codec.Counting()
	l.visit(&size, &l.first.state, &l.secondState)
	v := codec.Growing(dst, size.Size())
	l.visit(&v, &l.first.state, &l.secondState)
	return v.Appended()
}

// Restore replaces the state by one that AppendBinary wrote for the same spec.
// It refuses numbers that no stream of observations leads to.
func (l *Second) Restore(state []byte) error {
	first, second := newState(l.o, l.first.plan, l.first.maps), l.newState()
	v := codec.Reading(state)
	l.visit(&v, &first, &second)
	if err := v.End(); err != nil {
		return fmt.Errorf("auto: restore level 2: %w", err)
	}
	l.first.state, l.secondState = first, second
	return nil
}

func (l *Second) visit(v *codec.Visitor, first *state, s *secondState) {
	first.visit(v, l.o)
	if v.Err() != nil {
		return
	}
	for _, u := range s.uppers {
		u.visit(v)
	}
	v.Uint64(&s.rounds)
	if v.Reading() {
		if s.rounds > first.n {
			v.Corrupt("%d rounds of stacks of level 2, %d observations", s.rounds, first.n)
		}
		s.grow(first.n, l)
	}
	v.FloatsWithin(maxReach, s.served)
	for _, m := range s.memories {
		if v.Err() == nil {
			m.visit(v, first.n)
		}
	}
}

// grow makes room for what a state of n observations has.
func (s *secondState) grow(n uint64, l *Second) {
	if n < lastStage {
		s.served = make([]float64, int(n)*l.o.Outputs)
		return
	}
	for j := range l.o.Outputs {
		s.memories = append(s.memories, newMemory(l.o, l.lineup, j))
	}
}
