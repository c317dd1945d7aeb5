package record

import (
	"fmt"
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
	// Epoch is that of the model's restores, as in Restored.
	Epoch uint64
	// Squares is the sum of the squared served losses.
	Squares float64
	// Sums are the bytes of the losses, as in Follow.
	Sums string
}

const flagLearnAll = 1

// Encode returns the bytes of the alias. They end with an empty id if there is no share.
func (a *Alias) Encode() []byte {
	dst := codec.AppendUint64([]byte{versionAlias}, uint64(a.Updated))
	dst = appendRef(appendRef(dst, a.Model), a.Previous)
	if a.Share.Model.ID == "" {
		return appendString(dst, "")
	}
	var flags byte
	if a.Share.LearnAll {
		flags |= flagLearnAll
	}
	dst = append(appendRef(dst, a.Share.Model), flags)
	dst = codec.AppendUint64(codec.AppendFloats(dst, a.Share.Fraction), uint64(a.Share.Started))
	for _, b := range []*Base{&a.Share.First, &a.Share.Second} {
		dst = codec.AppendUint64(codec.AppendUint64(dst, b.Sequence), b.Epoch)
		dst = appendString(codec.AppendFloats(dst, b.Squares), b.Sums)
	}
	return dst
}

func appendRef(dst []byte, r Ref) []byte {
	return codec.AppendUint64(appendString(dst, r.ID), uint64(r.Created))
}

// DecodeAlias reads the bytes that Encode wrote.
func DecodeAlias(data []byte) (Alias, error) {
	d := newDecoder(data, versionAlias)
	a := Alias{Updated: int64(d.Uint64())}
	a.Model, a.Previous = d.ref(), d.ref()
	a.Share = d.share()
	if a.Model.ID == "" {
		d.reject("an alias of no model")
	}
	if err := d.End(); err != nil {
		return Alias{}, fmt.Errorf("record: alias: %w", err)
	}
	return a, nil
}

func (d *decoder) ref() Ref { return Ref{ID: d.text(), Created: int64(d.Uint64())} }

func (d *decoder) share() (s Share) {
	if s.Model.ID = d.text(); s.Model.ID == "" {
		return s
	}
	s.Model.Created = int64(d.Uint64())
	flags := d.octet()
	s.LearnAll = flags&flagLearnAll != 0
	s.Fraction, s.Started = d.Float(), int64(d.Uint64())
	for _, b := range []*Base{&s.First, &s.Second} {
		*b = Base{Sequence: d.Uint64(), Epoch: d.Uint64(), Squares: d.Float(), Sums: d.text()}
		if !(math.Abs(b.Squares) <= math.MaxFloat64) {
			d.reject("a sum that is not finite")
		}
	}
	if flags&^flagLearnAll != 0 || !(s.Fraction > 0 && s.Fraction < 1) {
		d.reject(fmt.Sprintf("a share of %g, flags %#x, of model %q", s.Fraction, flags, s.Model.ID))
	}
	return s
}
