package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"

	"hindsight/cmd/server/internal/config"
	"hindsight/internal/cluster"
	"hindsight/internal/engine"
	"hindsight/internal/engine/recovery"
	"hindsight/internal/metrics"
	"hindsight/internal/rpc"
	"hindsight/internal/store"
)

// membersInterval is the time between two requests to all members for their status.
const membersInterval = 5 * time.Second

// member is this server as a member of a cluster. A nil member is a server without a cluster.
type member struct {
	node *cluster.Node
	// cold: this server learns only while it is the owner.
	cold   bool
	log    *zap.Logger
	opened time.Time
	// reopening is true once a checkpoint has arrived, so that this server must open its store again.
	reopening atomic.Bool
	// states counts the members by state, as of the last request.
	states atomic.Pointer[map[string]int]
}

// openMember opens the store of the cluster, and the cluster port.
func (s *server) openMember(ctx context.Context, options store.Options) (*home, error) {
	c := s.config
	secure, err := clusterTLS(c)
	if err != nil {
		return nil, err
	}
	m := &member{cold: c.ClusterReplicas == config.ReplicasCold, log: s.log.Named("cluster"), opened: time.Now()}
	m.states.Store(&map[string]int{})
	m.node, err = cluster.Open(ctx, cluster.Options{
		Directory: c.DataDir, Store: options, Address: c.ClusterAddress, Join: c.Peers(), TLS: secure, Version: version,
		Dial: s.dial, Undone: recovery.Undone, Proposed: s.replicated.Proposed, Now: time.Now, Logger: m.log,
	})
	if err != nil {
		return nil, fmt.Errorf("open the store of the cluster: %w", err)
	}
	s.replicated.member.Store(m)
	return &home{disk: m.node.Local(), models: m.node.Store(), checkpoints: m.node, close: m.node.Close, member: m}, nil
}

// clusterTLS returns the configuration of connections among the servers, nil without TLS. Each connection reads the
// certificate from its file, so that an operator can renew it without a restart.
func clusterTLS(c config.Config) (*tls.Config, error) {
	if c.ClusterCert == "" {
		return nil, nil
	}
	text, err := os.ReadFile(filepath.Clean(c.ClusterCA))
	if err != nil {
		return nil, fmt.Errorf("cluster-ca: %w", err)
	}
	authority := x509.NewCertPool()
	if !authority.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("cluster-ca: %s has no certificate in PEM", c.ClusterCA)
	}
	own := func() (*tls.Certificate, error) {
		pair, err := tls.LoadX509KeyPair(c.ClusterCert, c.ClusterKey)
		if err != nil {
			return nil, fmt.Errorf("cluster-cert: %w", err)
		}
		return &pair, nil
	}
	if _, err := own(); err != nil {
		return nil, err
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS13, RootCAs: authority, ClientCAs: authority,
		GetCertificate:       func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return own() },
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return own() },
	}, nil
}

// replication returns the options of an engine over the store of the cluster.
func (m *member) replication() engine.Replication {
	if m == nil {
		return engine.Replication{}
	}
	return engine.Replication{Owner: m.node.Owns, Cold: m.cold, Digests: true, DigestMismatch: func(model string, sequence uint64) {
		m.log.Error("the state of a model differs from the owner's state: this server fetches the owner's store", zap.String("model", model), zap.Uint64("sequence", sequence))
		m.node.Repair()
	}}
}

// cluster returns the cluster as the gRPC server sees it, nil without a cluster.
func (m *member) cluster() rpc.Cluster {
	if m == nil {
		return nil
	}
	return servers{m.node}
}

// serve takes part in the cluster until the context ends.
func (m *member) serve(ctx context.Context, group *errgroup.Group, models *engine.Engine, server *rpc.Server) {
	if m == nil {
		return
	}
	m.node.Serve(models.Changed) //nolint:contextcheck // It serves until Close.
	group.Go(func() error { return server.ServeMembers(m.node.Listener()) })
	group.Go(func() error {
		select {
		case <-m.node.Restart():
			m.reopening.Store(true)
			return errOpenAgain
		case err := <-m.node.Failed():
			return fmt.Errorf("the cluster: %w", err)
		case <-ctx.Done():
			return nil
		}
	})
	group.Go(func() error {
		m.watchOwner(ctx, models)
		return nil
	})
	group.Go(func() error {
		m.watchMembers(ctx)
		return nil
	})
}

// lent returns a listener that stays open while this server opens its store again, so that new connections wait and
// do not fail.
func (m *member) lent(l net.Listener) net.Listener {
	tcp, ok := l.(*net.TCPListener)
	if m == nil || !ok {
		return l
	}
	_ = tcp.SetDeadline(time.Time{}) // Accept fails on a broken listener.
	return &lentListener{TCPListener: tcp, keep: &m.reopening}
}

type lentListener struct {
	*net.TCPListener
	keep *atomic.Bool
}

// Accept implements net.Listener.
func (l *lentListener) Accept() (net.Conn, error) {
	conn, err := l.TCPListener.Accept()
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = net.ErrClosed
	}
	return conn, err
}

// Close implements net.Listener.
func (l *lentListener) Close() error {
	if l.keep.Load() {
		return l.SetDeadline(time.Unix(1, 0)) // The deadline ends Accept.
	}
	return l.TCPListener.Close()
}

// watchOwner calls OwnerChanged of the engine for each new owner, and logs the owner.
func (m *member) watchOwner(ctx context.Context, models *engine.Engine) {
	known := ""
	for ctx.Err() == nil {
		turned := m.node.Turned()
		owner, _ := m.node.Owner()
		if owner.ID != known && owner.ID != "" {
			m.log.Info("the owner of the models", zap.String("owner", owner.ID), zap.String("address", owner.Address), zap.Bool("self", m.node.Owns()))
			known = owner.ID
		}
		models.OwnerChanged()
		select {
		case <-turned:
		case <-ctx.Done():
		}
	}
}

// watchMembers counts the members by their states.
func (m *member) watchMembers(ctx context.Context) {
	ticker := time.NewTicker(membersInterval)
	defer ticker.Stop()
	for {
		states := map[string]int{}
		for _, one := range m.node.Members(ctx) {
			switch {
			case one.Owner: // read counts the owner.
			case !one.Voter:
				states["joining"]++
			case one.Err != nil:
				states["missing"]++
			default:
				states["voter"]++
			}
		}
		m.states.Store(&states)
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}

// knowsOwner reports whether this server knows an owner, so that clients can make changes.
func (m *member) knowsOwner() bool {
	if m == nil {
		return true
	}
	_, known := m.node.Owner()
	return known
}

// drain hands ownership on.
func (m *member) drain(ctx context.Context) {
	if m == nil {
		return
	}
	if err := m.node.Drain(ctx); err != nil {
		m.log.Warn("this server could not hand ownership on: the other servers elect an owner", zap.Error(err))
	}
}

// replicated are the metrics of the cluster. Without a cluster Replication is nil.
type replicated struct {
	member atomic.Pointer[member]
	*metrics.Replication
}

// watch registers the metrics.
func (r *replicated) watch(instruments *metrics.Metrics) (err error) {
	r.Replication, err = instruments.Replication(rpc.ForwardResults(), r.read)
	return err
}

// forwarded returns the counter of forwarded calls by result, nil without a cluster.
func (r *replicated) forwarded() func(result string) {
	if r.Replication == nil {
		return nil
	}
	return r.Forwarded
}

// read returns the cluster as this server knows it.
func (r *replicated) read() metrics.Cluster {
	m := r.member.Load()
	if m == nil {
		return metrics.Cluster{}
	}
	s := m.node.Status()
	out := metrics.Cluster{Elections: s.Log.Elections, Owner: s.Owns, Members: maps.Clone(*m.states.Load()), Age: s.Age}
	if s.Owner.ID != "" {
		out.Members["owner"] = 1
	}
	out.Behind = max(s.Log.Committed, s.Log.Applied) - s.Log.Applied
	if s.Age == cluster.Unheard {
		out.Age = time.Since(m.opened)
	}
	return out
}

// Proposed counts a proposal of this server by its outcome.
func (r *replicated) Proposed(took time.Duration, err error) {
	switch {
	case err == nil:
		r.Committed(took)
	case errors.Is(err, engine.ErrNotOwner):
		r.Refused()
	default:
		r.Unknown()
	}
}

// servers adapts a node for package rpc.
type servers struct{ *cluster.Node }

// Owner implements rpc.Cluster.
func (s servers) Owner() (id, address string) {
	owner, _ := s.Node.Owner()
	return owner.ID, owner.Address
}

// Status implements rpc.Cluster.
func (s servers) Status(ctx context.Context) rpc.ClusterStatus {
	out := rpc.ClusterStatus{Server: s.Self().ID}
	out.Owner, _ = s.Owner()
	members := s.Members(ctx)
	newest := uint64(0)
	for n := range members {
		newest = max(newest, members[n].Applied)
	}
	for n := range members {
		m := &members[n]
		one := rpc.ClusterServer{
			ID: m.ID, Address: m.Address, Version: m.Version, Voter: m.Voter, Draining: m.Draining, Reachable: m.Err == nil,
			Applied: m.Applied, Behind: newest - m.Applied,
		}
		if m.Err == nil && m.Age != cluster.Unheard {
			one.Age = &m.Age
		}
		out.Servers = append(out.Servers, one)
	}
	slices.SortFunc(out.Servers, func(a, b rpc.ClusterServer) int { return strings.Compare(a.Address, b.Address) })
	return out
}

// Server implements rpc.Cluster.
func (s servers) Server(which string) (grpc.ClientConnInterface, error) {
	conn, err := s.ConnTo(which)
	return conn, translated(err)
}

// Move implements rpc.Cluster.
func (s servers) Move(ctx context.Context, to string) error { return translated(s.Node.Move(ctx, to)) }

// Remove implements rpc.Cluster.
func (s servers) Remove(ctx context.Context, which string) error {
	return translated(s.Node.Remove(ctx, which))
}

// translated wraps an error of package cluster in the corresponding error of package rpc.
func translated(err error) error {
	switch {
	case errors.Is(err, cluster.ErrNoMember):
		return fmt.Errorf("%w: %w", rpc.ErrServerNotFound, err)
	case errors.Is(err, cluster.ErrOwnerStays):
		return fmt.Errorf("%w: %w", rpc.ErrServerState, err)
	}
	return err
}
