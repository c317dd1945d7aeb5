package gateway

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"

	"google.golang.org/grpc/codes"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
	"hindsight/internal/auth"
)

const (
	// A byte of JSON takes about this many bytes in memory: five in a list of short numbers,
	// eight in records of texts and numbers.
	decodedBytes = 8
	// A message or a text within a body takes this many bytes in memory, with the copy that
	// the handler gets.
	valueBytes = 160
	// One body may hold this many times what all bodies may hold together.
	maxShare = 4
)

// readBody reads and checks the body of a call. The estimate of its memory is held, which the
// caller gives back to g.bodies, also after an error. While the body arrives, it holds one
// of the caller's places, as a call does.
func (g *Gateway) readBody(w http.ResponseWriter, r *http.Request) (data []byte, held int64, err error) {
	if err := g.checkContent(r); err != nil {
		return nil, 0, err
	}
	p := auth.FromContext(r.Context())
	if err := p.Hold(); err != nil {
		f := g.Guard.rejection(r, p, requestName(r), err)
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
		fmt.Sprintf("the body: got more than the maximum of %d bytes (--max-message-bytes)", g.MaxMessageBytes))
}

// incomplete rejects a body that broke off, or did not arrive in time.
func (g *Gateway) incomplete(err error) error {
	if g.drains() {
		return shuttingDown()
	}
	says := "the body broke off: " + err.Error()
	if late := net.Error(nil); errors.As(err, &late) && late.Timeout() {
		says = "the body did not arrive in time"
	}
	return reject(http.StatusBadRequest, codes.InvalidArgument, hindsightv1.ErrorReason_BODY_INCOMPLETE, says)
}

var errBodiesFull = overloaded("the bodies of requests in progress hold too much memory")

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
