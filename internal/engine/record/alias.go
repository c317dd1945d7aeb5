package record

import (
	"fmt"

	"hindsight/internal/model/codec"
)

// Ref names one model. An id alone does not: after a purge another model may be created under
// the same id.
type Ref struct {
	ID string
	// Created is the time of creation, in nanoseconds since 1970. It is 0 in an alias of
	// version 1 before Bind, and after Bind if the model no longer exists.
	Created int64
}

// Alias is the stored form of an alias.
type Alias struct {
	// Model is the model of the alias, Previous the model before that, empty in a new alias.
	Model, Previous Ref
	// Updated is the time at which the alias was set, in nanoseconds since 1970.
	Updated int64
}

// Encode returns the bytes of the alias.
func (a *Alias) Encode() []byte {
	dst := codec.AppendUint64([]byte{versionAlias}, uint64(a.Updated))
	for _, r := range []Ref{a.Model, a.Previous} {
		dst = codec.AppendUint64(appendString(dst, r.ID), uint64(r.Created))
	}
	return dst
}

// DecodeAlias reads the bytes that Encode wrote. An alias of version 1 has ids alone: see Bind.
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

// Bind completes the references of an alias of version 1. The function created returns the time of
// creation of the present model of an id, or 0.
//
// Both models existed when the alias was set: DeleteModel refuses a model that an alias
// names, and the alias named Previous until then. An id has one model at a time.
// So a present model that is older than the alias is the referenced model. A younger model
// is another one, and Created stays 0.
func (a *Alias) Bind(created func(id string) int64) {
	for _, r := range []*Ref{&a.Model, &a.Previous} {
		if r.Created == 0 && r.ID != "" {
			if at := created(r.ID); at <= a.Updated {
				r.Created = at
			}
		}
	}
}
