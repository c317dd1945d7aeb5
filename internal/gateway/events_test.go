package gateway_test

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
	"hindsight/internal/gateway"
)

// watched is a server whose WatchModel, ExportModel and UpdateModel are a test's.
type watched struct {
	gateway.Server
	watch  func(*hindsightv1.WatchModelRequest, grpc.ServerStreamingServer[hindsightv1.WatchModelResponse]) error
	export func(grpc.ServerStreamingServer[hindsightv1.ExportModelResponse]) error
	// updates are the requests to UpdateModel.
	updates chan *hindsightv1.UpdateModelRequest
}

func (w *watched) Invoke(_ context.Context, method string, request, _ any, _ ...grpc.CallOption) error {
	if r, ok := request.(*hindsightv1.UpdateModelRequest); ok {
		w.updates <- r
		return nil
	}
	return status.Error(codes.Unimplemented, method)
}

func (w *watched) Stream(method string, s grpc.ServerStream) error {
	if method == hindsightv1.ModelService_ExportModel_FullMethodName {
		return w.export(&grpc.GenericServerStream[hindsightv1.ExportModelRequest, hindsightv1.ExportModelResponse]{ServerStream: s})
	}
	r := new(hindsightv1.WatchModelRequest)
	if err := s.RecvMsg(r); err != nil {
		return err
	}
	return w.watch(r, &grpc.GenericServerStream[hindsightv1.WatchModelRequest, hindsightv1.WatchModelResponse]{ServerStream: s})
}

// serve is a gateway before it.
func (w *watched) serve(t *testing.T, settings ...func(*gateway.Options)) *host {
	t.Helper()
	h := new(host)
	h.start(t, w, settings...)
	t.Cleanup(h.gateway.Drain)
	return h
}

// stream asks for events and reads them block by block.
func (h *host) stream(t *testing.T) (*http.Response, func() string) {
	t.Helper()
	response := must(h.client.Do(h.request(t, "GET", "/v1/models/m/events", "", "Accept", "text/event-stream")))(t)
	t.Cleanup(func() { _ = response.Body.Close() })
	lines := bufio.NewReader(response.Body)
	return response, func() string {
		var block strings.Builder
		for {
			line, err := lines.ReadString('\n')
			block.WriteString(line)
			if err != nil || line == "\n" {
				return strings.TrimSuffix(block.String(), "\n\n")
			}
		}
	}
}

func statsEvent(n uint64) *hindsightv1.WatchModelResponse {
	return &hindsightv1.WatchModelResponse{Event: &hindsightv1.WatchModelResponse_Stats{Stats: &hindsightv1.ModelStats{Model: "m", Observations: n}}}
}

func TestEvents(t *testing.T) {
	outcome := &hindsightv1.OutcomeEvent{
		Outcome: &hindsightv1.Outcome{Sequence: 4, Loss: proto.Float64(0.5), Class: "a\nb"}, Labels: []float64{1}, Omitted: 2,
	}
	point := &hindsightv1.HistoryPoint{Sequence: 4, Regret: proto.Float64(1)}
	asked := make(chan *hindsightv1.WatchModelRequest, 1)
	h := (&watched{watch: func(r *hindsightv1.WatchModelRequest, s grpc.ServerStreamingServer[hindsightv1.WatchModelResponse]) error {
		asked <- r
		for _, e := range []*hindsightv1.WatchModelResponse{
			statsEvent(3),
			{Event: &hindsightv1.WatchModelResponse_Outcome{Outcome: outcome}},
			{}, // Of a later version.
			{Event: &hindsightv1.WatchModelResponse_History{History: point}},
		} {
			if err := s.Send(e); err != nil {
				return err
			}
		}
		return status.Error(codes.DataLoss, "corrupt")
	}}).serve(t)
	r := h.request(t, "GET", "/v1/models/m/events?max_outcomes_per_second=2.5&statsInterval=3s", "")
	response := must(h.client.Do(r))(t)
	defer func() { _ = response.Body.Close() }()
	text := must(io.ReadAll(response.Body))(t)
	assert.True(t, response.Header.Get("Content-Type") == "text/event-stream" && response.Header.Get("Cache-Control") == "no-store", "header %v", response.Header)
	blocks := strings.Split(strings.TrimSuffix(string(text), "\n\n"), "\n\n")
	if len(blocks) != 5 || blocks[0] != "retry: 3000" ||
		!strings.HasPrefix(blocks[1], "event: stats\nid: 3\ndata: {\"model\":\"m\",") ||
		!isEvent(blocks[2], "event: outcome\nid: 4\ndata: ", outcome) || !isEvent(blocks[3], "event: history\nid: 4\ndata: ", point) ||
		blocks[4] != "event: failure\ndata: {\"error\":{\"code\":500,\"message\":\"corrupt\",\"status\":\"DATA_LOSS\",\"details\":[]}}" {
		t.Errorf("events %q", blocks)
	}
	want := &hindsightv1.WatchModelRequest{Model: "m", MaxOutcomesPerSecond: 2.5}
	got := <-asked
	assert.True(t, got.GetStatsInterval().AsDuration() == 3*time.Second && got.GetModel() == want.GetModel() && got.GetMaxOutcomesPerSecond() == 2.5, "asked for %v", got)
}

// isEvent reports whether a block of a stream has the head and the message.
func isEvent(block, head string, want proto.Message) bool {
	data, ok := strings.CutPrefix(block, head)
	got := want.ProtoReflect().New().Interface()
	return ok && protojson.Unmarshal([]byte(data), got) == nil && proto.Equal(got, want)
}

// waiting sends one event and waits for the end of the call.
func waiting(ended chan<- struct{}) *watched {
	return &watched{watch: func(_ *hindsightv1.WatchModelRequest, s grpc.ServerStreamingServer[hindsightv1.WatchModelResponse]) error {
		defer func() { ended <- struct{}{} }()
		if err := s.Send(statsEvent(1)); err != nil {
			return err
		}
		<-s.Context().Done()
		return s.Context().Err()
	}}
}

// A stream without events has comments, so that proxies and clients keep it.
func TestHeartbeat(t *testing.T) {
	ended := make(chan struct{}, 1)
	h := waiting(ended).serve(t, gateway.WithHeartbeat(time.Millisecond))
	_, next := h.stream(t)
	for comments := 0; comments < 3; {
		switch next() {
		case ":":
			comments++
		case "":
			t.Fatal("the stream ended")
		}
	}
}

// A client that leaves ends the call, and Drain ends the streams that are left.
func TestEventsEnd(t *testing.T) {
	ended := make(chan struct{}, 2)
	h := waiting(ended).serve(t)
	response, next := h.stream(t)
	next()
	next()
	require.NoError(t, response.Body.Close())
	<-ended
	_, next = h.stream(t)
	next()
	next()
	h.gateway.Drain()
	<-ended
	assert.Equal(t, "", next())
}

// A client that reads nothing holds no more than buffers, and ends when the write to it
// takes too long.
func TestSlowReader(t *testing.T) {
	ended := make(chan error, 1)
	big := statsEvent(1)
	big.GetStats().StateDigest = strings.Repeat("x", 32<<10)
	w := &watched{watch: func(_ *hindsightv1.WatchModelRequest, s grpc.ServerStreamingServer[hindsightv1.WatchModelResponse]) error {
		for {
			if err := s.Send(big); err != nil {
				ended <- err
				return err
			}
		}
	}}
	// The clock is behind by what a write may take, but for a moment.
	late := func() time.Time { return time.Now().Add(-29900 * time.Millisecond) }
	h := w.serve(t, func(o *gateway.Options) { o.Now = late })
	connection := h.dial(t)
	must(io.WriteString(connection, "GET /v1/models/m/events HTTP/1.1\r\nHost: x\r\n\r\n"))(t)
	err := <-ended
	assert.Equal(t, codes.Canceled, status.Code(err), err)
}

// Streams are bounded, and others go on while there are no places.
func TestStreamsAreBounded(t *testing.T) {
	ended := make(chan struct{}, gateway.MaxStreams)
	h := waiting(ended).serve(t)
	for range gateway.MaxStreams {
		_, next := h.stream(t)
		next()
	}
	a := h.call(t, "GET", "/v1/models/m/events", "")
	a.rejected(t, "one stream too many", 429, "RESOURCE_EXHAUSTED", "OVERLOADED", "", "200 streams")
	a = h.call(t, "GET", "/v1/models/m", "")
	assert.Equal(t, 501, a.status, "a call beside the streams")
}
