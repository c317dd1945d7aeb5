package main_test

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
)

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

// commandLine builds the command line once.
var commandLine = sync.OnceValues(func() (string, error) {
	path := filepath.Join(filepath.Dir(binary), "hindsight")
	output, err := exec.CommandContext(context.Background(), "go", "build", "-o", path, "hindsight/cmd/client").CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%w: %s", err, output)
	}
	return path, err
})

// A server joins and leaves again by the command line while clients observe models of all groups. Nothing is lost, no
// group has another number of members than three, and the server leaves no directory of a group.
func TestRebalanceUnderLoad(t *testing.T) {
	endToEnd(t)
	f := newFleet(t, uint64(time.Now().UnixNano()), 5, 4)
	program := must(commandLine())(t)
	f.load(2*f.groups, f.byGroup()...)
	f.pause(2000, 2001)
	f.pauses("at rest", f.since()-int64(2*time.Second))
	for _, of := range []struct {
		what string
		args []string
	}{
		{"a server joins", nil},
		{"a server leaves", []string{"--leaving", f.spare.cluster}},
	} {
		if of.args == nil {
			f.start(f.spare)
			f.awaitVoters()
		}
		from := f.since()
		arguments := append([]string{"--address", f.members[2].grpc, "cluster", "rebalance"}, of.args...)
		out, err := exec.CommandContext(t.Context(), program, arguments...).CombinedOutput()
		t.Logf("%s", out)
		assert.NoError(t, err, of.what)
		f.pause(300, 301)
		if got := f.pauses(of.what, from); got > 30*time.Second { // The bar is 150 ms on a machine at rest.
			t.Errorf("%s: a group pauses for %v", of.what, got)
		}
		if f.awaitVoters(); of.args == nil {
			f.spread()
		}
		f.noRemains()
	}
	f.leave(f.spare)
	f.awaitVoters()
	f.everywhere()
	f.report(f.finish())
}

// A server is killed in the middle of a step of a rebalance: the server that joins, the server that leads the
// rebalance, and the owner of a group. A further rebalance finishes what was begun.
func TestKillsDuringRebalance(t *testing.T) {
	endToEnd(t)
	f := newFleet(t, uint64(time.Now().UnixNano()), 5, 4)
	f.load(*tortureClients)
	for _, of := range []struct {
		what   string
		victim func() *member
	}{
		{"the server that joins", func() *member { return f.spare }},
		{"the owner of group 0", func() *member { return f.ownerOf(0) }},
		{"an owner", func() *member { return f.ownerOf(uint32(1 + f.rng.IntN(f.groups))) }},
	} {
		f.start(f.spare)
		f.awaitVoters()
		for _, leaving := range [][]string{nil, {f.spare.cluster}} {
			victim := of.victim()
			f.killedDuringRebalance(victim, leaving)
			f.counts[of.what]++
			f.start(victim)
			f.rebalance(leaving...)
			f.awaitVoters()
			f.noRemains()
		}
		f.leave(f.spare)
		f.awaitVoters()
		require.False(t, t.Failed(), "seed %d: after the kill of %s", f.seed, of.what)
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

// Six servers have sixteen groups. One server is killed. The models of the groups that it does not own have no pause.
func TestKilledServerOfManyGroups(t *testing.T) {
	endToEnd(t)
	f := newFleet(t, uint64(time.Now().UnixNano()), 6, 16)
	f.models = nil
	for n := range 96 {
		f.models = append(f.models, fmt.Sprint("many-", n))
	}
	f.create(f.members[0].process)
	f.spread()
	victim := f.members[len(f.members)-1]
	var owned []uint32
	for _, g := range f.numbers() {
		if f.ownerOf(g) == victim {
			owned = append(owned, g)
		}
	}
	shares, all := f.byGroup(), f.members
	f.members = all[:len(all)-1] // Clients ask only the servers that live.
	f.load(len(shares), shares...)
	f.members = all
	f.pause(4000, 4001)
	before := f.since()
	atRest := f.pauses("at rest", before-int64(3*time.Second))
	victim.process.kill(t)
	f.pause(8000, 8001)
	f.pauses("one of six servers is killed", before)
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
	t.Logf("without a pause: %d of %d models (bar 5/6); the killed server owned the groups %v; they paused for %v at most (bar 5s), the others for %v, and for %v before the kill",
		without, len(f.models), owned, longest, others, atRest)
	assert.True(t, len(owned) >= 2 && len(owned) <= 3, "a server owned %d of 16 groups", len(owned))
	if longest > time.Minute || others > time.Minute { // A busy machine pauses too.
		t.Errorf("groups paused for %v and %v", longest, others)
	}
	f.start(victim)
	f.report(f.finish())
}
