package rlsc

import (
	"fmt"
	"math"
	"slices"

	"hindsight/internal/model"
	"hindsight/internal/model/awv"
	"hindsight/internal/model/calibration"
	"hindsight/internal/model/codec"
)

// AppendBinary appends the state to dst: the number of classes; of each the length
// of its name and the name; their counts; the largest √weight; the calibration; the
// forecaster's state, which has an output a class, and one before the first.
func (l *Learner) AppendBinary(dst []byte) ([]byte, error) {
	dst = slices.Grow(dst, l.headBytes())
	dst = codec.AppendUint64(dst, uint64(len(l.names)))
	for _, name := range l.names {
		dst = append(codec.AppendUint64(dst, uint64(len(name))), name...)
	}
	dst = codec.AppendFloats(dst, l.counts...)
	dst = codec.AppendFloats(dst, l.bound)
	dst = l.calibration.AppendBinary(dst)
	dst, err := l.forecaster.AppendBinary(dst)
	if err != nil {
		return nil, fmt.Errorf("rlsc: %w", err)
	}
	return dst, nil
}

// headBytes is what comes before the forecaster's state.
func (l *Learner) headBytes() int {
	return 8 + 16*len(l.names) + l.nameBytes + 8 + calibration.Bytes
}

// maxCount bounds n_k: weights are within model.MaxWeight and rounds fewer than
// 2^62.
const maxCount = 1e30

// Restore replaces the state by one that AppendBinary wrote for the same spec. It
// refuses numbers that no stream of observations leads to.
func (l *Learner) Restore(state []byte) error {
	restored, err := l.decode(codec.NewReader(state))
	if err != nil {
		return fmt.Errorf("rlsc: restore: %w", err)
	}
	l.forecaster, l.calibration, l.bound = restored.forecaster, restored.calibration, restored.bound
	l.names, l.numbers, l.nameBytes = restored.names, restored.numbers, restored.nameBytes
	l.counts, l.labels = restored.counts, restored.labels
	return nil
}

func (l *Learner) decode(r *codec.Reader) (*Learner, error) {
	fresh := &Learner{features: l.features, o: l.o, numbers: map[string]int{}}
	k := r.Uint64()
	if r.Err() == nil && k > uint64(l.o.MaxClasses) {
		return nil, fmt.Errorf("%d classes, want at most %d: %w", k, l.o.MaxClasses, model.ErrCorruptState)
	}
	if err := fresh.readNames(r, int(k)); err != nil {
		return nil, err
	}
	r.FloatsWithin(maxCount, fresh.counts)
	r.Within(math.Sqrt(model.MaxWeight), &fresh.bound)
	var err error
	if fresh.calibration, err = calibration.Read(r); err != nil {
		return nil, err
	}
	for k, n := range fresh.counts {
		if !(n >= 0) {
			return nil, fmt.Errorf("class %d was observed %g times: %w", k, n, model.ErrCorruptState)
		}
	}
	fresh.forecaster = awv.New(l.features, l.o.forecaster(len(fresh.names)))
	if err := fresh.forecaster.Restore(r.Bytes(r.Len())); err != nil {
		return nil, err
	}
	if n := fresh.forecaster.Stats().Observations; n < k || (n > 0) != (k > 0) || (k > 0) != (fresh.bound > 0) {
		return nil, fmt.Errorf("%d classes in %d observations of a root of a weight of at most %g: %w",
			k, n, fresh.bound, model.ErrCorruptState)
	}
	return fresh, nil
}

// readNames reads the names of k classes and makes room for what comes with them.
func (l *Learner) readNames(r *codec.Reader, k int) error {
	for number := range k {
		length := r.Uint64()
		if r.Err() == nil && length > model.MaxClassBytes {
			return fmt.Errorf("class %d: %d bytes: %w", number, length, model.ErrCorruptState)
		}
		name := string(r.Bytes(int(length)))
		if err := r.Err(); err != nil {
			return err
		}
		if err := model.CheckClass(name); err != nil {
			return fmt.Errorf("class %d: %w: %w", number, err, model.ErrCorruptState)
		}
		if _, twice := l.numbers[name]; twice {
			return fmt.Errorf("class %d is %q, as another: %w", number, name, model.ErrCorruptState)
		}
		l.names = append(l.names, name)
		l.numbers[name] = number
		l.nameBytes += len(name)
	}
	l.counts, l.labels = make([]float64, k), make([]float64, k)
	return r.Err()
}
