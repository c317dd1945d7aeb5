// Package document writes protocol messages as JSON for programs. Names are in
// lowerCamelCase and in the order of their declaration. A field without presence
// is written even if it is zero. 64-bit integers are numbers; in the canonical
// mapping they are strings, and every reader must convert them.
package document

import (
	"bytes"
	"encoding/json"
	"fmt"
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
	var out bytes.Buffer
	if err := message(&out, m.ProtoReflect().Descriptor(), canonical); err != nil {
		return nil, fmt.Errorf("encode %s: %w", m.ProtoReflect().Descriptor().FullName(), err)
	}
	return out.Bytes(), nil
}

// message writes the canonical JSON of a message of the given type.
func message(out *bytes.Buffer, md protoreflect.MessageDescriptor, canonical json.RawMessage) error {
	if md.FullName().Parent() == "google.protobuf" {
		return json.Compact(out, canonical) // It has its own JSON form.
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(canonical, &members); err != nil {
		return err
	}
	out.WriteByte('{')
	first := true
	for i := range md.Fields().Len() {
		fd := md.Fields().Get(i)
		raw, ok := members[fd.JSONName()]
		if !ok {
			continue
		}
		if !first {
			out.WriteByte(',')
		}
		first = false
		fmt.Fprintf(out, "%q:", fd.JSONName())
		if err := field(out, fd, raw); err != nil {
			return err
		}
	}
	out.WriteByte('}')
	return nil
}

// field writes the canonical JSON of a field: a list, a map or one value.
func field(out *bytes.Buffer, fd protoreflect.FieldDescriptor, raw json.RawMessage) error {
	switch {
	case fd.IsList():
		var items []json.RawMessage
		if err := json.Unmarshal(raw, &items); err != nil {
			return err
		}
		out.WriteByte('[')
		for i, item := range items {
			if i > 0 {
				out.WriteByte(',')
			}
			if err := value(out, fd, item); err != nil {
				return err
			}
		}
		out.WriteByte(']')
		return nil
	case fd.IsMap():
		return mapping(out, fd.MapValue(), raw)
	default:
		return value(out, fd, raw)
	}
}

// mapping writes the canonical JSON of a map, ordered by key.
func mapping(out *bytes.Buffer, fd protoreflect.FieldDescriptor, raw json.RawMessage) error {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(raw, &members); err != nil {
		return err
	}
	keys := make([]string, 0, len(members))
	for k := range members {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	out.WriteByte('{')
	for i, k := range keys {
		if i > 0 {
			out.WriteByte(',')
		}
		name, err := json.Marshal(k)
		if err != nil {
			return err
		}
		out.Write(name)
		out.WriteByte(':')
		if err := value(out, fd, members[k]); err != nil {
			return err
		}
	}
	out.WriteByte('}')
	return nil
}

// value writes the canonical JSON of one value.
func value(out *bytes.Buffer, fd protoreflect.FieldDescriptor, raw json.RawMessage) error {
	switch fd.Kind() {
	case protoreflect.MessageKind, protoreflect.GroupKind:
		return message(out, fd.Message(), raw)
	case protoreflect.Int64Kind, protoreflect.Sint64Kind, protoreflect.Sfixed64Kind,
		protoreflect.Uint64Kind, protoreflect.Fixed64Kind:
		out.Write(bytes.Trim(raw, `"`))
		return nil
	default:
		return json.Compact(out, raw)
	}
}
