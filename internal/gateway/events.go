package gateway

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
)

// reconnectDelay is how long a browser waits before it reconnects.
const reconnectDelay = 3 * time.Second

// begin sets the request of a stream, and takes a place for the stream. The caller ends the stream.
func (g *Gateway) begin(r *http.Request, c *call) (s *stream, end func(), err error) {
	s = &stream{request: c.request.New()}
	if err := c.setQuery(r, s.request); err != nil {
		return nil, nil, err
	}
	if err := c.setPath(r.URL.Path, s.request); err != nil {
		return nil, nil, err
	}
	ctx, release, err := withTimeout(r)
	if err != nil {
		return nil, nil, err
	}
	if _, ok := g.streams.Take(1, 0); !ok {
		release()
		return nil, nil, overloaded(fmt.Sprintf("%d streams are open, which is the maximum", maxStreams))
	}
	s.ctx, s.cancel = context.WithCancel(ctx)
	return s, func() { s.cancel(); release(); g.streams.Give(1) }, nil
}

// stream is the stream of a handler: it receives the request, and sends to the client of HTTP.
type stream struct {
	grpc.ServerStream                 // Nil: handlers call the methods below alone.
	ctx               context.Context //nolint:containedctx // A grpc.ServerStream has its context.
	cancel            context.CancelFunc
	// request is the first message, nil after RecvMsg. further receives those behind it, and is nil without any.
	request protoreflect.Message
	further func(proto.Message) error
	send    func(proto.Message) error
}

func (s *stream) Context() context.Context { return s.ctx }

func (s *stream) SendHeader(metadata.MD) error { return nil }

func (s *stream) RecvMsg(m any) error {
	into, _ := m.(proto.Message)
	switch {
	case s.request != nil:
		proto.Merge(into, s.request.Interface())
		s.request = nil
		return nil
	case s.further == nil:
		return io.EOF
	}
	return s.further(into)
}

// SendMsg implements grpc.ServerStream. It fails if the client has left, or takes nothing.
func (s *stream) SendMsg(m any) error {
	message, _ := m.(proto.Message)
	if err := s.send(message); err != nil {
		return status.Error(codes.Canceled, err.Error())
	}
	return nil
}

// events answers WatchModel by server-sent events: outcome, stats and history, their data in
// JSON. The stream ends when the server drains, or when the client takes nothing for
// writeTimeout.
func (g *Gateway) events(w http.ResponseWriter, r *http.Request, c *call) error {
	watch, end, err := g.begin(r, c)
	if err != nil {
		return err
	}
	s := &sender{w: w, control: http.NewResponseController(w), now: g.Now}
	watch.send = s.event
	var beating sync.WaitGroup
	beating.Go(func() {
		defer watch.cancel()
		g.beat(watch.ctx, s)
	})
	err = g.Server.Stream(c.name, watch)
	end()
	beating.Wait()
	switch drains := g.drains(); {
	case drains && !s.begun:
		return shuttingDown()
	case err != nil && !s.begun:
		return err
	case err != nil && !drains:
		_ = s.send("failure", "", failed(err).body()) // The end either way.
	}
	return nil
}

// beat writes a comment every heartbeat, until the context ends, the gateway drains or the client has left.
func (g *Gateway) beat(ctx context.Context, s *sender) {
	heartbeat := time.NewTicker(g.heartbeat)
	defer heartbeat.Stop()
	for {
		select {
		case <-g.draining:
			return
		case <-ctx.Done():
			return
		case <-heartbeat.C:
			if s.write([]byte(":\n\n")) != nil {
				return
			}
		}
	}
}

// sender writes events. Its methods may be called concurrently.
type sender struct {
	mu      sync.Mutex
	w       http.ResponseWriter
	control *http.ResponseController
	now     func() time.Time
	begun   bool
}

func (s *sender) event(m proto.Message) error {
	var name string
	var id uint64
	var data proto.Message
	response, _ := m.(*hindsightv1.WatchModelResponse)
	switch e := response.GetEvent().(type) {
	case *hindsightv1.WatchModelResponse_Outcome:
		name, id, data = "outcome", e.Outcome.GetOutcome().GetSequence(), e.Outcome
	case *hindsightv1.WatchModelResponse_Stats:
		name, id, data = "stats", e.Stats.GetObservations(), e.Stats
	case *hindsightv1.WatchModelResponse_History:
		name, id, data = "history", e.History.GetSequence(), e.History
	default:
		return nil
	}
	text, err := encode(data)
	if err != nil {
		return err
	}
	return s.send(name, strconv.FormatUint(id, 10), text)
}

func (s *sender) send(name, id string, data []byte) error {
	b := make([]byte, 0, len(data)+64)
	b = append(append(b, "event: "...), name...)
	if id != "" {
		b = append(append(b, "\nid: "...), id...)
	}
	b = append(append(append(b, "\ndata: "...), data...), "\n\n"...)
	return s.write(b)
}

// write sends at once. The first time it sends the header of the response too.
func (s *sender) write(b []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.begun {
		s.begun = true
		header := s.w.Header()
		header.Set("Content-Type", "text/event-stream")
		header.Set("Cache-Control", "no-store")
		header.Set("X-Accel-Buffering", "no") // Or nginx holds events back.
		b = append(fmt.Appendf(nil, "retry: %d\n\n", reconnectDelay.Milliseconds()), b...)
	}
	_ = s.control.SetWriteDeadline(s.now().Add(writeTimeout)) // Only a writer of a test has none.
	if _, err := s.w.Write(b); err != nil {                   //nolint:gosec // Events are no HTML, and nosniff.
		return fmt.Errorf("gateway: events: %w", err)
	}
	if err := s.control.Flush(); err != nil {
		return fmt.Errorf("gateway: events: %w", err)
	}
	return nil
}
