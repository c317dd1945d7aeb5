package main_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
	"hindsight/internal/cluster/placement"
)

var (
	tortureGroups = flag.Int("torture-groups", 1, "groups of the torture of a cluster")
	tortureLogs   = flag.String("torture-logs", "", "directory for the logs of servers that end badly")
	tortureImport = flag.Int("torture-import", 4, "megabytes of a model that the torture of a cluster imports")
	tortureFaults = flag.String("torture-faults", ".", "regular expression of the faults of a cluster")
)

// fault is a fault that a test inflicts on a fleet under load. It is repaired when inflict returns.
type fault struct {
	name string
	do   func(f *fleet)
	// gap: the fault stops the owner, and the cluster acknowledges nothing until it has another owner.
	gap bool
}

// faults are all that a cluster must survive.
func faults() []fault {
	return []fault{
		{"kill the owner", func(f *fleet) { f.killed(f.owner()) }, true},
		{"kill a replica", func(f *fleet) { f.killed(f.other(f.owner())) }, false},
		{"kill two", func(f *fleet) { f.killed(f.sample(2)...) }, false},
		{"kill all", (*fleet).killedAll, false},
		{"stop the owner", func(f *fleet) { f.stopped(f.owner()) }, true},
		{"stop a replica", func(f *fleet) { f.stopped(f.other(f.owner())) }, false},
		{"cut off the owner", func(f *fleet) { f.cut(f.owner(), true, true) }, true},
		{"cut off a replica", func(f *fleet) { f.cut(f.other(f.owner()), true, true) }, false},
		{"cut what the owner says", func(f *fleet) { f.cut(f.owner(), true, false) }, true},
		{"cut what the owner hears", func(f *fleet) { f.cut(f.owner(), false, true) }, true},
		{"cut what a replica says", func(f *fleet) { f.cut(f.other(f.owner()), true, false) }, false},
		{"cut one pair", (*fleet).cutPair, false},
		{"slow by 200 ms", (*fleet).slow, false},
		{"a link of 2 MB/s", (*fleet).narrow, false},
		{"import", func(f *fleet) { f.importing() }, false},
		{"import over links of 2 MB/s", (*fleet).importingSlowly, false},
		{"flapping", (*fleet).flapping, false},
		{"cut answers to clients", (*fleet).silent, false},
		{"the owner's disk is full", func(f *fleet) { f.full(f.owner()) }, true},
		{"a replica's disk is full", func(f *fleet) { f.full(f.other(f.owner())) }, false},
		{"empty the owner's disk", func(f *fleet) { f.emptied(f.owner()) }, true},
		{"empty a replica's disk", func(f *fleet) { f.emptied(f.other(f.owner())) }, false},
		{"join and leave", (*fleet).joining, false},
		{"replace a server", (*fleet).replaced, false},
		{"move the owner", (*fleet).moved, true},
		{"restart the owner", func(f *fleet) { f.restarted(f.owner()) }, true},
		{"restart a replica", func(f *fleet) { f.restarted(f.other(f.owner())) }, false},
		{"upgrade a server and take it back", (*fleet).upgradedForAMoment, false},
		{"restart all", func(f *fleet) {
			for _, m := range f.running() {
				f.restarted(m)
				f.awaitVoters()
			}
		}, false},
	}
}

// inflict makes a fault, waits until the cluster is whole, and lets the cluster work for a moment.
func (f *fleet) inflict(x fault) {
	f.t.Helper()
	f.counts[x.name]++
	if f.groups > 1 {
		f.group = uint32(1 + f.rng.IntN(f.groups))
	}
	if x.gap {
		f.owner() // Then it is known at once.
		f.faults[x.name] = append(f.faults[x.name], hit{f.since(), f.group})
	}
	x.do(f)
	f.net.heal()
	f.awaitVoters()
	f.pause(200, 800)
	if f.t.Failed() {
		f.t.Fatalf("seed %d: after %q", f.seed, x.name)
	}
}

// pause waits for a time between two numbers of milliseconds.
func (f *fleet) pause(from, to int) {
	<-time.After(time.Duration(from+f.rng.IntN(to-from)) * time.Millisecond)
}

// sample are so many running members.
func (f *fleet) sample(n int) []*member {
	all := f.running()
	f.rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all[:n]
}

// killed kills members at once, and starts them again after up to two seconds.
func (f *fleet) killed(members ...*member) {
	for _, m := range members {
		f.kill(m)
	}
	f.pause(1, 2000)
	f.start(members...)
}

// killedAll kills all members after an import. The first list of each server after its start has the import.
func (f *fleet) killedAll() {
	f.t.Helper()
	if f.small == nil {
		f.small, _ = exported(f.t, 1_000_000) // It goes in parts.
	}
	id, members := f.newID(), f.running()
	f.insistImport(id, f.small)
	for _, m := range members {
		f.kill(m)
	}
	f.pause(1, 2000)
	var starting sync.WaitGroup
	for _, m := range members {
		late := time.Duration(f.rng.IntN(1500)) * time.Millisecond
		starting.Go(func() {
			<-time.After(late)
			f.start(m)
			eventually(f.t, "a list", func() bool {
				r, err := m.process.models.ListModels(f.t.Context(), &hindsightv1.ListModelsRequest{Prefix: id})
				if err == nil && len(r.GetModels()) != 1 {
					f.t.Errorf("the first list of server %d lacks %s", m.number, id)
				}
				return err == nil
			})
		})
	}
	starting.Wait()
	f.awaitVoters()
	f.delete(id)
}

func (f *fleet) kill(m *member) {
	f.t.Helper()
	f.kills++
	f.agreed(m)
	m.process.kill(f.t)
}

func (f *fleet) signal(m *member, s syscall.Signal) {
	f.t.Helper()
	require.NoError(f.t, m.process.command.Process.Signal(s))
}

// stopped holds a process for some seconds.
func (f *fleet) stopped(m *member) {
	f.signal(m, syscall.SIGSTOP)
	longest := 30_000
	if testing.Short() || f.brief {
		longest = 6000
	}
	f.pause(5000, longest)
	f.signal(m, syscall.SIGCONT)
}

// gatesOf chooses the gates from and to a member among the servers.
func gatesOf(m *member, says, hears bool) func(from, to int) bool {
	return func(from, to int) bool {
		return from != clientsEnd && to != clientsEnd && (says && from == m.number || hears && to == m.number)
	}
}

func shut(g *gate) { g.set(true, 0) }

// cut cuts a member off from the other servers for some seconds.
func (f *fleet) cut(m *member, says, hears bool) {
	f.net.all(gatesOf(m, says, hears), shut)
	f.pause(2000, 7000)
}

// cutPair cuts two members off from each other. A third one sees both.
func (f *fleet) cutPair() {
	pair := f.sample(2)
	f.net.all(func(from, to int) bool {
		return from == pair[0].number && to == pair[1].number || from == pair[1].number && to == pair[0].number
	}, shut)
	f.pause(2000, 7000)
}

func (f *fleet) slow() {
	f.net.all(gatesOf(f.sample(1)[0], true, true), func(g *gate) { g.set(false, 200*time.Millisecond) })
	f.pause(2000, 6000)
}

// narrow bounds what all links of a member carry for some seconds.
func (f *fleet) narrow() {
	f.net.all(gatesOf(f.sample(1)[0], true, true), func(g *gate) { g.limit(narrowRate) })
	f.pause(2000, 6000)
}

// narrowRate is the bytes a second of a link of 2 MB/s.
const narrowRate = 2_000_000

// importing imports a large model into the group, waits until the members have it, and deletes it for good.
func (f *fleet) importing() {
	f.t.Helper()
	if f.large == nil {
		f.large, _ = exported(f.t, *tortureImport*1_000_000)
	}
	id := f.newID()
	f.insistImport(id, f.large)
	for _, m := range f.membersOf(f.group) {
		eventually(f.t, "every member has the model", func() bool {
			_, err := m.process.models.GetModel(f.t.Context(), &hindsightv1.GetModelRequest{Model: id})
			return err == nil
		})
	}
	f.delete(id)
}

// newID returns the id of a new model of the group.
func (f *fleet) newID() (id string) {
	f.imported++
	for n := 0; id == "" || placement.Of(id, f.groups) != int(f.group); n++ {
		id = fmt.Sprintf("large-%d-%d", f.imported, n)
	}
	return id
}

// delete deletes a model for good.
func (f *fleet) delete(id string) {
	f.t.Helper()
	eventually(f.t, "the model is deleted", func() bool {
		_, err := f.owner().process.models.DeleteModel(f.t.Context(), &hindsightv1.DeleteModelRequest{Model: id, Purge: true})
		return err == nil || status.Code(err) == codes.NotFound
	})
}

// agreed checks that no other server differed from a server, because no test has changed a copy of a model.
func (f *fleet) agreed(m *member) {
	f.t.Helper()
	for line := range strings.SplitSeq(m.process.said(), "\n") {
		if !f.flipped && strings.Contains(line, "differs from another server's") {
			f.t.Errorf("server %d: %s", m.number, line)
		}
	}
}

func (f *fleet) importingSlowly() {
	f.limit(narrowRate)
	f.importing()
}

func (f *fleet) flapping() {
	m := f.sample(1)[0]
	for range 6 {
		f.net.all(gatesOf(m, true, true), shut)
		f.pause(50, 900)
		f.net.heal()
		f.pause(50, 600)
	}
}

// silent lets a server hear clients and holds its answers until they have given up.
func (f *fleet) silent() {
	m := f.sample(1)[0]
	f.net.all(func(from, to int) bool { return from == m.number && to == clientsEnd }, shut)
	f.pause(1000, 4000)
}

// full makes every file write of a process fail, as on a full disk, and then restarts the process without the limit.
// The process may end by itself before.
func (f *fleet) full(m *member) {
	require.NoError(f.t, limitFiles(m.process.command.Process.Pid))
	f.pause(1500, 4000)
	f.killed(m)
}

// emptied kills a member and starts it with an empty directory.
func (f *fleet) emptied(m *member) {
	f.kill(m)
	require.NoError(f.t, os.RemoveAll(m.dir))
	f.pause(1, 1000)
	f.start(m)
}

// ask makes a call of ClusterService at a member until it succeeds.
func (f *fleet) ask(what string, m *member, call func(context.Context, hindsightv1.ClusterServiceClient) error) {
	f.t.Helper()
	var last error
	eventually(f.t, what, func() bool {
		ctx, cancel := context.WithTimeout(f.t.Context(), 10*time.Second)
		defer cancel()
		if last = call(ctx, hindsightv1.NewClusterServiceClient(m.process.connection)); last != nil {
			f.t.Logf("%s: %v", what, last)
		}
		return last == nil
	})
}

// leave removes a member and its directory from the cluster. The member must not be the owner.
func (f *fleet) leave(m *member) {
	f.rebalance(m.cluster)
	for f.ownerOf(0) == m { // The groups may have too few servers for awaitVoters.
		f.group = 0
		f.moved()
	}
	f.ask("remove a server", f.other(m), func(ctx context.Context, c hindsightv1.ClusterServiceClient) error {
		_, err := c.RemoveServer(ctx, &hindsightv1.RemoveServerRequest{Server: m.cluster})
		return err
	})
	f.kill(m)
	require.NoError(f.t, os.RemoveAll(m.dir))
}

// joining lets the spare server join, work and leave.
func (f *fleet) joining() {
	f.start(f.spare)
	f.awaitVoters()
	f.rebalance()
	f.awaitVoters()
	f.pause(100, 1000)
	f.leave(f.spare)
	f.awaitVoters()
}

// replaced removes a member and lets it join again with an empty directory.
func (f *fleet) replaced() {
	m := f.sample(1)[0]
	f.leave(m)
	f.awaitVoters()
	f.start(m)
	f.awaitVoters()
	f.rebalance()
}

// moved makes another member the owner.
func (f *fleet) moved() {
	others := f.membersOf(f.group)
	others = slices.DeleteFunc(others, func(m *member) bool { return m == f.owner() })
	f.moveTo(f.group, others[f.rng.IntN(len(others))])
}

// moveTo makes a member the owner of a group.
func (f *fleet) moveTo(group uint32, to *member) {
	f.ask("move the owner", f.sample(1)[0], func(ctx context.Context, c hindsightv1.ClusterServiceClient) error {
		_, err := c.MoveOwner(ctx, &hindsightv1.MoveOwnerRequest{Group: group, Server: to.cluster})
		return err
	})
}

// restarted ends a member as an operator would, and starts it again.
func (f *fleet) restarted(m *member) {
	f.terminate(m)
	f.start(m)
}

// terminate ends a member as an operator would. A process that does not end in time prints its stacks.
func (f *fleet) terminate(m *member) {
	f.t.Helper()
	p := m.process
	f.agreed(m)
	f.signal(m, syscall.SIGTERM)
	late := time.AfterFunc(patience-time.Minute, func() { _ = p.command.Process.Signal(syscall.SIGQUIT) }) // It may have ended.
	err := p.await(f.t)
	late.Stop()
	if err != nil {
		f.t.Errorf("server %d, SIGTERM: %v", m.number, shortened(err.Error()))
	}
}

// shortened is the end of a long text. -torture-logs keeps all of it.
func shortened(text string) string {
	const limit = 3000
	if *tortureLogs != "" {
		name := filepath.Join(*tortureLogs, fmt.Sprint(time.Now().UnixNano(), ".log"))
		if os.WriteFile(name, []byte(text), 0o600) == nil {
			return "see " + name
		}
	}
	return text[max(0, len(text)-limit):]
}

// Clients observe and read at three servers while the test kills, stops, cuts off and moves the owner, and kills all
// servers. The cluster loses no acknowledged observation and learns none twice, all replicas equal a serial replay,
// and the history of the clients is linearizable. The target torture of make, with SERVERS=3, inflicts every fault
// for the given time.
func TestCluster(t *testing.T) {
	endToEnd(t)
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	f := newFleet(t, seed, 3, 1)
	f.brief = true
	f.load(*tortureClients)
	short := []string{"kill the owner", "cut off the owner", "kill all", "stop the owner", "move the owner"}
	for _, x := range faults() {
		if slices.Contains(short, x.name) {
			f.inflict(x)
		}
	}
	f.report(f.finish())
}

// TestTortureCluster runs clusters of a minute and more, each with other faults and flags, for the
// time of -torture. A seed makes the same faults again. With -torture-groups, each second pair of clusters has cold
// replicas.
func TestTortureCluster(t *testing.T) {
	if *tortureServers < 3 {
		t.Skip("make torture SERVERS=3 runs it")
	}
	const length = time.Minute
	chosen := regexp.MustCompile(*tortureFaults)
	known := slices.DeleteFunc(faults(), func(x fault) bool { return !chosen.MatchString(x.name) })
	end := time.Now().Add(*tortureFor)
	all := map[string]int{}
	var lost, twice, acknowledged, kills int
	for round := uint64(0); time.Now().Before(end); round++ {
		seed := *tortureSeed + round
		var flags []string
		if round%2 == 1 { // Snapshots all the time, and logs that are cut behind them.
			flags = []string{"--snapshot-replay", "1ms", "--snapshots-kept", "2"}
		}
		if *tortureGroups > 1 && round%4 >= 2 {
			flags = append(flags, "--cluster-standby", "cold")
		}
		f := newFleet(t, seed, *tortureServers, *tortureGroups, flags...)
		f.load(*tortureClients)
		stop := time.Now().Add(min(length, time.Until(end)))
		for time.Now().Before(stop) {
			f.inflict(known[f.rng.IntN(len(known))])
		}
		found := f.finish()
		f.report(found)
		for name, n := range f.counts {
			all[name] += n
		}
		acknowledged, lost, twice, kills = acknowledged+found.acknowledged, lost+len(found.lost), twice+len(found.twice), kills+f.kills
		if t.Failed() {
			break
		}
	}
	t.Logf("%d acknowledged, %d lost, %d learned twice; %d kills; faults: %v", acknowledged, lost, twice, kills, all)
}
