package rpc

import (
	"errors"
	"io"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"hindsight/internal/engine"
)

// stream answers a stream or forwards the whole stream. The first message names the model, and so the
// group.
func (f *forwarding) stream(service any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
	at := f.placeOf(info.FullMethod)
	if at == anywhere {
		return handle(service, stream)
	}
	read := &readStream{ServerStream: stream, first: f.rules[info.FullMethod].request.New().Interface()}
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

// proxy passes the messages of a stream to the owner, and then the owner's messages back: no call answers before it has
// received its last request. A watch ends when this server drains.
func (f *forwarding) proxy(stream grpc.ServerStream, g Group, info *grpc.StreamServerInfo, watch bool) error {
	ctx := stream.Context()
	var draining chan struct{}
	if watch {
		draining = f.draining
	}
	search, found := searching(ctx)
	conn, called, err := f.conn(search, g)
	found()
	if err != nil {
		return err
	}
	during, end := f.underOwner(ctx, g, called, draining)
	defer end() // This ends the stream to the owner.
	description := &grpc.StreamDesc{ServerStreams: info.IsServerStream, ClientStreams: info.IsClientStream}
	owner, err := conn.NewStream(f.outgoing(during, g), description, info.FullMethod)
	if err != nil {
		return f.translate(ctx, err, false)
	}
	types := f.rules[info.FullMethod]
	if err := passRequests(stream, owner, types.request, info.IsClientStream); err != nil {
		return err
	}
	for {
		m := types.answer.New().Interface()
		if err := owner.RecvMsg(m); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			select {
			case <-draining:
				return engine.ErrClosed
			default:
				return f.translate(ctx, err, true)
			}
		}
		if err := stream.SendMsg(m); err != nil {
			return err
		}
	}
}

// passRequests passes the caller's messages to the owner, of several all but the first once the owner has sent its header, as the
// caller may wait for it too. It returns an error of the caller's stream. An error of the owner ends it, and RecvMsg
// returns the error.
func passRequests(stream grpc.ServerStream, owner grpc.ClientStream, request protoreflect.MessageType, several bool) error {
	for first := true; ; first = false {
		m := request.New().Interface()
		if err := stream.RecvMsg(m); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return err
		}
		if owner.SendMsg(m) != nil {
			break
		}
		if first && several {
			if header, err := owner.Header(); err != nil || header == nil { // The owner has rejected the call.
				break
			}
			if err := stream.SendHeader(nil); err != nil {
				return err
			}
		}
	}
	_ = owner.CloseSend()
	return nil //nolint:nilerr // RecvMsg returns the error of Header.
}
