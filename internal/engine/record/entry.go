package record

import (
	"maps"
	"slices"

	"hindsight/internal/model/codec"
)

// Metadata is the part of a model that clients may update. It has no effect on learning.
type Metadata struct {
	// DisplayName is a name for people. Labels select models. Annotations are notes of the
	// caller.
	DisplayName         string
	Labels, Annotations map[string]string
	// LabelTTL is the time that a prediction is pending, in nanoseconds, MaxPending the limit
	// of pending predictions. 0 is the default of the server.
	LabelTTL, MaxPending int64
}

// Clone returns a deep copy.
func (m *Metadata) Clone() Metadata {
	out := *m
	out.Labels, out.Annotations = maps.Clone(m.Labels), maps.Clone(m.Annotations)
	return out
}

// Equal reports whether two metadata are equal. A nil map equals an empty one.
func (m *Metadata) Equal(o *Metadata) bool {
	return m.DisplayName == o.DisplayName && m.LabelTTL == o.LabelTTL && m.MaxPending == o.MaxPending &&
		maps.Equal(m.Labels, o.Labels) && maps.Equal(m.Annotations, o.Annotations)
}

func (m *Metadata) visit(v *codec.Visitor) {
	v.DelimitedText(&m.DisplayName)
	v.Int64(&m.LabelTTL, &m.MaxPending)
	visitTexts(v, &m.Labels)
	visitTexts(v, &m.Annotations)
	if v.Reading() && (m.LabelTTL < 0 || m.MaxPending < 0) {
		v.Corrupt("a time of %d, a limit of %d", m.LabelTTL, m.MaxPending)
	}
}

// visitTexts visits a count, and the keys in their order with their texts. It reads nil instead of an empty map.
func visitTexts(v *codec.Visitor, texts *map[string]string) {
	keys := slices.Sorted(maps.Keys(*texts))
	n := len(keys)
	if v.Length(&n, 2); v.Reading() && n > 0 { // A key and its text have two lengths.
		keys, *texts = make([]string, n), make(map[string]string, n)
	}
	for k := range keys {
		text := (*texts)[keys[k]]
		v.DelimitedText(&keys[k])
		if v.DelimitedText(&text); v.Reading() {
			if (*texts)[keys[k]] = text; k > 0 && keys[k] <= keys[k-1] {
				v.Corrupt("the key %q behind %q", keys[k], keys[k-1])
			}
		}
	}
}

// Restored is the newest restore of a model to an earlier sequence.
type Restored struct {
	// Epoch counts the restores, so that a sequence and an epoch name one state.
	Epoch uint64
	// Sequence is the restored sequence. Up to it this epoch and the previous epoch have
	// the same history.
	Sequence uint64
}

// Follow is the link of a follower to its leader.
type Follow struct {
	// Leader is the followed model, Epoch the restore epoch of the leader whose history the
	// follower has learned.
	Leader Ref
	Epoch  uint64
	// From is the sequence of the leader when the follower was created: the follower's
	// sequence n is the leader's From + n. Sums are the leader's losses at From.
	From uint64
	Sums []byte
}

// RegistryValue is a model's registry entry. Times are in nanoseconds since 1970.
type RegistryValue struct {
	// Created is the time of creation, Updated the time of the newest change of the metadata,
	// deletion or undeletion.
	Created, Updated int64
	// Deleted is the time of deletion, Purge the time at which the model will be purged. Both
	// are 0 unless the model is deleted.
	Deleted, Purge int64
	Revision       uint64
	Metadata
	// Follow is nil unless the model follows another model. It is immutable.
	Follow   *Follow
	Restored Restored
	// Spec is the spec in JSON.
	Spec []byte
}

// Encode returns the bytes of the entry.
func (e *RegistryValue) Encode() []byte { return encode(make([]byte, 0, 64+len(e.Spec)), e.visit) }

// DecodeRegistryValue reads the bytes that Encode wrote.
func DecodeRegistryValue(data []byte) (RegistryValue, error) {
	return decode("registry entry", data, (*RegistryValue).visit)
}

func (e *RegistryValue) visit(v *codec.Visitor) {
	v.Version(versionEntry)
	v.Int64(&e.Created, &e.Updated, &e.Deleted, &e.Purge)
	v.Uint64(&e.Revision)
	e.Metadata.visit(v)
	e.visitFollow(v)
	v.Uint64(&e.Restored.Epoch, &e.Restored.Sequence)
	if v.Reading() {
		if e.Restored.Epoch == 0 && e.Restored.Sequence != 0 {
			v.Corrupt("a restored sequence without a restore")
		}
		if e.Deleted == 0 && e.Purge != 0 {
			v.Corrupt("the time of a removal without a deletion")
		}
		e.Spec = make([]byte, v.Left())
	}
	v.Bytes(e.Spec)
}

func (e *RegistryValue) visitFollow(v *codec.Visitor) {
	var f Follow
	if e.Follow != nil {
		f = *e.Follow
	}
	if v.DelimitedText(&f.Leader.ID); f.Leader.ID == "" {
		return
	}
	v.Int64(&f.Leader.Created)
	v.Uint64(&f.Epoch, &f.From)
	if v.DelimitedBytes(&f.Sums); v.Reading() {
		f.Sums = append([]byte{}, f.Sums...)
		e.Follow = &f
	}
}
