package classes

import (
	"fmt"

	"hindsight/internal/model/codec"
)

// AppendBinary appends the account to dst, from which Restore continues bit for bit. It
// allocates nothing when dst has room.
func (a *Account) AppendBinary(dst []byte) []byte {
	v := codec.Appending(dst)
	a.Visit(&v)
	out, _ := v.Appended() // Appending numbers does not fail.
	return out
}

// Restore replaces the account by one that AppendBinary wrote for the same limit. It
// accepts any bytes, and fails with codec.ErrCorrupt on bytes that cannot be an account.
// After an error the account is unchanged.
func (a *Account) Restore(data []byte) error {
	fresh := New(a.limit)
	if err := codec.Read(data, fresh.Visit); err != nil {
		return fmt.Errorf("classes: %w: %w", err, codec.ErrCorrupt)
	}
	*a = *fresh
	return nil
}
