// Package openapi has the description of the JSON API. The command make proto generates it
// from the proto files.
package openapi

import (
	_ "embed"

	"google.golang.org/protobuf/reflect/protoreflect"
)

//go:embed openapi.json
var document []byte

// Document returns the description, in OpenAPI 3.1 as JSON. The caller does not change it.
func Document() []byte { return document }

// Always reports whether a response has a field of one value even if the field is not set:
// numbers and booleans without presence.
func Always(f protoreflect.FieldDescriptor) bool {
	if f.HasPresence() || f.IsList() || f.IsMap() {
		return false
	}
	switch f.Kind() {
	case protoreflect.StringKind, protoreflect.BytesKind, protoreflect.EnumKind:
		return false
	default:
		return true
	}
}
