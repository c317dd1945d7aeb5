package gateway

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"
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

// takeBody reads the body into r, and counts about what it will hold. It answers what it
// refuses.
func (g *Gateway) takeBody(w http.ResponseWriter, r *http.Request, path map[string]string) (held int64, ok bool) {
	if f, bad := g.badContent(r); bad {
		g.write(w, f)
		return 0, false
	}
	size := r.ContentLength
	if size < 0 {
		size = int64(g.MaxMessageBytes)
	}
	size *= decodedBytes
	if !g.bodies.take(size) {
		g.write(w, tooBusy())
		return 0, false
	}
	control := http.NewResponseController(w)
	// A writer that has no deadlines is one of a test.
	_ = control.SetReadDeadline(g.Now().Add(readTimeout))
	data, err := io.ReadAll(http.MaxBytesReader(w, r.Body, int64(g.MaxMessageBytes)))
	_ = control.SetReadDeadline(time.Time{})
	if err != nil {
		g.bodies.give(size)
		var large *http.MaxBytesError
		if errors.As(err, &large) {
			g.write(w, g.tooLarge())
		} else {
			g.write(w, refuse(http.StatusBadRequest, codes.InvalidArgument, "BODY_INCOMPLETE", "the body did not come: "+err.Error()))
		}
		return 0, false
	}
	r.Body = &body{data: data, path: path}
	values := valuesOf(data)
	if values*valueBytes <= size {
		return size, true
	}
	g.bodies.give(size)
	size = values * valueBytes
	if size > maxShare*g.bodies.limit {
		g.write(w, refuse(http.StatusRequestEntityTooLarge, codes.ResourceExhausted, "REQUEST_TOO_LARGE",
			fmt.Sprintf("the body: got %d values, which take %d bytes of memory, want at most %d bytes", values, size, maxShare*g.bodies.limit)))
		return 0, false
	}
	if !g.bodies.take(size) {
		g.write(w, tooBusy())
		return 0, false
	}
	return size, true
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
		field := message.Descriptor().Fields().ByName(protoreflect.Name(name))
		if field == nil || field.Kind() != protoreflect.StringKind || field.IsList() {
			continue
		}
		if got := message.Get(field).String(); got != "" && got != want {
			return fmt.Errorf("%s%s: got %q, want %q as in the path, or nothing", bodyError, name, brief(got), want)
		}
	}
	return nil
}

// brief is a text as an error shows it.
func brief(text string) string {
	const most = 80
	if len(text) > most {
		return text[:most] + "..."
	}
	return text
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

// take counts n bytes. A request that alone holds more than the limit is let through.
func (b *budget) take(n int64) bool {
	if all := b.held.Add(n); all > b.limit && all > n {
		b.held.Add(-n)
		return false
	}
	return true
}

func (b *budget) give(n int64) { b.held.Add(-n) }
