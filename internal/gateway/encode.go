package gateway

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"hindsight/api/openapi"
)

const contentJSON = "application/json"

// encode writes a message as a line of JSON. It writes what protojson writes, except:
//
//   - integers of 64 bits are numbers;
//   - numbers and booleans without presence are always written, 0 and false too;
//   - lists of the outermost message are always written;
//   - a number that is not finite is omitted, and is null within a list or a map.
//
// Empty texts, other empty lists and maps, and fields that are not set are omitted.
func encode(m proto.Message) ([]byte, error) {
	b, err := appendMessage(make([]byte, 0, 512), m.ProtoReflect(), true)
	return append(b, '\n'), err
}

// wellKnown begins the names of messages whose JSON is not an object of their fields.
const wellKnown = "google.protobuf."

func appendMessage(b []byte, m protoreflect.Message, outermost bool) ([]byte, error) {
	if name := m.Descriptor().FullName(); strings.HasPrefix(string(name), wellKnown) {
		return appendWellKnown(b, m)
	}
	b = append(b, '{')
	fields := m.Descriptor().Fields()
	empty := true
	for i := range fields.Len() {
		field := fields.Get(i)
		if !shown(m, field, outermost) {
			continue
		}
		if !empty {
			b = append(b, ',')
		}
		empty = false
		b = append(b, '"')
		b = append(b, field.JSONName()...)
		b = append(b, '"', ':')
		var err error
		if b, err = appendField(b, field, m.Get(field)); err != nil {
			return b, err
		}
	}
	return append(b, '}'), nil
}

// shown reports whether a field is written.
func shown(m protoreflect.Message, field protoreflect.FieldDescriptor, outermost bool) bool {
	if !m.Has(field) {
		if field.IsList() {
			return outermost
		}
		return openapi.Always(field)
	}
	isFloat := field.Kind() == protoreflect.DoubleKind || field.Kind() == protoreflect.FloatKind
	return !isFloat || field.IsList() || field.IsMap() || finite(m.Get(field).Float())
}

func appendField(b []byte, field protoreflect.FieldDescriptor, v protoreflect.Value) ([]byte, error) {
	switch {
	case field.IsList():
		return appendList(b, field, v.List())
	case field.IsMap():
		return appendMap(b, field, v.Map())
	default:
		return appendValue(b, field, v)
	}
}

func appendList(b []byte, field protoreflect.FieldDescriptor, list protoreflect.List) ([]byte, error) {
	b = append(b, '[')
	for i := range list.Len() {
		if i > 0 {
			b = append(b, ',')
		}
		var err error
		if b, err = appendValue(b, field, list.Get(i)); err != nil {
			return b, err
		}
	}
	return append(b, ']'), nil
}

// appendMap writes a map in the order of its keys.
func appendMap(b []byte, field protoreflect.FieldDescriptor, entries protoreflect.Map) ([]byte, error) {
	keys := make([]protoreflect.MapKey, 0, entries.Len())
	entries.Range(func(key protoreflect.MapKey, _ protoreflect.Value) bool {
		keys = append(keys, key)
		return true
	})
	slices.SortFunc(keys, func(x, y protoreflect.MapKey) int { return strings.Compare(x.String(), y.String()) })
	b = append(b, '{')
	for i, key := range keys {
		if i > 0 {
			b = append(b, ',')
		}
		var err error
		if b, err = appendString(b, key.String()); err != nil {
			return b, err
		}
		b = append(b, ':')
		if b, err = appendValue(b, field.MapValue(), entries.Get(key)); err != nil {
			return b, err
		}
	}
	return append(b, '}'), nil
}

func appendValue(b []byte, field protoreflect.FieldDescriptor, v protoreflect.Value) ([]byte, error) {
	switch field.Kind() {
	case protoreflect.MessageKind, protoreflect.GroupKind:
		return appendMessage(b, v.Message(), false)
	case protoreflect.BoolKind:
		return strconv.AppendBool(b, v.Bool()), nil
	case protoreflect.EnumKind:
		if value := field.Enum().Values().ByNumber(v.Enum()); value != nil {
			return append(append(append(b, '"'), value.Name()...), '"'), nil
		}
		return strconv.AppendInt(b, int64(v.Enum()), 10), nil
	case protoreflect.StringKind:
		return appendString(b, v.String())
	case protoreflect.BytesKind:
		return append(base64.StdEncoding.AppendEncode(append(b, '"'), v.Bytes()), '"'), nil
	case protoreflect.Uint32Kind, protoreflect.Uint64Kind, protoreflect.Fixed32Kind, protoreflect.Fixed64Kind:
		return strconv.AppendUint(b, v.Uint(), 10), nil
	case protoreflect.DoubleKind:
		return appendFloat(b, v.Float(), 64), nil
	case protoreflect.FloatKind:
		return appendFloat(b, v.Float(), 32), nil
	default: // The signed integers.
		return strconv.AppendInt(b, v.Int(), 10), nil
	}
}

func finite(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }

// appendFloat writes the shortest decimal that is read as the same number, as
// encoding/json does.
func appendFloat(b []byte, x float64, bits int) []byte {
	if !finite(x) {
		return append(b, "null"...)
	}
	format := byte('f')
	if size := math.Abs(x); size != 0 && (size < 1e-6 || size >= 1e21) {
		format = 'e'
	}
	return strconv.AppendFloat(b, x, format, -1, bits)
}

func appendString(b []byte, s string) ([]byte, error) {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c >= utf8.RuneSelf || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' {
			quoted, err := json.Marshal(s)
			if err != nil {
				return b, fmt.Errorf("gateway: text: %w", err)
			}
			return append(b, quoted...), nil
		}
	}
	return append(append(append(b, '"'), s...), '"'), nil
}

// appendWellKnown writes times, durations, masks, Structs and errors' details.
func appendWellKnown(b []byte, m protoreflect.Message) ([]byte, error) {
	text, err := protojson.Marshal(m.Interface())
	if err != nil {
		return b, fmt.Errorf("gateway: %s: %w", m.Descriptor().FullName(), err)
	}
	// The library adds spaces at random.
	buffer := bytes.NewBuffer(b)
	if err := json.Compact(buffer, text); err != nil {
		return b, fmt.Errorf("gateway: %s: %w", m.Descriptor().FullName(), err)
	}
	return buffer.Bytes(), nil
}
