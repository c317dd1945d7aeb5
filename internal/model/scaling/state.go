package scaling

import (
	"fmt"
	"math"

	"hindsight/internal/model"
	"hindsight/internal/model/codec"
)

// What the state of a warm-up learner begins with.
const (
	stateWarming = 1
	stateFrozen  = 2
)

// AppendBinary appends the state to dst: the learner's alone if the scaling is
// given. Else, while warming up, the observations, from which all else
// follows; then the frozen scaling, what the warm-up lost, and the learner.
func (l *Learner) AppendBinary(dst []byte) ([]byte, error) {
	if l.o.Warmup == 0 {
		return l.inner.AppendBinary(dst) //nolint:wrapcheck // It is the learner's state alone.
	}
	if l.warm != nil {
		dst = codec.AppendUint64(dst, stateWarming)
		dst = codec.AppendUint64(dst, uint64(len(l.warm.rows)))
		for _, r := range l.warm.rows {
			dst = codec.AppendFloats(codec.AppendFloats(codec.AppendFloats(dst, r.x...), r.y...), r.weight)
		}
		return dst, nil
	}
	dst = codec.AppendUint64(dst, stateFrozen)
	for _, values := range l.affine.parts() {
		dst = codec.AppendFloats(dst, values...)
	}
	dst = codec.AppendFloats(dst, l.affine.LabelScale, l.extra, l.owed)
	return l.inner.AppendBinary(dst) //nolint:wrapcheck // The learner's own failure.
}

func (a Affine) parts() [][]float64 { return [][]float64{a.Offset, a.Scale, a.LabelOffset} }

// Restore replaces the state by one that AppendBinary wrote for the same
// spec.
func (l *Learner) Restore(state []byte) error {
	if l.o.Warmup == 0 {
		return l.inner.Restore(state) //nolint:wrapcheck // It is the learner's state alone.
	}
	reader := codec.NewReader(state)
	var err error
	switch tag := reader.Uint64(); tag {
	case stateWarming:
		err = l.restoreWarming(reader)
	case stateFrozen:
		err = l.restoreFrozen(reader)
	default:
		err = fmt.Errorf("tag %d: %w", tag, model.ErrCorruptState)
	}
	if err != nil {
		return fmt.Errorf("scaling: restore: %w", err)
	}
	return nil
}

func (l *Learner) restoreWarming(reader *codec.Reader) error {
	n := reader.Uint64()
	if n >= uint64(l.o.Warmup) || n*l.o.rowBytes() != uint64(reader.Len()) {
		return fmt.Errorf("%d observations of a warm-up of %d in %d bytes: %w", n, l.o.Warmup, reader.Len(), model.ErrCorruptState)
	}
	fresh := New(l.o)
	var o model.Outcome
	for range n {
		r := row{x: make([]float64, l.o.Dimension), y: make([]float64, l.o.Outputs)}
		reader.Floats(r.x)
		reader.Floats(r.y)
		r.weight = reader.Float()
		if err := fresh.Observe(&o, r.x, r.y, r.weight); err != nil {
			return fmt.Errorf("an observation of the warm-up: %w: %w", err, model.ErrCorruptState)
		}
	}
	if err := reader.End(); err != nil {
		return err //nolint:wrapcheck // Restore does.
	}
	l.inner, l.warm, l.affine, l.extra, l.owed = fresh.inner, fresh.warm, fresh.affine, 0, 0
	return nil
}

func (l *Learner) restoreFrozen(reader *codec.Reader) error {
	a := Affine{
		Offset: make([]float64, l.o.Dimension), Scale: make([]float64, l.o.Dimension),
		LabelOffset: make([]float64, l.o.Outputs),
	}
	for _, values := range a.parts() {
		reader.Floats(values)
	}
	a.LabelScale = reader.Float()
	extra, owed := reader.Float(), reader.Float()
	rest := reader.Bytes(reader.Len())
	if err := reader.Err(); err != nil {
		return err //nolint:wrapcheck // Restore does.
	}
	for _, values := range append(a.parts(), []float64{a.LabelScale, extra, owed}) {
		for _, v := range values {
			if math.IsNaN(v) || math.IsInf(v, 0) {
				return fmt.Errorf("a scaling of %g: %w", v, model.ErrCorruptState)
			}
		}
	}
	if !(a.LabelScale > 0) {
		return fmt.Errorf("a label scale of %g: %w", a.LabelScale, model.ErrCorruptState)
	}
	if err := l.inner.Restore(rest); err != nil {
		return err //nolint:wrapcheck // Restore does.
	}
	l.affine, l.extra, l.owed, l.warm = a, extra, owed, nil
	return nil
}
