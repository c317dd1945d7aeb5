// Package document writes protocol messages as JSON for programs. Names are in
// lowerCamelCase and in the order of their declaration. A field without presence
// is written even if it is zero. 64-bit integers are numbers; in the canonical
// mapping they are strings, and every reader must convert them.
package document

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// Encode returns the JSON of a message, compact.
func Encode(m proto.Message) (json.RawMessage, error) {
	canonical, err := protojson.MarshalOptions{EmitDefaultValues: true}.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", m.ProtoReflect().Descriptor().FullName(), err)
	}
	w := new(writer)
	if err := w.message(m.ProtoReflect().Descriptor(), canonical); err != nil {
		return nil, fmt.Errorf("encode %s: %w", m.ProtoReflect().Descriptor().FullName(), err)
	}
	return w.out.Bytes(), nil
}

// writer rewrites canonical JSON, by the descriptors of its messages.
type writer struct{ out bytes.Buffer }

// message writes a message.
func (w *writer) message(md protoreflect.MessageDescriptor, canonical json.RawMessage) error {
	if md.FullName().Parent() == "google.protobuf" {
		return json.Compact(&w.out, canonical) // The type has a JSON form of its own.
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(canonical, &members); err != nil {
		return err
	}
	var present []protoreflect.FieldDescriptor
	for i := range md.Fields().Len() {
		if fd := md.Fields().Get(i); members[fd.JSONName()] != nil {
			present = append(present, fd)
		}
	}
	return w.join('{', '}', len(present), func(i int) error {
		fmt.Fprintf(&w.out, "%q:", present[i].JSONName())
		return w.field(present[i], members[present[i].JSONName()])
	})
}

// field writes a field: a list, a map ordered by key, or one value.
func (w *writer) field(fd protoreflect.FieldDescriptor, raw json.RawMessage) error {
	switch {
	case fd.IsList():
		var items []json.RawMessage
		if err := json.Unmarshal(raw, &items); err != nil {
			return err
		}
		return w.join('[', ']', len(items), func(i int) error { return w.value(fd, items[i]) })
	case fd.IsMap():
		var members map[string]json.RawMessage
		if err := json.Unmarshal(raw, &members); err != nil {
			return err
		}
		keys := slices.Sorted(maps.Keys(members))
		return w.join('{', '}', len(keys), func(i int) error {
			name, err := json.Marshal(keys[i])
			if err != nil {
				return err
			}
			w.out.Write(append(name, ':'))
			return w.value(fd.MapValue(), members[keys[i]])
		})
	default:
		return w.value(fd, raw)
	}
}

// join writes elements with commas between them.
func (w *writer) join(begin, end byte, n int, element func(int) error) error {
	w.out.WriteByte(begin)
	for i := range n {
		if i > 0 {
			w.out.WriteByte(',')
		}
		if err := element(i); err != nil {
			return err
		}
	}
	w.out.WriteByte(end)
	return nil
}

// value writes one value.
func (w *writer) value(fd protoreflect.FieldDescriptor, raw json.RawMessage) error {
	switch fd.Kind() {
	case protoreflect.MessageKind, protoreflect.GroupKind:
		return w.message(fd.Message(), raw)
	case protoreflect.Int64Kind, protoreflect.Sint64Kind, protoreflect.Sfixed64Kind,
		protoreflect.Uint64Kind, protoreflect.Fixed64Kind:
		w.out.Write(bytes.Trim(raw, `"`))
		return nil
	default:
		return json.Compact(&w.out, raw)
	}
}
