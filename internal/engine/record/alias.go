package record

import (
	"fmt"

	"hindsight/internal/model/codec"
)

// Alias is what is kept of an alias.
type Alias struct {
	// Model is what it names, Previous what it named before, empty if it is new.
	Model, Previous string
	// Updated is when it was set, in nanoseconds since 1970.
	Updated int64
}

// Encode gives the bytes of the alias.
func (a *Alias) Encode() []byte {
	return appendString(appendString(codec.AppendUint64([]byte{version}, uint64(a.Updated)), a.Model), a.Previous)
}

// DecodeAlias reads what Encode wrote.
func DecodeAlias(data []byte) (Alias, error) {
	d := newDecoder(data, version)
	a := Alias{Updated: int64(d.Uint64()), Model: d.text(), Previous: d.text()}
	if a.Model == "" {
		d.refuse("an alias of no model")
	}
	if err := d.End(); err != nil {
		return Alias{}, fmt.Errorf("record: alias: %w", err)
	}
	return a, nil
}
