package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"hindsight/cmd/server/internal/backup"
	"hindsight/internal/cluster"
	"hindsight/internal/engine"
	"hindsight/internal/engine/figures"
	"hindsight/internal/engine/storage"
	"hindsight/internal/rpc"
	"hindsight/internal/store"
)

// groups are the groups of models of this server. A server without a cluster has group 0 alone. It implements rpc.Groups.
type groups struct {
	// host is nil without a cluster.
	host *cluster.Host
	log  *zap.Logger
	// all are the groups by number, with group 0. open is what this server has of each, nil while it has nothing.
	all  []rpc.Group
	open []atomic.Pointer[opened]
	// tallies count the scheduled backups of the groups.
	tallies []tally
	// first closes once group 0 is open.
	first chan struct{}
	once  sync.Once
}

// opened is what this server has open of a group.
type opened struct {
	disk    *store.Store
	models  *engine.Engine
	control *control
}

func newGroups(host *cluster.Host, log *zap.Logger) *groups {
	g := &groups{host: host, log: log, all: []rpc.Group{{}}, first: make(chan struct{})}
	if host != nil {
		g.all[0].Cluster = servers{host.Group(0), host}
		for n := uint32(1); host.Group(n) != nil; n++ {
			g.all = append(g.all, rpc.Group{Number: n, Cluster: servers{host.Group(n), host}})
		}
	}
	g.open, g.tallies = make([]atomic.Pointer[opened], len(g.all)), make([]tally, len(g.all))
	return g
}

func (g *groups) number(n uint32) rpc.Group {
	out := g.all[n]
	if o := g.open[n].Load(); o != nil && !o.models.RestsCold() { // The owner of a cold group answers all calls.
		out.Engine = o.models
	}
	return out
}

func (g *groups) Of(name string) rpc.Group {
	if len(g.all) == 1 {
		return g.number(0)
	}
	return g.number(g.host.Of(name).Number())
}

func (g *groups) All() []rpc.Group {
	var out []rpc.Group
	for n := range g.all {
		if n > 0 || len(g.all) == 1 {
			out = append(out, g.number(uint32(n)))
		}
	}
	return out
}

func (g *groups) Numbered(n uint32) (rpc.Group, bool) {
	if int(n) >= len(g.all) {
		return rpc.Group{}, false
	}
	return g.number(n), true
}

func (g *groups) Rebalance(ctx context.Context, leaving []string) (step string, left int, err error) {
	if g.host == nil {
		return "", 0, rpc.ErrNoCluster
	}
	move, left, err := g.host.Rebalance(ctx, leaving)
	if move.Group > 0 {
		parts := []string{fmt.Sprintf("group %d:", move.Group)}
		for _, part := range []struct{ server, does string }{{move.Add, "joins"}, {move.Owner, "owns"}, {move.Remove, "leaves"}} {
			if part.server != "" {
				parts = append(parts, part.server, part.does)
			}
		}
		step = strings.Join(parts, " ")
	}
	return step, left, apiError(err)
}

func (g *groups) hosted() []*opened {
	var out []*opened
	for n := range g.open {
		if o := g.open[n].Load(); o != nil {
			out = append(out, o)
		}
	}
	return out
}

func (g *groups) Each(yield func(*figures.Live)) {
	for _, o := range g.hosted() {
		o.models.Each(yield)
	}
}

func (g *groups) totals() (out []engine.Totals) {
	for _, o := range g.hosted() {
		out = append(out, o.models.Totals())
	}
	return out
}

func (g *groups) disks() (out []store.Metrics) {
	for _, o := range g.hosted() {
		out = append(out, o.disk.Metrics())
	}
	return out
}

// answers fails if an engine is closed or cannot lock its table of models.
func (g *groups) answers() error {
	for _, o := range g.hosted() {
		// Resolve takes the lock of the table. No model has an empty name.
		if _, err := o.models.Resolve(""); errors.Is(err, engine.ErrClosed) {
			return fmt.Errorf("the engine: %w", err)
		}
	}
	return nil
}

// run opens the groups of this server, and works until the context ends.
func (s *server) run(ctx context.Context, g *groups, server *rpc.Server) error {
	if g.host != nil {
		return g.host.Run(ctx, func(ctx context.Context, n *cluster.Node) error { return s.runNode(ctx, g, n, server) })
	}
	disk, err := store.Open(s.config.DataDir, s.storeOptions()) //nolint:contextcheck // A directory is opened whole or not at all.
	if err != nil {
		return fmt.Errorf("open the store: %w", err)
	}
	err = s.runGroup(ctx, g, &part{disk: disk, models: disk, checkpoints: disk, serve: func(ctx context.Context, _ *engine.Engine) error {
		<-ctx.Done()
		return nil
	}}, server)
	closing(&err, "close the store", disk.Close)
	return err
}

// part is a group as runGroup opens it: alone on the disk, or replicated by a node of the cluster.
type part struct {
	number      uint32
	disk        *store.Store
	models      storage.Store // Commits to the disk, in a cluster by its log.
	checkpoints checkpointer
	replication engine.Replication
	// serve works beside the open engine until the context ends.
	serve func(ctx context.Context, models *engine.Engine) error
}

// runGroup opens the models of a group, takes its backups, and works until the context or p.serve ends.
func (s *server) runGroup(ctx context.Context, g *groups, p *part, server *rpc.Server) (err error) {
	log := s.log
	if p.number > 0 {
		log = log.With(zap.Uint32("group", p.number))
	}
	checkpoints := newControl(p.checkpoints, log.Named("control"))
	defer checkpoints.end()
	if len(g.all) == 1 || p.number > 0 { // Otherwise the group has no models.
		checkpoints.owns = p.replication.Owner
		group := backup.Group{}
		if p.number > 0 {
			group = backup.Group{Number: p.number, Of: len(g.all) - 1}
		}
		backups, err := openSchedule(s.config, group, p.replication.Owner, &g.tallies[p.number], checkpoints, log.Named("backup"))
		if err != nil {
			return err
		}
		endBackups := backups.start(ctx)
		defer endBackups(ctx) // After the engine's last snapshots.
	}
	options := engineOptions(s.config, log, p.models, s.instruments)
	options.Check = s.check
	options.Replication = p.replication
	models, err := engine.Open(ctx, options)
	if err != nil {
		return fmt.Errorf("open the models: %w", err)
	}
	defer closing(&err, "shut down", models.Close)
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	work, ctx := errgroup.WithContext(ctx)
	checkpoints.serving = ctx
	g.open[p.number].Store(&opened{p.disk, models, checkpoints})
	defer g.open[p.number].Store(nil)
	g.once.Do(func() { close(g.first) })
	work.Go(func() error { return s.watchDisk(ctx, p.disk, server) })
	work.Go(func() error {
		defer stop()
		return p.serve(ctx, models)
	})
	return work.Wait()
}
