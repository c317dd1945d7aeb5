package alias

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/cespare/xxhash/v2"

	"hindsight/internal/engine/hosted"
	"hindsight/internal/engine/record"
	"hindsight/internal/model"
)

// Share is the part of an alias's requests that a second model answers.
type Share struct {
	Model    string
	Fraction float64
	// LearnAll: the second model follows the alias's model. Otherwise each model learns what it predicted.
	LearnAll bool
	// Started is when the share began; a change of the other fields begins it anew.
	Started time.Time
}

// Check rejects a share without another model, and a fraction outside of (0, 1).
func (s *Share) Check(id string) error {
	var errs []error
	reject := func(field, got, want string) { errs = append(errs, hosted.Invalid("share."+field, got, want)) }
	switch s.Model {
	case "":
		reject("model", "nothing", "the id of a model")
	case id:
		reject("model", fmt.Sprintf("%q", id), "another model than the alias names")
	}
	if !(s.Fraction > 0 && s.Fraction < 1) {
		reject("fraction", fmt.Sprint(s.Fraction), "a number above 0 and below 1")
	}
	return model.JoinFields(errs...)
}

// Shares reports whether a second model has a share of the alias.
func (b *Binding) Shares() bool { return b != nil && b.Share.Model.ID != "" }

// ToSecond reports whether a key belongs to the share of the second model. Equal keys have equal answers, on
// every server and in every version, and a larger fraction keeps the keys of a smaller one. Without a key
// chance decides.
func (b *Binding) ToSecond(key string) bool {
	if key == "" {
		return rand.Float64() < b.Share.Fraction //nolint:gosec // No secret depends on it.
	}
	// Two aliases, and two second models, divide the keys independently.
	var d xxhash.Digest
	d.Reset()
	for _, part := range [...]string{b.name, "\x00", b.Share.Model.ID, "\x00", key} {
		_, _ = d.WriteString(part)
	}
	return float64(d.Sum64()>>11)/(1<<53) < b.Share.Fraction
}

func (b *Binding) public() *Share {
	if !b.Shares() {
		return nil
	}
	s := &b.Share
	return &Share{Model: s.Model.ID, Fraction: s.Fraction, LearnAll: s.LearnAll, Started: time.Unix(0, s.Started)}
}

func sameShare(a, b *record.Share) bool {
	return a.Model == b.Model && a.Fraction == b.Fraction && a.LearnAll == b.LearnAll
}

// succeed plans the binding after current, which exists.
func (b *Binding) succeed(current *Binding) (next *Binding, err error) {
	second := current.Share.Model
	if current.Model == b.Model {
		b.Updated = current.Updated // The share says when it began.
	}
	switch {
	case current.Model == b.Model && sameShare(&current.Share, &b.Share):
		return current, nil
	case current.Model == b.Model && (second.ID == "" || second == b.Share.Model):
		b.Previous = current.Previous
	case current.Model == b.Model:
		b.Previous = second
	case second.ID == "" || second == b.Model:
		b.Previous = current.Model
	default:
		// The labels of three models would be on their way.
		return nil, hosted.Invalid("model", fmt.Sprintf("%q", b.Model.ID),
			fmt.Sprintf("%q or %q, which share the alias; end the share first", current.Model.ID, second.ID))
	}
	return b, nil
}
