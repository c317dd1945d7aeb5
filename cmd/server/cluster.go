package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
	"hindsight/cmd/server/internal/config"
	"hindsight/internal/auth"
	"hindsight/internal/cluster"
	"hindsight/internal/engine"
	"hindsight/internal/engine/recovery"
	"hindsight/internal/metrics"
	"hindsight/internal/rpc"
)

const membersInterval = 5 * time.Second

// The log names another server whose clock differs by more than clockOffset.
const clockOffset = time.Second

func (s *server) openHost(ctx context.Context, transfers *auth.Budget) (*cluster.Host, error) {
	c := s.config
	secure, err := clusterTLS(c)
	if err != nil {
		return nil, err
	}
	host, err := cluster.OpenHost(ctx, cluster.Options{
		Directory: c.DataDir, Store: s.storeOptions(), Groups: c.ClusterGroups, Address: c.ClusterAddress, Join: c.Peers(), TLS: secure, Version: version,
		Dial: s.dial, Undone: recovery.Undone, Held: transfers.Hold, Now: time.Now, Logger: s.log.Named("cluster"),
	})
	if err != nil {
		return nil, fmt.Errorf("open the cluster port: %w", err)
	}
	return host, nil
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
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("cluster-ca: %s has no certificate in PEM", c.ClusterCA)
	}
	certificate := func() (*tls.Certificate, error) {
		pair, err := tls.LoadX509KeyPair(c.ClusterCert, c.ClusterKey)
		if err != nil {
			return nil, fmt.Errorf("cluster-cert: %w", err)
		}
		return &pair, nil
	}
	if _, err := certificate(); err != nil {
		return nil, err
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS13, RootCAs: pool, ClientCAs: pool,
		GetCertificate:       func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return certificate() },
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return certificate() },
	}, nil
}

// runNode serves this server's part of a group until the context ends, or the node must be opened again.
func (s *server) runNode(ctx context.Context, g *groups, n *cluster.Node, server *rpc.Server) error {
	log := s.log.Named("cluster").With(zap.Uint32("group", n.Number()))
	return s.runGroup(ctx, g, &part{
		number: n.Number(), disk: n.Local(), models: n.Store(), checkpoints: n,
		replication: engine.Replication{Owner: n.Owns, Cold: s.config.ClusterStandby == config.StandbyCold, Compare: n.Compare, Lost: n.Lost},
		serve: func(ctx context.Context, models *engine.Engine) error {
			n.Serve(models.Changed, models.Digest)
			ctx, stop := context.WithCancel(ctx)
			var watching sync.WaitGroup
			watching.Go(func() { watchOwner(ctx, log, n, models) })
			defer watching.Wait()
			defer stop()
			select {
			case <-n.Restart():
			case err := <-n.Failed():
				return fmt.Errorf("the cluster: %w", err)
			case <-ctx.Done():
			}
			return nil
		},
	}, server)
}

func watchOwner(ctx context.Context, log *zap.Logger, n *cluster.Node, models *engine.Engine) {
	known := ""
	for ctx.Err() == nil {
		turned := n.Turned()
		owner, _ := n.Owner()
		if owner.ID != known && owner.ID != "" {
			log.Info("the owner of the models", zap.String("owner", owner.ID), zap.String("address", owner.Address), zap.Bool("self", n.Owns()))
			known = owner.ID
		}
		models.OwnerChanged()
		select {
		case <-turned:
		case <-ctx.Done():
		}
	}
}

func (r *replicated) watchMembers(ctx context.Context) {
	ticker := time.NewTicker(membersInterval)
	defer ticker.Stop()
	far := map[string]bool{} // The servers whose clocks the log has named.
	for {
		seen := &metrics.Cluster{Members: map[string]int{}}
		if n := r.groups.Load().host.Group(0).Node(); n != nil {
			for _, one := range n.Members(ctx) {
				seen.Offset = max(seen.Offset, one.Offset.Abs())
				if is := one.Offset.Abs() > clockOffset; is != far[one.Address] && one.Err == nil {
					if far[one.Address] = is; is {
						r.groups.Load().log.Warn("the clock of another server differs from the clock of this server: the owner's clock decides what expires",
							zap.String("server", one.Address), zap.Duration("ahead", one.Offset))
					}
				}
				switch {
				case one.Owner: // read counts the owner.
				case one.Err != nil:
					seen.Members["missing"]++
				case !one.Voter:
					seen.Members["joining"]++
				default:
					seen.Members["voter"]++
				}
			}
		}
		r.seen.Store(seen)
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}

// takesPart returns why this server cannot take part in the cluster, nil if it can: other servers connect to its cluster
// port, it knows the owner of each of its groups, so that clients can make changes, and it has its vote in group 0.
// Once all servers are ready, a cluster of one group survives the loss of one. A server that a rebalance gives another
// group stays ready.
func (g *groups) takesPart() error {
	if g.host == nil {
		return nil
	}
	if err := g.host.Accepts(); err != nil {
		return fmt.Errorf("other servers cannot connect to this server: %w", err)
	}
	for n := range g.all {
		group := g.host.Group(uint32(n))
		if node := group.Node(); node != nil && node.Held() != nil {
			return fmt.Errorf("this server applies no changes: %w", node.Held())
		}
		if _, known := group.Owner(); !known && (n == 0 || group.Node() != nil) {
			return errors.New("this server knows no owner of the cluster")
		}
	}
	if node := g.host.Group(0).Node(); node != nil && node.Joins() {
		return errors.New("this server joins the cluster, and has no vote yet")
	}
	return nil
}

func (g *groups) drain(ctx context.Context) {
	if g.host == nil {
		return
	}
	if err := g.host.Drain(ctx); err != nil {
		g.log.Warn("this server could not hand ownership on: the other servers elect an owner", zap.Error(err))
	}
}

type replicated struct {
	groups  atomic.Pointer[groups]
	started time.Time
	// seen has the servers by state and the largest difference of clocks, as of the last request.
	seen atomic.Pointer[metrics.Cluster]
}

// read returns the cluster as this server knows it: of several groups the largest age.
func (r *replicated) read() metrics.Cluster {
	out := metrics.Cluster{Members: map[string]int{}}
	g := r.groups.Load()
	if g == nil {
		return out
	}
	if seen := r.seen.Load(); seen != nil {
		out.Members, out.Offset = maps.Clone(seen.Members), seen.Offset
	}
	for n := range g.all {
		group := g.host.Group(uint32(n))
		node := group.Node()
		if node == nil {
			continue
		}
		s := node.Status()
		if n == 0 && s.Owner.ID != "" {
			out.Members["owner"] = 1
		}
		age := s.Age
		if age == cluster.Unheard {
			age = time.Since(r.started)
		}
		out.Behind = max(out.Behind, max(s.Log.Committed, s.Log.Applied)-s.Log.Applied)
		out.Age = max(out.Age, age)
	}
	return out
}

type servers struct {
	*cluster.Group
	host *cluster.Host
}

func (s servers) Owner() (id, address string) {
	owner, _ := s.Group.Owner()
	return cmp.Or(owner.ID, owner.Address), owner.Address
}

func (s servers) Status(ctx context.Context) *hindsightv1.GetClusterResponse {
	out := new(hindsightv1.GetClusterResponse)
	out.Owner, _ = s.Owner()
	n := s.Node()
	if n == nil {
		return out
	}
	out.Server = n.Self().ID
	members := n.Members(ctx)
	newest := uint64(0)
	for n := range members {
		newest = max(newest, members[n].Applied)
	}
	for n := range members {
		m := &members[n]
		one := &hindsightv1.Server{
			Server: m.ID, Address: m.Address, Version: m.Version, Draining: m.Draining, Reachable: m.Err == nil,
			State: hindsightv1.Server_STATE_JOINING,
		}
		switch {
		case m.ID == out.GetOwner():
			one.State = hindsightv1.Server_STATE_OWNER
		case m.Voter:
			one.State = hindsightv1.Server_STATE_VOTER
		}
		if m.Err == nil {
			behind := newest - m.Applied
			one.Applied, one.Behind = &m.Applied, &behind
			if m.Age != cluster.Unheard {
				one.Age = durationpb.New(m.Age)
			}
		}
		out.Servers = append(out.Servers, one)
	}
	slices.SortFunc(out.GetServers(), func(a, b *hindsightv1.Server) int { return strings.Compare(a.GetAddress(), b.GetAddress()) })
	return out
}

func (s servers) Server(which string) (grpc.ClientConnInterface, error) {
	conn, err := s.host.ConnTo(which)
	return conn, translated(err)
}

func (s servers) Move(ctx context.Context, to string) error {
	n, err := s.owned()
	if err == nil {
		err = translated(n.Move(ctx, to))
	}
	return err
}

func (s servers) Remove(ctx context.Context, which string) error {
	n, err := s.owned()
	if err == nil {
		err = s.host.MayLeave(ctx, which)
	}
	if err == nil {
		err = n.Remove(ctx, which)
	}
	return translated(err)
}

// owned returns the node of the group, which is here only if this server can own the group.
func (s servers) owned() (*cluster.Node, error) {
	if n := s.Node(); n != nil {
		return n, nil
	}
	return nil, engine.ErrNotOwner
}

func (s servers) Drain(ctx context.Context) error { return s.host.Drain(ctx) }

func translated(err error) error {
	switch {
	case errors.Is(err, cluster.ErrNoMember):
		return fmt.Errorf("%w: %w", rpc.ErrServerNotFound, err)
	case errors.Is(err, cluster.ErrOwnerStays), errors.Is(err, cluster.ErrHasGroups), errors.Is(err, cluster.ErrNotReachable):
		return fmt.Errorf("%w: %w", rpc.ErrServerState, err)
	}
	return err
}
