package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"go.uber.org/zap"

	"hindsight/cmd/server/internal/certificates"
	"hindsight/cmd/server/internal/config"
	"hindsight/internal/auth"
	"hindsight/internal/cluster"
	"hindsight/internal/engine"
	"hindsight/internal/engine/recovery"
	"hindsight/internal/rpc"
)

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
	pool, err := certificates.ParseCAs(string(text))
	if err != nil {
		return nil, fmt.Errorf("cluster-ca: %s: %w", c.ClusterCA, err)
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
