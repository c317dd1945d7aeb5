package gateway

import (
	"errors"
	"io"
	"net/http"
	"sync"
	"time"
)

const (
	// The time of a body that no call waits for. Package net/http reads it to its end before it
	// answers, or waits for the next request.
	strayTimeout = 10 * time.Second
	// The time of the body of a call, and of each piece of an import.
	readTimeout = time.Minute
	// The time of bodies that are incomplete when the gateway begins to drain.
	drainTimeout = time.Second
	// The bytes and the time of reading a rejected body.
	lingerBytes   = 64 << 20
	lingerTimeout = 5 * time.Second
)

// BoundBodies bounds the time of the body of a request. It is the outermost handler of a server:
// without it, a client that sends a part of a body holds its connection for ever, because
// net/http reads the rest without a deadline.
//
// BoundBodies closes the connection after a chunked request. The request may also have a Content-Length, by which a proxy in
// front may have found another end of the request; net/http has removed the header.
func BoundBodies(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if len(r.TransferEncoding) > 0 {
			w.Header().Set("Connection", "close")
		}
		if r.ContentLength != 0 {
			setReadDeadline(http.NewResponseController(w), strayTimeout)
		}
		next.ServeHTTP(w, r)
	})
}

// setReadDeadline makes reads fail after d. It ignores the error, because only connections in tests
// have no deadlines.
func setReadDeadline(c *http.ResponseController, d time.Duration) {
	_ = c.SetReadDeadline(time.Now().Add(d)) //nolint:forbidigo // A deadline is in the time of the system.
}

// incoming is the body of a request. Its read deadline stays until the end of the body, because
// net/http reads what a handler leaves.
type incoming struct {
	io.ReadCloser
	control *http.ResponseController
	mu      struct {
		sync.Mutex
		// ended is the first error of a read: io.EOF at the end of the body, else why the body broke off. Each later read
		// returns ended, because net/http would report io.EOF for a body that broke off, or read on after a deadline.
		ended    error
		draining bool
	}
}

func (i *incoming) Read(p []byte) (int, error) {
	i.mu.Lock()
	ended := i.mu.ended
	i.mu.Unlock()
	if ended != nil {
		return 0, ended
	}
	n, err := i.ReadCloser.Read(p)
	if err != nil {
		i.mu.Lock()
		defer i.mu.Unlock()
		i.mu.ended = err
		if errors.Is(err, io.EOF) && i.mu.draining {
			// net/http has done so too, before drain.
			_ = i.control.SetReadDeadline(time.Time{}) // As in setReadDeadline.
		}
	}
	return n, err
}

// within bounds the time of the rest of the body, further if the gateway drains.
func (i *incoming) within(d time.Duration) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.mu.draining {
		d = min(d, drainTimeout)
	}
	if i.mu.ended == nil {
		setReadDeadline(i.control, d)
	}
}

func (i *incoming) drain() {
	i.mu.Lock()
	i.mu.draining = true
	i.mu.Unlock()
	i.within(drainTimeout)
}

func expect(r *http.Request, d time.Duration) {
	if body, ok := r.Body.(*incoming); ok { // A request without a body has another.
		body.within(d)
	}
}

// linger reads the rest of a rejected body. Most clients send all of a body before they read the
// response; if the server closed the connection, they would not see the response. A client that
// waits for 100 Continue has sent no body.
func (i *incoming) linger(r *http.Request) {
	i.mu.Lock()
	ended := i.mu.ended
	i.mu.Unlock()
	if ended != nil || r.ProtoMajor != 1 || r.Header.Get("Expect") != "" {
		return
	}
	i.within(lingerTimeout)                                       // Flush reads the body too.
	_ = i.control.SetWriteDeadline(time.Now().Add(lingerTimeout)) //nolint:forbidigo // As in setReadDeadline.
	_ = i.control.Flush()                                         // A client that waits for the answer gets it now.
	// An error means that there is no more, or that it comes too slowly.
	_, _ = io.CopyN(io.Discard, i, lingerBytes)
}
