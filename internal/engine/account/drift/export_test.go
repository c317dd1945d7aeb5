package drift

import (
	"fmt"
	"unsafe"

	"hindsight/internal/model/codec"
)

// Uniform is what breaks ties.
func Uniform(n uint64) float64 { return uniform(n) }

// Bytes is what Size says.
func (d *Detector) Bytes() uint64 { return uint64(unsafe.Sizeof(*d)) + 4*uint64(cap(d.counts)) }

// AppendBinary appends the state to dst, from which Restore continues bit for bit. It
// allocates nothing when dst has room.
func (d *Detector) AppendBinary(dst []byte) []byte {
	v := codec.Appending(dst)
	d.Visit(&v)
	out, _ := v.Appended() // Appending numbers does not fail.
	return out
}

// Restore replaces the state by one that AppendBinary wrote. It accepts any bytes, and
// fails with codec.ErrCorrupt on bytes that cannot be a state. After an error the state is
// unchanged.
func (d *Detector) Restore(data []byte) error {
	fresh := New()
	if err := codec.Read(data, fresh.Visit); err != nil {
		return fmt.Errorf("drift: %w: %w", err, codec.ErrCorrupt)
	}
	*d = *fresh
	return nil
}
