package scaling

import (
	"fmt"
	"slices"

	"hindsight/internal/model"
	"hindsight/internal/model/codec"
)

// What the state of a warm-up learner begins with.
const (
	stateWarming    = 1
	stateFrozen     = 2
	stateCatchingUp = 3
	stateRunning    = 4
	// As stateCatchingUp, with the best constants, which earlier versions did not write.
	stateCatchingUpBest = 5
)

// AppendBinary appends the state to dst. If the scaling is given, it is the
// learner's alone. Otherwise it begins with a tag: while warming up there
// follow the observations, from which all else follows; while catching up the
// scaling, the sums of the warm-up, the observations to learn, and the learner;
// then the scaling, what the warm-up lost, and the learner. A running scaling
// has the moments of the inputs in place of their scaling, which follows.
func (l *Learner) AppendBinary(dst []byte) ([]byte, error) {
	switch {
	case l.o.Warmup == 0:
		return l.inner.AppendBinary(dst)
	case l.warm == nil && l.o.Running:
		dst = l.moments.appendBinary(codec.AppendUint64(dst, stateRunning))
		dst = codec.AppendFloats(codec.AppendFloats(dst, l.affine.LabelOffset...), l.affine.LabelScale)
		return l.inner.AppendBinary(codec.AppendFloats(dst, l.extra, l.owed))
	case l.warm == nil:
		dst = l.affine.appendBinary(codec.AppendUint64(dst, stateFrozen))
		return l.inner.AppendBinary(codec.AppendFloats(dst, l.extra, l.owed))
	case l.warm.frozen:
		dst = slices.Grow(dst, 8*(10+2*l.o.Dimension+7*l.o.Outputs+len(l.warm.rows)*l.o.rowNumbers()))
		tag := uint64(stateCatchingUpBest)
		if !l.warm.best.known() {
			tag = stateCatchingUp
		}
		dst = l.warm.appendSums(l.affine.appendBinary(codec.AppendUint64(dst, tag)))
		dst = l.warm.appendRows(l.warm.best.appendBinary(dst))
		return l.inner.AppendBinary(dst)
	default:
		dst = slices.Grow(dst, 8*(2+len(l.warm.rows)*l.o.rowNumbers()))
		return l.warm.appendRows(codec.AppendUint64(dst, stateWarming)), nil
	}
}

// rowNumbers is how many numbers of a row are encoded.
func (o Options) rowNumbers() int { return o.Dimension + o.Outputs + 1 }

func (a *Affine) appendBinary(dst []byte) []byte {
	dst = codec.AppendFloats(codec.AppendFloats(dst, a.Offset...), a.Scale...)
	return codec.AppendFloats(codec.AppendFloats(dst, a.LabelOffset...), a.LabelScale)
}

func (w *warmup) appendSums(dst []byte) []byte {
	dst = codec.AppendUint64(dst, w.n)
	dst = codec.AppendFloats(dst, w.own, w.loss.High, w.loss.Low)
	for _, s := range w.sums {
		dst = codec.AppendFloats(dst, s.High, s.Low)
	}
	return codec.AppendFloats(dst, w.squares...)
}

// appendBinary appends the constants, nothing if they are not known.
func (c *constants) appendBinary(dst []byte) []byte {
	if !c.known() {
		return dst
	}
	return codec.AppendFloats(codec.AppendFloats(codec.AppendFloats(dst, c.weight), c.means...), c.losses...)
}

// read reads what appendBinary wrote. It fails on losses that no labels have.
func (c *constants) read(reader *codec.Reader) error {
	reader.Within(maxLoss, &c.weight)
	reader.FloatsWithin(2*model.MaxMagnitude, c.means)
	reader.FloatsWithin(maxLoss, c.losses)
	if err := reader.Err(); err != nil {
		return err
	}
	if !(c.weight > 0) || slices.ContainsFunc(c.losses, func(v float64) bool { return v < 0 }) {
		return fmt.Errorf("constants of weight %g and losses %g: %w", c.weight, c.losses, model.ErrCorruptState)
	}
	return nil
}

func (w *warmup) appendRows(dst []byte) []byte {
	dst = codec.AppendUint64(dst, uint64(len(w.rows)))
	for _, r := range w.rows {
		dst = codec.AppendFloats(codec.AppendFloats(codec.AppendFloats(dst, r.x...), r.y...), r.weight)
	}
	return dst
}

// Restore replaces the state by one that AppendBinary wrote for the same
// spec. It refuses numbers that no stream of observations leads to.
func (l *Learner) Restore(state []byte) error {
	if l.o.Warmup == 0 {
		return l.inner.Restore(state)
	}
	reader := codec.NewReader(state)
	var err error
	switch tag := reader.Uint64(); tag {
	case stateWarming:
		err = l.restoreWarming(reader)
	case stateCatchingUp, stateCatchingUpBest, stateFrozen, stateRunning:
		if (tag == stateRunning) != l.o.Running {
			err = fmt.Errorf("tag %d of another kind of scaling: %w", tag, model.ErrCorruptState)
			break
		}
		err = l.restoreWarm(tag, reader)
	default:
		err = fmt.Errorf("tag %d: %w", tag, model.ErrCorruptState)
	}
	if err != nil {
		return fmt.Errorf("scaling: restore: %w", err)
	}
	return nil
}

// restoreWarm restores a state after the warm-up.
func (l *Learner) restoreWarm(tag uint64, reader *codec.Reader) error {
	switch tag {
	case stateCatchingUp, stateCatchingUpBest:
		return l.restoreCatchingUp(reader, tag == stateCatchingUpBest)
	case stateRunning:
		return l.restoreRunning(reader)
	default:
		return l.restoreFrozen(reader)
	}
}

// become takes over the state of another learner of the same options.
func (l *Learner) become(fresh *Learner) {
	l.inner, l.warm, l.affine, l.extra, l.owed = fresh.inner, fresh.warm, fresh.affine, fresh.extra, fresh.owed
	l.moments = fresh.moments
}

func (l *Learner) restoreWarming(reader *codec.Reader) error {
	fresh := New(l.o)
	rows, err := fresh.readRows(reader, l.o.Warmup-1)
	if err != nil {
		return err
	}
	if err := reader.End(); err != nil {
		return err
	}
	var o model.Outcome
	for _, r := range rows {
		if err := fresh.Observe(&o, r.x, r.y, r.weight); err != nil {
			return fmt.Errorf("an observation of the warm-up: %w: %w", err, model.ErrCorruptState)
		}
	}
	l.become(fresh)
	return nil
}

// readRows reads a count, at most most, and as many observations. It fails on
// one that Check would refuse for its numbers.
func (l *Learner) readRows(reader *codec.Reader, most int) ([]row, error) {
	n := reader.Uint64()
	if err := reader.Err(); err != nil {
		return nil, err
	}
	if n > uint64(most) || n*8*uint64(l.o.rowNumbers()) > uint64(reader.Len()) {
		return nil, fmt.Errorf("%d observations, at most %d, in %d bytes: %w", n, most, reader.Len(), model.ErrCorruptState)
	}
	rows := make([]row, n)
	for i := range rows {
		r := newRow(l.o)
		reader.FloatsWithin(model.MaxMagnitude, r.x)
		reader.FloatsWithin(model.MaxMagnitude, r.y)
		reader.Within(model.MaxWeight, &r.weight)
		if err := reader.Err(); err != nil {
			return nil, fmt.Errorf("observation %d: %w", i, err)
		}
		if err := l.checkRow(r.x, r.y, r.weight); err != nil {
			return nil, fmt.Errorf("observation %d: %w: %w", i, err, model.ErrCorruptState)
		}
		rows[i] = r
	}
	return rows, nil
}

// restoreCatchingUp restores a state of a learner that catches up, with the best constants
// or without.
func (l *Learner) restoreCatchingUp(reader *codec.Reader, best bool) error {
	fresh := New(l.o)
	w := fresh.warm
	w.frozen = true
	var err error
	if fresh.affine, err = readAffine(reader, l.o); err != nil {
		return err
	}
	w.n = reader.Uint64()
	reader.Within(maxLoss, &w.own, &w.loss.High, &w.loss.Low)
	for j := range w.sums {
		reader.Within(maxLabels, &w.sums[j].High, &w.sums[j].Low)
	}
	reader.FloatsWithin(maxLoss, w.squares)
	if err := reader.Err(); err != nil {
		return err
	}
	if slices.ContainsFunc(w.squares, func(v float64) bool { return v < 0 }) {
		return fmt.Errorf("sums of squares %g: %w", w.squares, model.ErrCorruptState)
	}
	if w.best = unknownConstants(); best {
		w.best = newConstants(l.o.Outputs)
		if err := w.best.read(reader); err != nil {
			return err
		}
	}
	if w.rows, err = fresh.readRows(reader, l.o.Warmup); err != nil {
		return err
	}
	if err := fresh.inner.Restore(reader.Bytes(reader.Len())); err != nil {
		return err
	}
	learned := fresh.inner.Stats().Observations
	if backlog := uint64(len(w.rows)); backlog == 0 || w.n < uint64(l.o.Warmup) || learned != w.n-backlog || !fresh.room() {
		return fmt.Errorf("%d observations, of which %d are learned and %d to learn: %w", w.n, learned, backlog, model.ErrCorruptState)
	}
	l.become(fresh)
	return nil
}

// room tells whether the learner has room for the backlog.
func (l *Learner) room() bool {
	bounded, ok := l.inner.(model.Bounded)
	return !ok || bounded.Remaining() >= len(l.warm.rows)
}

func (l *Learner) restoreFrozen(reader *codec.Reader) error {
	a, err := readAffine(reader, l.o)
	if err != nil {
		return err
	}
	var extra, owed float64
	reader.Within(maxLoss, &extra, &owed)
	rest := reader.Bytes(reader.Len())
	if err := reader.Err(); err != nil {
		return err
	}
	if err := l.inner.Restore(rest); err != nil {
		return err
	}
	l.affine, l.extra, l.owed, l.warm = a, extra, owed, nil
	return nil
}

func (l *Learner) restoreRunning(reader *codec.Reader) error {
	fresh := New(l.o)
	m, a := fresh.moments, &fresh.affine
	m.read(reader)
	a.Offset, a.Scale = make([]float64, l.o.Dimension), make([]float64, l.o.Dimension)
	if err := a.readLabels(reader, l.o); err != nil {
		return err
	}
	reader.Within(maxLoss, &fresh.extra, &fresh.owed)
	rest := reader.Bytes(reader.Len())
	if err := reader.Err(); err != nil {
		return err
	}
	if err := fresh.inner.Restore(rest); err != nil {
		return err
	}
	if m.n = fresh.inner.Stats().Observations; m.n < uint64(l.o.Warmup) {
		return fmt.Errorf("%d observations, a warm-up has %d: %w", m.n, l.o.Warmup, model.ErrCorruptState)
	}
	if err := m.check(); err != nil {
		return err
	}
	m.scale(a, l.o.Lists)
	fresh.warm = nil
	l.become(fresh)
	return nil
}

// Bounds of the numbers in a state. Observations are within
// model.MaxMagnitude, so that a deviation is from 1e-162, the root of the
// smallest number, to 2e100. The scale of an input is 1/(2 deviation √d).
const (
	maxLoss   = 1e280
	maxLabels = 1e110 // Their sum over a warm-up.
	minScale  = 1e-110
	maxScale  = 1e170
)

// readAffine reads a scaling that was found.
func readAffine(reader *codec.Reader, o Options) (Affine, error) {
	a := Affine{Offset: make([]float64, o.Dimension), Scale: make([]float64, o.Dimension)}
	reader.FloatsWithin(2*model.MaxMagnitude, a.Offset)
	reader.FloatsWithin(maxScale, a.Scale)
	if err := a.readLabels(reader, o); err != nil {
		return a, err
	}
	return a, checkScales(a.Scale...)
}

// readLabels reads the scaling of the labels. That of labels that are not scaled
// is known.
func (a *Affine) readLabels(reader *codec.Reader, o Options) error {
	a.LabelOffset = make([]float64, o.Outputs)
	reader.FloatsWithin(2*model.MaxMagnitude, a.LabelOffset)
	reader.Within(maxScale, &a.LabelScale)
	if err := reader.Err(); err != nil {
		return err
	}
	moved := slices.ContainsFunc(a.LabelOffset, func(v float64) bool { return v != 0 })
	if !o.Labels && (moved || a.LabelScale != 1) {
		return fmt.Errorf("labels, which are not scaled, by %g after %g: %w", a.LabelScale, a.LabelOffset, model.ErrCorruptState)
	}
	return checkScales(a.LabelScale)
}

func checkScales(scales ...float64) error {
	for _, scale := range scales {
		if !(scale >= minScale) {
			return fmt.Errorf("a scale of %g, want at least %g: %w", scale, minScale, model.ErrCorruptState)
		}
	}
	return nil
}
