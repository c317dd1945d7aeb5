package gateway

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"github.com/grpc-ecosystem/grpc-gateway/v2/utilities"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
	"hindsight/internal/jsonerror"
)

const (
	contentJSON = "application/json"
	// The header that bounds, in a cluster, the age in milliseconds of the answering state.
	ageHeader = "hindsight-age-ms"
)

func (g *Gateway) unary(w http.ResponseWriter, r *http.Request, c *call) error {
	answer, err := g.invoke(w, r, c)
	if err == nil {
		return writeMessage(w, answer)
	}
	f := failed(err)
	if f.reason() == hindsightv1.ErrorReason_ETAG_MISMATCH.String() && r.Header.Get("If-Match") != "" {
		f.http = http.StatusPreconditionFailed
	}
	return f
}

func (g *Gateway) invoke(w http.ResponseWriter, r *http.Request, c *call) (proto.Message, error) {
	request, response := c.request.New(), c.response.New().Interface()
	if err := c.setQuery(r, request); err != nil {
		return nil, err
	}
	if c.body != "" {
		data, held, err := g.readBody(w, r)
		defer g.bodies.Give(held)
		if err == nil {
			err = c.setBody(data, request)
		}
		if err != nil {
			return nil, err
		}
	}
	if err := c.setPath(r.URL.Path, request); err != nil {
		return nil, err
	}
	if err := c.setEtag(r, request); err != nil {
		return nil, err
	}
	ctx, cancel, err := withTimeout(r)
	if err != nil {
		return nil, err
	}
	defer cancel()
	var trailer metadata.MD
	err = g.Server.Invoke(ctx, c.name, request.Interface(), response, grpc.Trailer(&trailer))
	if age := trailer.Get(ageHeader); len(age) > 0 {
		w.Header().Set(ageHeader, age[0])
	}
	return response, err
}

func (c *call) setQuery(r *http.Request, request protoreflect.Message) error {
	if r.URL.RawQuery == "" {
		return nil
	}
	given, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return badParameter("", "the query: "+err.Error())
	}
	seen := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		f, key := c.parameter(name)
		if f == nil {
			return badParameter(name, fmt.Sprintf("the query: got %q, want %s", name, c.parameterNames()))
		}
		place := f.JSONName() + "[" + key
		if other, twice := seen[place]; twice || len(given[name]) > 1 {
			return badParameter(name, fmt.Sprintf("the query: got %s more than once, want it once", cmp.Or(other, name)))
		}
		seen[place] = name
		value, field := given.Get(name), name
		if f.Message() != nil && !f.IsMap() {
			field = string(f.Name())
		}
		one := url.Values{name: {value}}
		if !utf8.ValidString(value) || runtime.PopulateQueryParameters(request.Interface(), one, utilities.NewDoubleArray(nil)) != nil {
			return badParameter(field, fmt.Sprintf("%s: got %.80q, want %s", name, value, wantOf(f)))
		}
	}
	return nil
}

func (c *call) parameter(name string) (f protoreflect.FieldDescriptor, key string) {
	plain, key, isMap := strings.Cut(name, "[")
	if isMap {
		var closed bool
		if key, closed = strings.CutSuffix(key, "]"); !closed || key == "" || strings.ContainsAny(key, "[]") {
			return nil, ""
		}
	}
	for _, f := range c.parameters {
		if (plain == f.JSONName() || plain == string(f.Name())) && isMap == f.IsMap() {
			return f, key
		}
	}
	return nil, ""
}

func (c *call) parameterNames() string {
	if len(c.parameters) == 0 {
		return "no parameter"
	}
	var names []string
	for _, f := range c.parameters {
		name := f.JSONName()
		if f.IsMap() {
			name += "[KEY]"
		}
		names = append(names, name)
	}
	return strings.Join(names, ", ")
}

func wantOf(f protoreflect.FieldDescriptor) string {
	switch {
	case f.IsMap() || f.Kind() == protoreflect.StringKind:
		return "a text of UTF-8"
	case f.Message() != nil:
		return "a time with its unit, as 2s"
	case f.Kind() == protoreflect.BoolKind:
		return "true or false"
	case f.Kind() == protoreflect.DoubleKind:
		return "a number"
	case f.Kind() == protoreflect.Uint32Kind:
		return "an integer of 32 bits, 0 or more"
	default:
		return "an integer of 32 bits"
	}
}

func badParameter(name, message string) *failure {
	return invalid(name, hindsightv1.ErrorReason_INVALID_PARAMETER, message)
}

func (c *call) setBody(data []byte, request protoreflect.Message) error {
	into := request
	if c.body != "*" {
		into = request.Mutable(request.Descriptor().Fields().ByName(protoreflect.Name(c.body))).Message()
	}
	if len(data) > 0 { // No body is an empty message.
		if err := protojson.Unmarshal(data, into.Interface()); err != nil {
			return invalidJSON(jsonerror.Explain(data, into.Descriptor(), err))
		}
	}
	if update, ok := request.Interface().(*hindsightv1.UpdateModelRequest); ok {
		return setMask(update, data)
	}
	return nil
}

// setMask gives an update without a mask the fields of its body. The id and the etag name the model, and change
// nothing.
func setMask(update *hindsightv1.UpdateModelRequest, body []byte) error {
	mask := update.GetUpdateMask()
	if len(mask.GetPaths()) == 0 {
		var err error
		if mask, err = runtime.FieldMaskFromRequestBody(bytes.NewReader(body), update.GetModel()); err != nil {
			return invalidJSON(err.Error())
		}
		update.UpdateMask = mask
	}
	mask.Paths = slices.DeleteFunc(mask.GetPaths(), func(path string) bool { return path == "" || path == "id" || path == "etag" })
	return nil
}

// setPath sets the fields that the path holds. It rejects a body that holds other values.
func (c *call) setPath(path string, request protoreflect.Message) error {
	if c.verb != "" {
		path = strings.TrimSuffix(path, ":"+c.verb)
	}
	segments := strings.Split(path, "/")
	for n, name := range c.fields {
		m, value := request, segments[n]
		for outer, inner, nested := strings.Cut(name, "."); nested; outer, inner, nested = strings.Cut(name, ".") {
			m, name = m.Mutable(m.Descriptor().Fields().ByName(protoreflect.Name(outer))).Message(), inner
		}
		f := m.Descriptor().Fields().ByName(protoreflect.Name(name))
		if got := m.Get(f).String(); got != "" && got != value {
			return invalidJSON(fmt.Sprintf("%s: got %.80q, want %q as in the path, or nothing", name, got, value))
		}
		m.Set(f, protoreflect.ValueOfString(value))
	}
	return nil
}

// setEtag sets the etag that must match from the header If-Match. It rejects an empty one, which
// the call would take for none.
func (c *call) setEtag(r *http.Request, request protoreflect.Message) error {
	const name = "If-Match"
	headers := r.Header.Values(name)
	got := strings.Join(headers, ", ")
	if len(headers) == 0 || got == "*" || isSafe(r.Method) {
		return nil
	}
	if c.body != "" && c.body != "*" {
		request = request.Mutable(request.Descriptor().Fields().ByName(protoreflect.Name(c.body))).Message()
	}
	f := request.Descriptor().Fields().ByName("etag")
	if f == nil {
		return badParameter(name, fmt.Sprintf("%s: got %q, want nothing: PATCH and DELETE of a model alone have an etag", name, got))
	}
	tag := strings.Trim(got, `"`)
	if tag == "" {
		return badParameter(name, fmt.Sprintf("%s: got %q, want the etag of the model", name, got))
	}
	if given := request.Get(f).String(); given != "" && given != tag {
		return badParameter(name, fmt.Sprintf("%s: got %q, want the request's etag %q, or one of them", name, got, given))
	}
	request.Set(f, protoreflect.ValueOfString(tag))
	return nil
}

func withTimeout(r *http.Request) (context.Context, context.CancelFunc, error) {
	text := r.Header.Get("Grpc-Timeout")
	if text == "" {
		return r.Context(), func() {}, nil
	}
	units := map[byte]time.Duration{
		'H': time.Hour, 'M': time.Minute, 'S': time.Second, 'm': time.Millisecond, 'u': time.Microsecond, 'n': time.Nanosecond,
	}
	last := len(text) - 1
	unit, number := units[text[last]], text[:last]
	n, err := strconv.ParseUint(number, 10, 64)
	if unit == 0 || err != nil {
		return nil, nil, badParameter("", fmt.Sprintf("Grpc-Timeout: got %.80q, want a number with its unit, such as 500m for 500 milliseconds", text))
	}
	ctx, cancel := context.WithTimeout(r.Context(), unit*time.Duration(min(n, uint64(math.MaxInt64/unit))))
	return ctx, cancel, nil
}

// encode writes a message in the JSON of protocol buffers, as one line. Fields without presence are always written.
func encode(m proto.Message) ([]byte, error) {
	text, err := protojson.MarshalOptions{EmitDefaultValues: true}.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("gateway: %s: %w", m.ProtoReflect().Descriptor().FullName(), err)
	}
	return text, nil
}

func writeMessage(w http.ResponseWriter, m proto.Message) error {
	text, err := encode(m)
	if err == nil {
		writeJSON(w, text)
	}
	return err
}

func writeJSON(w http.ResponseWriter, text []byte) {
	text = append(text, '\n')
	w.Header().Set("Content-Type", contentJSON)
	w.Header().Set("Content-Length", strconv.Itoa(len(text)))
	_, _ = w.Write(text) //nolint:gosec // It is JSON, and nosniff. An error means that the client has left.
}
