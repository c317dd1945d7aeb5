package account

import (
	"errors"
	"fmt"

	"hindsight/internal/model"
	"hindsight/internal/model/codec"
)

// Versions of the bytes of an account. Version 1 knew what was served alone.
const (
	versionServed = 1
	version       = 2
)

// Bounds of the numbers in an account. Labels and predictions are within 1e101,
// weights within model.MaxWeight.
const (
	maxNumber = 1e240
	maxLabel  = 2 * model.MaxMagnitude
)

// ErrUnreadable is an account that this version cannot read.
var ErrUnreadable = errors.New("not an account this version can read")

// Append appends the bytes of the account to dst.
func (a *Account) Append(dst []byte) []byte {
	dst = append(dst, version)
	dst = codec.AppendUint64(dst, uint64(a.Time))
	dst = codec.AppendUint64(dst, a.predicted)
	dst = codec.AppendFloats(dst, a.served.Loss, a.served.RunningMean, a.served.LastLabel, a.excess, a.weight)
	dst = codec.AppendFloats(codec.AppendFloats(dst, a.means...), a.last...)
	dst = a.discounted.AppendBinary(a.whole.AppendBinary(dst))
	dst = a.recent.AppendBinary(dst)
	for _, s := range a.intervals {
		dst = appendPart(dst, s.AppendBinary)
	}
	return appendPart(dst, a.drift.AppendBinary)
}

// appendPart appends a length and so many bytes.
func appendPart(dst []byte, appendBinary func([]byte) []byte) []byte {
	at := len(dst)
	dst = appendBinary(codec.AppendUint64(dst, 0))
	codec.AppendUint64(dst[:at], uint64(len(dst)-at-8))
	return dst
}

// Decode reads what Append wrote of a model of so many outputs and of these
// levels. It takes any bytes.
func Decode(data []byte, outputs int, levels []float64) (*Account, error) {
	a := New(outputs, levels)
	r := codec.NewReader(data)
	head := r.Bytes(1)
	if head == nil || head[0] < versionServed || head[0] > version {
		return nil, fmt.Errorf("account of version %v: %w", head, ErrUnreadable)
	}
	a.Time, a.predicted = int64(r.Uint64()), r.Uint64()
	r.Within(maxNumber, &a.served.Loss)
	var err error
	if head[0] > versionServed {
		err = a.read2(r)
	}
	if err == nil {
		err = r.End()
	}
	if err != nil {
		return nil, fmt.Errorf("account: %w: %w", ErrUnreadable, err)
	}
	return a, nil
}

// read2 reads what version 2 knows more.
func (a *Account) read2(r *codec.Reader) error {
	r.Within(maxNumber, &a.served.RunningMean, &a.served.LastLabel, &a.excess, &a.weight)
	r.FloatsWithin(maxLabel, a.means)
	r.FloatsWithin(maxLabel, a.last)
	a.whole.Read(r, maxNumber)
	a.discounted.Read(r, maxNumber)
	if err := a.recent.Read(r, maxNumber); err != nil {
		return err
	}
	for _, s := range a.intervals {
		if err := readPart(r, s.Restore); err != nil {
			return fmt.Errorf("intervals: %w", err)
		}
	}
	if err := readPart(r, a.drift.Restore); err != nil {
		return fmt.Errorf("drift: %w", err)
	}
	if a.weight < 0 {
		return fmt.Errorf("a sum of weights of %g", a.weight)
	}
	return r.Err()
}

func readPart(r *codec.Reader, restore func([]byte) error) error {
	length := r.Uint64()
	if length > uint64(r.Len()) {
		return fmt.Errorf("a part of %d bytes in %d", length, r.Len())
	}
	part := r.Bytes(int(length))
	if err := r.Err(); err != nil {
		return err
	}
	return restore(part)
}

// Size is the memory that the account takes, in bytes, at a cost of O(outputs).
func (a *Account) Size() uint64 {
	size := uint64(accountBytes + 16*len(a.means) + performanceBytes*a.recent.Capacity())
	for _, s := range a.intervals {
		size += s.Size()
	}
	return size + a.drift.Size()
}

const (
	accountBytes     = 400
	performanceBytes = 56
)
