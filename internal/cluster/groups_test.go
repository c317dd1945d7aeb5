package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"google.golang.org/grpc/status"

	"hindsight/internal/cluster"
	"hindsight/internal/cluster/placement"
	"hindsight/internal/engine/storage"
	"hindsight/internal/store"
)

// machine is a server of a cluster with several groups.
type machine struct {
	dir, address string
	join         []string
	groups       int
	front        *front
	host         *cluster.Host
	// dies ends the server as soon as it learns that it was removed from a group, as if it were killed.
	dies  bool
	stop  context.CancelFunc
	ended sync.WaitGroup
}

func newMachines(t *testing.T, n, groups int) []*machine {
	t.Helper()
	var out []*machine
	var all []string
	for range n {
		f := newFront(t)
		m := &machine{dir: t.TempDir(), address: f.Addr().String(), front: f, groups: groups}
		out, all = append(out, m), append(all, m.address)
	}
	for _, m := range out {
		m.join = all
	}
	return out
}

func (m *machine) start(t *testing.T) {
	t.Helper()
	var err error
	m.host, err = cluster.OpenHost(t.Context(), cluster.Options{
		Directory: m.dir, Store: store.Options{Cache: 1 << 20}, Groups: m.groups, Address: m.address, Listener: m.front.open(), Join: m.join, Version: "test",
		Undone: func(uint64) func([]byte) bool { return func([]byte) bool { return false } },
		Now:    time.Now, Logger: zap.NewNop(),
	})
	require.NoError(t, err)
	ctx, stop := context.WithCancel(context.Background())
	m.stop = stop
	host := m.host
	m.ended.Go(func() {
		err := host.Run(ctx, func(ctx context.Context, n *cluster.Node) error {
			n.Serve(func(storage.Change) {}, func(string, uint64, storage.Digest) storage.Digest { return storage.Digest{} })
			select {
			case <-n.Restart():
			case err := <-n.Failed():
				if m.dies && errors.Is(err, cluster.ErrRemoved) {
					stop()
					return nil
				}
				return err
			case <-ctx.Done():
			}
			return nil
		})
		err = errors.Join(err, host.Close())
		assert.NoError(t, err)
	})
	t.Cleanup(func() { m.close() })
}

func (m *machine) close() {
	if m.stop != nil {
		m.stop()
		m.ended.Wait()
		m.stop = nil
	}
}

// ownerOf returns the machine that owns a group.
func ownerOf(t *testing.T, group uint32, machines ...*machine) *machine {
	t.Helper()
	var out *machine
	eventually(t, fmt.Sprintf("an owner of group %d", group), func() bool {
		for _, m := range machines {
			if m.stop != nil && m.host.Group(group).Owns() {
				out = m
			}
		}
		return out != nil
	})
	return out
}

// disown lets another machine own a group.
func disown(t *testing.T, group uint32, m *machine, machines ...*machine) {
	t.Helper()
	eventually(t, fmt.Sprintf("another owner of group %d", group), func() bool {
		return ownerOf(t, group, machines...) != m || m.host.Group(group).Node().Move(t.Context(), "") == nil
	})
}

// hosted returns the number of groups of models that machines have and own.
func hosted(machines ...*machine) (has, owns map[*machine]int) {
	has, owns = map[*machine]int{}, map[*machine]int{}
	for _, m := range machines {
		for _, g := range m.host.Groups() {
			if g.Node() != nil {
				has[m]++
			}
			if g.Owns() {
				owns[m]++
			}
		}
	}
	return has, owns
}

// balanced waits until the groups are spread evenly over the servers that do not leave, and all members of a group vote. If a
// busy machine elects another owner of group 0, the founding may end before the owners are spread: each group has its members
// already. Then the test rebalances, as an operator would.
func balanced(t *testing.T, leaving []string, machines ...*machine) {
	t.Helper()
	var has, owns map[*machine]int
	defer func() {
		if t.Failed() {
			for _, m := range machines {
				t.Logf("%s has %d groups and owns %d", m.address, has[m], owns[m])
			}
		}
	}()
	members := groups * min(3, len(machines))
	eventually(t, "balanced groups", func() bool {
		elections := uint64(0)
		for _, m := range machines {
			if n := m.host.Group(0).Node(); n != nil {
				elections += n.Status().Log.Elections
			}
		}
		for _, m := range machines {
			if elections > 1 && m.host.Group(0).Owns() {
				_, _, err := m.host.Rebalance(t.Context(), leaving)
				t.Log("rebalanced", err)
			}
		}
		has, owns = hosted(machines...)
		allHas, allOwns := 0, 0
		for _, m := range machines {
			allHas, allOwns = allHas+has[m], allOwns+owns[m]
			if has[m] < members/len(machines) || has[m] > members/len(machines)+1 || owns[m] < groups/len(machines) || owns[m] > groups/len(machines)+1 {
				return false
			}
		}
		return allHas == members && allOwns == groups && !slices.ContainsFunc(machines, func(m *machine) bool {
			return slices.ContainsFunc(m.host.Groups(), func(g *cluster.Group) bool {
				n := g.Node()
				return n != nil && g.Owns() && !allVote(n.Status().Members, min(3, len(machines)))
			})
		})
	})
}

func allVote(members []cluster.Member, n int) bool {
	return len(members) == n && !slices.ContainsFunc(members, func(m cluster.Member) bool { return !m.Voter })
}

// groups is the number of groups of the tests' cluster.
const groups = 4

// add appends a record to the model m of each group, through its owner.
func add(t *testing.T, sequence uint64, machines ...*machine) {
	t.Helper()
	for g := uint32(1); g <= uint32(groups); g++ {
		eventually(t, "the owner learns", func() bool {
			m, last, err := findOrCreate(t.Context(), ownerOf(t, g, machines...).host.Group(g).Node().Store(), "m")
			if err == nil && last < sequence {
				err = m.Append(t.Context(), storage.Commit{Record: storage.Record{First: sequence, Last: sequence, Data: fmt.Append(nil, g)}})
			}
			return err == nil
		})
	}
}

// haveGroups waits until each group has its record in three machines.
func haveGroups(t *testing.T, sequence uint64, machines ...*machine) {
	t.Helper()
	for g := uint32(1); g <= uint32(groups); g++ {
		eventually(t, fmt.Sprintf("sequence %d of group %d on its members", sequence, g), func() bool {
			have := 0
			for _, m := range machines {
				n := m.host.Group(g).Node()
				if n == nil {
					continue
				}
				if _, last, err := findOrCreate(t.Context(), n.Store(), "m"); err == nil && last == sequence {
					have++
				}
			}
			return have == min(3, len(machines))
		})
	}
}

// rebalance makes all steps, by the owner of group 0.
func rebalance(t *testing.T, leaving []string, machines ...*machine) {
	t.Helper()
	eventually(t, "nothing left to rebalance", func() bool {
		step, _, err := ownerOf(t, 0, machines...).host.Rebalance(t.Context(), leaving)
		if err != nil {
			t.Log(err)
		}
		return err == nil && step.Group == 0
	})
}

// startBalanced starts servers that found a cluster, and waits until its groups are spread over them.
func startBalanced(t *testing.T, n int) []*machine {
	t.Helper()
	machines := newMachines(t, n, groups)
	for _, m := range machines {
		m.start(t)
	}
	balanced(t, nil, machines...)
	return machines
}

// TestGroups founds four groups on five servers, lets a server join and another leave, kills one, and finds every record
// on three members of its group.
func TestGroups(t *testing.T) {
	t.Parallel()
	machines := startBalanced(t, 5)
	add(t, 1, machines...)
	haveGroups(t, 1, machines...)

	extra := newMachines(t, 1, groups)[0]
	extra.join = machines[0].join
	extra.start(t)
	all := append(slices.Clone(machines), extra)
	eventually(t, "the new server is a member", func() bool {
		n := extra.host.Group(0).Node()
		return n != nil && len(n.Status().Members) == 6
	})
	rebalance(t, nil, all...)
	balanced(t, nil, all...)
	add(t, 2, all...)
	haveGroups(t, 2, all...)

	leaves := ownerOf(t, 1, all...)
	disown(t, 0, leaves, all...)
	id := leaves.host.Group(0).Node().Self().ID
	mayLeave := func() error { // A busy server may not answer in time.
		err := cluster.ErrNotReachable
		for errors.Is(err, cluster.ErrNotReachable) || errors.Is(err, storage.ErrNotOwner) {
			err = ownerOf(t, 0, all...).host.MayLeave(t.Context(), id)
		}
		return err
	}
	err := mayLeave()
	assert.True(t, errors.Is(err, cluster.ErrHasGroups) && strings.HasSuffix(err.Error(), "--leaving "+leaves.address), "a server with groups may leave: %v", err)
	rebalance(t, []string{leaves.address}, all...)
	assert.NoError(t, mayLeave())
	rest := slices.DeleteFunc(slices.Clone(all), func(m *machine) bool { return m == leaves })
	balanced(t, []string{leaves.address}, rest...)
	eventually(t, "the server has no group", func() bool {
		has, _ := hosted(leaves)
		return has[leaves] == 0
	})
	add(t, 3, rest...)
	haveGroups(t, 3, rest...)

	for _, g := range leaves.host.Groups() {
		eventually(t, fmt.Sprintf("a server that is no member knows the owner of group %d", g.Number()), func() bool {
			leaves.host.Group(0).Node().Members(t.Context()) // It may know earlier owners.
			_, err := g.Conn(t.Context())
			require.NoError(t, err)
			owner, ok := g.Owner()
			return ok && owner.Address == ownerOf(t, g.Number(), rest...).address
		})
	}

	// A server that starts again has its groups again.
	again := rest[0]
	has, _ := hosted(again)
	again.close()
	add(t, 4, rest[1:]...)
	again.start(t)
	eventually(t, "the groups of the server are open again", func() bool {
		now, _ := hosted(again)
		return now[again] == has[again]
	})
	haveGroups(t, 4, rest...)
	eventually(t, "a drained server owns no group", func() bool {
		err := again.host.Drain(t.Context())
		_, owns := hosted(again)
		return err == nil && owns[again] == 0
	})
}

// TestGroupsOfALostDirectory: a server that has lost its directory has its groups again.
func TestGroupsOfALostDirectory(t *testing.T) {
	t.Parallel()
	machines := startBalanced(t, 4)
	add(t, 1, machines...)
	haveGroups(t, 1, machines...)
	for g := uint32(1); g <= groups; g++ {
		eventually(t, "three voters", func() bool {
			return allVote(ownerOf(t, g, machines...).host.Group(g).Node().Status().Members, 3)
		})
	}
	lost := machines[2]
	lost.close()
	require.NoError(t, os.RemoveAll(lost.dir))
	lost.start(t)
	haveGroups(t, 1, machines...)
}

// TestRecoveredGroupsSpread: after the loss of two servers of three, the groups of the remaining server spread over the servers that
// join in their place.
func TestRecoveredGroupsSpread(t *testing.T) {
	t.Parallel()
	machines := startBalanced(t, 3)
	add(t, 1, machines...)
	haveGroups(t, 1, machines...)
	for k, m := range machines {
		m.close()
		if k > 0 {
			require.NoError(t, os.RemoveAll(m.dir))
		}
	}
	for g := range uint32(groups + 1) {
		_, err := cluster.Recover(store.GroupDirectory(machines[0].dir, g), store.Options{}, "", func(*cluster.Survivor) bool { return true })
		require.NoError(t, err)
	}
	for _, m := range machines {
		m.start(t)
	}
	haveGroups(t, 1, machines...)
}

// TestKilledWhileRemoved: a server that was killed while it was removed from a group starts again, removes its part, and
// does not join the group again.
func TestKilledWhileRemoved(t *testing.T) {
	t.Parallel()
	machines := startBalanced(t, 3)
	add(t, 1, machines...)
	haveGroups(t, 1, machines...)
	leaves := machines[0]
	disown(t, 1, leaves, machines...)
	members := func() []cluster.Member { return ownerOf(t, 1, machines[1:]...).host.Group(1).Node().Status().Members }
	leaves.dies = true
	eventually(t, "the removal", func() bool {
		err := ownerOf(t, 1, machines[1:]...).host.Group(1).Node().Remove(t.Context(), leaves.address)
		return err == nil || errors.Is(err, cluster.ErrNoMember) // An earlier removal may have an unknown outcome.
	})
	leaves.ended.Wait()
	leaves.close()
	directory := store.GroupDirectory(leaves.dir, 1)
	_, err := os.Stat(directory)
	require.NoError(t, err, "the server was not killed before it removed its part")
	leaves.dies = false
	leaves.start(t)
	eventually(t, "the server removes its part", func() bool {
		require.Len(t, members(), 2)
		_, err := os.Stat(directory)
		return errors.Is(err, os.ErrNotExist)
	})
}

// TestRebalanceWithoutAServer: the call says that a server does not answer, and not only that its deadline has passed.
func TestRebalanceWithoutAServer(t *testing.T) {
	t.Parallel()
	machines := startBalanced(t, 3)
	leads := ownerOf(t, 0, machines...)
	machines[slices.IndexFunc(machines, func(m *machine) bool { return m != leads })].close()
	running := slices.DeleteFunc(slices.Clone(machines), func(m *machine) bool { return m.stop == nil })
	eventually(t, "each group has an owner again", func() bool {
		_, owns := hosted(running...)
		all := 0
		for _, n := range owns {
			all += n
		}
		return all == groups
	})
	for wait := 600 * time.Millisecond; ; wait *= 2 { // On a busy machine the answer of a short deadline comes too late.
		ctx, cancel := context.WithTimeout(t.Context(), wait)
		_, _, err := ownerOf(t, 0, running...).host.Rebalance(ctx, nil)
		late := ctx.Err() != nil
		cancel()
		if (late || errors.Is(err, storage.ErrNotOwner)) && wait < patience {
			continue
		}
		_, coded := status.FromError(err)
		assert.True(t, errors.Is(err, cluster.ErrNotReachable) && !coded && !late, "late: %v, %v", late, err)
		return
	}
}

// TestGroupsAreFixed: a server with another number of groups does not join, and a member does not start again with
// another number.
func TestGroupsAreFixed(t *testing.T) {
	t.Parallel()
	machines := newMachines(t, 1, 2)
	machines[0].start(t)
	ownerOf(t, 2, machines...)
	machines[0].close()
	_, err := cluster.OpenHost(t.Context(), cluster.Options{Groups: 1025, Address: "127.0.0.1:1"})
	assert.ErrorIs(t, err, cluster.ErrGroups)
	h, err := cluster.OpenHost(t.Context(), cluster.Options{
		Directory: machines[0].dir, Store: store.Options{Cache: 1 << 20}, Groups: 3, Address: machines[0].address, Listener: machines[0].front.open(),
		Now: time.Now, Logger: zap.NewNop(),
	})
	require.NoError(t, err)
	_, err = h.Open(t.Context(), 0)
	assert.ErrorIs(t, err, cluster.ErrGroups, "opened a member of a cluster of 2 groups with 3")
	assert.NoError(t, h.Close())
}

// TestAnotherOwnerAfterLeaving: a new owner of group 0, also after a restart of all servers, does not take the groups of a server that
// leaves for founded groups that lack a member.
func TestAnotherOwnerAfterLeaving(t *testing.T) {
	t.Parallel()
	machines := startBalanced(t, 3)
	leaves := ownerOf(t, 0, machines...)
	rebalance(t, []string{leaves.address}, machines...)
	disown(t, 0, leaves, machines...)
	eventually(t, "the previous owner moves no group", func() bool {
		return errors.Is(leaves.host.Move(t.Context(), placement.Step{Group: 1, Owner: ownerOf(t, 1, machines...).address}), storage.ErrNotOwner)
	})
	for round := range 4 { // The owner of group 0 looks every second until the founding ends, so that each second round waits.
		eventually(t, "the groups have owners", func() bool {
			err := ownerOf(t, 0, machines...).host.MayLeave(t.Context(), leaves.address)
			require.NotErrorIs(t, err, cluster.ErrHasGroups)
			return err == nil
		})
		switch round {
		case 0, 2:
			<-time.After(3 * time.Second)
		case 1:
			for _, m := range machines {
				m.close()
			}
			for _, m := range machines {
				m.start(t)
			}
		}
	}
}
