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
)

const (
	// The trailer of a call with the group of the model, if the server has forwarded the call to the owner.
	forwardedKey = "hindsight-forwarded"
	// A client remembers the groups of at most maxNames names.
	maxNames = 1 << 16
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

func (s *servers) Invoke(ctx context.Context, method string, request, answer any, options ...grpc.CallOption) error {
	model := ""
	if r, ok := request.(interface{ GetModel() string }); ok {
		model = r.GetModel()
	}
	to := s.place(model)
	var trailer metadata.MD
	err := s.conns[to.n].Invoke(ctx, method, request, answer, append(slices.Clip(options), grpc.Trailer(&trailer))...)
	if s.check(to, err); err == nil {
		s.forwarded(to, trailer)
	}
	return err
}

func (s *servers) NewStream(ctx context.Context, d *grpc.StreamDesc, method string, options ...grpc.CallOption) (grpc.ClientStream, error) {
	to := s.place("")
	stream, err := s.conns[to.n].NewStream(ctx, d, method, options...)
	if err != nil {
		s.check(to, err)
		return nil, err
	}
	return checkedStream{stream, s, to}, nil
}

type place struct {
	// name is the part of the model's name that chooses the group, empty if the call has no model. group is empty if
	// it is unknown.
	name, group string
	n           uint32
}

func (s *servers) place(model string) (to place) {
	if len(s.conns) == 1 {
		return to
	}
	to.name, _, _ = strings.Cut(model, ".")
	s.mu.Lock()
	defer s.mu.Unlock()
	to.group = s.groups[to.name]
	to.n = s.current[to.group]
	return to
}

// forwarded makes further calls of a group use the next connection, if the metadata of an answer says that the server
// has forwarded the call.
func (s *servers) forwarded(from place, answer metadata.MD) {
	group := answer[forwardedKey]
	if from.name == "" || len(group) != 1 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.groups) >= maxNames {
		clear(s.groups)
	}
	s.groups[from.name] = group[0]
	s.next(group[0], from.n)
}

// check makes further calls of a group use the next connection, after an error that another server may not have.
func (s *servers) check(from place, err error) {
	if len(s.conns) == 1 || err == nil || errors.Is(err, io.EOF) {
		return
	}
	if e := FromError(err); e != nil && e.elsewhere() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.next(from.group, from.n)
	}
}

// next makes calls of a group use the connection after connection n, unless another call has done so. The caller holds
// mu.
func (s *servers) next(group string, n uint32) {
	if at, known := s.current[group]; !known || at == n {
		s.current[group] = (n + 1) % uint32(len(s.conns))
	}
}

func (e *Error) elsewhere() bool { return e.Code == codes.Unavailable || e.timedOut() }

func (s *servers) ready() bool { return s.conns[s.place("").n].GetState() == connectivity.Ready }

func (s *servers) close() error {
	var errs []error
	for _, conn := range s.conns {
		errs = append(errs, conn.Close())
	}
	return errors.Join(errs...)
}

type checkedStream struct {
	grpc.ClientStream
	servers *servers
	at      place
}

func (s checkedStream) RecvMsg(m any) error {
	err := s.ClientStream.RecvMsg(m)
	s.servers.check(s.at, err)
	return err
}
