package main_test

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
	main "hindsight/cmd/server"
)

var tortureServers = flag.Int("torture-servers", 1, "servers of the torture; more than one are a cluster")

// peersOf is the environment variable that makes the test binary a server. It has pairs of a
// cluster address and the address to dial in its place.
const peersOf = "HINDSIGHT_TEST_PEERS"

// actAsServer is the main function of a server that reaches its peers through a network.
func actAsServer(peers string) int {
	via := map[string]string{}
	for pair := range strings.SplitSeq(peers, ",") {
		address, dialed, _ := strings.Cut(pair, "=")
		via[address] = dialed
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return main.ServeBy(ctx, os.Args[1:], func(ctx context.Context, network, address string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, cmp.Or(via[address], address))
	})
}

// clientsEnd is the number of the clients in a network. Members count from 1.
const clientsEnd = 0

// fleet is the servers of a cluster and their clients.
type fleet struct {
	t    *testing.T
	seed uint64
	rng  *rand.Rand
	net  *network
	// members are the servers that found the cluster. spare may join it, and leaves again.
	members []*member
	spare   *member
	brief   bool // Faults are short.
	flags   []string
	models  []string
	started time.Time
	// giveUp is the time at which clients stop repeating calls, in nanoseconds since started. 0 is never.
	giveUp atomic.Int64
	// stop closes when clients must begin no new call.
	stop    chan struct{}
	clients sync.WaitGroup
	mu      struct {
		sync.Mutex
		history
		sent map[name]*hindsightv1.ObserveRequest
		// seen is the greatest sequence of each model that any client has seen.
		seen map[string]uint64
	}
	counts map[string]int     // Of faults.
	faults map[string][]int64 // When they hit, those that stop the owner.
	odd    map[string]int     // Errors by code and reason. mu is held.
}

// member is a server of the fleet. Its addresses outlive its processes.
type member struct {
	number             int
	dir, grpc, cluster string
	clients            string   // Where clients dial.
	peers              []string // What it dials in place of the cluster addresses of others.
	process            *process
	// life counts the processes of all members.
	life atomic.Int64
}

// freePort returns the address of a free port that no outgoing connection and no listener of any port takes.
func freePort(t *testing.T) string {
	t.Helper()
	for range 1000 {
		address := net.JoinHostPort("127.0.0.1", strconv.Itoa(12000+rand.IntN(18000)))
		listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", address)
		if err == nil {
			if err := listener.Close(); err != nil {
				t.Fatal(err)
			}
			return address
		}
	}
	t.Fatal("no port is free")
	return ""
}

// newFleet starts a cluster of empty servers and creates models.
func newFleet(t *testing.T, seed uint64, servers int, flags ...string) *fleet {
	t.Helper()
	f := &fleet{
		t: t, seed: seed, rng: rand.New(rand.NewPCG(seed, 23)), net: newNetwork(t), flags: flags, started: time.Now(),
		stop: make(chan struct{}), counts: map[string]int{}, faults: map[string][]int64{}, odd: map[string]int{},
	}
	f.mu.sent, f.mu.seen = map[name]*hindsightv1.ObserveRequest{}, map[string]uint64{}
	for range servers {
		f.members = append(f.members, f.member(len(f.members)+1))
	}
	f.spare = f.member(servers + 1)
	all := append(slices.Clone(f.members), f.spare)
	for _, m := range all {
		for _, other := range all {
			if other != m {
				m.peers = append(m.peers, other.cluster+"="+f.net.link(m.number, other.number, other.cluster))
			}
		}
	}
	f.start(f.members...)
	f.settle()
	f.models = createTortured(t, f.members[0].process)
	return f
}

// member is a server that does not run.
func (f *fleet) member(number int) *member {
	f.t.Helper()
	m := &member{number: number, dir: filepath.Join(f.t.TempDir(), "data")}
	// The ports are drawn apart from the faults, which a seed repeats.
	m.grpc, m.cluster = freePort(f.t), freePort(f.t)
	m.clients = f.net.link(clientsEnd, number, m.grpc)
	return m
}

// start starts members at the same time, and waits until they serve.
func (f *fleet) start(members ...*member) {
	f.t.Helper()
	var starting sync.WaitGroup
	program, err := os.Executable()
	if err != nil {
		f.t.Fatal(err)
	}
	var join []string
	for _, m := range f.members {
		join = append(join, m.cluster)
	}
	for _, m := range members {
		by := []string{"/usr/bin/env", peersOf + "=" + strings.Join(m.peers, ","), program}
		flags := append([]string{"--grpc-address", m.grpc, "--cluster-address", m.cluster, "--cluster-join", strings.Join(join, ",")}, f.flags...)
		m.life.Add(1)
		starting.Go(func() {
			p, err := tryLaunch(f.t, m.dir, by, flags...)
			if err != nil {
				f.t.Errorf("server %d ended: %v", m.number, shortened(err.Error()))
			}
			m.process = p
		})
	}
	starting.Wait()
	if f.t.Failed() {
		f.t.FailNow()
	}
}

// running are the members that run.
func (f *fleet) running() (all []*member) {
	for _, m := range append(slices.Clone(f.members), f.spare) {
		if m.process != nil && m.process.command != nil {
			all = append(all, m)
		}
	}
	return all
}

// view is the cluster as a member knows it.
func (f *fleet) view(m *member) *hindsightv1.GetClusterResponse {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	r, err := hindsightv1.NewClusterServiceClient(m.process.connection).GetCluster(ctx, &hindsightv1.GetClusterRequest{})
	if err != nil {
		return &hindsightv1.GetClusterResponse{}
	}
	return r
}

// owner is the member that the running members call the owner.
func (f *fleet) owner() (owner *member) {
	f.t.Helper()
	eventually(f.t, "an owner", func() bool {
		for _, m := range f.running() {
			v := f.view(m)
			if v.GetOwner() != "" && v.GetOwner() == v.GetServer() {
				owner = m
				return true
			}
		}
		return false
	})
	return owner
}

// other returns another member.
func (f *fleet) other(m *member) *member {
	others := slices.DeleteFunc(f.running(), func(o *member) bool { return o == m })
	return others[f.rng.IntN(len(others))]
}

// settle waits until all running members are voters that know one owner.
func (f *fleet) settle() {
	f.t.Helper()
	eventually(f.t, "a cluster of voters", func() bool {
		running, owners := f.running(), map[string]bool{}
		for _, m := range running {
			v := f.view(m)
			owners[v.GetOwner()] = true
			voters := 0
			for _, s := range v.GetServers() {
				if s.GetState() == hindsightv1.Server_STATE_VOTER || s.GetState() == hindsightv1.Server_STATE_OWNER {
					voters++
				}
			}
			if voters != len(running) || len(v.GetServers()) != len(running) {
				return false
			}
		}
		return len(owners) == 1 && !owners[""]
	})
}

func (f *fleet) since() int64 { return int64(time.Since(f.started)) }

// customer is one client.
type customer struct {
	*fleet
	number      int
	rng         *rand.Rand
	at          int // The member that it asks.
	predictors  []hindsightv1.PredictionServiceClient
	models      []hindsightv1.ModelServiceClient
	connections []*grpc.ClientConn
}

func (f *fleet) customer(number int) *customer {
	f.t.Helper()
	c := &customer{fleet: f, number: number, rng: rand.New(rand.NewPCG(f.seed, uint64(number)))}
	for _, m := range f.members {
		connection, err := grpc.NewClient(m.clients, insecureTransport(), grpc.WithConnectParams(grpc.ConnectParams{
			Backoff: backoff.Config{BaseDelay: 20 * time.Millisecond, Multiplier: 2, MaxDelay: 200 * time.Millisecond}, MinConnectTimeout: time.Second,
		}))
		if err != nil {
			f.t.Fatal(err)
		}
		c.connections = append(c.connections, connection)
		c.predictors = append(c.predictors, hindsightv1.NewPredictionServiceClient(connection))
		c.models = append(c.models, hindsightv1.NewModelServiceClient(connection))
	}
	c.at = number % len(f.members)
	return c
}

// load makes calls by many clients until end is called.
func (f *fleet) load(clients int) {
	for n := range clients {
		c := f.customer(n)
		f.clients.Go(func() {
			defer func() {
				for _, connection := range c.connections {
					if err := connection.Close(); err != nil {
						f.t.Error(err)
					}
				}
			}()
			pause := time.NewTicker(5 * time.Millisecond)
			defer pause.Stop()
			for k := 0; ; k++ {
				select {
				case <-f.stop:
					return
				case <-pause.C:
					c.act(k)
				}
			}
		})
	}
}

// end waits until clients have finished what they began. Calls are repeated for a minute.
func (f *fleet) end() {
	close(f.stop)
	f.giveUp.Store(f.since() + int64(time.Minute))
	f.clients.Wait()
}

// act makes one random call.
func (c *customer) act(n int) {
	model, id := c.fleet.models[c.rng.IntN(len(c.fleet.models))], fmt.Sprintf("%d-%d", c.number, n)
	x, r := draw(c.rng, model)
	r.Features, r.Inputs, r.ObservationId = x.features, x.inputs, id
	switch choice := c.rng.IntN(10); {
	case choice == 0:
		c.read(model, x, true)
	case choice == 1:
		c.read(model, x, false)
	case choice == 2:
		c.repeat()
	case choice == 3:
		batch := []*hindsightv1.ObserveRequest{r}
		for k := range 1 + c.rng.IntN(4) {
			x, another := draw(c.rng, model)
			another.Features, another.Inputs, another.ObservationId = x.features, x.inputs, fmt.Sprint(id, "-", k)
			batch = append(batch, another)
		}
		c.observe(batch...)
	case choice == 4 && model != advised:
		c.label(r, x)
	default:
		c.observe(r)
	}
}

// sends registers requests.
func (c *customer) sends(requests []*hindsightv1.ObserveRequest) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range requests {
		c.mu.sent[name{r.GetModel(), r.GetObservationId()}] = r
	}
}

// try makes a call at the member that the client asks until it is answered. The call records its
// own attempts. After a failure the client asks another member. It returns the code of an error
// that another try does not change.
func (c *customer) try(call func(ctx context.Context, p hindsightv1.PredictionServiceClient) error) codes.Code {
	for {
		ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
		err := call(ctx, c.predictors[c.at])
		cancel()
		switch code := status.Code(err); code {
		case codes.OK:
			return code
		case codes.Unavailable, codes.DeadlineExceeded, codes.Canceled, codes.ResourceExhausted, codes.Aborted:
			c.mu.Lock()
			c.odd[reasonOf(err)]++
			c.mu.Unlock()
		case codes.NotFound, codes.AlreadyExists:
			return code
		default:
			c.t.Errorf("%v", err)
			return code
		}
		if late := c.giveUp.Load(); late > 0 && c.since() > late {
			return status.Code(err)
		}
		c.at = c.rng.IntN(len(c.predictors))
		<-time.After(time.Duration(1+c.rng.IntN(20)) * time.Millisecond) // The client backs off.
	}
}

// resultOf is how an attempt has ended.
func resultOf(err error) result {
	switch {
	case err == nil:
		return acknowledged
	case reasonOf(err) == "NOT_OWNER", status.Code(err) == codes.ResourceExhausted, status.Code(err) == codes.NotFound:
		return refused
	default:
		return unknown
	}
}

// answerOf is the part of an answer that a serial replay must give too.
func answerOf(o *hindsightv1.Outcome) string {
	return fmt.Sprintf("%x %q %x", o.GetPrediction(), o.GetClass(), o.GetLoss())
}

// attempted records the attempts of one call. A call ends when seen has its sequences: a current read that begins
// after the end demands them.
func (c *customer) attempted(from int64, model string, ids []string, outcomes []*hindsightv1.Outcome, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	a := attempt{client: c.number, model: model, from: from, until: c.since(), result: resultOf(err)}
	if a.result == unknown {
		a.until = never
	}
	for n, id := range ids {
		a.id = id
		if err == nil {
			a.sequence, a.duplicate, a.answer = outcomes[n].GetSequence(), outcomes[n].GetDuplicate(), answerOf(outcomes[n])
			c.mu.seen[model] = max(c.mu.seen[model], a.sequence)
		}
		c.mu.attempts = append(c.mu.attempts, a)
	}
}

// observe sends observations of one model, several as a batch.
func (c *customer) observe(requests ...*hindsightv1.ObserveRequest) {
	c.sends(requests)
	model := requests[0].GetModel()
	var ids []string
	for _, r := range requests {
		ids = append(ids, r.GetObservationId())
	}
	c.try(func(ctx context.Context, p hindsightv1.PredictionServiceClient) error {
		from := c.since()
		if len(requests) > 1 {
			answer, err := p.ObserveBatch(ctx, &hindsightv1.ObserveBatchRequest{Model: model, Observations: requests})
			c.attempted(from, model, ids, answer.GetOutcomes(), err)
			return err
		}
		answer, err := p.Observe(ctx, requests[0])
		c.attempted(from, model, ids, []*hindsightv1.Outcome{answer.GetOutcome()}, err)
		return err
	})
}

// label asks for a prediction and sends its label. If the prediction was lost with an owner, label sends the features
// under the same id.
func (c *customer) label(r *hindsightv1.ObserveRequest, x sample) {
	id := r.GetObservationId()
	c.sends([]*hindsightv1.ObserveRequest{r})
	asked := x.request(r.GetModel())
	asked.PredictionId = id
	c.try(func(ctx context.Context, p hindsightv1.PredictionServiceClient) error {
		_, err := p.Predict(ctx, asked)
		return err
	})
	byID := proto.CloneOf(r)
	byID.Features, byID.Inputs, byID.ObservationId, byID.PredictionId = nil, nil, "", id
	missing := c.try(func(ctx context.Context, p hindsightv1.PredictionServiceClient) error {
		from := c.since()
		answer, err := p.Observe(ctx, byID)
		c.attempted(from, r.GetModel(), []string{id}, []*hindsightv1.Outcome{answer.GetOutcome()}, err)
		return err
	})
	if missing == codes.NotFound {
		c.observe(r)
	}
}

// repeat sends an observation again that was sent before, perhaps by another client.
func (c *customer) repeat() {
	c.mu.Lock()
	var r *hindsightv1.ObserveRequest
	for range 10 { // Most were acknowledged.
		if n := len(c.mu.attempts); n > 0 {
			a := c.mu.attempts[c.rng.IntN(n)]
			if a.result == acknowledged {
				r = c.mu.sent[name{a.model, a.id}]
				break
			}
		}
	}
	c.mu.Unlock()
	if r != nil {
		c.observe(r)
	}
}

// read asks for the sequence of a model. A current read demands every sequence that any client has seen.
func (c *customer) read(model string, x sample, current bool) {
	asked := x.request(model)
	asked.Remember = proto.Bool(false)
	s := sighting{client: c.number, model: model, current: current}
	got := c.try(func(ctx context.Context, p hindsightv1.PredictionServiceClient) error {
		s.process = c.process()
		c.mu.Lock()
		s.from = c.since() // A read that failed saw nothing.
		if current {
			asked.MinSequence = c.mu.seen[model]
		}
		c.mu.Unlock()
		if !current && c.rng.IntN(2) == 0 {
			answer, err := c.models[c.at].GetModel(ctx, &hindsightv1.GetModelRequest{Model: model})
			s.sequence = answer.GetModel().GetSequence()
			return err
		}
		answer, err := p.Predict(ctx, asked)
		s.sequence = answer.GetPrediction().GetStateSequence()
		return err
	})
	if got != codes.OK {
		return
	}
	if s.process != c.process() { // Another process may have answered.
		s.process = -c.number - 1
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	s.until = c.since()
	c.mu.reads = append(c.mu.reads, s)
	if current { // A stale read of a process that forgets is no promise to others.
		c.mu.seen[model] = max(c.mu.seen[model], s.sequence)
	}
}

// process is the number of the process that the client asks, unique over restarts.
func (c *customer) process() int {
	m := c.members[c.at]
	return m.number<<20 | int(m.life.Load())
}

// finish ends the load, stops the servers, and checks what clients saw against the disks.
func (f *fleet) finish() findings {
	f.t.Helper()
	f.net.heal()
	f.end()
	f.settle()
	replicas := f.caughtUp()
	for _, m := range f.running() {
		f.terminate(m)
	}
	for n := range replicas {
		replicas[n].logs = readLogs(f.t, f.members[n].dir)
	}
	serial := map[string]replay{}
	fresh := launch(f.t, f.t.TempDir())
	createTortured(f.t, fresh)
	for _, model := range f.models {
		serial[model] = f.replay(fresh, model, replicas[0].logs[model])
	}
	fresh.terminate(f.t)
	found := check(f.mu.history, replicas, serial)
	for _, p := range found.problems[:min(len(found.problems), 20)] {
		f.t.Error(p)
	}
	if n := len(found.problems); n > 20 {
		f.t.Errorf("and %d more problems", n-20)
	}
	return found
}

// caughtUp waits until all members have the same state, and returns their digests.
func (f *fleet) caughtUp() []replica {
	f.t.Helper()
	replicas := make([]replica, len(f.members))
	for n, m := range f.members {
		replicas[n] = replica{name: fmt.Sprint("server ", m.number), digests: map[string]string{}}
	}
	for _, model := range f.models {
		eventually(f.t, "all servers learn all of "+model, func() bool {
			sequences := map[uint64]bool{}
			for n, m := range f.members {
				r, err := m.process.models.GetModelStats(f.t.Context(), &hindsightv1.GetModelStatsRequest{Model: model})
				if err != nil {
					return false
				}
				sequences[r.GetStats().GetObservations()] = true
				replicas[n].digests[model] = r.GetStats().GetStateDigest()
			}
			return len(sequences) == 1
		})
	}
	return replicas
}

// replay learns a log serially on an embedded server.
func (f *fleet) replay(fresh *process, model string, log []placed) (r replay) {
	f.t.Helper()
	for from := 0; from < len(log); from += 500 {
		batch := &hindsightv1.ObserveBatchRequest{Model: model}
		for _, p := range log[from:min(from+500, len(log))] {
			request := f.mu.sent[name{model, p.id}]
			if request == nil {
				f.t.Errorf("%s: nobody sent %s", model, p.id)
				return r
			}
			batch.Observations = append(batch.Observations, request)
		}
		answer, err := fresh.predictor.ObserveBatch(f.t.Context(), batch)
		if err != nil {
			f.t.Errorf("replay %s: %v", model, err)
			return r
		}
		for _, o := range answer.GetOutcomes() {
			r.answers = append(r.answers, answerOf(o))
		}
	}
	stats, err := fresh.models.GetModelStats(f.t.Context(), &hindsightv1.GetModelStatsRequest{Model: model})
	if err != nil {
		f.t.Fatal(err)
	}
	r.digest = stats.GetStats().GetStateDigest()
	return r
}

// report logs a summary of the run.
func (f *fleet) report(found findings) {
	f.t.Helper()
	f.t.Logf("seed %d: %d acknowledged, %d lost, %d learned twice, %d unknown of which %d learned, %d refused; %d attempts, %d reads",
		f.seed, found.acknowledged, len(found.lost), len(found.twice), found.unknown, found.learnedUnknown, found.refused, len(f.mu.attempts), len(f.mu.reads))
	for _, fault := range slices.Sorted(maps.Keys(f.counts)) {
		var gaps []time.Duration
		for _, at := range f.faults[fault] {
			gaps = append(gaps, gap(f.mu.attempts, at))
		}
		median, worst := spread(gaps)
		f.t.Logf("  %-24s %3d times, without an acknowledgement %5d ms in the median, %5d ms at worst", fault, f.counts[fault], median.Milliseconds(), worst.Milliseconds())
	}
	f.t.Logf("  errors: %v", f.odd)
}
