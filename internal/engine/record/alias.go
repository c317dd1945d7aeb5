package record

import (
	"math"

	"hindsight/internal/model/codec"
)

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
	// Share is the zero value if Model gets all requests.
	Share Share
}

// Share is the part of an alias's requests that a second model answers.
type Share struct {
	Model Ref
	// Fraction is in (0, 1).
	Fraction float64
	// LearnAll: Model follows the alias's model, which learns the labels of both. Otherwise each
	// model learns what it predicted.
	LearnAll bool
	// Started is the time at which the share began, in nanoseconds since 1970.
	Started int64
	// First and Second are the figures of the alias's model and of Model at that time.
	First, Second Base
}

// Base is a point in the life of a model from which its figures are counted.
type Base struct {
	Sequence uint64
	// Epoch counts the model's restores, as in Restored.
	Epoch uint64
	// Squares is the sum of the squared served losses.
	Squares float64
	// Sums are the bytes of the losses, as in Follow.
	Sums string
}

// Encode returns the bytes of the alias. Without a share they end with an empty id.
func (a *Alias) Encode() []byte { return encode(nil, a.visit) }

// DecodeAlias reads the bytes that Encode wrote.
func DecodeAlias(data []byte) (Alias, error) { return decode("alias", data, (*Alias).visit) }

func (a *Alias) visit(v *codec.Visitor) {
	v.Version(versionAlias)
	v.Int64(&a.Updated)
	a.Model.visit(v)
	a.Previous.visit(v)
	a.Share.visit(v)
	if v.Reading() && a.Model.ID == "" {
		v.Corrupt("an alias of no model")
	}
}

func (r *Ref) visit(v *codec.Visitor) {
	v.DelimitedText(&r.ID)
	v.Int64(&r.Created)
}

func (s *Share) visit(v *codec.Visitor) {
	if v.DelimitedText(&s.Model.ID); s.Model.ID == "" {
		return
	}
	v.Int64(&s.Model.Created)
	v.Flags(&s.LearnAll)
	v.Float(&s.Fraction)
	v.Int64(&s.Started)
	for _, b := range []*Base{&s.First, &s.Second} {
		v.Uint64(&b.Sequence, &b.Epoch)
		v.Within(math.MaxFloat64, &b.Squares)
		v.DelimitedText(&b.Sums)
	}
	if v.Reading() && !(s.Fraction > 0 && s.Fraction < 1) {
		v.Corrupt("a share of %g of model %q", s.Fraction, s.Model.ID)
	}
}
