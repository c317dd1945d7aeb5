package classifier

import (
	"fmt"
	"math"
	"slices"

	"hindsight/internal/model"
	"hindsight/internal/model/calibration"
	"hindsight/internal/model/codec"
)

// AppendBinary appends the state to dst: the number of classes; of each the length
// of its name and the name; their counts; the largest √weight; the calibration; the
// learner's state.
func (l *Learner) AppendBinary(dst []byte) ([]byte, error) {
	dst = slices.Grow(dst, l.headBytes())
	dst = codec.AppendUint64(dst, uint64(len(l.names)))
	for _, name := range l.names {
		dst = append(codec.AppendUint64(dst, uint64(len(name))), name...)
	}
	dst = codec.AppendFloats(dst, l.counts...)
	dst = codec.AppendFloats(dst, l.bound)
	dst = l.calibration.AppendBinary(dst)
	dst, err := l.inner.AppendBinary(dst)
	if err != nil {
		return nil, fmt.Errorf("classifier: %w", err)
	}
	return dst, nil
}

// headBytes bounds what comes before the learner's state.
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
		return fmt.Errorf("classifier: restore: %w", err)
	}
	*l = *restored
	return nil
}

func (l *Learner) decode(r *codec.Reader) (*Learner, error) {
	fresh := &Learner{o: l.o, numbers: map[string]int{}, calibration: calibration.New()}
	k := r.Uint64()
	if r.Err() == nil && k > uint64(l.o.MaxClasses) {
		return nil, fmt.Errorf("%d classes, want at most %d: %w", k, l.o.MaxClasses, model.ErrCorruptState)
	}
	if err := fresh.readNames(r, int(k)); err != nil {
		return nil, err
	}
	if err := fresh.readCounts(r, int(k)); err != nil {
		return nil, err
	}
	var err error
	if fresh.calibration, err = calibration.Read(r); err != nil {
		return nil, err
	}
	fresh.begin()
	if err := fresh.inner.Restore(r.Bytes(r.Len())); err != nil {
		return nil, err
	}
	if n := fresh.inner.Stats().Observations; n < k || (n > 0) != (k > 0) || (k > 0) != (fresh.bound > 0) {
		return nil, fmt.Errorf("%d classes in %d observations of a root of a weight of at most %g: %w",
			k, n, fresh.bound, model.ErrCorruptState)
	}
	return fresh, nil
}

// readNames reads the names of k classes.
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
	return r.Err()
}

// readCounts reads the counts of k classes, and the largest √weight.
func (l *Learner) readCounts(r *codec.Reader, k int) error {
	l.counts = make([]float64, k)
	r.FloatsWithin(maxCount, l.counts)
	r.Within(math.Sqrt(model.MaxWeight), &l.bound)
	if err := r.Err(); err != nil {
		return err
	}
	for k, n := range l.counts {
		if !(n >= 0) {
			return fmt.Errorf("class %d was observed %g times: %w", k, n, model.ErrCorruptState)
		}
	}
	if k > 0 && !(sum(l.counts) >= model.MinWeight/2) {
		return fmt.Errorf("counts of %g: %w", l.counts, model.ErrCorruptState)
	}
	return nil
}
