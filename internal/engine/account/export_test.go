package account

import "hindsight/internal/model/codec"

// Append appends the bytes of the account to dst.
func (a *Account) Append(dst []byte) []byte {
	v := codec.Appending(dst)
	a.Visit(&v)
	out, _ := v.Appended() // Appending numbers does not fail.
	return out
}
