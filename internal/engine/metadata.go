package engine

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"

	"hindsight/internal/engine/record"
	"hindsight/internal/model"
	"hindsight/internal/model/codec"
)

// Limits of metadata. Texts are measured in characters, annotations in bytes.
const (
	maxDisplayName     = 63
	maxLabels          = 64
	maxLabelValue      = 63
	maxAnnotations     = 64
	maxAnnotationKey   = 63
	maxAnnotationBytes = 16 << 10
	maxPendingLimit    = 1_000_000_000
	maxAddress         = 300
	// MaxLabelTTL bounds how long a prediction may wait for its label.
	MaxLabelTTL = 366 * 24 * time.Hour
)

// Metadata is what may change of a model. LabelTTL and MaxPending are 0 where the server
// decides.
type Metadata = record.Metadata

// Move says where a model is moved to. While a model has one, it learns nothing, keeps no
// predictions and is not restored, so that an export has all that it was told. It goes on
// predicting.
type Move = record.Move

// Imported is the state that a model was imported with.
type Imported = record.Imported

// CheckMetadata tells all that is wrong with metadata.
func CheckMetadata(m *Metadata) error {
	var errs []error
	refuse := func(field, got, want string) {
		errs = append(errs, &model.FieldError{Field: field, Err: ErrInvalidRequest, Got: got, Want: want})
	}
	atMost := func(field string, n, most int, what string) {
		if n > most {
			refuse(field, fmt.Sprintf("%d %s", n, what), fmt.Sprintf("at most %d", most))
		}
	}
	atMost("display_name", utf8.RuneCountInString(m.DisplayName), maxDisplayName, "characters")
	atMost("labels", len(m.Labels), maxLabels, "labels")
	for _, key := range slices.Sorted(maps.Keys(m.Labels)) {
		if !idPattern.MatchString(key) {
			refuse("labels", fmt.Sprintf("the key %q", brief(key)), "keys of "+idForm)
			continue
		}
		atMost("labels."+key, utf8.RuneCountInString(m.Labels[key]), maxLabelValue, "characters")
	}
	atMost("annotations", len(m.Annotations), maxAnnotations, "annotations")
	bytes := 0
	for _, key := range slices.Sorted(maps.Keys(m.Annotations)) {
		bytes += len(key) + len(m.Annotations[key])
		if n := utf8.RuneCountInString(key); n == 0 || n > maxAnnotationKey {
			refuse("annotations", fmt.Sprintf("the key %q", brief(key)), fmt.Sprintf("keys of 1 to %d characters", maxAnnotationKey))
		}
	}
	atMost("annotations", bytes, maxAnnotationBytes, "bytes")
	if m.LabelTTL < 0 || m.LabelTTL > int64(MaxLabelTTL) {
		refuse("label_ttl", time.Duration(m.LabelTTL).String(), fmt.Sprintf("above 0 and at most %s", MaxLabelTTL))
	}
	if m.MaxPending < 0 || m.MaxPending > maxPendingLimit {
		refuse("max_pending_labels", strconv.FormatInt(m.MaxPending, 10), fmt.Sprintf("1 to %d", maxPendingLimit))
	}
	if m.Move != nil {
		if n := len(m.Move.Address); n == 0 || n > maxAddress {
			refuse("move.address", fmt.Sprintf("%d bytes", n), fmt.Sprintf("the address of a server, at most %d bytes", maxAddress))
		}
	}
	return model.JoinFields(errs...)
}

// etag names the state of an entry: it changes with every change, and is another one for
// a model that is made again.
func etag(e *record.Entry) string {
	return strconv.FormatInt(e.Created, 36) + "-" + strconv.FormatUint(e.Revision, 10)
}

// checkEtag refuses an etag that is given and is not that of the entry.
func checkEtag(id, given string, e *record.Entry) error {
	if now := etag(e); given != "" && given != now {
		return fmt.Errorf("model %q: %w: the etag is %s, got %s; read the model again", id, ErrEtag, now, brief(given))
	}
	return nil
}

// entryTime is a time of an entry, zero if it is not set.
func entryTime(nanoseconds int64) time.Time {
	if nanoseconds == 0 {
		return time.Time{}
	}
	return time.Unix(0, nanoseconds)
}

// encodeEntry gives the bytes of an entry with its spec.
func encodeEntry(e *record.Entry, spec model.Spec) ([]byte, error) {
	encoded, err := codec.EncodeSpec(spec)
	if err != nil {
		return nil, fmt.Errorf("engine: %w", err)
	}
	whole := *e
	whole.Spec = encoded
	return whole.Encode(), nil
}

// changed is an entry that has changed at a time.
func changed(e *record.Entry, now time.Time) *record.Entry {
	next := *e
	next.Updated = max(now.UnixNano(), e.Updated)
	next.Revision++
	return &next
}
