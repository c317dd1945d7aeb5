package record

import "hindsight/internal/model/codec"

// Ref names one model. An id alone does not: after a purge another model may be created under
// the same id.
type Ref struct {
	ID string
	// Created is the time of creation, in nanoseconds since 1970.
	Created int64
}

// Alias is the stored form of an alias.
type Alias struct {
	// Model is the model of the alias, Previous the model before that, empty in a new alias.
	Model, Previous Ref
	// Updated is the time at which the alias was set to Model, in nanoseconds since 1970.
	Updated int64
}

// Encode returns the bytes of the alias.
func (a *Alias) Encode() []byte { return encode(nil, a.visit) }

// DecodeAlias reads the bytes that Encode wrote.
func DecodeAlias(data []byte) (Alias, error) { return decode("alias", data, (*Alias).visit) }

func (a *Alias) visit(v *codec.Visitor) {
	v.Version(versionAlias)
	v.Int64(&a.Updated)
	a.Model.visit(v)
	a.Previous.visit(v)
	if v.Reading() && a.Model.ID == "" {
		v.Corrupt("an alias of no model")
	}
}

func (r *Ref) visit(v *codec.Visitor) {
	v.DelimitedText(&r.ID)
	v.Int64(&r.Created)
}
