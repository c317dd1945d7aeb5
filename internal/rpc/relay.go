package rpc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
	"hindsight/internal/engine"
)

// stream answers a stream or forwards the whole stream. The first message names the model, and so the
// group.
func (f *forwarding) stream(service any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
	at := f.places[info.FullMethod]
	if at == anywhere || at == byMessage {
		return handle(service, stream)
	}
	read := &readStream{ServerStream: stream, first: f.messages[info.FullMethod].request.New().Interface()}
	read.err = stream.RecvMsg(read.first)
	g, _ := f.groups.of(read.first)
	switch {
	case at == here && (f.member || g.Engine != nil), at == atOwner && f.becomesOwner(stream.Context(), g):
		return f.named(g, handle(service, read))
	case f.member:
		return f.named(g, engine.ErrNotOwner)
	}
	return f.named(g, f.proxy(read, g, info, at == here))
}

// readStream is a stream whose first message is read.
type readStream struct {
	grpc.ServerStream
	// first is the message, nil after RecvMsg. err is the error of the read.
	first proto.Message
	err   error
}

// RecvMsg implements grpc.ServerStream.
func (s *readStream) RecvMsg(m any) error {
	first := s.first
	switch s.first = nil; {
	case first == nil:
		return s.ServerStream.RecvMsg(m)
	case s.err != nil:
		return s.err
	}
	return copyMessage(m, first)
}

// proxy passes the messages of a stream to the owner and back. A watch ends when this server drains.
func (f *forwarding) proxy(stream grpc.ServerStream, g Group, info *grpc.StreamServerInfo, watch bool) error {
	ctx, cancel := context.WithCancel(stream.Context())
	defer cancel() // This ends the stream to the owner.
	search, found := searching(ctx)
	conn, err := f.conn(search, g)
	found()
	if err != nil {
		return err
	}
	description := &grpc.StreamDesc{ServerStreams: info.IsServerStream, ClientStreams: info.IsClientStream}
	during, end := f.terms.during(ctx, g)
	defer end()
	if watch {
		f.receivers.Go(func() {
			select {
			case <-f.draining:
				cancel()
			case <-ctx.Done():
			}
		})
	}
	owner, err := conn.NewStream(f.outgoing(during, g), description, info.FullMethod)
	if err != nil {
		return f.judge(ctx, err, false)
	}
	types := f.messages[info.FullMethod]
	// RecvMsg returns only when the stream ends, so Drain waits for this goroutine.
	refused := make(chan error, 1)
	f.receivers.Go(func() {
		err := pass(stream.RecvMsg, owner.SendMsg, func() proto.Message { return types.request.New().Interface() })
		if err != nil {
			refused <- err
			cancel()
			return
		}
		_ = owner.CloseSend() // owner.RecvMsg returns the error of the stream.
	})
	// A caller may wait for the header before it sends further messages.
	if header, err := owner.Header(); err == nil && header != nil && info.IsClientStream {
		if err := stream.SendHeader(nil); err != nil {
			return fmt.Errorf("rpc: forward: %w", err)
		}
	}
	err = pass(owner.RecvMsg, stream.SendMsg, func() proto.Message { return types.answer.New().Interface() })
	select {
	case err = <-refused: // The caller's stream failed.
		return err
	case <-f.draining:
		if watch {
			return engine.ErrClosed
		}
		return f.judge(ctx, err, true)
	default:
		return f.judge(ctx, err, true)
	}
}

// pass receives messages and sends them on. It returns nil at the end of the messages. It also
// returns nil if send fails, because the other direction returns the error.
func pass(receive, send func(any) error, empty func() proto.Message) error {
	for {
		m := empty()
		if err := receive(m); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if err := send(m); err != nil {
			return nil //nolint:nilerr // See above.
		}
	}
}

// relays are the sessions with the owners of groups, by the number of the group.
type relays map[uint32]*relay

// end ends all relays.
func (r relays) end() {
	for _, one := range r {
		one.end()
	}
}

// relay is a session with the owner of a group, for the calls of a session that the owner must answer. One
// goroutine sends the calls, and another receives the answers in the same order.
type relay struct {
	grpc.BidiStreamingClient[hindsightv1.SessionRequest, hindsightv1.SessionResponse]
	forward *forwarding
	group   Group
	session context.Context //nolint:containedctx // The context of the caller's session.
	cancel  context.CancelFunc
	// broken: the owner has lost ownership, or does not answer.
	broken atomic.Bool
}

// relay opens a session with the owner of a group. The session ends with the context.
func (f *forwarding) relay(ctx, search context.Context, g Group) (*relay, error) {
	conn, err := f.conn(search, g)
	if err != nil {
		return nil, err
	}
	during, cancel := f.terms.during(ctx, g)
	stream, err := hindsightv1.NewPredictionServiceClient(conn).Session(f.outgoing(during, g))
	if err != nil {
		cancel()
		return nil, f.judge(ctx, err, false)
	}
	return &relay{BidiStreamingClient: stream, forward: f, group: g, session: ctx, cancel: cancel}, nil
}

// session sends a call of a session to the owner of a group, if the owner must answer it. It returns
// the relay that receives the answer, or nil if this server answers. If the group's relay is broken,
// session replaces it by a relay to the new owner.
func (f *forwarding) session(ctx context.Context, g Group, method string, call any, request *hindsightv1.SessionRequest, all relays) (*relay, error) {
	if f == nil {
		return nil, nil
	}
	ofOwner, err := f.ofOwner(ctx, g, method, call)
	switch {
	case err != nil || !ofOwner || f.becomesOwner(ctx, g):
		return nil, err
	case f.member:
		return nil, engine.ErrNotOwner
	}
	search, found := searching(ctx)
	defer found()
	to := all[g.Number]
	if to == nil {
		_ = grpc.SetHeader(ctx, forwardedBy(g)) // An error means that the session has answered before.
	}
	for pause := firstPause; to == nil || to.broken.Load(); pause = min(2*pause, longestPause) {
		relay, err := f.relay(ctx, search, g)
		if err != nil && (!notOwner(err) || !sleep(search, pause)) {
			return nil, err
		}
		if relay != nil {
			to = relay
			all[g.Number] = relay
		}
	}
	if to.Send(request) != nil {
		to.broken.Store(true) // receive returns the error.
	}
	return to, nil
}

// end ends the relay. The outcomes of calls without an answer are unknown.
func (r *relay) end() {
	r.broken.Store(true)
	r.cancel()
}

// receive returns the answer to the next call.
func (r *relay) receive() (*hindsightv1.SessionResponse, error) {
	response, err := r.Recv()
	switch {
	case errors.Is(err, io.EOF):
		err = engine.ErrClosed // A server that drains ends its sessions with EOF.
	case err != nil && r.broken.Load():
		err = fmt.Errorf("%w: the session with the owner has ended", engine.ErrUnknown)
	default:
		err = r.forward.judge(r.session, err, true)
	}
	if err != nil || notOwner(status.ErrorProto(response.GetError())) {
		r.end()
	}
	return response, err
}
