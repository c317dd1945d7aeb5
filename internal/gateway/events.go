package gateway

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"github.com/grpc-ecosystem/grpc-gateway/v2/utilities"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
)

// reconnectDelay is what a browser waits before it asks for events again.
const reconnectDelay = 3 * time.Second

// query reads the parameters of a GET into a message that has the model's name.
func query(r *http.Request, m proto.Message) error {
	if err := r.ParseForm(); err != nil {
		return status.Errorf(codes.InvalidArgument, "the query: %v", err)
	}
	filter := utilities.NewDoubleArray([][]string{{"model"}})
	if err := runtime.PopulateQueryParameters(m, r.Form, filter); err != nil {
		return status.Error(codes.InvalidArgument, err.Error())
	}
	return nil
}

// outgoing is the context of a call that this package makes by itself: it passes on
// what the generated code passes on.
func outgoing(r *http.Request) context.Context {
	if token := r.Header.Get("Authorization"); token != "" {
		return metadata.AppendToOutgoingContext(r.Context(), "authorization", token)
	}
	return r.Context()
}

// stream takes a place for a stream; leave gives it back.
func (g *Gateway) stream(w http.ResponseWriter) (leave func(), ok bool) {
	select {
	case g.places <- struct{}{}:
		return func() { <-g.places }, true
	default:
		g.write(w, overloaded(fmt.Sprintf("%d streams are open, which is the most", maxStreams)))
		return nil, false
	}
}

// received is an event, or the end of the stream.
type received struct {
	event *hindsightv1.WatchModelResponse
	err   error
}

// events answers GET /v1/models/{model}/events by server-sent events: outcome, stats
// and history, their data in JSON. When the client takes nothing for writeTimeout, or
// the server drains, the stream ends.
func (g *Gateway) events(w http.ResponseWriter, r *http.Request, path map[string]string) {
	request := &hindsightv1.WatchModelRequest{Model: path["model"]}
	if err := query(r, request); err != nil {
		g.write(w, failed(err))
		return
	}
	leave, ok := g.stream(w)
	if !ok {
		return
	}
	defer leave()
	ctx, cancel := context.WithCancel(outgoing(r))
	watch, err := g.models.WatchModel(ctx, request)
	if err != nil {
		cancel()
		g.write(w, failed(err))
		return
	}
	arrived, ended := make(chan received), make(chan struct{})
	go func() {
		defer close(ended)
		receive(ctx, watch, arrived)
	}()
	defer func() {
		cancel()
		<-ended
	}()
	g.tell(w, r, arrived)
}

// receive passes events on until the stream or the context ends.
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

// tell writes what arrives. What is refused before the first event is answered as
// every refusal is.
func (g *Gateway) tell(w http.ResponseWriter, r *http.Request, arrived <-chan received) {
	s := sender{w: w, control: http.NewResponseController(w), now: g.Now}
	heartbeat := time.NewTicker(g.heartbeat)
	defer heartbeat.Stop()
	for {
		var err error
		select {
		case <-g.draining:
			if !s.begun {
				g.write(w, shuttingDown())
			}
			return
		case <-r.Context().Done():
			return
		case a := <-arrived:
			if a.err != nil {
				if !s.begun {
					g.write(w, failed(a.err))
				} else if !errors.Is(a.err, io.EOF) {
					_ = s.send("failure", "", failed(a.err).body()) // The end either way.
				}
				return
			}
			err = s.event(a.event)
		case <-heartbeat.C:
			err = s.write([]byte(":\n\n"))
		}
		if err != nil {
			return // The client has left, or takes nothing.
		}
	}
}

// A sender writes the fields of server-sent events.
type sender struct {
	w       http.ResponseWriter
	control *http.ResponseController
	now     func() time.Time
	begun   bool
}

// event writes an event. One of a kind that this program does not know is left out.
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
	// As within the answer of a call, so that statistics have one form.
	text, err := appendMessage(nil, data.ProtoReflect(), false)
	if err != nil {
		return err
	}
	return s.send(name, strconv.FormatUint(id, 10), text)
}

// send writes an event of one line of data.
func (s *sender) send(name, id string, data []byte) error {
	b := make([]byte, 0, len(data)+64)
	b = append(append(b, "event: "...), name...)
	if id != "" {
		b = append(append(b, "\nid: "...), id...)
	}
	b = append(append(append(b, "\ndata: "...), data...), "\n\n"...)
	return s.write(b)
}

// write writes at once. The first time it writes the header of the answer too.
func (s *sender) write(b []byte) error {
	if !s.begun {
		s.begun = true
		header := s.w.Header()
		header.Set("Content-Type", "text/event-stream")
		header.Set("Cache-Control", "no-store")
		header.Set("X-Accel-Buffering", "no") // Or nginx keeps events back.
		header.Set("X-Content-Type-Options", "nosniff")
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
