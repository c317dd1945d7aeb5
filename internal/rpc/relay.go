package rpc

import (
	"context"
	"errors"
	"fmt"
	"io"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"hindsight/internal/engine"
)

// stream answers a stream or forwards the whole stream. The first message names the model, and so the
// group.
func (f *forwarding) stream(service any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
	at := f.placeOf(info.FullMethod)
	if at == anywhere {
		return handle(service, stream)
	}
	read := &readStream{ServerStream: stream, first: f.messages[info.FullMethod].request.New().Interface()}
	read.err = stream.RecvMsg(read.first)
	g, _ := f.groups.of(read.first)
	switch {
	case at == here && g.Engine != nil, at == atOwner && f.becomesOwner(stream.Context(), g):
		return f.named(g, handle(service, read))
	case f.member:
		return f.named(g, engine.ErrNotOwner)
	}
	return f.named(g, f.proxy(read, g, info, at == here))
}

type readStream struct {
	grpc.ServerStream
	// first is the message, nil after RecvMsg. err is the error of the read.
	first proto.Message
	err   error
}

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
	during, end := f.during(ctx, g)
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
		return f.translate(ctx, err, false)
	}
	types := f.messages[info.FullMethod]
	// RecvMsg returns only when the stream ends, so Drain waits for this goroutine.
	rejected := make(chan error, 1)
	f.receivers.Go(func() {
		err := pass(stream.RecvMsg, owner.SendMsg, func() proto.Message { return types.request.New().Interface() })
		if err != nil {
			rejected <- err
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
	case err = <-rejected: // The caller's stream failed.
		return err
	case <-f.draining:
		if watch {
			return engine.ErrClosed
		}
		return f.translate(ctx, err, true)
	default:
		return f.translate(ctx, err, true)
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
