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

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
	main "hindsight/cmd/server"
	"hindsight/internal/cluster/consensus"
	"hindsight/internal/cluster/placement"
	"hindsight/internal/engine/storage"
	"hindsight/internal/rpc"
)

var tortureServers = flag.Int("torture-servers", 1, "servers of the torture; more than one are a cluster")

// peersOf is the environment variable that makes the test binary a server. It has pairs of a
// cluster address and the address to dial in its place.
const peersOf = "HINDSIGHT_TEST_PEERS"

// isNext is the environment variable of a server of the next version, whose format differs by its number alone.
const isNext = "HINDSIGHT_TEST_NEXT"

// actAsServer is the main function of a server that reaches its peers through a network.
func actAsServer(peers string) int {
	if os.Getenv(isNext) == "true" {
		storage.Format++
	}
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
	batch   int  // The most observations of a batch beside the first.
	// groups is the number of the groups of models, 1 or more. The next fault concerns the owner of group: 0 is the
	// only group, or the group of all servers.
	groups int
	group  uint32
	// cold: only owners learn.
	cold bool
	// large is an exported model of the size of -torture-import, small one of a megabyte, once they are needed. imported
	// counts their imports.
	large, small []byte
	imported     int
	flags        []string
	models       []string
	started      time.Time
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
	counts map[string]int // Of faults.
	kills  int            // Of processes.
	// flipped: a test has changed a copy of a model, so that the servers may differ.
	flipped bool
	faults  map[string][]hit // Those that stop an owner.
	odd     map[string]int   // Errors by code and reason. mu is held.
}

// hit is when a fault hit the owner of a group.
type hit struct {
	at    int64
	group uint32
}

// member is a server of the fleet. Its addresses outlive its processes.
type member struct {
	number             int
	dir, grpc, cluster string
	next               bool     // Its process is of the next version.
	clients            string   // Where clients dial.
	peers              []string // What it dials in place of the cluster addresses of others.
	process            *process
	// life counts the processes of all members.
	life atomic.Int64
}

// ports numbers the ports from firstPort on, so that no two servers draw the same one.
var (
	firstPort = rand.Uint32() / 2
	ports     atomic.Uint32
)

// freePort returns the address of a free port that no outgoing connection and no listener of any port takes.
func freePort(t *testing.T) string {
	t.Helper()
	for range 1000 {
		address := net.JoinHostPort("127.0.0.1", strconv.Itoa(12000+int((firstPort+ports.Add(1))%18000)))
		listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", address)
		if err == nil {
			require.NoError(t, listener.Close())
			return address
		}
	}
	t.Fatal("no port is free")
	return ""
}

// newFleet starts a cluster of empty servers and creates models.
func newFleet(t *testing.T, seed uint64, servers, groups int, flags ...string) *fleet {
	t.Helper()
	f := &fleet{
		t: t, seed: seed, rng: rand.New(rand.NewPCG(seed, 23)), net: newNetwork(t), flags: flags, started: time.Now(),
		batch: 4, groups: groups, cold: slices.Contains(flags, "cold"),
		stop: make(chan struct{}), counts: map[string]int{}, faults: map[string][]hit{}, odd: map[string]int{},
	}
	f.mu.predicted = map[name]bool{}
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
	f.awaitVoters()
	f.models = slices.Sorted(maps.Keys(tortured()))
	f.create(f.members[0].process)
	return f
}

// create creates the models. On a busy machine the owner may change meanwhile.
func (f *fleet) create(p *process) {
	f.t.Helper()
	specs := tortured()
	for _, m := range f.models {
		spec := specs[m]
		if spec == nil {
			spec = specs["linear"]
		}
		eventually(f.t, "model "+m+" is created", func() bool {
			_, err := p.models.CreateModel(f.t.Context(), &hindsightv1.CreateModelRequest{Id: m, Spec: spec})
			if err != nil && status.Code(err) != codes.Unavailable {
				f.t.Fatal(err)
			}
			return err == nil
		})
	}
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
	for _, m := range members {
		starting.Go(func() {
			p, err := f.try(m)
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

// try starts a process of a member, which may end before it serves.
func (f *fleet) try(m *member) (*process, error) {
	f.t.Helper()
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	var join []string
	for _, m := range f.members {
		join = append(join, m.cluster)
	}
	by := []string{"/usr/bin/env", peersOf + "=" + strings.Join(m.peers, ","), fmt.Sprintf("%s=%t", isNext, m.next), program}
	flags := append([]string{"--grpc-address", m.grpc, "--cluster-address", m.cluster, "--cluster-join", strings.Join(join, ","), "--cluster-groups", strconv.Itoa(f.groups)}, f.flags...)
	m.life.Add(1)
	return tryLaunch(f.t, m.dir, by, flags...)
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

// view is a group as a server knows it. Of a server that is no member of the group, the server is empty.
func (f *fleet) view(m *member, group uint32) *hindsightv1.GetClusterResponse {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	r, err := hindsightv1.NewClusterServiceClient(m.process.connection).GetCluster(ctx, &hindsightv1.GetClusterRequest{Group: group})
	if err != nil {
		return &hindsightv1.GetClusterResponse{}
	}
	return r
}

// owner is the member that the running members call the owner of the group.
func (f *fleet) owner() *member { return f.ownerOf(f.group) }

func (f *fleet) ownerOf(group uint32) (owner *member) {
	f.t.Helper()
	eventually(f.t, "an owner", func() bool {
		for _, m := range f.running() {
			v := f.view(m, group)
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

// awaitVoters waits until all running members are voters that know one owner, of several groups so many members as a group
// has.
func (f *fleet) awaitVoters() {
	f.t.Helper()
	defer func() {
		if f.t.Failed() {
			f.describe()
		}
	}()
	eventually(f.t, "a cluster of voters", func() bool {
		f.supervise()
		all := len(f.running())
		if f.groups == 1 {
			return f.haveVoters(0, all, all)
		}
		if !f.haveVoters(0, all, min(all, 5)) { // Five servers vote over the servers.
			return false
		}
		for g := range f.groups {
			if !f.haveVoters(uint32(g)+1, min(all, placement.Replicas), placement.Replicas) {
				return false
			}
		}
		return true
	})
}

// supervise starts the members again that have ended because the disk was slow, as systemd does.
func (f *fleet) supervise() {
	f.t.Helper()
	for _, m := range f.running() {
		if len(m.process.ended) == 0 {
			continue
		}
		if err := m.process.await(f.t); err == nil || !strings.Contains(err.Error(), consensus.ErrStalled.Error()) {
			f.t.Fatalf("server %d ended: %v", m.number, err)
		}
		f.start(m)
	}
}

// haveVoters reports whether so many running members are the members of a group, and its voters know one owner.
func (f *fleet) haveVoters(group uint32, members, voters int) bool {
	owners, have := map[string]bool{}, 0
	for _, m := range f.running() {
		v := f.view(m, group)
		if v.GetServer() == "" {
			continue
		}
		have++
		owners[v.GetOwner()] = true
		votes := 0
		for _, s := range v.GetServers() {
			if s.GetState() == hindsightv1.Server_STATE_VOTER || s.GetState() == hindsightv1.Server_STATE_OWNER {
				votes++
			}
		}
		if votes != min(members, voters) || len(v.GetServers()) != members {
			return false
		}
	}
	return have == members && len(owners) == 1 && !owners[""]
}

// describe logs the groups as their members know them.
func (f *fleet) describe() {
	f.t.Helper()
	for _, g := range append([]uint32{0}, f.numbers()...) {
		for _, m := range f.running() {
			f.t.Logf("server %d at %s, group %d: %v", m.number, m.cluster, g, f.view(m, g))
		}
	}
}

func (f *fleet) since() int64 { return int64(time.Since(f.started)) }

// finish ends the load, stops the servers, and checks what clients saw against the disks.
func (f *fleet) finish() findings {
	f.t.Helper()
	f.net.heal()
	f.end()
	f.awaitVoters()
	if f.flipped {
		f.delete(wronged)
	}
	f.noRemains()
	shares := f.shares()
	for n := range shares {
		f.caughtUp(&shares[n])
	}
	for _, m := range f.running() {
		f.terminate(m)
	}
	f.lower()
	fresh := launch(f.t, f.t.TempDir())
	f.create(fresh)
	var found findings
	for _, s := range shares {
		for n, m := range s.members {
			s.replicas[n].logs, s.replicas[n].rows = readDisk(f.t, m.directory(s.group))
		}
		serial := map[string]replay{}
		for _, model := range s.models {
			serial[model] = f.replay(fresh, model, s.replicas[0].logs[model])
		}
		found.add(check(f.mu.of(s.models), s.replicas, serial))
	}
	fresh.terminate(f.t)
	for _, p := range found.problems[:min(len(found.problems), 20)] {
		f.t.Error(p)
	}
	if n := len(found.problems); n > 20 {
		f.t.Errorf("and %d more problems", n-20)
	}
	return found
}

// caughtUp waits until all members of a group have the same state, and keeps their digests.
func (f *fleet) caughtUp(s *share) {
	f.t.Helper()
	s.replicas = make([]replica, len(s.members))
	for n, m := range s.members {
		s.replicas[n] = replica{name: fmt.Sprint("server ", m.number), digests: map[string]string{}}
	}
	if f.cold {
		f.caughtUpCold(s)
		return
	}
	for _, model := range s.models {
		eventually(f.t, "all servers learn all of "+model, func() bool {
			sequences := map[uint64]bool{}
			for n, m := range s.members {
				var trailer metadata.MD
				r, err := m.process.models.GetModelStats(f.t.Context(), &hindsightv1.GetModelStatsRequest{Model: model}, grpc.Trailer(&trailer))
				if err != nil || len(trailer.Get(rpc.ForwardedKey)) > 0 { // The owner has answered for the member.
					return false
				}
				sequences[r.GetStats().GetObservations()] = true
				s.replicas[n].digests[model] = r.GetStats().GetStateDigest()
			}
			return len(sequences) == 1
		})
	}
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
	f.t.Logf("seed %d: %d acknowledged, %d lost, %d learned twice, %d unknown of which %d learned, %d rejected; %d attempts, %d reads, %d predictions to remember; %d kills",
		f.seed, found.acknowledged, len(found.lost), len(found.twice), found.unknown, found.learnedUnknown, found.rejected, len(f.mu.attempts), len(f.mu.reads),
		len(f.mu.predicted), f.kills)
	for _, fault := range slices.Sorted(maps.Keys(f.counts)) {
		var gaps []time.Duration
		for _, h := range f.faults[fault] {
			gaps = append(gaps, gap(f.mu.of(f.modelsOf(h.group)).attempts, h.at))
		}
		median, worst := spread(gaps)
		f.t.Logf("  %-24s %3d times, without an acknowledgement %5d ms in the median, %5d ms at worst", fault, f.counts[fault], median.Milliseconds(), worst.Milliseconds())
	}
	f.t.Logf("  errors: %v", f.odd)
}
