package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
	"hindsight/client"
	"hindsight/cmd/client/internal/stream"
	"hindsight/cmd/internal/child"
	"hindsight/cmd/internal/command"
)

const (
	// One try of a call. A server that finds no owner answers before.
	demoTry = 2 * time.Second
	// The killed server is started again so long after another one has acknowledged.
	demoDown  = 2 * time.Second
	demoStart = 20 * time.Second
	demoStop  = 10 * time.Second
	// How long the servers may take until they have learned the same.
	demoAgree = 15 * time.Second
	demoPoll  = 20 * time.Millisecond
	demoChunk = 500
)

// clusterSummary is the answer of "demo --servers". Lost are acknowledged observations that the
// cluster does not have at their sequence. Digests are those of the state of each server.
type clusterSummary struct {
	Acknowledged int      `json:"acknowledged"`
	Lost         int      `json:"lost"`
	LearnedTwice int      `json:"learned_twice"`
	GapMS        int64    `json:"gap_ms"`
	DigestsEqual bool     `json:"digests_equal"`
	KilledAt     int      `json:"killed_at_round"`
	Owner        string   `json:"owner"`
	NextOwner    string   `json:"next_owner"`
	Retries      int      `json:"retries"`
	Digests      []string `json:"digests"`

	skill, regret []float64
}

// demoServer is one server of the cluster. Its addresses stay when it is started again.
type demoServer struct {
	name, cluster string
	args          []string
	running       *child.Server // nil after it was killed
	client        *client.Client
}

// demoCluster is the cluster, and what was acknowledged by it.
type demoCluster struct {
	*clusterSummary

	program string
	servers []*demoServer
	turn    int
	sent    []client.Observation
	learned []uint64 // their sequences
	killed  time.Time
	owner   *demoServer // the one that was killed
	again   chan error  // how its second start went
}

// runCluster runs the demo of a cluster within its time limit.
func (d *demo) runCluster(ctx context.Context, e *env) (err error) {
	whole, cancel := context.WithTimeout(ctx, demoWhole)
	defer cancel()
	dir, err := os.MkdirTemp("", "hindsight-")
	if err != nil {
		return fmt.Errorf("directory of the servers: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	c := &demoCluster{clusterSummary: &clusterSummary{}, program: d.server}
	defer func() { err = errors.Join(err, c.stop(context.WithoutCancel(ctx))) }()
	if err := c.prepare(whole, dir, d.servers); err != nil {
		return err
	}
	e.Say("starting %d servers of %s: the first ones wait for the others", d.servers, d.server)
	if err := c.each(func(s *demoServer) error { return c.launch(whole, s) }); err != nil {
		return err
	}
	for _, s := range c.servers {
		e.Say("the page of %s, which moves now: http://%s/", s.name, s.running.HTTP)
	}
	if err := d.streamThrough(whole, e, c); err != nil {
		return err
	}
	if err := c.account(whole, e); err != nil {
		return err
	}
	return e.EmitLine(c.clusterSummary, func(w *command.Page) { c.write(w, e.width()) })
}

// prepare chooses free addresses, all at once, so that no two are the same.
func (c *demoCluster) prepare(ctx context.Context, dir string, servers int) error {
	var failed error
	free := make([]string, 2*servers)
	for n := range free {
		l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
		if err != nil {
			return fmt.Errorf("find free ports: %w", err)
		}
		defer func() { failed = errors.Join(failed, l.Close()) }()
		free[n] = l.Addr().String()
	}
	for n, cluster := range free[servers:] {
		name := "server " + strconv.Itoa(n+1)
		connection, err := dialChild(free[n], demoTry)
		if err != nil {
			return err
		}
		c.servers = append(c.servers, &demoServer{name: name, client: connection, cluster: cluster, args: []string{
			"--grpc-address", free[n], "--http-address", "127.0.0.1:0", "--cluster-address", cluster, "--cluster-join", strings.Join(free[servers:], ","),
			"--data-dir", filepath.Join(dir, strconv.Itoa(n+1)), "--log-format", "json", "--log-level", "info",
		}})
	}
	return failed
}

// each does something with all servers at the same time.
func (c *demoCluster) each(do func(*demoServer) error) error {
	failed := make([]error, len(c.servers))
	var all sync.WaitGroup
	for n, s := range c.servers {
		all.Go(func() { failed[n] = do(s) })
	}
	all.Wait()
	return errors.Join(failed...)
}

func (c *demoCluster) launch(ctx context.Context, s *demoServer) (err error) {
	ctx, cancel := context.WithTimeout(ctx, demoStart)
	defer cancel()
	s.running, err = child.Start(ctx, c.program, s.args...)
	return err
}

// stop ends what runs.
func (c *demoCluster) stop(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, demoStop)
	defer cancel()
	if c.again != nil {
		<-c.again // An error was reported.
	}
	return c.each(func(s *demoServer) error {
		err := s.client.Close()
		if s.running != nil {
			err = errors.Join(err, s.running.Stop(ctx))
		}
		return err
	})
}

// call makes a call at the servers in turn, until one answers. Every try is the same call: its id
// makes it one observation.
func (c *demoCluster) call(ctx context.Context, do func(*client.Model) error) error {
	for {
		c.turn++
		err := do(c.servers[c.turn%len(c.servers)].client.Model(demoModel))
		if err == nil || ctx.Err() != nil || !errors.Is(err, client.ErrUnavailable) && !errors.Is(err, context.DeadlineExceeded) {
			return err
		}
		c.Retries++
		if !paused(ctx, demoPoll) {
			return err
		}
	}
}

// paused waits. It returns false if ctx ends before.
func paused(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// view is the cluster as the first server that answers knows it.
func (c *demoCluster) view(ctx context.Context) *demoServer {
	for _, s := range c.servers {
		r, err := s.client.Cluster().GetCluster(ctx, &hindsightv1.GetClusterRequest{})
		if err != nil {
			continue
		}
		for _, m := range r.GetServers() {
			i := slices.IndexFunc(c.servers, func(s *demoServer) bool { return s.cluster == m.GetAddress() })
			if m.GetServer() == r.GetOwner() && i >= 0 && c.servers[i] != c.owner {
				return c.servers[i]
			}
		}
	}
	return nil
}

// streamThrough takes the stream through the cluster, and kills the owner on the way.
func (d *demo) streamThrough(ctx context.Context, e *env, c *demoCluster) error {
	source, err := stream.New(stream.Drifting, d.rounds, demoDimension, d.seed)
	if err != nil {
		return err
	}
	err = c.call(ctx, func(m *client.Model) error {
		_, err := m.Create(ctx, &hindsightv1.ModelSpec{Dimension: demoDimension})
		if errors.Is(err, client.ErrModelExists) { // An earlier try made it.
			return nil
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("create %s: %w", demoModel, err)
	}
	begin := time.Now()
	for t := 0; time.Since(begin) < d.limit; t++ {
		round, err := source.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil && time.Since(begin) > d.limit/3 && c.owner == nil {
			err = c.kill(ctx, e)
		}
		if err == nil {
			err = c.round(ctx, e, round)
		}
		if err != nil {
			return fmt.Errorf("round %d: %w", t+1, err)
		}
		if !paused(ctx, time.Until(begin.Add(time.Duration(t+1)*d.limit/time.Duration(d.rounds)))) {
			return ctx.Err()
		}
	}
	return nil
}

// kill kills the owner.
func (c *demoCluster) kill(ctx context.Context, e *env) error {
	for c.owner = c.view(ctx); c.owner == nil; c.owner = c.view(ctx) {
		if !paused(ctx, demoPoll) {
			return ctx.Err()
		}
	}
	c.KilledAt, c.Owner, c.killed = len(c.sent), c.owner.name, time.Now()
	c.owner.running.Kill()
	c.owner.running = nil
	e.Say("round %d: %s, the owner, is killed with SIGKILL", c.KilledAt, c.Owner)
	return nil
}

// round predicts and learns one round.
func (c *demoCluster) round(ctx context.Context, e *env, r stream.Round) error {
	drawn, err := uuid.NewV7()
	if err != nil {
		return err
	}
	id, input := drawn.String(), client.Features(r.Features...)
	var predicted *hindsightv1.Prediction
	err = c.call(ctx, func(m *client.Model) (err error) {
		predicted, err = m.Predict(ctx, input, client.PredictionID(id))
		return err
	})
	if err != nil {
		return fmt.Errorf("predict: %w", err)
	}
	o := client.Observation{Prediction: id, Input: input, Target: client.Labels(r.Labels([]float64{predicted.GetValue()})...)}
	var outcome *hindsightv1.Outcome
	err = c.call(ctx, func(m *client.Model) (err error) {
		outcome, err = m.Observe(ctx, o)
		return err
	})
	if err != nil {
		return fmt.Errorf("observe: %w", err)
	}
	c.sent, c.learned = append(c.sent, client.Observation{ID: id, Input: input, Target: o.Target}), append(c.learned, outcome.GetSequence())
	skill := math.NaN()
	if len(c.sent) > demoFew {
		skill = known(outcome.RecentSkill)
	}
	c.skill, c.regret = append(c.skill, skill), append(c.regret, known(outcome.Regret))
	if c.owner != nil && c.NextOwner == "" {
		c.failedOver(ctx, e)
	}
	return nil
}

// failedOver follows the first acknowledgement after the kill. The killed server comes back.
func (c *demoCluster) failedOver(ctx context.Context, e *env) {
	c.GapMS = time.Since(c.killed).Milliseconds()
	c.NextOwner = "unknown"
	if next := c.view(ctx); next != nil {
		c.NextOwner = next.name
	}
	e.Say("%d ms later %s has acknowledged an observation; %s starts again", c.GapMS, c.NextOwner, c.Owner)
	c.again = make(chan error, 1)
	go func() { // stop joins it.
		defer close(c.again)
		if paused(ctx, demoDown) {
			c.again <- c.launch(ctx, c.owner)
		}
	}()
}

// account waits until all servers have learned the same, and asks for every observation again.
func (c *demoCluster) account(ctx context.Context, e *env) error {
	c.Acknowledged = len(c.sent)
	if c.again == nil {
		return errors.New("the stream has ended before the owner was killed")
	}
	if err := <-c.again; err != nil {
		return fmt.Errorf("start %s again: %w", c.Owner, err)
	}
	observations := c.agree(ctx)
	e.Say("asking for each of %d observations again", len(c.sent))
	distinct := map[uint64]bool{}
	for from := 0; from < len(c.sent); from += demoChunk {
		to := min(from+demoChunk, len(c.sent))
		var outcomes []*hindsightv1.Outcome
		err := c.call(ctx, func(m *client.Model) (err error) {
			outcomes, err = m.ObserveBatch(ctx, c.sent[from:to])
			return err
		})
		if err != nil {
			return fmt.Errorf("ask again: %w", err)
		}
		for n, o := range outcomes {
			if !o.GetDuplicate() || o.GetSequence() != c.learned[from+n] || distinct[o.GetSequence()] {
				c.Lost++
			}
			distinct[o.GetSequence()] = true
		}
	}
	c.LearnedTwice = max(0, observations+c.Lost-len(c.sent))
	return nil
}

// agree waits until the servers have the same state, and returns how many observations it has.
func (c *demoCluster) agree(ctx context.Context) (observations int) {
	ctx, cancel := context.WithTimeout(ctx, demoAgree)
	defer cancel()
	for !c.DigestsEqual {
		c.Digests, c.DigestsEqual = nil, true
		for _, s := range c.servers {
			stats, err := s.client.Model(demoModel).Stats(ctx, nil)
			c.Digests = append(c.Digests, stats.GetStateDigest())
			observations = max(observations, int(stats.GetObservations()))
			c.DigestsEqual = c.DigestsEqual && err == nil && c.Digests[0] == stats.GetStateDigest()
		}
		c.DigestsEqual = c.DigestsEqual && observations >= len(c.sent)
		if !c.DigestsEqual && !paused(ctx, demoPoll) {
			break
		}
	}
	return observations
}

// write shows the account and the curves for people.
func (c *demoCluster) write(w *command.Page, width int) {
	w.Row("rounds acknowledged", c.Acknowledged)
	w.Row("lost", c.Lost)
	w.Row("learned twice", c.LearnedTwice)
	w.Row("owner killed", fmt.Sprintf("%s, in round %d", c.Owner, c.KilledAt))
	w.Row("next owner", c.NextOwner)
	w.Row("without an acknowledgement", fmt.Sprintf("%d ms", c.GapMS))
	w.Row("calls sent again", c.Retries)
	for n, digest := range c.Digests {
		w.Row("state of "+c.servers[n].name, digest)
	}
	w.Row("states are equal", c.DigestsEqual)
	curve(w, c.skill, width, "served skill over the last 1000 rounds; ▲ the owner is killed", c.KilledAt)
	curve(w, c.regret, width, "prequential regret; ▲ the owner is killed", c.KilledAt)
}
