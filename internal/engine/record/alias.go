package record

import (
	"fmt"

	"hindsight/internal/model/codec"
)

// Ref names one model. An id alone names whichever model has it at the moment: after a
// removal another model may be created under the same id.
type Ref struct {
	ID string
	// Created is when the model was created, in nanoseconds since 1970. It is 0 in an
	// alias of version 1, until Bind, and then if the model no longer exists.
	Created int64
}

// Alias is the stored form of an alias.
type Alias struct {
	// Model is the alias's model, Previous the one before it. A new alias has an empty
	// Previous.
	Model, Previous Ref
	// Updated is when the alias was set, in nanoseconds since 1970.
	Updated int64
}

// Encode gives the bytes of the alias.
func (a *Alias) Encode() []byte {
	dst := codec.AppendUint64([]byte{versionAlias}, uint64(a.Updated))
	for _, r := range []Ref{a.Model, a.Previous} {
		dst = codec.AppendUint64(appendString(dst, r.ID), uint64(r.Created))
	}
	return dst
}

// DecodeAlias reads what Encode wrote. An alias of version 1 has ids alone: see Bind.
func DecodeAlias(data []byte) (Alias, error) {
	d := newDecoder(data, versionAlias)
	a := Alias{Updated: int64(d.Uint64())}
	for _, r := range []*Ref{&a.Model, &a.Previous} {
		r.ID = d.text()
		if d.version >= versionAlias {
			r.Created = int64(d.Uint64())
		}
	}
	if a.Model.ID == "" {
		d.refuse("an alias of no model")
	}
	if err := d.End(); err != nil {
		return Alias{}, fmt.Errorf("record: alias: %w", err)
	}
	return a, nil
}

// Bind completes the references of an alias of version 1. Created gives the time of
// creation of the model that has an id now, or 0.
//
// Both models existed when the alias was set: DeleteModel refuses a model that an alias
// names, and until that moment the alias named Previous. An id has one model at a time.
// So the present model is the one that was meant if it is not younger than the alias. A
// younger model is another one, and the reference stays without a model.
func (a *Alias) Bind(created func(id string) int64) {
	for _, r := range []*Ref{&a.Model, &a.Previous} {
		if r.Created == 0 && r.ID != "" {
			if at := created(r.ID); at <= a.Updated {
				r.Created = at
			}
		}
	}
}
