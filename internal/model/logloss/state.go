package logloss

import (
	"hindsight/internal/model/codec"
	"hindsight/internal/model/moments"
)

// Rounds is the number of rows that had two known classes before and were mixed.
func (l *Level) Rounds() uint64 { return l.rounds }

// Visit visits the state beside so many known classes.
func (l *Level) Visit(v *codec.Visitor, classes int) {
	v.Uint64(&l.rounds)
	l.scale.Visit(v)
	if regressions := l.regressions(classes); v.Reading() {
		l.logits = nil
		for range regressions {
			l.logits = append(l.logits, newNewton(len(l.numbers)+1, 0))
		}
	}
	for k := range l.logits {
		l.logits[k].visit(v)
	}
	l.centers.visit(v, classes)
	if l.keys != nil {
		l.keys.visit(v)
	}
	for i := range l.stacks {
		l.stacks[i].Visit(v)
	}
	visitWeights(v, l.weights)
}

// regressions is the number of logistic regressions beside so many known classes.
func (l *Level) regressions(classes int) int {
	switch {
	case l.o.logits() == 0:
		return 0
	case l.o.MaxClasses > 2:
		return classes
	default:
		return max(0, classes-1)
	}
}

const (
	fixedBytes = 1024
	scratches  = 2 // That a busy model keeps.
)

// Bytes is the memory of the state and its scratch.
func (l *Level) Bytes(classes int) uint64 {
	size := l.o.bytes(classes)
	if l.keys != nil {
		size += l.keys.effects.Bytes()
	}
	return size
}

// Bytes is the memory with all classes and keys.
func (o Options) Bytes() uint64 {
	size := o.bytes(o.MaxClasses)
	if o.keyed() > 0 {
		size += o.effects().Bytes()
	}
	return size
}

func (o Options) bytes(classes int) uint64 {
	d := uint64(o.Dimension + 1)
	k := uint64(max(2, classes))
	size := fixedBytes + 8*d*(moments.Numbers+4*scratches) + 8*scratches*k*uint64(len(o.kinds())+3+2+6)
	switch {
	case o.logits() == 1:
		size += 8 * d * (d + 1)
	case o.logits() > 1:
		size += 8 * d * (d + 1) * k
	}
	return size + 8*d*(k+2)
}

// PredictFlops is the cost of a prediction with all classes, about.
func (o Options) PredictFlops() uint64 {
	d, k := uint64(o.Dimension+1), uint64(o.MaxClasses)
	flops := 10*d + uint64(len(o.kinds())+3)*60*k
	flops += 2 * d * d * uint64(o.logits())
	return flops + 4*d*k
}
