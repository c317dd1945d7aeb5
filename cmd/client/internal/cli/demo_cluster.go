package cli

import (
	"context"
	"crypto/rand"
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

	hindsightv1 "hindsight/api/proto/hindsight/v1"
	"hindsight/client"
	"hindsight/cmd/client/internal/stream"
	"hindsight/cmd/internal/child"
	"hindsight/cmd/internal/command"
	"hindsight/internal/clock"
)

const (
	// The limit of a call to one server, and the longest wait before a call to the cluster is sent again.
	demoTry = 2 * time.Second
	// The limit of a call to the cluster, while its servers choose an owner. A server that finds no owner answers
	// earlier.
	demoCall = 20 * time.Second
	// The time from the first acknowledgement of the next owner to the restart of the killed
	// server.
	demoDown  = 2 * time.Second
	demoStart = 20 * time.Second
	demoStop  = 10 * time.Second
	// The limit of the wait until all servers have the same state.
	demoAgree = 15 * time.Second
	demoPoll  = 20 * time.Millisecond
	demoChunk = 500
)

// clusterSummary is the answer of "demo --servers". Lost counts acknowledged observations that the
// cluster does not have at their sequence in the end. Digests are the digests of the final state of
// each server.
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
}

// demoServer is one server of the cluster. A restart keeps its addresses.
type demoServer struct {
	name, cluster string
	args          []string
	running       *child.Server // nil while the server is down
	client        *client.Client
}

type demoCluster struct {
	*clusterSummary
	*demo

	e       *env
	servers []*demoServer
	client  *client.Client // uses any server that answers
	sent    []*hindsightv1.ObserveRequest
	learned []uint64    // their sequences
	killed  *demoServer // the killed owner, nil before the kill
	at      time.Time   // the time of the kill
	again   chan error  // the result of its restart
}

func (d *demo) runCluster(ctx context.Context, e *env) (err error) {
	whole, cancel := context.WithTimeout(ctx, demoWhole)
	defer cancel()
	dir, err := os.MkdirTemp("", "hindsight-")
	if err != nil {
		return fmt.Errorf("directory of the servers: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	c := &demoCluster{clusterSummary: &clusterSummary{}, demo: d, e: e}
	defer func() { err = errors.Join(err, c.stop(context.WithoutCancel(ctx))) }()
	if err := c.prepare(whole, dir); err != nil {
		return err
	}
	e.Say("starting %d servers of %s", len(c.servers), d.server)
	// The servers start concurrently, because each waits for the others.
	if err := c.each(func(s *demoServer) error { return c.launch(whole, s) }); err != nil {
		return err
	}
	for _, s := range c.servers {
		e.Say("the live page of %s: http://%s/", s.name, s.running.HTTP)
	}
	if err := c.whole(whole); err != nil {
		return fmt.Errorf("wait for all servers to join: %w", err)
	}
	if err := c.stream(whole); err != nil {
		return err
	}
	if err := c.account(whole); err != nil {
		return err
	}
	if c.Lost+c.LearnedTwice > 0 || !c.DigestsEqual {
		err = errors.New("the cluster has lost or repeated acknowledged observations, or its servers disagree")
	}
	return errors.Join(err, e.EmitLine(c.clusterSummary, c.write))
}

// freePort listens at a free port of 127.0.0.1 below those that the kernel gives to outgoing
// connections, so that no connection takes the port while its server is down.
func freePort(ctx context.Context) (l net.Listener, err error) {
	for port := 12_000 + os.Getpid()%10_000; port < 30_000; port++ {
		l, err = new(net.ListenConfig).Listen(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err == nil {
			return l, nil
		}
	}
	return nil, fmt.Errorf("find a free port: %w", err)
}

// prepare chooses free addresses. It holds all of them until the last is chosen, so that they
// differ.
func (c *demoCluster) prepare(ctx context.Context, dir string) error {
	n := c.demo.servers
	free := make([]string, 2*n)
	for i := range free {
		l, err := freePort(ctx)
		if err != nil {
			return err
		}
		defer l.Close() //nolint:errcheck // nothing was sent
		free[i] = l.Addr().String()
	}
	members := strings.Join(free[n:], ",")
	for i := range n {
		one, err := dialChild(free[i], demoTry)
		if err != nil {
			return err
		}
		c.servers = append(c.servers, &demoServer{name: "server " + strconv.Itoa(i+1), client: one, cluster: free[n+i], args: []string{
			"--grpc-address", free[i], "--http-address", "127.0.0.1:0", "--cluster-address", free[n+i], "--cluster-join", members,
			"--data-dir", filepath.Join(dir, strconv.Itoa(i+1)), "--log-level", "info",
		}})
	}
	var err error
	c.client, err = client.Dial(strings.Join(free[:n], ","), client.WithTimeout(demoCall), client.WithRetry(client.Retry{
		Max: math.MaxInt, Backoff: demoPoll, MaxBackoff: demoTry, OnRetry: func(error, time.Duration) { c.Retries++ },
	}))
	return err
}

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
	s.running, err = child.Start(ctx, c.server, s.args...)
	return err
}

func (c *demoCluster) stop(ctx context.Context) (err error) {
	ctx, cancel := context.WithTimeout(ctx, demoStop)
	defer cancel()
	if c.again != nil {
		for range c.again { // Another call has reported the error.
		}
	}
	if c.client != nil {
		err = c.client.Close()
	}
	return errors.Join(err, c.each(func(s *demoServer) error {
		err := s.client.Close()
		if s.running != nil {
			err = errors.Join(err, s.running.Stop(ctx))
		}
		return err
	}))
}

// whole waits until all servers vote, so that the remaining servers can elect an owner.
func (c *demoCluster) whole(ctx context.Context) error {
	for voters := 0; voters < len(c.servers); {
		r, err := c.client.Cluster().GetCluster(ctx, &hindsightv1.GetClusterRequest{})
		voters = 0
		for _, m := range r.GetServers() {
			if m.GetState() != hindsightv1.Server_STATE_JOINING {
				voters++
			}
		}
		if err != nil || voters < len(c.servers) && !clock.Sleep(ctx, demoPoll) {
			return errors.Join(err, ctx.Err())
		}
	}
	return nil
}

func (c *demoCluster) owner(ctx context.Context) *demoServer {
	for _, s := range c.servers {
		if s.running == nil {
			continue
		}
		r, err := s.client.Cluster().GetCluster(ctx, &hindsightv1.GetClusterRequest{})
		if err != nil {
			continue
		}
		for _, m := range r.GetServers() {
			i := slices.IndexFunc(c.servers, func(s *demoServer) bool { return s.cluster == m.GetAddress() })
			if m.GetServer() == r.GetOwner() && i >= 0 && c.servers[i].running != nil {
				return c.servers[i]
			}
		}
	}
	return nil
}

// stream sends the stream through the cluster, and kills the owner after a third of the time.
func (c *demoCluster) stream(ctx context.Context) error {
	source := stream.NewDrifting(c.rounds, demoDimension, c.seed)
	if err := startModel(ctx, c.client, demoModel, &hindsightv1.ModelSpec{}, demoDimension, 1); err != nil {
		return err
	}
	begin := time.Now()
	for t := 1; time.Since(begin) < c.limit; t++ {
		round, err := source.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil && c.killed == nil && time.Since(begin) > c.limit/3 {
			err = c.kill(ctx)
		}
		if err == nil {
			err = c.round(ctx, round)
		}
		if err != nil {
			return fmt.Errorf("round %d: %w", t, err)
		}
		if !clock.Sleep(ctx, time.Until(begin.Add(time.Duration(t)*c.limit/time.Duration(c.rounds)))) {
			return ctx.Err()
		}
	}
	return nil
}

func (c *demoCluster) kill(ctx context.Context) error {
	for c.killed = c.owner(ctx); c.killed == nil; c.killed = c.owner(ctx) {
		if !clock.Sleep(ctx, demoPoll) {
			return ctx.Err()
		}
	}
	c.KilledAt, c.Owner, c.at = len(c.sent), c.killed.name, time.Now()
	c.killed.running.Kill()
	c.killed.running = nil
	c.e.Say("round %d: kill %s, the owner, with SIGKILL", c.KilledAt, c.Owner)
	return nil
}

func (c *demoCluster) round(ctx context.Context, r stream.Round) error {
	m, id := c.client.Model(demoModel), rand.Text()
	if _, err := m.Predict(ctx, &hindsightv1.PredictRequest{PredictionId: id, Features: r.Features}); err != nil {
		return fmt.Errorf("predict: %w", err)
	}
	target := client.Labels(r.Labels...)
	// Observe sends the input if the pending prediction was lost with the killed owner.
	outcome, err := m.Observe(ctx, &hindsightv1.ObserveRequest{PredictionId: id, Features: r.Features, Target: target})
	if err != nil {
		return fmt.Errorf("observe: %w", err)
	}
	again := &hindsightv1.ObserveRequest{ObservationId: id, Features: r.Features, Target: target}
	c.sent, c.learned = append(c.sent, again), append(c.learned, outcome.GetSequence())
	if c.killed != nil && c.again == nil {
		c.failedOver(ctx)
	}
	return nil
}

// failedOver records the first acknowledgement after the kill, and restarts the killed server.
func (c *demoCluster) failedOver(ctx context.Context) {
	c.GapMS, c.NextOwner = time.Since(c.at).Milliseconds(), "unknown"
	if next := c.owner(ctx); next != nil {
		c.NextOwner = next.name
	}
	c.e.Say("%d ms later %s has acknowledged an observation; restart %s", c.GapMS, c.NextOwner, c.Owner)
	c.again = make(chan error, 1)
	go func() { // stop joins it.
		defer close(c.again)
		if clock.Sleep(ctx, demoDown) {
			c.again <- c.launch(ctx, c.killed)
		}
	}()
}

// account waits until all servers have the same state, and sends every observation again to learn
// its sequence.
func (c *demoCluster) account(ctx context.Context) error {
	c.Acknowledged = len(c.sent)
	if c.again == nil {
		return errors.New("the stream ended before the demo killed the owner")
	}
	if err := <-c.again; err != nil {
		return fmt.Errorf("start %s again: %w", c.Owner, err)
	}
	observations := c.agree(ctx)
	for from := 0; from < len(c.sent); from += demoChunk {
		to := min(from+demoChunk, len(c.sent))
		outcomes, err := c.client.Model(demoModel).ObserveBatch(ctx, c.sent[from:to])
		if err != nil {
			return fmt.Errorf("ask again: %w", err)
		}
		for n, o := range outcomes {
			if !o.GetDuplicate() || o.GetSequence() != c.learned[from+n] {
				c.Lost++
			}
		}
	}
	c.LearnedTwice = max(0, observations+c.Lost-len(c.sent))
	return nil
}

// agree waits until the servers have the same state, and returns the number of observations in it.
func (c *demoCluster) agree(ctx context.Context) (observations int) {
	ctx, cancel := context.WithTimeout(ctx, demoAgree)
	defer cancel()
	for again := true; again; again = !c.DigestsEqual && clock.Sleep(ctx, demoPoll) {
		c.Digests, c.DigestsEqual = nil, true
		for _, s := range c.servers {
			stats, err := s.client.Model(demoModel).Stats(ctx, nil)
			c.Digests = append(c.Digests, stats.GetStateDigest())
			observations = max(observations, int(stats.GetObservations()))
			c.DigestsEqual = c.DigestsEqual && err == nil && c.Digests[0] == stats.GetStateDigest() && observations >= len(c.sent)
		}
	}
	return observations
}

func (c *demoCluster) write(w *command.Page) {
	w.Row("acknowledged", c.Acknowledged)
	w.Row("lost", c.Lost)
	w.Row("learned twice", c.LearnedTwice)
	w.Row("owner killed", fmt.Sprintf("%s, after round %d", c.Owner, c.KilledAt))
	w.Row("next owner", c.NextOwner)
	w.Row("without an acknowledgement", fmt.Sprintf("%d ms", c.GapMS))
	w.Row("calls sent again", c.Retries)
	for n, digest := range c.Digests {
		w.Row("state of "+c.servers[n].name, digest)
	}
	w.Row("states are equal", c.DigestsEqual)
}
