package drift

import (
	"encoding/binary"
	"fmt"
	"math"

	"hindsight/internal/model/codec"
)

// AppendBinary appends the state to dst. It allocates nothing when dst has room.
// A Detector continues from it bit for bit.
//
// The layout, every number of 8 bytes: losses observed, the sums of the open block
// and of its roots, blocks of the reference, base; rise and fall with R, the sum of
// scores, its length, the sums before it and in it; how many changes and rises, the
// change and noticed of the last, 1 for a rise, the means before and after. If the reference has
// a block, 128 counts of 4 bytes. If a bet on a separation was won last, Q of rise and the
// bets won in succession, and the same of fall. Earlier versions, which did not bet so, wrote
// a state without these four numbers, as if no such bet had been won.
func (d *Detector) AppendBinary(dst []byte) []byte {
	dst = codec.AppendUint64(dst, d.observed)
	dst = codec.AppendFloats(dst, d.loss, d.root)
	dst = codec.AppendUint64(dst, d.n)
	dst = codec.AppendUint64(dst, uint64(d.base))
	for _, v := range []*direction{&d.rise, &d.fall} {
		dst = codec.AppendFloats(dst, v.r, v.score)
		dst = codec.AppendUint64(dst, v.length)
		dst = codec.AppendFloats(dst, v.before, v.after)
	}
	rise := uint64(0)
	if d.told.Rise {
		rise = 1
	}
	for _, v := range [...]uint64{d.told.Detected, d.told.Rises, d.told.Change, d.told.Noticed, rise} {
		dst = codec.AppendUint64(dst, v)
	}
	dst = codec.AppendFloats(dst, d.told.Before, d.told.After)
	if d.n == 0 {
		return dst
	}
	for _, c := range d.counts {
		dst = binary.LittleEndian.AppendUint32(dst, c)
	}
	if d.rise.won > 0 || d.fall.won > 0 {
		for _, v := range []*direction{&d.rise, &d.fall} {
			dst = codec.AppendUint64(codec.AppendFloats(dst, v.q), v.won)
		}
	}
	return dst
}

// Bounds of what a state holds, beyond what any losses make of it.
const (
	maxCount = 1 << 62
	maxSum   = 1e280
	maxKey   = 1 << (11 + mantissa)
)

// Restore replaces the state by one that AppendBinary wrote. It takes any bytes,
// and fails with codec.ErrCorrupt on those that cannot be a state. On an error the
// state is as it was.
func (d *Detector) Restore(data []byte) error {
	t := &Detector{}
	r := codec.NewReader(data)
	t.observed = r.Uint64()
	r.Within(maxSum, &t.loss, &t.root)
	t.n = r.Uint64()
	base := r.Uint64()
	t.base = int(min(base, maxKey))
	for _, v := range []*direction{&t.rise, &t.fall} {
		r.Within(2*threshold, &v.r)
		r.Within(maxCount, &v.score)
		v.length = r.Uint64()
		r.Within(maxSum, &v.before, &v.after)
	}
	t.told.Detected, t.told.Rises = r.Uint64(), r.Uint64()
	t.told.Change, t.told.Noticed = r.Uint64(), r.Uint64()
	rise := r.Uint64()
	t.told.Rise = rise == 1
	r.Within(maxSum, &t.told.Before, &t.told.After)
	if r.Err() == nil && t.n > 0 {
		t.counts = make([]uint32, bins)
		for i := range t.counts {
			t.counts[i] = r.Uint32()
		}
	}
	separated := r.Len() > 0
	if separated {
		for _, v := range []*direction{&t.rise, &t.fall} {
			r.Within(threshold/separation, &v.q)
			v.won = r.Uint64()
		}
	}
	if err := r.End(); err != nil {
		return fmt.Errorf("drift: %w", err)
	}
	if what := t.broken(); what != "" || rise > 1 || base >= maxKey || separated != (t.rise.won > 0 || t.fall.won > 0) {
		return fmt.Errorf("drift: %s: %w", what, codec.ErrCorrupt)
	}
	*d = *t
	return nil
}

// broken says what of a state that was read cannot be.
func (d *Detector) broken() string {
	blocks := d.observed / block
	if d.observed > maxCount || d.n > blocks || d.n > math.MaxUint32 {
		return "the numbers of losses cannot be"
	}
	if negative(d.loss, d.root, d.told.Before, d.told.After) || d.observed%block == 0 && (d.loss != 0 || d.root != 0) {
		return "the sums of losses cannot be"
	}
	for _, v := range []*direction{&d.rise, &d.fall} {
		if negative(v.r, v.q, v.score, v.before, v.after) || v.evidence() >= threshold ||
			(v.q > 0) != (v.won > 0) || v.won > 0 && v.won >= d.n || v.length > 0 && v.length >= d.n || v.length == 0 && (v.after != 0 || v.score != 0) ||
			d.n == 0 && *v != (direction{}) {
			return "the evidence of a change cannot be"
		}
	}
	if d.told != (Statistics{}) && !d.told.can(d.observed, d.n) {
		return "the last change cannot be"
	}
	sum := uint64(0)
	for _, c := range d.counts {
		sum += uint64(c)
	}
	if sum != d.n || (d.base == 0) != (d.n == 0 || uint64(d.counts[zero]) == d.n) {
		return "the counts of the reference do not fit their number"
	}
	return ""
}

// can tells whether there can be such changes after so many losses, with so many
// blocks since.
func (s Statistics) can(observed, since uint64) bool {
	return s.Detected > 0 && s.Detected <= observed/block && s.Rises <= s.Detected && (s.Rises > 0 || !s.Rise) &&
		s.Change > block && s.Change%block == 1 && s.Change <= s.Noticed &&
		s.Noticed%block == 0 && s.Noticed <= observed && since <= (observed-s.Noticed)/block
}

// negative tells whether one of the values is below 0.
func negative(values ...float64) bool {
	for _, v := range values {
		if v < 0 || math.Signbit(v) {
			return true
		}
	}
	return false
}
