package main_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
	"hindsight/client"
	"hindsight/cmd/internal/testca"
	"hindsight/internal/rpc"
)

// seat is a place in a cluster: a directory and an address.
type seat struct {
	dir   string
	by    []string // The command that ends in the server's, nil for the server alone.
	flags []string
	*process
}

func (s *seat) launch(t *testing.T) {
	t.Helper()
	by := s.by
	if by == nil {
		by = []string{binary}
	}
	s.process = launchBy(t, s.dir, by, s.flags...)
}

// cluster returns the cluster as the server knows it.
func (s *seat) cluster(t *testing.T) (r *hindsightv1.GetClusterResponse) {
	t.Helper()
	eventually(t, "a server describes the cluster", func() (ok bool) {
		var err error
		r, err = hindsightv1.NewClusterServiceClient(s.connection).GetCluster(t.Context(), &hindsightv1.GetClusterRequest{})
		require.True(t, err == nil || status.Code(err) == codes.Unavailable, err)
		return err == nil
	})
	return r
}

// stats is stats of the process, however often the servers elect an owner again.
func (s *seat) stats(t *testing.T) (found *hindsightv1.ModelStats) {
	t.Helper()
	eventually(t, "a server has statistics", func() bool {
		r, err := s.models.GetModelStats(t.Context(), &hindsightv1.GetModelStatsRequest{Model: "m"})
		require.True(t, err == nil || status.Code(err) == codes.Unavailable, err)
		found = r.GetStats()
		return err == nil
	})
	return found
}

// vote waits until the cluster is so many servers, and each has a vote. Before that the cluster does not survive the loss of a server.
func vote(t *testing.T, s *seat, n int) {
	t.Helper()
	eventually(t, "every server has a vote", func() bool {
		servers := s.cluster(t).GetServers()
		return len(servers) == n && !slices.ContainsFunc(servers, func(one *hindsightv1.Server) bool {
			return one.GetState() != hindsightv1.Server_STATE_VOTER && one.GetState() != hindsightv1.Server_STATE_OWNER
		})
	})
}

// ready is the answer of /readyz.
func (s *seat) ready(t *testing.T) int {
	t.Helper()
	r := must(http.NewRequestWithContext(t.Context(), http.MethodGet, s.http+"/readyz", http.NoBody))(t)
	a := must(http.DefaultClient.Do(r))(t)
	defer a.Body.Close() //nolint:errcheck // It was only read.
	return a.StatusCode
}

// seats found a cluster of three servers with TLS among them, all of which vote. The first one owns the models. The command by starts each.
func seats(t *testing.T, by ...string) []*seat {
	t.Helper()
	ca, files := testca.New(t, "cluster"), t.TempDir()
	root := testca.Write(t, files, "ca.pem", ca.PEM)
	certificate, key := ca.Files(t, files, "server", testca.Leaf{Name: "server", Hosts: []string{"127.0.0.1"}, Member: true})
	var addresses []string
	for range 3 {
		addresses = append(addresses, freePort(t))
	}
	var all []*seat
	for n, address := range addresses {
		all = append(all, &seat{dir: filepath.Join(t.TempDir(), strconv.Itoa(n)), by: by, flags: []string{
			"--cluster-address", address, "--cluster-join", strings.Join(addresses, ","),
			"--cluster-cert", certificate, "--cluster-key", key, "--cluster-ca", root,
		}})
	}
	for _, s := range all {
		s.launch(t)
	}
	for _, s := range all {
		s.logged(t, "the owner of the models", 1)
	}
	for _, s := range all {
		vote(t, s, len(all))
	}
	return all
}

// knows predicts once the server knows n observations. On a busy machine the servers elect an owner
// again at any time, and are unavailable meanwhile.
func (s *seat) knows(t *testing.T, n int) (r *hindsightv1.PredictResponse) {
	t.Helper()
	eventually(t, "a server that knows all observations predicts", func() (ok bool) {
		var err error
		r, err = s.predictor.Predict(t.Context(), &hindsightv1.PredictRequest{
			Model: "m", Features: []float64{1, 2}, Remember: proto.Bool(false), MinSequence: uint64(n),
		})
		require.True(t, err == nil || status.Code(err) == codes.Unavailable, err)
		return err == nil
	})
	return r
}

// Three servers are one service. Each server answers every call, two servers continue without the third, and one
// server continues alone after the loss of the others for good.
func TestThreeServersAreOneService(t *testing.T) {
	t.Parallel()
	all := seats(t, binary)
	all[2].create(t)
	n := 0
	for _, s := range all {
		n = s.learn(t, n, n+30)
	}
	owner := ""
	for k, s := range all {
		r := s.knows(t, n)
		assert.Equal(t, uint64(n), r.GetPrediction().GetStateSequence(), "%v %v", k, r)
		eventually(t, fmt.Sprintf("server %d knows the servers and the owner", k), func() bool {
			c := s.cluster(t)
			owner = c.GetOwner()
			return len(c.GetServers()) > 0 && owner != "" && s.ready(t) == http.StatusOK
		})
	}
	// The server forwards JSON calls too.
	eventually(t, "a call in JSON is forwarded", func() bool {
		answer, err := http.Post(all[1].http+"/v1/models/m:observe", "application/json", strings.NewReader(`{"features":[1,2],"label":3,"observationId":"json"}`)) //nolint:noctx // The server answers.
		require.NoError(t, err)
		body, err := io.ReadAll(answer.Body)
		if err != nil || answer.Body.Close() != nil || answer.StatusCode != http.StatusOK && answer.StatusCode != http.StatusServiceUnavailable {
			t.Fatalf("observe in JSON: %d %s, %v", answer.StatusCode, body, err)
		}
		return answer.StatusCode == http.StatusOK
	})
	n++
	// The owner hands ownership on before it ends.
	var first *seat
	var left []*seat
	for _, s := range all {
		if s.cluster(t).GetServer() == owner {
			first = s
		} else {
			left = append(left, s)
		}
	}
	first.terminate(t)
	n = left[0].learn(t, n, n+30)
	n = left[1].learn(t, n, n+30)
	if c := left[1].cluster(t); c.GetOwner() == c.GetServer() {
		left[0], left[1] = left[1], left[0]
	}
	// The owner dies, and the other server has every acknowledged observation.
	want := left[0].stats(t).GetStateDigest()
	left[1].knows(t, n)
	// A server alone has no majority: it answers predictions, and rejects the rest.
	left[0].kill(t)
	observe := func() error { // On a busy machine the answer of a short deadline comes too late.
		for wait := 2 * time.Second; ; wait *= 2 {
			ctx, cancel := context.WithTimeout(t.Context(), wait)
			_, err := left[1].predictor.Observe(ctx, observation(n))
			cancel()
			if status.Code(err) != codes.DeadlineExceeded || wait > time.Minute {
				return err
			}
		}
	}
	err := observe()
	unknown := client.FromError(err).Is(client.ErrOutcomeUnknown)
	if unknown { // It was on its way to the killed owner, or this server became the owner before the kill.
		err = observe()
	}
	assert.True(t, client.FromError(err).Is(client.ErrNotOwner), "observe without a majority: %v", err)
	r, err := left[1].predictor.Predict(t.Context(), &hindsightv1.PredictRequest{Model: "m", Features: []float64{1, 2}, Remember: proto.Bool(false)})
	assert.NoError(t, err, "predict without a majority: %v", r)
	left[1].kill(t)
	if b := succeed[struct {
		Stopped   bool
		Unapplied int
	}](t, "backup", "--data-dir", left[1].dir, "--to", t.TempDir()); !b.Stopped || b.Unapplied == 0 {
		t.Error("the backup of a killed server does not say that only the log has the newest changes")
	}
	// An operator makes the remaining server the only member.
	for _, yes := range []bool{false, true} {
		arguments := []string{"cluster", "recover", "--data-dir", left[1].dir}
		if yes {
			arguments = append(arguments, "--yes")
		}
		out, err := exec.CommandContext(t.Context(), binary, arguments...).CombinedOutput()
		assert.True(t, (err == nil) == yes && strings.Count(string(out), "without ") >= 2 && strings.Contains(string(out), "Done") == yes, "recover, yes %t: %v\n%s", yes, err, out)
	}
	left[1].launch(t)
	left[1].logged(t, "the owner of the models", 1)
	left[1].knows(t, n) // Its model may still learn what the log has.
	got := left[1].stats(t)
	learned := unknown && got.GetObservations() == uint64(n)+1 // The new membership commits what its log has.
	if !learned && (got.GetStateDigest() != want || got.GetObservations() != uint64(n)) {
		t.Errorf("%d observations, want %d; the state is %s, want %s", got.GetObservations(), n, got.GetStateDigest(), want)
	}
	left[1].learn(t, n, n+30)
	left[1].terminate(t)
}

// pauses logs the longest time without an acknowledgement of each group since a time, and returns the longest of all.
func (f *fleet) pauses(what string, from int64) (longest time.Duration) {
	f.t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	until := f.since()
	var text strings.Builder
	for _, g := range f.numbers() {
		if models := f.modelsOf(g); len(models) > 0 {
			pause := pauseIn(f.mu.of(models).attempts, from, until)
			longest = max(longest, pause)
			fmt.Fprintf(&text, " %d", pause.Milliseconds())
		}
	}
	f.t.Logf("%s: %v; the longest pause of each group in ms:%s", what, time.Duration(until-from).Round(time.Millisecond), text.String())
	return longest
}

// A server joins and leaves again, twice, while clients observe models of all groups. A server is killed in the middle of a
// step of each rebalance: the server that joins, the server that leads the rebalance, and the owner of a group. A further
// rebalance finishes what was begun. Nothing is lost, no group has another number of members than three, and the server
// leaves no directory of a group.
func TestKillsDuringRebalance(t *testing.T) {
	endToEnd(t)
	t.Parallel()
	f := newFleet(t, uint64(time.Now().UnixNano()), 5, 4)
	f.load(*tortureClients)
	victims := []struct {
		what string
		of   func() *member
	}{
		{"the server that joins", func() *member { return f.spare }},
		{"the owner of group 0", func() *member { return f.ownerOf(0) }},
		{"an owner", func() *member { return f.ownerOf(uint32(1 + f.rng.IntN(f.groups))) }},
	}
	f.rng.Shuffle(len(victims), func(i, k int) { victims[i], victims[k] = victims[k], victims[i] })
	for round := range 2 {
		f.start(f.spare)
		f.awaitVoters()
		for n, leaving := range [][]string{nil, {f.spare.cluster}} {
			kind := victims[(2*round+n)%len(victims)]
			victim := kind.of()
			f.killedDuringRebalance(victim, leaving)
			f.counts[kind.what]++
			f.start(victim)
			from := f.since()
			f.rebalance(leaving...)
			f.awaitVoters()
			f.noRemains()
			f.pauses(fmt.Sprintf("rebalanced after the kill of %s, leaving %v", kind.what, leaving), from)
			require.False(t, t.Failed(), "seed %d: after the kill of %s", f.seed, kind.what)
		}
		f.leave(f.spare)
		f.awaitVoters()
	}
	f.spread()
	f.everywhere()
	f.report(f.finish())
}

// killedDuringRebalance kills a server soon after a step of a rebalance has begun.
func (f *fleet) killedDuringRebalance(victim *member, leaving []string) {
	f.t.Helper()
	at := f.other(victim)
	client := hindsightv1.NewClusterServiceClient(at.process.connection)
	ended := make(chan error, 1)
	var steps atomic.Int64
	ctx, cancel := context.WithTimeout(f.t.Context(), 20*time.Second)
	defer cancel()
	go func() {
		for {
			r, err := client.RebalanceCluster(ctx, &hindsightv1.RebalanceClusterRequest{Leaving: leaving})
			if err != nil || r.GetStep() == "" {
				ended <- err
				return
			}
			steps.Add(1)
		}
	}()
	f.pause(1, 1500)
	victim.process.kill(f.t)
	select {
	case err := <-ended:
		f.t.Logf("server %d killed after %d steps, leaving %v: %v", victim.number, steps.Load(), leaving, err)
	case <-time.After(3 * time.Second):
		cancel()
		f.t.Logf("server %d killed after %d steps, leaving %v: the step does not end: %v", victim.number, steps.Load(), leaving, errors.Join(<-ended))
	}
}

// Five servers have eight groups. One server is killed. The models of the groups that it does not own have no pause.
func TestKilledServerOfManyGroups(t *testing.T) {
	endToEnd(t)
	f := newFleet(t, uint64(time.Now().UnixNano()), 5, 8)
	f.models = nil
	for n := range 48 {
		f.models = append(f.models, fmt.Sprint("many-", n))
	}
	f.create(f.members[0].process)
	f.spread()
	victim := f.members[len(f.members)-1]
	var owned []uint32
	eventually(t, "a server owns one or two of eight groups", func() bool {
		owned = slices.DeleteFunc(f.numbers(), func(g uint32) bool { return f.ownerOf(g) != victim })
		if len(owned) < 1 || len(owned) > 2 {
			f.rebalance() // A busy machine has elected another owner.
		}
		return len(owned) >= 1 && len(owned) <= 2
	})
	shares, all := f.byGroup(), f.members
	f.members = all[:len(all)-1] // Clients ask only the servers that live.
	f.load(len(shares), shares...)
	f.members = all
	f.pause(3000, 3001)
	before := f.since()
	atRest := f.pauses("at rest", before-int64(2*time.Second))
	victim.process.kill(t)
	f.pause(5000, 5001)
	f.pauses("one of five servers is killed", before)
	without, others, longest := 0, time.Duration(0), time.Duration(0)
	f.mu.Lock()
	for _, g := range f.numbers() {
		pause := pauseIn(f.mu.of(f.modelsOf(g)).attempts, before, before+int64(5*time.Second))
		if slices.Contains(owned, g) {
			longest = max(longest, pause)
		} else {
			others = max(others, pause)
		}
		if pause <= max(2*atRest, 150*time.Millisecond) {
			without += len(f.modelsOf(g))
		}
	}
	f.mu.Unlock()
	t.Logf("without a pause: %d of %d models (bar 4/5); the killed server owned the groups %v; they paused for %v at most (bar 5s), the others for %v, and for %v before the kill",
		without, len(f.models), owned, longest, others, atRest)
	if longest > time.Minute || others > time.Minute { // A busy machine pauses too.
		t.Errorf("groups paused for %v and %v", longest, others)
	}
	f.start(victim)
	f.report(f.finish())
}

// reads are predictions that wait for a suspended server, and for the server after it continues.
const reads = 300

// A server that was suspended does not answer from its old state: neither the owner, which another server has replaced,
// nor a replica, which has messages of the owner in its buffers. A read sets a bound of its age, a least sequence, or
// neither: the answer of a server that is not the owner then has its age.
func TestASuspendedServer(t *testing.T) {
	t.Parallel()
	all := seats(t)
	all[0].create(t)
	n := all[0].learn(t, 0, 30)
	for _, s := range all {
		s.knows(t, n)
	}
	for _, owns := range []bool{true, false} {
		var held, other *seat
		eventually(t, "every server knows the owner", func() bool {
			held, other = nil, nil
			for _, s := range all {
				if c := s.cluster(t); c.GetOwner() == c.GetServer() == owns {
					held = s
				} else {
					other = s
				}
			}
			return held != nil && other != nil
		})
		n = suspended(t, held, other, n)
	}
	for _, s := range all {
		s.terminate(t)
	}
}

// suspended suspends a server while another server learns, and returns the number of observations. The reads of the
// suspended server must then know every observation.
func suspended(t *testing.T, held, other *seat, n int) int {
	t.Helper()
	require.NoError(t, held.command.Process.Signal(syscall.SIGSTOP))
	begun := time.Now()
	eventually(t, "the others learn", func() bool {
		n = other.learn(t, n, n+3)
		return time.Since(begun) > 2*time.Second
	})
	const bound = 100 * time.Millisecond
	var reading sync.WaitGroup
	for k := range reads {
		if k == reads/2 {
			require.NoError(t, held.command.Process.Signal(syscall.SIGCONT))
		}
		request := &hindsightv1.PredictRequest{Model: "m", Features: []float64{1, 2}, Remember: proto.Bool(false)}
		switch k % 3 {
		case 0:
			request.MaxStaleness = durationpb.New(bound)
		case 1:
			request.MinSequence = uint64(n)
		}
		reading.Go(func() {
			var trailer metadata.MD
			r, err := held.predictor.Predict(t.Context(), request, grpc.Trailer(&trailer))
			switch got := r.GetPrediction().GetStateSequence(); {
			case status.Code(err) == codes.Unavailable:
			case err != nil:
				t.Error(err)
			case got < uint64(n) && (k%3 != 2 || len(trailer.Get(rpc.AgeTrailer)) == 0):
				t.Errorf("read %d: a state of %d observations, want %d; age %v", k, got, n, trailer.Get(rpc.AgeTrailer))
			}
		})
	}
	reading.Wait()
	return n
}
