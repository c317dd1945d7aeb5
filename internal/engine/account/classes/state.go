package classes

import (
	"fmt"
	"math"
	"slices"

	"hindsight/internal/model"
	"hindsight/internal/model/codec"
)

// AppendBinary appends the account to dst. It allocates nothing when dst has room. An
// Account of the same limit continues from it bit for bit.
//
// The layout, every number of 8 bytes: observations that had been predicted, and
// their figures; the performance over all; the number of recent blocks, the one that
// is being filled, and each block's performance; of each bin members, found and
// expected; the number of classes, and of each observed, errors, predicted and
// expected; the number of the last class plus 1. Figures are errors, log-loss, Brier
// score and the errors of the baselines; a performance is its observations and two
// such figures.
func (a *Account) AppendBinary(dst []byte) []byte {
	dst = slices.Grow(dst, a.encoded())
	dst = a.served.appendBinary(codec.AppendUint64(dst, a.predicted))
	dst = a.whole.AppendBinary(dst)
	dst = a.recent.AppendBinary(dst)
	for _, b := range a.bins {
		dst = codec.AppendUint64(codec.AppendUint64(dst, b.Members), b.Found)
		dst = codec.AppendFloats(dst, b.Expected)
	}
	dst = codec.AppendUint64(dst, uint64(len(a.classes)))
	for _, c := range a.classes {
		dst = codec.AppendUint64(codec.AppendUint64(dst, c.Observed), c.Errors)
		dst = codec.AppendFloats(codec.AppendUint64(dst, c.Predicted), c.Expected)
	}
	return codec.AppendUint64(dst, uint64(a.last+1))
}

const (
	figuresBytes     = 5 * 8
	performanceBytes = 8 + 2*figuresBytes
	binBytes         = 24
	classBytes       = 32
)

// encoded is what AppendBinary appends.
func (a *Account) encoded() int {
	return 8 + figuresBytes + performanceBytes*(1+a.recent.Blocks()) + 16 + Bins*binBytes + 8 + classBytes*len(a.classes) + 8
}

// Size is the memory of the account in bytes, at a cost of O(1).
func (a *Account) Size() uint64 {
	const fixed = 512
	return fixed + uint64(performanceBytes*a.recent.Capacity()+classBytes*cap(a.classes))
}

// maxRounds bounds the number of observations, so that every count of them is exact;
// maxSum bounds what sums over them can be.
const (
	maxRounds = 1 << 53
	maxSum    = 1e20
)

// Restore replaces the account by one that AppendBinary wrote for the same limit. It
// takes any bytes, and fails with codec.ErrCorrupt on those that cannot be an
// account. On an error the account is as it was.
func (a *Account) Restore(data []byte) error {
	b := New(a.limit)
	r := codec.NewReader(data)
	b.predicted = r.Uint64()
	b.served.read(r, maxSum)
	b.whole.Read(r, maxSum)
	if err := b.recent.Read(r, maxSum); err != nil {
		return fmt.Errorf("classes: %w: %w", err, codec.ErrCorrupt)
	}
	for n := range b.bins {
		b.bins[n].Members, b.bins[n].Found = r.Uint64(), r.Uint64()
		r.Within(maxSum, &b.bins[n].Expected)
	}
	if err := b.readClasses(r); err != nil {
		return err
	}
	last := r.Uint64()
	if err := r.End(); err != nil {
		return fmt.Errorf("classes: %w", err)
	}
	if last > uint64(len(b.classes)) {
		return broken("a last class that is not known")
	}
	b.last = int(last) - 1
	if what := b.check(); what != "" {
		return broken(what)
	}
	*a = *b
	return nil
}

func broken(what string) error { return fmt.Errorf("classes: %s: %w", what, codec.ErrCorrupt) }

// readClasses reads the classes, and finds the majority.
func (a *Account) readClasses(r *codec.Reader) error {
	k := r.Uint64()
	if k > uint64(a.limit) || k > uint64(r.Len()/classBytes) {
		return broken("more classes than there can be")
	}
	if k > 0 {
		a.classes = make([]Class, k)
	}
	for n := range a.classes {
		c := &a.classes[n]
		c.Observed, c.Errors, c.Predicted = r.Uint64(), r.Uint64(), r.Uint64()
		r.Within(maxSum, &c.Expected)
		if c.Observed > 0 && (a.majority == model.NoClass || c.Observed > a.classes[a.majority].Observed) {
			a.majority = n
		}
	}
	return nil
}

// check says what cannot be in an account that was read.
func (a *Account) check() string {
	total := a.whole.Observations
	if !(total >= 0 && total < maxRounds && total == math.Trunc(total)) || a.predicted > uint64(total) {
		return "a number of observations that cannot be"
	}
	left := uint64(total) // No sum of counts may overflow.
	for _, c := range a.classes {
		if c.Errors > c.Observed || c.Observed > left || c.Predicted > uint64(total) || c.Expected < 0 {
			return "counts of a class that cannot be"
		}
		left -= c.Observed
	}
	if left != 0 || (a.last == model.NoClass) != (total == 0) || (a.last != model.NoClass && a.classes[a.last].Observed == 0) {
		return "classes that do not add up to the observations"
	}
	for _, b := range a.bins {
		if b.Found > b.Members || b.Found > uint64(total) || b.Members > maxRounds*uint64(max(len(a.classes), 1)) || b.Expected < 0 {
			return "a bin that cannot be"
		}
	}
	if (total == 0) != (a.recent.Blocks() == 0) {
		return "recent observations that cannot be"
	}
	return ""
}
