package gateway

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
	"hindsight/internal/auth"
)

const (
	importPath   = "/v1/models:import"
	contentBytes = "application/octet-stream"
	// A byte of JSON becomes so many in memory, about: five in a list of short numbers,
	// eight in records of texts and numbers.
	decodedBytes = 8
	// A value that is a message of its own, or a text, takes so many bytes in memory, with
	// the copy that the handler gets.
	valueBytes = 160
	// One body may hold so many times what all may hold together.
	maxShare = 4
	// What bodies may hold together where memory has no limit.
	unlimitedBytes = 256 << 20
	busyDelay      = 50 * time.Millisecond
)

// body is the body of a request, read as a whole.
type body struct {
	data []byte
	next int
	// path are the names in the path of the request.
	path map[string]string
}

func (b *body) Read(p []byte) (int, error) {
	if b.next == len(b.data) {
		return 0, io.EOF
	}
	n := copy(p, b.data[b.next:])
	b.next += n
	return n, nil
}

func (b *body) Close() error { return nil }

// readBody reads and checks the body of a call before the generated code sees it.
func (g *Gateway) readBody(next runtime.HandlerFunc) runtime.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request, path map[string]string) {
		switch {
		case r.Method == http.MethodGet, r.Method == http.MethodDelete:
			r.Body = http.NoBody
		case r.URL.Path == importPath:
		default:
			held, ok := g.takeBody(w, r, path)
			if !ok {
				return
			}
			defer g.bodies.give(held)
		}
		next(w, r, path)
	}
}

// takeBody reads the body into r, and counts about what the request then holds. It answers
// what it refuses. While the body comes, it holds one of the caller's places, as a call does.
func (g *Gateway) takeBody(w http.ResponseWriter, r *http.Request, path map[string]string) (held int64, ok bool) {
	if f, bad := g.badContent(r); bad {
		g.write(w, f)
		return 0, false
	}
	p := auth.FromContext(r.Context())
	if err := p.Hold(); err != nil {
		g.Guard.Auth.Judged(err)
		g.count(g.Guard.refuse(w, r, p, err))
		return 0, false
	}
	defer p.Leave()
	expect(r, readTimeout)
	arriving := &arriving{from: http.MaxBytesReader(w, r.Body, int64(g.MaxMessageBytes)), budget: &g.bodies}
	data, err := io.ReadAll(arriving)
	var f failure
	if err != nil {
		f = g.unread(err)
	} else if f, ok = g.taken(arriving, data); ok && r.Method == http.MethodPatch {
		f, ok = updates(data, path)
	}
	if !ok {
		g.bodies.give(arriving.size)
		g.write(w, f)
		return 0, false
	}
	r.Body = &body{data: data, path: path}
	return arriving.size, true
}

// unread is the failure of a body that could not be read.
func (g *Gateway) unread(err error) failure {
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return g.tooLarge()
	case errors.Is(err, errBodiesFull):
		return tooBusy()
	}
	return g.incomplete(err)
}

// incomplete is the failure of a body that broke off, or did not come in time.
func (g *Gateway) incomplete(err error) failure {
	select {
	case <-g.draining:
		return shuttingDown()
	default:
		return refuse(http.StatusBadRequest, codes.InvalidArgument, "BODY_INCOMPLETE", "the body did not come: "+err.Error())
	}
}

// taken counts what a body that has come will take beside its bytes.
func (g *Gateway) taken(a *arriving, data []byte) (f failure, ok bool) {
	values := valuesOf(data)
	size := max(int64(len(data))*decodedBytes, values*valueBytes)
	if most := maxShare * g.bodies.limit; values*valueBytes > most {
		return refuse(http.StatusRequestEntityTooLarge, codes.ResourceExhausted, "REQUEST_TOO_LARGE",
			fmt.Sprintf("the body: got %d values, which take %d bytes of memory, want at most %d bytes", values, size, most)), false
	}
	if !a.count(size - a.size) {
		return tooBusy(), false
	}
	return failure{}, true
}

var errBodiesFull = errors.New("gateway: bodies hold too much")

// arriving counts a body while it comes. What has not come holds nothing: a caller that
// promises much and sends nothing keeps no room from others.
type arriving struct {
	from   io.Reader
	budget *budget
	// size is what was counted.
	size int64
}

// Read implements io.Reader.
func (a *arriving) Read(p []byte) (int, error) {
	n, err := a.from.Read(p)
	if !a.count(int64(n)) {
		return 0, errBodiesFull
	}
	return n, err
}

// count counts n bytes more, unless there is no room.
func (a *arriving) count(n int64) bool {
	if !a.budget.take(n, a.size+n) {
		return false
	}
	a.size += n
	return true
}

// valuesOf is about how many messages and texts the JSON of a body becomes; its numbers
// too if there may be inputs by name, whose numbers are messages.
func valuesOf(data []byte) int64 {
	n := bytes.Count(data, []byte("{")) + bytes.Count(data, []byte("[")) + bytes.Count(data, []byte(`"`))/2
	if bytes.Contains(data, []byte("inputs")) {
		n += bytes.Count(data, []byte(","))
	}
	return int64(n)
}

// badContent refuses a body that is not JSON as it is, or is too large.
func (g *Gateway) badContent(r *http.Request) (failure, bool) {
	switch encoding := r.Header.Get("Content-Encoding"); {
	case !isContent(r, contentJSON):
		return wrongContent(r, contentJSON, "curl --json DATA sets it"), true
	case encoding != "" && encoding != "identity":
		return refuse(http.StatusUnsupportedMediaType, codes.InvalidArgument, "UNSUPPORTED_MEDIA_TYPE",
			fmt.Sprintf("Content-Encoding: got %q, want none", encoding)), true
	case r.ContentLength > int64(g.MaxMessageBytes):
		return g.tooLarge(), true
	}
	return failure{}, false
}

// sameNames refuses a message that names another model than the path does, which the
// generated code would pass over.
func sameNames(m proto.Message, path map[string]string) error {
	message := m.ProtoReflect()
	for name, want := range path {
		name = name[strings.LastIndexByte(name, '.')+1:] // The message of model.id is the model.
		field := message.Descriptor().Fields().ByName(protoreflect.Name(name))
		if field == nil || field.Kind() != protoreflect.StringKind || field.IsList() {
			continue
		}
		if got := message.Get(field).String(); got != "" && got != want {
			return fmt.Errorf("%s%s: got %.80q, want %q as in the path, or nothing", bodyError, name, got, want)
		}
	}
	return nil
}

// updates refuses the body of an update that names another model than the path does. The
// generated code decodes such a body without its path, and replaces the name. That code also
// says what is wrong with a body that is no model.
func updates(data []byte, path map[string]string) (f failure, ok bool) {
	var m hindsightv1.Model
	if unmarshal(data, &m) != nil {
		return failure{}, true
	}
	if err := sameNames(&m, path); err != nil {
		return failed(status.Error(codes.InvalidArgument, err.Error())), false
	}
	return failure{}, true
}

// isContent tells whether the body is of a type. A request without a body needs none.
func isContent(r *http.Request, want string) bool {
	if r.ContentLength == 0 && r.Header.Get("Content-Type") == "" {
		return true
	}
	content, parameters, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || content != want {
		return false
	}
	charset, ok := parameters["charset"]
	return !ok || charset == "utf-8" || charset == "UTF-8"
}

func wrongContent(r *http.Request, want, remedy string) failure {
	return refuse(http.StatusUnsupportedMediaType, codes.InvalidArgument, "UNSUPPORTED_MEDIA_TYPE",
		fmt.Sprintf("Content-Type: got %q, want %s; %s", r.Header.Get("Content-Type"), want, remedy))
}

func (g *Gateway) tooLarge() failure {
	return refuse(http.StatusRequestEntityTooLarge, codes.ResourceExhausted, "REQUEST_TOO_LARGE",
		fmt.Sprintf("the body: got more than %d bytes, want at most so many (--max-message-bytes)", g.MaxMessageBytes))
}

func tooBusy() failure { return overloaded("the bodies of requests in progress hold too much memory") }

func overloaded(message string) failure {
	return refuse(http.StatusTooManyRequests, codes.ResourceExhausted, "OVERLOADED", message,
		&errdetails.RetryInfo{RetryDelay: durationpb.New(busyDelay)})
}

// A budget counts the bytes that requests hold together, up to a limit.
type budget struct {
	limit int64
	held  atomic.Int64
}

// limitOf is an eighth of the memory limit; 0 is no limit.
func limitOf(memoryLimit int64) int64 {
	if memoryLimit == 0 {
		return unlimitedBytes
	}
	return memoryLimit / 8
}

// take counts n bytes of a request that then holds own bytes in all. A request that alone
// holds more than the limit is let through.
func (b *budget) take(n, own int64) bool {
	if all := b.held.Add(n); all > b.limit && all > own {
		b.held.Add(-n)
		return false
	}
	return true
}

func (b *budget) give(n int64) { b.held.Add(-n) }
