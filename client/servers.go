package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"
	"google.golang.org/grpc/status"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
)

const (
	// The group of the model, if the server has forwarded a call to its owner. It is in the trailer of
	// a call, and in the header of a session.
	forwardedKey = "hindsight-forwarded"
	// A client remembers the groups of at most mostNames names.
	mostNames = 1 << 16
)

// servers are connections to the servers of a cluster, or to one server. Connection n tries the
// addresses in order, from address n on, and uses the first server that answers. After a failure,
// and after a call that the server had to forward to the owner of a group, further calls use the
// next connection. So the calls of each group find its owner.
type servers struct {
	conns []*grpc.ClientConn

	mu sync.Mutex
	// groups has the group of each name, which the part before the first '.' chooses.
	groups map[string]string
	// current is the connection of each group. Group "" has the calls whose group is unknown.
	current map[string]uint32
}

// Addresses completes the addresses between commas; see Address.
func Addresses(address string) ([]string, error) {
	scheme, _, ok := strings.Cut(address, "://")
	if ok && !strings.Contains(scheme, ",") || !strings.Contains(address, ",") {
		target, err := Address(address)
		return []string{target}, err
	}
	var all []string
	for one := range strings.SplitSeq(address, ",") {
		target, err := Address(strings.TrimSpace(one))
		if err != nil {
			return nil, err
		}
		if _, _, err := net.SplitHostPort(target); err != nil || strings.Contains(target, "/") {
			return nil, fmt.Errorf("address %q: in a list, want HOST or HOST:PORT", one)
		}
		all = append(all, target)
	}
	return all, nil
}

// connect prepares the connections.
func connect(addresses []string, options []grpc.DialOption) (*servers, error) {
	s := &servers{groups: map[string]string{}, current: map[string]uint32{}}
	if len(addresses) == 1 {
		conn, err := grpc.NewClient(addresses[0], options...)
		s.conns = []*grpc.ClientConn{conn}
		return s, err
	}
	for n := range addresses {
		var list resolver.State
		for _, a := range append(slices.Clone(addresses[n:]), addresses[:n]...) {
			// The TLS certificate of each server is for its own address.
			list.Addresses = append(list.Addresses, resolver.Address{Addr: a, ServerName: a})
		}
		found := manual.NewBuilderWithScheme("hindsight")
		found.InitialState(list)
		conn, err := grpc.NewClient("hindsight:///"+addresses[n], append(slices.Clip(options), grpc.WithResolvers(found))...)
		if err != nil {
			return nil, errors.Join(err, s.close())
		}
		s.conns = append(s.conns, conn)
	}
	return s, nil
}

// Invoke implements grpc.ClientConnInterface.
func (s *servers) Invoke(ctx context.Context, method string, request, answer any, options ...grpc.CallOption) error {
	r, ok := request.(interface{ GetModel() string })
	if !ok || len(s.conns) == 1 {
		n := s.at("")
		err := s.conns[n].Invoke(ctx, method, request, answer, options...)
		s.judge("", n, err)
		return err
	}
	name, group := s.group(r.GetModel())
	n := s.at(group)
	var trailer metadata.MD
	err := s.conns[n].Invoke(ctx, method, request, answer, append(slices.Clip(options), grpc.Trailer(&trailer))...)
	if s.judge(group, n, err); err == nil && len(trailer[forwardedKey]) == 1 {
		s.forwarded(name, trailer[forwardedKey][0], n)
	}
	return err
}

// sessionOf is the key of a context with the model of a session.
type sessionOf struct{}

// NewStream implements grpc.ClientConnInterface.
func (s *servers) NewStream(ctx context.Context, d *grpc.StreamDesc, method string, options ...grpc.CallOption) (grpc.ClientStream, error) {
	model, _ := ctx.Value(sessionOf{}).(string)
	name, group := s.group(model)
	n := s.at(group)
	stream, err := s.conns[n].NewStream(ctx, d, method, options...)
	if err != nil {
		s.judge(group, n, err)
		return nil, err
	}
	return judgedStream{stream, s, name, group, n}, nil
}

// group returns the name that chooses the group of a model, and the group, empty if it is unknown.
func (s *servers) group(model string) (name, group string) {
	name, _, _ = strings.Cut(model, ".")
	s.mu.Lock()
	defer s.mu.Unlock()
	return name, s.groups[name]
}

// at returns the connection of a group.
func (s *servers) at(group string) uint32 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.current[group]
}

// forwarded makes further calls of a group use the next connection, after connection n has
// answered for the owner.
func (s *servers) forwarded(name, group string, n uint32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.groups) >= mostNames {
		clear(s.groups)
	}
	s.groups[name] = group
	if at, known := s.current[group]; !known || at == n {
		s.current[group] = (n + 1) % uint32(len(s.conns))
	}
}

// judge makes further calls of a group use the next connection after an error of connection n
// that another server may not have.
func (s *servers) judge(group string, n uint32, err error) {
	if len(s.conns) == 1 || err == nil || errors.Is(err, io.EOF) {
		return
	}
	if e := FromError(err); e != nil && e.elsewhere() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.current[group] == n {
			s.current[group] = (n + 1) % uint32(len(s.conns))
		}
	}
}

// elsewhere reports whether another server may answer the call.
func (e *Error) elsewhere() bool { return e.Code == codes.Unavailable || e.timedOut() }

// ready reports whether a server has answered the current connection.
func (s *servers) ready() bool {
	return s.conns[s.at("")].GetState() == connectivity.Ready
}

func (s *servers) close() error {
	var errs []error
	for _, conn := range s.conns {
		errs = append(errs, conn.Close())
	}
	return errors.Join(errs...)
}

// judgedStream passes the error that ends a stream to judge.
type judgedStream struct {
	grpc.ClientStream
	servers     *servers
	name, group string
	n           uint32
}

// RecvMsg implements grpc.ClientStream.
func (s judgedStream) RecvMsg(m any) error {
	err := s.ClientStream.RecvMsg(m)
	s.servers.judge(s.group, s.n, err)
	if r, ok := m.(*hindsightv1.SessionResponse); ok && err == nil && r.GetError() != nil {
		s.servers.judge(s.group, s.n, fromStatus(status.FromProto(r.GetError())))
	}
	return err
}

// Header implements grpc.ClientStream. It passes the group of a forwarded session to forwarded.
func (s judgedStream) Header() (metadata.MD, error) {
	header, err := s.ClientStream.Header()
	if group := header[forwardedKey]; len(group) == 1 {
		s.servers.forwarded(s.name, group[0], s.n)
	}
	return header, err
}
