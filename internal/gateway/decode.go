package gateway

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// bodyError begins the text of every error of the JSON of a body. The generated code
// keeps of an error its text alone.
const bodyError = "body: "

// NewDecoder implements runtime.Marshaler. An empty body is io.EOF, which the
// generated code takes for an empty message.
func (c codec) NewDecoder(r io.Reader) runtime.Decoder {
	return runtime.DecoderFunc(func(v any) error {
		var data []byte
		b, whole := r.(*body)
		if whole {
			data = b.data
		} else {
			// The generated code reads the body of a PATCH twice.
			var err error
			if data, err = io.ReadAll(r); err != nil {
				return fmt.Errorf("%s%w", bodyError, err)
			}
		}
		if len(data) == 0 {
			return io.EOF
		}
		if err := c.Unmarshal(data, v); err != nil {
			return err
		}
		if m, ok := v.(proto.Message); ok && whole {
			return sameNames(m, b.path)
		}
		return nil
	})
}

// Unmarshal implements runtime.Marshaler.
func (codec) Unmarshal(data []byte, v any) error {
	m, ok := v.(proto.Message)
	if ok {
		return unmarshal(data, m)
	}
	// A field of a message that is the body: a pointer to a pointer to its message.
	p := reflect.ValueOf(v)
	if p.Kind() != reflect.Pointer || p.Elem().Kind() != reflect.Pointer {
		return fmt.Errorf("%s%T is not a message", bodyError, v)
	}
	fresh := reflect.New(p.Elem().Type().Elem())
	if m, ok = fresh.Interface().(proto.Message); !ok {
		return fmt.Errorf("%s%T is not a message", bodyError, v)
	}
	if err := unmarshal(data, m); err != nil {
		return err
	}
	p.Elem().Set(fresh)
	return nil
}

func unmarshal(data []byte, m proto.Message) error {
	if err := protojson.Unmarshal(data, m); err != nil {
		return errors.New(bodyError + reason(data, err))
	}
	return nil
}

// reason is what is wrong with JSON, and where. Protojson counts lines and columns, but
// for a text that breaks off.
func reason(data []byte, err error) string {
	var syntax *json.SyntaxError
	if strings.Contains(err.Error(), "unexpected EOF") || strings.Contains(err.Error(), "unexpected token") {
		if plain := json.Unmarshal(data, new(any)); errors.As(plain, &syntax) {
			line, column := position(data, int(syntax.Offset))
			return fmt.Sprintf("line %d, column %d: %v", line, column, syntax)
		}
	}
	// The library writes a space or a non-breaking space behind its name.
	text := strings.ReplaceAll(err.Error(), "\u00a0", " ")
	text = strings.TrimPrefix(strings.TrimPrefix(text, "proto: "), "syntax error ")
	var line, column int
	if _, err := fmt.Sscanf(text, "(line %d:%d): ", &line, &column); err == nil {
		_, text, _ = strings.Cut(text, "): ")
		return fmt.Sprintf("line %d, column %d: %s", line, column, text)
	}
	return text
}

// position is the line and the column of the byte before an offset, both from 1.
func position(data []byte, offset int) (line, column int) {
	before := string(data[:min(offset, len(data))])
	line = 1 + strings.Count(before, "\n")
	return line, len(before) - strings.LastIndex(before, "\n") - 1
}
