package rpc

import (
	"reflect"
	"strconv"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"
)

// A message of the API is copied to and from the struct that the model core
// has for it by name: the JSON name of a struct field is the name of the
// message's field. A test holds that each side has every field of the other.
//
//	in the message            in the struct
//	optional, or of a oneof   pointer, nil if it is not set
//	message                   pointer to a struct, nil if it is not set
//	repeated                  slice, nil if it is empty
//	repeated message of one   slice of slices, such as the rows of a matrix
//	  repeated field
//	PREFIX_NAME of an enum    the string name, "" for PREFIX_UNSPECIFIED
//	int32                     int
//	any other scalar          the same
//
// The functions panic if two values do not fit, and if a struct has a field
// that its message has not.

func fromMessage(m protoreflect.Message, to reflect.Value) {
	eachField(to, func(name protoreflect.Name, v reflect.Value) {
		switch f := m.Descriptor().Fields().ByName(name); {
		case !m.Has(f):
		case f.IsList():
			fromList(f, m.Get(f).List(), v)
		default:
			fromValue(f, m.Get(f), v)
		}
	})
}

func fromList(f protoreflect.FieldDescriptor, list protoreflect.List, to reflect.Value) {
	if list.Len() == 0 {
		return
	}
	to.Set(reflect.MakeSlice(to.Type(), list.Len(), list.Len()))
	for i := range list.Len() {
		fromValue(f, list.Get(i), to.Index(i))
	}
}

func fromValue(f protoreflect.FieldDescriptor, v protoreflect.Value, to reflect.Value) {
	if to.Kind() == reflect.Pointer {
		to.Set(reflect.New(to.Type().Elem()))
		to = to.Elem()
	}
	switch {
	case to.Kind() == reflect.Slice:
		row := f.Message().Fields().Get(0)
		fromList(row, v.Message().Get(row).List(), to)
	case f.Message() != nil:
		fromMessage(v.Message(), to)
	case f.Enum() != nil:
		to.SetString(enumName(f.Enum(), v.Enum()))
	default:
		to.Set(reflect.ValueOf(v.Interface()).Convert(to.Type()))
	}
}

func toMessage(from reflect.Value, m protoreflect.Message) {
	eachField(from, func(name protoreflect.Name, v reflect.Value) {
		switch f := m.Descriptor().Fields().ByName(name); {
		case v.IsZero():
		case f.IsList():
			toList(v, f, m.Mutable(f).List())
		default:
			m.Set(f, toValue(v, f, m.NewField(f)))
		}
	})
}

func toList(from reflect.Value, f protoreflect.FieldDescriptor, list protoreflect.List) {
	for i := range from.Len() {
		list.Append(toValue(from.Index(i), f, list.NewElement()))
	}
}

func toValue(from reflect.Value, f protoreflect.FieldDescriptor, empty protoreflect.Value) protoreflect.Value {
	from = reflect.Indirect(from)
	switch {
	case from.Kind() == reflect.Slice:
		row := f.Message().Fields().Get(0)
		toList(from, row, empty.Message().Mutable(row).List())
		return empty
	case f.Message() != nil:
		toMessage(from, empty.Message())
		return empty
	case f.Enum() != nil:
		return protoreflect.ValueOfEnum(enumNumber(f.Enum(), from.String()))
	default:
		return protoreflect.ValueOf(from.Convert(reflect.TypeOf(empty.Interface())).Interface())
	}
}

func eachField(v reflect.Value, visit func(name protoreflect.Name, field reflect.Value)) {
	for i := range v.NumField() {
		f := v.Type().Field(i)
		if f.Anonymous {
			eachField(v.Field(i), visit)
			continue
		}
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		visit(protoreflect.Name(name), v.Field(i))
	}
}

// enumName is the name of a value in lower case without the prefix of its enum, empty for the
// unspecified one. An unknown number is written in digits, for errors to show.
func enumName(e protoreflect.EnumDescriptor, n protoreflect.EnumNumber) string {
	v := e.Values().ByNumber(n)
	switch {
	case n == 0:
		return ""
	case v == nil:
		return strconv.Itoa(int(n))
	default:
		return strings.ToLower(strings.TrimPrefix(string(v.Name()), enumPrefix(e)))
	}
}

func enumNumber(e protoreflect.EnumDescriptor, name string) protoreflect.EnumNumber {
	if v := e.Values().ByName(protoreflect.Name(enumPrefix(e) + strings.ToUpper(name))); v != nil {
		return v.Number()
	}
	return 0
}

// enumPrefix begins the names of an enum's values: the first is PREFIX_UNSPECIFIED.
func enumPrefix(e protoreflect.EnumDescriptor) string {
	return strings.TrimSuffix(string(e.Values().ByNumber(0).Name()), "UNSPECIFIED")
}
