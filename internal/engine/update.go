package engine

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"

	"go.uber.org/zap"

	"hindsight/internal/engine/figures"
	"hindsight/internal/engine/hosted"
	"hindsight/internal/engine/record"
	"hindsight/internal/model"
)

var idPattern = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,62}$`)

// idForm says in words what idPattern accepts.
const idForm = "1 to 63 of a-z, 0-9, '.', '_' and '-', the first a letter or digit"

// CheckID accepts a model id: [a-z0-9]([a-z0-9._-]{0,62}).
func CheckID(id string) error { return checkName("id", id) }

func checkName(field, name string) error {
	if idPattern.MatchString(name) {
		return nil
	}
	got := fmt.Sprintf("%q", hosted.Brief(name))
	if name == "" && field == "id" {
		got = "nothing"
	}
	return &model.FieldError{Field: field, Got: got, Err: ErrInvalidID, Want: idForm}
}

// Limits of metadata. Texts are measured in characters, annotations in bytes.
const (
	maxDisplayName     = 63
	maxLabels          = 64
	maxLabelValue      = 63
	maxAnnotations     = 64
	maxAnnotationKey   = 63
	maxAnnotationBytes = 16 << 10
	maxPendingLimit    = 1_000_000_000
	// MaxLabelTTL bounds how long a prediction may be pending.
	MaxLabelTTL = 366 * 24 * time.Hour
)

// CheckMetadata rejects metadata, with all that is wrong.
func CheckMetadata(m *Metadata) error {
	var errs []error
	reject := func(field, got, want string) { errs = append(errs, hosted.Invalid(field, got, want)) }
	atMost := func(field string, n, most int, what string) {
		if n > most {
			reject(field, fmt.Sprintf("%d %s", n, what), fmt.Sprintf("at most %d", most))
		}
	}
	atMost("display_name", utf8.RuneCountInString(m.DisplayName), maxDisplayName, "characters")
	atMost("labels", len(m.Labels), maxLabels, "labels")
	for _, key := range slices.Sorted(maps.Keys(m.Labels)) {
		if !idPattern.MatchString(key) {
			reject("labels", fmt.Sprintf("the key %q", hosted.Brief(key)), "keys of "+idForm)
			continue
		}
		atMost("labels."+key, utf8.RuneCountInString(m.Labels[key]), maxLabelValue, "characters")
	}
	atMost("annotations", len(m.Annotations), maxAnnotations, "annotations")
	bytes := 0
	for _, key := range slices.Sorted(maps.Keys(m.Annotations)) {
		bytes += len(key) + len(m.Annotations[key])
		if n := utf8.RuneCountInString(key); n == 0 || n > maxAnnotationKey {
			reject("annotations", fmt.Sprintf("the key %q", hosted.Brief(key)), fmt.Sprintf("keys of 1 to %d characters", maxAnnotationKey))
		}
	}
	atMost("annotations", bytes, maxAnnotationBytes, "bytes")
	if m.LabelTTL < 0 || m.LabelTTL > int64(MaxLabelTTL) {
		reject("label_ttl", time.Duration(m.LabelTTL).String(), fmt.Sprintf("above 0 and at most %s", MaxLabelTTL))
	}
	if m.MaxPending < 0 || m.MaxPending > maxPendingLimit {
		reject("max_pending_labels", strconv.FormatInt(m.MaxPending, 10), fmt.Sprintf("1 to %d", maxPendingLimit))
	}
	return model.JoinFields(errs...)
}

// UpdateOptions say what UpdateModel changes.
type UpdateOptions struct {
	// ETag must be the model's, unless it is empty.
	ETag string
	// Edit changes a copy of the metadata. It is pure.
	Edit func(*Metadata)
	// ValidateOnly describes the model as it would be, with the etag that it has, and changes nothing.
	ValidateOnly bool
}

// UpdateModel changes the metadata of a model, durably. It neither loads the model nor waits for its turn.
// Equal metadata is a no-op.
func (e *Engine) UpdateModel(ctx context.Context, id string, o UpdateOptions) (Info, error) {
	if !o.ValidateOnly {
		if err := e.asOwner(ctx); err != nil {
			return Info{}, err
		}
	}
	named, err := e.find(ctx, id)
	if err != nil {
		return Info{}, err
	}
	m, release, err := e.lookUpClaimed(ctx, named.ID())
	if err != nil {
		return Info{}, err
	}
	defer release()
	if m.Deleted() {
		return Info{}, deletedError(m)
	}
	registered := m.Registered()
	if err := checkETag(m, o.ETag); err != nil {
		return Info{}, err
	}
	metadata := registered.Clone()
	o.Edit(&metadata)
	if err := CheckMetadata(&metadata); err != nil {
		return Info{}, err
	}
	if o.ValidateOnly {
		info, err := figures.Describe(m.Model)
		info.Metadata = metadata
		return info, err
	}
	if !metadata.Equal(&registered.Metadata) {
		next := changed(registered, e.o.Now())
		next.Metadata = metadata
		if err := m.Register(ctx, next); err != nil {
			return Info{}, err
		}
		m.SetRegistered(next)
		e.o.Log.Info("model updated", zap.String("model", m.ID()))
	}
	return figures.Describe(m.Model)
}

func changed(registered *record.RegistryValue, now time.Time) *record.RegistryValue {
	next := *registered
	next.Updated = max(now.UnixNano(), registered.Updated)
	next.Revision++
	return &next
}

func checkETag(m *hostedModel, given string) error {
	if now := figures.ETag(m.Registered()); given != "" && given != now {
		return fmt.Errorf("model %q: %w: the etag is %s, got %s; read the model again", m.ID(), ErrEtag, now, hosted.Brief(given))
	}
	return nil
}
