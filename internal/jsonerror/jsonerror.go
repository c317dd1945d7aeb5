// Package jsonerror explains why JSON is not the JSON of a message.
package jsonerror

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"hindsight/internal/nearest"
)

// The maximum bytes of what the JSON library says of a body.
const maxReason = 256

// Explain says what is wrong with the JSON of a message, and where. Protojson counts lines and
// columns, except of a text that breaks off.
func Explain(data []byte, m protoreflect.MessageDescriptor, err error) string {
	var syntax *json.SyntaxError
	endsEarly := strings.Contains(err.Error(), "unexpected EOF")
	if (endsEarly || strings.Contains(err.Error(), "invalid escape code")) && json.Valid(data) { // JSON alone allows it.
		return `a text has half of a surrogate pair, want UTF-8: JSON.stringify writes "\ud83d" for an emoji that was cut`
	}
	if endsEarly || strings.Contains(err.Error(), "unexpected token") {
		if plain := json.Unmarshal(data, new(any)); errors.As(plain, &syntax) {
			before := string(data[:min(int(syntax.Offset), len(data))])
			line, column := 1+strings.Count(before, "\n"), len(before)-strings.LastIndex(before, "\n")-1
			return fmt.Sprintf("line %d, column %d: %v", line, column, syntax)
		}
	}
	// The library writes a space or a non-breaking space behind its name.
	text := strings.ReplaceAll(err.Error(), "\u00a0", " ")
	text = strings.TrimPrefix(strings.TrimPrefix(text, "proto: "), "syntax error ")
	if len(text) > maxReason { // It repeats a name or a value of the body.
		text = strings.ToValidUTF8(text[:maxReason], "") + "…"
	}
	var line, column int
	if _, err := fmt.Sscanf(text, "(line %d:%d): ", &line, &column); err == nil {
		_, text, _ = strings.Cut(text, "): ")
		var value any
		if json.Unmarshal(data, &value) == nil {
			text = cmp.Or(misfit(m, value, ""), text)
		}
		if strings.HasPrefix(text, "invalid value ") || strings.HasPrefix(text, "invalid google.protobuf.Value") {
			text += `, want a text in ", a finite number, true, false, or null for a missing value`
		}
		return fmt.Sprintf("line %d, column %d: %s", line, column, text)
	}
	return text
}

// misfit says which field of a body the message has not, or has of another kind. It is empty if all seem to fit.
func misfit(m protoreflect.MessageDescriptor, value any, path string) string {
	object, isObject := value.(map[string]any)
	switch known := m.ParentFile().Package() == "google.protobuf"; {
	case known && m.Name() != "Struct": // A text.
		raw, _ := json.Marshal(value) // It was JSON.
		switch {
		case m.Name() == "Duration" && protojson.Unmarshal(raw, new(durationpb.Duration)) != nil:
			return wants(path, value, `seconds such as "90s"`)
		case m.Name() == "Timestamp" && protojson.Unmarshal(raw, new(timestamppb.Timestamp)) != nil:
			return wants(path, value, `a time such as "2026-11-21T18:00:00Z"`)
		}
		return ""
	case !isObject:
		return wants(path, value, "an object")
	case known: // A Struct has any field.
		return ""
	}
	chosen := make(map[protoreflect.Name]string)
	for _, name := range slices.Sorted(maps.Keys(object)) {
		f := cmp.Or(m.Fields().ByJSONName(name), m.Fields().ByTextName(name))
		if f == nil {
			names := fieldNames(m)
			return fmt.Sprintf("unknown field %.80q, want %s%s", path+name, strings.Join(names, ", "), nearest.Meant(name, names))
		}
		if says := misfitField(f, object[name], path+name); says != "" {
			return says
		}
		if o := f.ContainingOneof(); o != nil && object[name] != nil {
			if chosen[o.Name()] != "" {
				return fmt.Sprintf("%s: got a %s beside %s, want one of them", path+name, o.Name(), chosen[o.Name()])
			}
			chosen[o.Name()] = name
		}
	}
	return ""
}

func misfitField(f protoreflect.FieldDescriptor, value any, path string) string {
	values, isList := value.([]any)
	switch {
	case value == nil || f.IsMap():
		return ""
	case f.IsList() && !isList:
		return wants(path, value, "a list")
	case !f.IsList():
		values = []any{value}
	}
	for n, v := range values {
		at := path
		if f.IsList() {
			at = fmt.Sprintf("%s[%d]", path, n)
		}
		says := ""
		if f.Message() != nil {
			says = misfit(f.Message(), v, at+".")
		} else if want := wanted(f, v); want != "" {
			says = wants(at, v, want)
		}
		if says != "" {
			return says
		}
	}
	return ""
}

// wanted is what the field has in place of a value, empty if the value fits. A text of digits is a number too.
func wanted(f protoreflect.FieldDescriptor, value any) string {
	text, isText := value.(string)
	v, isNumber := value.(float64)
	switch f.Kind() {
	case protoreflect.BoolKind:
		if _, ok := value.(bool); !ok {
			return "true or false"
		}
	case protoreflect.StringKind, protoreflect.BytesKind:
		if !isText {
			return "a text"
		}
	case protoreflect.EnumKind:
		if !isNumber && f.Enum().Values().ByName(protoreflect.Name(text)) == nil {
			names := make([]string, f.Enum().Values().Len())
			for n := range names {
				names[n] = string(f.Enum().Values().Get(n).Name())
			}
			return strings.Join(names, ", ")
		}
	default:
		var err error
		if !isNumber {
			v, err = strconv.ParseFloat(text, 64)
		}
		switch kind := f.Kind(); {
		case err != nil:
			return "a number"
		case kind == protoreflect.DoubleKind:
		case v < 0 && (kind == protoreflect.Uint32Kind || kind == protoreflect.Uint64Kind):
			return "a whole number from 0"
		case v != math.Trunc(v):
			return "a whole number"
		}
	}
	return ""
}

func wants(path string, value any, want string) string {
	got := "a list"
	switch v := value.(type) {
	case map[string]any:
		got = "an object"
	case string:
		got = fmt.Sprintf("%.80q", v)
	case nil:
		got = "null"
	case bool, float64:
		got = strings.TrimSpace(fmt.Sprint(v))
	}
	return strings.TrimPrefix(fmt.Sprintf("%s: got %s, want %s", strings.TrimSuffix(path, "."), got, want), ": ")
}

func fieldNames(m protoreflect.MessageDescriptor) []string {
	names := make([]string, m.Fields().Len())
	for n := range names {
		names[n] = m.Fields().Get(n).JSONName()
	}
	return names
}
