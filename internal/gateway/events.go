package gateway

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
)

// reconnectDelay is how long a browser waits before it reconnects.
const reconnectDelay = 3 * time.Second

// outgoing is the context of a call. It passes the token on.
func outgoing(r *http.Request) context.Context {
	if token := r.Header.Get("Authorization"); token != "" {
		return metadata.AppendToOutgoingContext(r.Context(), "authorization", token)
	}
	return r.Context()
}

// begin sets the request of a stream, and takes a place for the stream. The caller ends it.
func (g *Gateway) begin(r *http.Request, c *call, request proto.Message) (ctx context.Context, end func(), err error) {
	if err := c.set(r, request); err != nil {
		return nil, nil, err
	}
	select {
	case g.places <- struct{}{}:
		ctx, cancel := context.WithCancel(outgoing(r))
		return ctx, func() { cancel(); <-g.places }, nil
	default:
		return nil, nil, overloaded(fmt.Sprintf("%d streams are open, which is the most", maxStreams))
	}
}

type received struct {
	event *hindsightv1.WatchModelResponse
	err   error
}

// events answers WatchModel by server-sent events: outcome, stats and history, their data in
// JSON. The stream ends when the server drains, or when the client takes nothing for
// writeTimeout.
func (g *Gateway) events(w http.ResponseWriter, r *http.Request, c *call) error {
	request := new(hindsightv1.WatchModelRequest)
	ctx, end, err := g.begin(r, c, request)
	if err != nil {
		return err
	}
	watch, err := g.models.WatchModel(ctx, request)
	if err != nil {
		end()
		return err
	}
	arrived, ended := make(chan received), make(chan struct{})
	go func() {
		defer close(ended)
		receive(ctx, watch, arrived)
	}()
	defer func() {
		end()
		<-ended
	}()
	return g.relay(w, r, arrived)
}

func receive(ctx context.Context, watch grpc.ServerStreamingClient[hindsightv1.WatchModelResponse], arrived chan<- received) {
	for {
		event, err := watch.Recv()
		select {
		case arrived <- received{event, err}:
		case <-ctx.Done():
			return
		}
		if err != nil {
			return
		}
	}
}

// relay writes what arrives. It returns a rejection before the first event.
func (g *Gateway) relay(w http.ResponseWriter, r *http.Request, arrived <-chan received) error {
	s := sender{w: w, control: http.NewResponseController(w), now: g.Now}
	heartbeat := time.NewTicker(g.heartbeat)
	defer heartbeat.Stop()
	for {
		var err error
		select {
		case <-g.draining:
			if !s.begun {
				return shuttingDown()
			}
			return nil
		case <-r.Context().Done():
			return nil
		case a := <-arrived:
			if a.err != nil && !s.begun {
				return a.err
			}
			if a.err != nil {
				if !errors.Is(a.err, io.EOF) {
					_ = s.send("failure", "", failed(a.err).body()) // The end either way.
				}
				return nil
			}
			err = s.event(a.event)
		case <-heartbeat.C:
			err = s.write([]byte(":\n\n"))
		}
		if err != nil {
			return nil // The client has left, or takes nothing.
		}
	}
}

type sender struct {
	w       http.ResponseWriter
	control *http.ResponseController
	now     func() time.Time
	begun   bool
}

func (s *sender) event(e *hindsightv1.WatchModelResponse) error {
	var name string
	var id uint64
	var data proto.Message
	switch e := e.GetEvent().(type) {
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
	if !s.begun {
		s.begun = true
		header := s.w.Header()
		header.Set("Content-Type", "text/event-stream")
		header.Set("Cache-Control", "no-store")
		header.Set("X-Accel-Buffering", "no") // Or nginx holds events back.
		b = append(fmt.Appendf(nil, "retry: %d\n\n", reconnectDelay.Milliseconds()), b...)
	}
	_ = s.control.SetWriteDeadline(s.now().Add(writeTimeout)) // Only a writer of a test has none.
	if _, err := s.w.Write(b); err != nil {
		return fmt.Errorf("gateway: events: %w", err)
	}
	if err := s.control.Flush(); err != nil {
		return fmt.Errorf("gateway: events: %w", err)
	}
	return nil
}
