package record

import (
	"encoding/binary"
	"fmt"
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

// append appends the bytes of the metadata to dst.
func (m *Metadata) append(dst []byte) []byte {
	dst = appendString(dst, m.DisplayName)
	dst = codec.AppendUint64(codec.AppendUint64(dst, uint64(m.LabelTTL)), uint64(m.MaxPending))
	return appendTexts(appendTexts(dst, m.Labels), m.Annotations)
}

// appendTexts appends a count, and the keys in their order with their texts.
func appendTexts(dst []byte, texts map[string]string) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(texts)))
	for _, key := range slices.Sorted(maps.Keys(texts)) {
		dst = appendString(appendString(dst, key), texts[key])
	}
	return dst
}

func (d *decoder) metadata() Metadata {
	m := Metadata{DisplayName: d.text(), LabelTTL: int64(d.Uint64()), MaxPending: int64(d.Uint64())}
	m.Labels, m.Annotations = d.texts(), d.texts()
	if m.LabelTTL < 0 || m.MaxPending < 0 {
		d.reject(fmt.Sprintf("a time of %d, a limit of %d", m.LabelTTL, m.MaxPending))
	}
	return m
}

// texts reads keys and their texts, nil instead of an empty map. It rejects unordered keys.
func (d *decoder) texts() map[string]string {
	n := d.count(2) // Two lengths.
	if n == 0 {
		return nil
	}
	out, last := make(map[string]string, n), ""
	for k := range n {
		key := d.text()
		if k > 0 && key <= last {
			d.reject(fmt.Sprintf("the key %q behind %q", key, last))
		}
		out[key], last = d.text(), key
		if d.Err() != nil {
			return nil
		}
	}
	return out
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

func (f *Follow) append(dst []byte) []byte {
	if f == nil {
		return appendString(dst, "")
	}
	dst = codec.AppendUint64(codec.AppendUint64(appendRef(dst, f.Leader), f.Epoch), f.From)
	return appendString(dst, string(f.Sums))
}

func (d *decoder) follow() *Follow {
	leader := d.text()
	if leader == "" {
		return nil
	}
	return &Follow{Leader: Ref{leader, int64(d.Uint64())}, Epoch: d.Uint64(), From: d.Uint64(), Sums: []byte(d.text())}
}

// RegistryValue is a model's registry entry. Times are in nanoseconds since 1970.
type RegistryValue struct {
	// Created is the time of creation, Updated the time of the newest change of the metadata,
	// deletion or undeletion.
	Created, Updated int64
	// Deleted is the time of deletion, Purge the time at which the model will be purged. Both
	// are 0 unless the model is deleted.
	Deleted, Purge int64
	// Revision counts the changes.
	Revision uint64
	Metadata
	// Follow is nil unless the model follows another model. It is immutable.
	Follow *Follow
	// Restored is the newest restore.
	Restored Restored
	// Spec is the spec in JSON.
	Spec []byte
}

// Encode returns the bytes of the entry.
func (e *RegistryValue) Encode() []byte {
	out := append(make([]byte, 0, 64+len(e.Spec)), versionEntry)
	for _, v := range []int64{e.Created, e.Updated, e.Deleted, e.Purge, int64(e.Revision)} {
		out = codec.AppendUint64(out, uint64(v))
	}
	out = e.Follow.append(e.append(out))
	return append(codec.AppendUint64(codec.AppendUint64(out, e.Restored.Epoch), e.Restored.Sequence), e.Spec...)
}

// DecodeRegistryValue reads the bytes that Encode wrote.
func DecodeRegistryValue(data []byte) (RegistryValue, error) {
	d := newDecoder(data, versionEntry)
	e := RegistryValue{
		Created: int64(d.Uint64()), Updated: int64(d.Uint64()), Deleted: int64(d.Uint64()), Purge: int64(d.Uint64()),
		Revision: d.Uint64(), Metadata: d.metadata(), Follow: d.follow(),
		Restored: Restored{Epoch: d.Uint64(), Sequence: d.Uint64()},
	}
	if e.Restored.Epoch == 0 && e.Restored.Sequence != 0 {
		d.reject("a restored sequence without a restore")
	}
	if e.Deleted == 0 && e.Purge != 0 {
		d.reject("the time of a removal without a deletion")
	}
	e.Spec = d.Bytes(d.Len())
	if err := d.Err(); err != nil {
		return RegistryValue{}, fmt.Errorf("record: registry entry: %w", err)
	}
	return e, nil
}
