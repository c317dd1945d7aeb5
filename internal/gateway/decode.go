package gateway

import (
	"encoding/binary"
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"
)

// decode decodes JSON into a message as protojson does. Protojson takes two to three times as long as decodeFast, so it
// only decodes what decodeFast does not, and reports what is wrong.
func decode(data []byte, into proto.Message) error {
	if decodeFast(data, into) {
		return nil
	}
	return protojson.Unmarshal(data, into) //nolint:wrapcheck // invalidJSON rewords it.
}

// maxDepth bounds the nesting that a decoder takes.
const maxDepth = 100

// A decoder decodes what predictions and observations usually have: texts, numbers, booleans, durations, Structs, and
// lists and messages of these. Its methods report false at everything else: null, enums, maps, signed integers and
// whatever is invalid.
type decoder struct {
	text string
	at   int
	// depth is how many brackets are open.
	depth int
	// wire has the fields of the messages in progress.
	wire []byte
}

// decodeFast decodes into an empty message. If it reports true, the message is what protojson decodes.
func decodeFast(data []byte, into proto.Message) bool {
	d := &decoder{text: string(data), wire: make([]byte, 0, 256)}
	if !utf8.ValidString(d.text) || !d.message(into.ProtoReflect()) {
		return false
	}
	d.space()
	return d.at == len(d.text)
}

// members calls each for the members of an object, with their names.
func (d *decoder) members(each func(name string) bool) bool {
	return d.items('{', '}', func() bool {
		name, ok := d.string()
		return ok && d.next(':') && each(name)
	})
}

// items calls each for the items between two brackets.
func (d *decoder) items(opening, closing byte, each func() bool) bool {
	d.depth++
	defer func() { d.depth-- }()
	if d.depth > maxDepth || !d.next(opening) {
		return false
	}
	if d.next(closing) {
		return true
	}
	for each() {
		if !d.next(',') {
			return d.next(closing)
		}
	}
	return false
}

// message decodes into an empty message. It merges scalars and numbers by their wire format, because protoreflect
// allocates memory for each.
func (d *decoder) message(m protoreflect.Message) bool {
	var fields, oneofs uint64
	descriptors, begin := m.Descriptor().Fields(), len(d.wire)
	defer func() { d.wire = d.wire[:begin] }()
	return d.members(func(name string) bool {
		f := descriptors.ByJSONName(name)
		if f == nil {
			f = descriptors.ByTextName(name)
		}
		if f == nil || f.IsMap() || !first(&fields, f.Index()) {
			return false
		}
		if oneof := f.ContainingOneof(); oneof != nil && !first(&oneofs, oneof.Index()) {
			return false
		}
		switch {
		case f.Kind() == protoreflect.MessageKind && f.IsList():
			list := m.Mutable(f).List()
			return d.items('[', ']', func() bool { return d.embedded(list.AppendMutable().Message()) })
		case f.Kind() == protoreflect.MessageKind:
			return d.embedded(m.Mutable(f).Message())
		case f.Kind() == protoreflect.DoubleKind && f.IsList():
			return d.numbers(f)
		case f.IsList():
			return d.items('[', ']', func() bool { return d.scalar(f) })
		default:
			return d.scalar(f)
		}
	}) && proto.UnmarshalOptions{Merge: true}.Unmarshal(d.wire[begin:], m.Interface()) == nil
}

// first reports whether bit n is not set yet, and sets it.
func first(bits *uint64, n int) bool {
	is := n < 64 && *bits&(1<<n) == 0
	*bits |= 1 << n
	return is
}

// embedded decodes into an empty message within another.
func (d *decoder) embedded(m protoreflect.Message) bool {
	switch m := m.Interface().(type) {
	case *structpb.Struct:
		return d.object(m)
	case *durationpb.Duration:
		return d.duration(m)
	}
	return !strings.HasPrefix(string(m.Descriptor().FullName()), wellKnown) && d.message(m)
}

// duration decodes seconds with at most nine decimals.
func (d *decoder) duration(into *durationpb.Duration) bool {
	const longest = len("0.123456789s")
	text, ok := d.string()
	number, inSeconds := strings.CutSuffix(text, "s")
	if !ok || !inSeconds || len(text) > longest || (&decoder{text: number}).numeral() != number {
		return false
	}
	v, err := time.ParseDuration(text)
	into.Seconds, into.Nanos = int64(v/time.Second), int32(v%time.Second)
	return err == nil
}

// scalar decodes a value of a field into its wire format.
func (d *decoder) scalar(f protoreflect.FieldDescriptor) (ok bool) {
	switch f.Kind() {
	case protoreflect.DoubleKind:
		var x float64
		x, ok = d.number()
		d.wire = protowire.AppendFixed64(protowire.AppendTag(d.wire, f.Number(), protowire.Fixed64Type), math.Float64bits(x))
	case protoreflect.StringKind:
		var s string
		s, ok = d.string()
		d.wire = protowire.AppendString(protowire.AppendTag(d.wire, f.Number(), protowire.BytesType), s)
	case protoreflect.BoolKind:
		is := d.word("true")
		ok = is || d.word("false")
		d.wire = protowire.AppendVarint(protowire.AppendTag(d.wire, f.Number(), protowire.VarintType), protowire.EncodeBool(is))
	case protoreflect.Uint64Kind:
		n, err := strconv.ParseUint(d.numeral(), 10, 64)
		ok = err == nil
		d.wire = protowire.AppendVarint(protowire.AppendTag(d.wire, f.Number(), protowire.VarintType), n)
	default: // Not decoded here.
	}
	return ok
}

// numbers decodes a list of numbers into its wire format.
func (d *decoder) numbers(f protoreflect.FieldDescriptor) bool {
	begin := len(d.wire)
	ok := d.items('[', ']', func() bool {
		x, ok := d.number()
		d.wire = protowire.AppendFixed64(d.wire, math.Float64bits(x))
		return ok
	})
	var buffer [2 * binary.MaxVarintLen64]byte
	head := protowire.AppendTag(buffer[:0], f.Number(), protowire.BytesType)
	d.wire = slices.Insert(d.wire, begin, protowire.AppendVarint(head, uint64(len(d.wire)-begin))...)
	return ok
}

// object decodes into an empty Struct.
func (d *decoder) object(s *structpb.Struct) bool {
	s.Fields = map[string]*structpb.Value{}
	return d.members(func(name string) bool {
		if _, twice := s.GetFields()[name]; twice {
			return false
		}
		v := new(structpb.Value)
		s.Fields[strings.Clone(name)] = v
		return d.any(v)
	})
}

// any decodes a value of a Struct.
func (d *decoder) any(v *structpb.Value) bool {
	d.space()
	if d.at == len(d.text) {
		return false
	}
	switch d.text[d.at] {
	case '{':
		s := new(structpb.Struct)
		v.Kind = &structpb.Value_StructValue{StructValue: s}
		return d.object(s)
	case '[':
		list := new(structpb.ListValue)
		v.Kind = &structpb.Value_ListValue{ListValue: list}
		return d.items('[', ']', func() bool {
			item := new(structpb.Value)
			list.Values = append(list.Values, item)
			return d.any(item)
		})
	case '"':
		s, ok := d.string()
		v.Kind = &structpb.Value_StringValue{StringValue: strings.Clone(s)}
		return ok
	case 'n':
		v.Kind = &structpb.Value_NullValue{}
		return d.word("null")
	case 't', 'f':
		is := d.word("true")
		v.Kind = &structpb.Value_BoolValue{BoolValue: is}
		return is || d.word("false")
	default:
		x, ok := d.number()
		v.Kind = &structpb.Value_NumberValue{NumberValue: x}
		return ok
	}
}

// space skips white space.
func (d *decoder) space() {
	for d.at < len(d.text) && (d.text[d.at] == ' ' || d.text[d.at] == '\n' || d.text[d.at] == '\t' || d.text[d.at] == '\r') {
		d.at++
	}
}

// next skips a character, if it is next.
func (d *decoder) next(c byte) bool {
	d.space()
	is := d.at < len(d.text) && d.text[d.at] == c
	if is {
		d.at++
	}
	return is
}

// word skips a word, if it is next. The caller reads what must follow.
func (d *decoder) word(w string) bool {
	d.space()
	is := strings.HasPrefix(d.text[d.at:], w)
	if is {
		d.at += len(w)
	}
	return is
}

// string returns a text, a part of the body if it has no escapes.
func (d *decoder) string() (string, bool) {
	if !d.next('"') {
		return "", false
	}
	escaped := false
	for begin := d.at; d.at < len(d.text); d.at++ {
		switch c := d.text[d.at]; {
		case c == '"' && escaped:
			d.at++
			return unescape(d.text[begin-1 : d.at])
		case c == '"':
			d.at++
			return d.text[begin : d.at-1], true
		case c == '\\':
			escaped = true
			d.at++ // The escaped character may be a quote.
		case c < ' ':
			return "", false
		}
	}
	return "", false
}

// unescape returns a quoted text. Protojson refuses half a pair of surrogates, which becomes utf8.RuneError here.
func unescape(quoted string) (s string, ok bool) {
	err := json.Unmarshal([]byte(quoted), &s)
	return s, err == nil && !strings.ContainsRune(s, utf8.RuneError)
}

func (d *decoder) number() (float64, bool) {
	x, err := strconv.ParseFloat(d.numeral(), 64)
	return x, err == nil
}

// numeral returns the text of a number, empty if none is next.
func (d *decoder) numeral() string {
	d.space()
	begin := d.at
	if d.at < len(d.text) && d.text[d.at] == '-' {
		d.at++
	}
	whole := d.digits()
	if whole == 0 || whole > 1 && d.text[d.at-whole] == '0' {
		return ""
	}
	if d.at < len(d.text) && d.text[d.at] == '.' {
		if d.at++; d.digits() == 0 {
			return ""
		}
	}
	if d.at < len(d.text) && d.text[d.at]|0x20 == 'e' {
		if d.at++; d.at < len(d.text) && (d.text[d.at] == '+' || d.text[d.at] == '-') {
			d.at++
		}
		if d.digits() == 0 {
			return ""
		}
	}
	return d.text[begin:d.at]
}

// digits skips digits and returns how many.
func (d *decoder) digits() int {
	begin := d.at
	for d.at < len(d.text) && '0' <= d.text[d.at] && d.text[d.at] <= '9' {
		d.at++
	}
	return d.at - begin
}
