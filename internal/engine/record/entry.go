package record

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"

	"hindsight/internal/model/codec"
)

// Metadata is what may change of a model. It does not touch what the model learns.
type Metadata struct {
	// DisplayName is a name for people, Labels are for selecting models, Annotations
	// for notes of the caller.
	DisplayName         string
	Labels, Annotations map[string]string
	// LabelTTL is how long a prediction waits for its label, in nanoseconds, and
	// MaxPending how many may; 0 leaves either to the server.
	LabelTTL, MaxPending int64
}

// Clone shares nothing with m.
func (m *Metadata) Clone() Metadata {
	out := *m
	out.Labels, out.Annotations = maps.Clone(m.Labels), maps.Clone(m.Annotations)
	return out
}

// Equal tells whether two are the same. A map that is nil is one that is empty.
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

// appendTexts appends a count, and so many keys with their texts in the order of the
// keys.
func appendTexts(dst []byte, texts map[string]string) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(texts)))
	for _, key := range slices.Sorted(maps.Keys(texts)) {
		dst = appendString(appendString(dst, key), texts[key])
	}
	return dst
}

// metadata reads what append wrote.
func (d *decoder) metadata() Metadata {
	m := Metadata{DisplayName: d.text(), LabelTTL: int64(d.Uint64()), MaxPending: int64(d.Uint64())}
	m.Labels, m.Annotations = d.texts(), d.texts()
	if m.LabelTTL < 0 || m.MaxPending < 0 {
		d.refuse(fmt.Sprintf("a time of %d, a limit of %d", m.LabelTTL, m.MaxPending))
	}
	return m
}

// texts reads keys and their texts, nil if there are none. It refuses keys that are not
// in their order.
func (d *decoder) texts() map[string]string {
	n := d.count(2) // Two lengths.
	if n == 0 {
		return nil
	}
	out, last := make(map[string]string, n), ""
	for k := range n {
		key := d.text()
		if k > 0 && key <= last {
			d.refuse(fmt.Sprintf("the key %q behind %q", key, last))
		}
		out[key], last = d.text(), key
		if d.Err() != nil {
			return nil
		}
	}
	return out
}

// Entry is a model's registry entry. Times are in nanoseconds since 1970.
type Entry struct {
	// Created is when the model was made, Updated when its metadata changed last, or
	// when it was deleted or brought back.
	Created, Updated int64
	// Deleted is when it was deleted, and Purge when it is to be removed; both are 0
	// while it is not deleted.
	Deleted, Purge int64
	// Revision counts the changes.
	Revision uint64
	Metadata
	// Spec is the spec as JSON.
	Spec []byte
}

// Encode gives the bytes of the entry.
func (e *Entry) Encode() []byte {
	out := append(make([]byte, 0, 64+len(e.Spec)), versionEntry)
	for _, v := range []int64{e.Created, e.Updated, e.Deleted, e.Purge, int64(e.Revision)} {
		out = codec.AppendUint64(out, uint64(v))
	}
	return append(e.append(out), e.Spec...)
}

// DecodeEntry reads what Encode wrote, in this version or the one before, which had the
// time and the spec alone.
func DecodeEntry(data []byte) (Entry, error) {
	d := newDecoder(data, versionEntry)
	e := Entry{Created: int64(d.Uint64())}
	e.Updated = e.Created
	if d.version >= versionEntry {
		e.Updated, e.Deleted, e.Purge, e.Revision = int64(d.Uint64()), int64(d.Uint64()), int64(d.Uint64()), d.Uint64()
		e.Metadata = d.metadata()
	}
	if e.Deleted == 0 && e.Purge != 0 {
		d.refuse("the time of a removal without a deletion")
	}
	e.Spec = d.Bytes(d.Len())
	if err := d.Err(); err != nil {
		return Entry{}, fmt.Errorf("record: registry entry: %w", err)
	}
	return e, nil
}
