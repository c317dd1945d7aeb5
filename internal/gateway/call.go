package gateway

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
	"hindsight/internal/auth"
)

const (
	contentJSON = "application/json"
	// A byte of JSON takes about this many bytes in memory: five in a list of short numbers,
	// eight in records of texts and numbers.
	decodedBytes = 8
	// A message or a text within a body takes this many bytes in memory, with the copy that
	// the handler gets.
	valueBytes = 160
	// One body may hold this many times what all bodies may hold together.
	maxShare  = 4
	busyDelay = 50 * time.Millisecond
	// The maximum bytes of what the JSON library says of a body.
	maxReason = 256
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

func (c *call) setBody(data []byte, request protoreflect.Message) error {
	into := request
	if c.body != "*" {
		into = request.Mutable(request.Descriptor().Fields().ByName(protoreflect.Name(c.body))).Message()
	}
	if len(data) > 0 { // No body is an empty message.
		if err := protojson.Unmarshal(data, into.Interface()); err != nil {
			return invalidJSON(reason(data, into.Descriptor(), err))
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

// readBody reads and checks the body of a call. The estimate of its memory is held, which the
// caller gives back to g.bodies, also after an error. While the body arrives, it holds one
// of the caller's places, as a call does.
func (g *Gateway) readBody(w http.ResponseWriter, r *http.Request) (data []byte, held int64, err error) {
	if err := g.checkContent(r); err != nil {
		return nil, 0, err
	}
	p := auth.FromContext(r.Context())
	if err := p.Hold(); err != nil {
		f := g.Guard.rejection(r, p, err)
		f.byGateway = true
		return nil, 0, f
	}
	defer p.Leave()
	expect(r, readTimeout)
	arriving := &arriving{from: http.MaxBytesReader(w, r.Body, int64(g.MaxMessageBytes)), budget: g.bodies}
	data, err = io.ReadAll(arriving)
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		err = g.tooLarge()
	case err != nil && !errors.Is(err, errBodiesFull):
		err = g.incomplete(err)
	case err == nil:
		err = arriving.decoded(data)
	}
	return data, arriving.size, err
}

func (g *Gateway) checkContent(r *http.Request) error {
	switch encoding := r.Header.Get("Content-Encoding"); {
	case !isContent(r, contentJSON):
		return wrongContent(r, contentJSON, "curl --json DATA sets it")
	case encoding != "" && encoding != "identity":
		return reject(http.StatusUnsupportedMediaType, codes.InvalidArgument, hindsightv1.ErrorReason_UNSUPPORTED_MEDIA_TYPE,
			fmt.Sprintf("Content-Encoding: got %q, want none", encoding))
	case r.ContentLength > int64(g.MaxMessageBytes):
		return g.tooLarge()
	}
	return nil
}

// isContent reports whether the body has a type. A request without a body needs none.
func isContent(r *http.Request, want string) bool {
	if r.ContentLength == 0 && r.Header.Get("Content-Type") == "" {
		return true
	}
	given := r.Header.Get("Content-Type")
	if given == want { // As nearly always.
		return true
	}
	content, parameters, err := mime.ParseMediaType(given)
	charset, named := parameters["charset"]
	return err == nil && content == want && (!named || charset == "utf-8" || charset == "UTF-8")
}

func wrongContent(r *http.Request, want, remedy string) error {
	return reject(http.StatusUnsupportedMediaType, codes.InvalidArgument, hindsightv1.ErrorReason_UNSUPPORTED_MEDIA_TYPE,
		fmt.Sprintf("Content-Type: got %q, want %s; %s", r.Header.Get("Content-Type"), want, remedy))
}

func (g *Gateway) tooLarge() error {
	return reject(http.StatusRequestEntityTooLarge, codes.ResourceExhausted, hindsightv1.ErrorReason_REQUEST_TOO_LARGE,
		fmt.Sprintf("the body: got more than %d bytes, want at most so many (--max-message-bytes)", g.MaxMessageBytes))
}

// incomplete rejects a body that broke off, or did not arrive in time.
func (g *Gateway) incomplete(err error) error {
	if g.drains() {
		return shuttingDown()
	}
	return reject(http.StatusBadRequest, codes.InvalidArgument, hindsightv1.ErrorReason_BODY_INCOMPLETE, "the body did not come: "+err.Error())
}

var errBodiesFull = overloaded("the bodies of requests in progress hold too much memory")

func overloaded(message string) *failure {
	return reject(http.StatusTooManyRequests, codes.ResourceExhausted, hindsightv1.ErrorReason_OVERLOADED, message,
		&errdetails.RetryInfo{RetryDelay: durationpb.New(busyDelay)})
}

// arriving counts a body while it arrives, so that a client that announces much and sends
// nothing takes no memory from others.
type arriving struct {
	from   io.Reader
	budget *auth.Budget
	size   int64
}

func (a *arriving) Read(p []byte) (int, error) {
	n, err := a.from.Read(p)
	if !a.count(int64(n)) {
		return 0, errBodiesFull
	}
	return n, err
}

func (a *arriving) count(n int64) bool {
	_, ok := a.budget.Take(n, a.size+n)
	if ok {
		a.size += n
	}
	return ok
}

func (a *arriving) decoded(data []byte) error {
	values := valuesOf(data)
	size := max(int64(len(data))*decodedBytes, values*valueBytes)
	if limit := maxShare * a.budget.Limit(); values*valueBytes > limit {
		return reject(http.StatusRequestEntityTooLarge, codes.ResourceExhausted, hindsightv1.ErrorReason_REQUEST_TOO_LARGE,
			fmt.Sprintf("the body: got %d values, which take %d bytes of memory, want at most %d bytes", values, size, limit))
	}
	if !a.count(size - a.size) {
		return errBodiesFull
	}
	return nil
}

// valuesOf estimates how many messages and texts a body has. The numbers of named inputs are
// messages too.
func valuesOf(data []byte) int64 {
	n := bytes.Count(data, []byte("{")) + bytes.Count(data, []byte("[")) + bytes.Count(data, []byte(`"`))/2
	if bytes.Contains(data, []byte("inputs")) {
		n += bytes.Count(data, []byte(","))
	}
	return int64(n)
}

func invalidJSON(message string) error {
	return invalid("body", hindsightv1.ErrorReason_INVALID_JSON, "body: "+message)
}

// reason says what is wrong with the JSON of a message, and where. Protojson counts lines and
// columns, except of a text that breaks off.
func reason(data []byte, m protoreflect.MessageDescriptor, err error) string {
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
		return ""
	case !isObject:
		return wants(path, value, "an object")
	case known: // A Struct has any field.
		return ""
	}
	for _, name := range slices.Sorted(maps.Keys(object)) {
		f := cmp.Or(m.Fields().ByJSONName(name), m.Fields().ByTextName(name))
		if f == nil {
			return fmt.Sprintf("unknown field %.80q, want %s", path+name, fieldNames(m))
		}
		if says := misfitField(f, object[name], path+name); says != "" {
			return says
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
	_, isNumber := value.(float64)
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
		if _, err := strconv.ParseFloat(text, 64); !isNumber && err != nil {
			return "a number"
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
	case nil, bool, float64:
		got = strings.TrimSpace(fmt.Sprint(v))
	}
	return strings.TrimPrefix(fmt.Sprintf("%s: got %s, want %s", strings.TrimSuffix(path, "."), got, want), ": ")
}

func fieldNames(m protoreflect.MessageDescriptor) string {
	names := make([]string, m.Fields().Len())
	for n := range names {
		names[n] = m.Fields().Get(n).JSONName()
	}
	return strings.Join(names, ", ")
}
