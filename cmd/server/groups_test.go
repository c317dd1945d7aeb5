package main_test

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
	"hindsight/internal/cluster/placement"
)

// share is a group of models at the end of a run.
type share struct {
	group    uint32
	models   []string
	members  []*member
	replicas []replica
}

// numbers are the numbers of the groups of models.
func (f *fleet) numbers() []uint32 {
	if f.groups == 1 {
		return []uint32{0}
	}
	var out []uint32
	for n := range f.groups {
		out = append(out, uint32(n)+1)
	}
	return out
}

// modelsOf are the models of a group.
func (f *fleet) modelsOf(group uint32) (models []string) {
	for _, m := range f.models {
		if placement.Of(m, f.groups) == int(group) {
			models = append(models, m)
		}
	}
	return models
}

// byGroup are the models of each group that has some.
func (f *fleet) byGroup() (shares [][]string) {
	for _, g := range f.numbers() {
		if models := f.modelsOf(g); len(models) > 0 {
			shares = append(shares, models)
		}
	}
	return shares
}

// membersOf are the running members of a group.
func (f *fleet) membersOf(group uint32) (members []*member) {
	for _, m := range f.running() {
		if f.view(m, group).GetServer() != "" {
			members = append(members, m)
		}
	}
	return members
}

// shares are the groups of models with their members.
func (f *fleet) shares() (all []share) {
	for _, g := range f.numbers() {
		all = append(all, share{group: g, models: f.modelsOf(g), members: f.membersOf(g)})
	}
	return all
}

// directory is the directory of a group.
func (m *member) directory(group uint32) string {
	if group == 0 {
		return m.dir
	}
	return filepath.Join(m.dir, "groups", strconv.FormatUint(uint64(group), 10))
}

// has reports whether a server has a directory of a group.
func (m *member) has(group uint32) bool {
	_, err := os.Stat(m.directory(group))
	return err == nil
}

// noRemains waits until only the members of a group have a directory of the group.
func (f *fleet) noRemains() {
	f.t.Helper()
	for _, s := range f.shares() {
		for _, m := range f.running() {
			eventually(f.t, fmt.Sprintf("server %d has group %d, or has removed its directory", m.number, s.group), func() bool {
				return s.group == 0 || m.has(s.group) == slices.Contains(s.members, m)
			})
		}
	}
}

// caughtUpCold makes each member the owner, because only owners learn, and keeps the digests.
func (f *fleet) caughtUpCold(s *share) {
	f.t.Helper()
	for n, m := range s.members {
		eventually(f.t, fmt.Sprintf("server %d owns group %d", m.number, s.group), func() bool {
			if f.ownerOf(s.group) == m {
				return true
			}
			f.moveTo(s.group, m)
			f.awaitVoters()
			return false
		})
		for _, model := range s.models {
			eventually(f.t, "the owner answers", func() bool {
				r, err := m.process.models.GetModelStats(f.t.Context(), &hindsightv1.GetModelStatsRequest{Model: model})
				s.replicas[n].digests[model] = r.GetStats().GetStateDigest()
				return err == nil
			})
		}
	}
}

// rebalance makes steps until none is left.
func (f *fleet) rebalance(leaving ...string) (steps int) {
	f.t.Helper()
	for done := f.groups == 1; !done; {
		f.ask("rebalance", f.sample(1)[0], func(ctx context.Context, c hindsightv1.ClusterServiceClient) error {
			from := f.since()
			r, err := c.RebalanceCluster(ctx, &hindsightv1.RebalanceClusterRequest{Leaving: leaving})
			done = err == nil && r.GetStep() == ""
			if err == nil && !done {
				steps++
				f.t.Logf("%v: %s; %d left", time.Duration(f.since()-from).Round(time.Millisecond), r.GetStep(), r.GetLeft())
			}
			return err
		})
	}
	return steps
}

// spread checks that no server has, or owns, many more groups than another. A busy machine may elect another owner meanwhile. Then a
// further rebalance has steps left.
func (f *fleet) spread() {
	f.t.Helper()
	f.awaitVoters()
	v := f.view(f.members[0], 0)
	assert.Len(f.t, v.GetGroups(), f.groups, "a server shows too few or too many groups")
	problem := f.uneven()
	for problem != "" && f.rebalance() > 0 {
		f.awaitVoters()
		problem = f.uneven()
	}
	assert.Empty(f.t, problem)
}

// uneven says how the groups are spread unevenly, and is empty otherwise.
func (f *fleet) uneven() (problem string) {
	has, owns := map[string]int{}, map[string]int{}
	for _, m := range f.running() {
		has[m.cluster], owns[m.cluster] = 0, 0
	}
	for _, g := range f.numbers() {
		owns[f.ownerOf(g).cluster]++
		for _, m := range f.membersOf(g) {
			has[m.cluster]++
		}
	}
	for what, of := range map[string]map[string]int{"have": has, "own": owns} {
		counts := slices.Sorted(maps.Values(of))
		if counts[len(counts)-1]-counts[0] > 1 {
			problem = fmt.Sprintf("%d servers %s %v groups", len(of), what, counts)
		}
	}
	return problem
}

// everywhere checks that every server answers for the models of every group.
func (f *fleet) everywhere() {
	f.t.Helper()
	f.awaitVoters()
	c := f.customer(1000, f.models)
	defer c.close()
	for _, model := range f.models {
		_, err := f.members[0].process.models.SetAlias(f.t.Context(), &hindsightv1.SetAliasRequest{Alias: model + ".alias", Model: model})
		if err != nil {
			f.t.Error(err)
		}
	}
	for n, m := range f.members {
		for _, model := range f.models {
			x, r := draw(c.rng, model)
			r.Features, r.Inputs, r.ObservationId = x.features, x.inputs, fmt.Sprint("everywhere-", n)
			c.at = n
			if c.observe(r); c.at != n {
				f.t.Errorf("server %d does not take observations of %s", m.number, model)
			}
			asked := x.request(model + ".alias")
			asked.Remember = proto.Bool(false) // The customers have not asked for it.
			if _, err := m.process.predictor.Predict(f.t.Context(), asked); err != nil {
				f.t.Errorf("server %d predicts by an alias of %s: %v", m.number, model, err)
			}
		}
		models, err := m.process.models.ListModels(f.t.Context(), &hindsightv1.ListModelsRequest{})
		var ids []string
		for _, listed := range models.GetModels() {
			ids = append(ids, listed.GetId())
		}
		if slices.Sort(ids); err != nil || !slices.Equal(ids, f.models) {
			f.t.Errorf("server %d lists %v, %v", m.number, ids, err)
		}
		aliases, err := m.process.models.ListAliases(f.t.Context(), &hindsightv1.ListAliasesRequest{})
		if err != nil || len(aliases.GetAliases()) != len(f.models) {
			f.t.Errorf("server %d lists the aliases %v, %v", m.number, aliases, err)
		}
	}
}

// Four servers have four groups while the test kills, stops, cuts off, restarts and moves their owners. The test is
// TestCluster for each group. Every server answers for all models.
func TestClusterOfGroups(t *testing.T) {
	endToEnd(t)
	t.Parallel()
	groupsUnderFaults(t, "kill the owner", "cut off the owner", "stop the owner", "restart the owner", "move the owner")
}

// Cold servers keep what warm ones keep.
func TestClusterOfColdGroups(t *testing.T) {
	endToEnd(t)
	t.Parallel()
	groupsUnderFaults(t, "kill the owner", "restart the owner", "move the owner", "--cluster-standby", "cold")
}

// groupsUnderFaults inflicts faults on four groups. Arguments that are no faults are flags.
func groupsUnderFaults(t *testing.T, of ...string) {
	t.Helper()
	chosen := slices.DeleteFunc(faults(), func(x fault) bool { return !slices.Contains(of, x.name) })
	flags := of[len(chosen):]
	f := newFleet(t, uint64(time.Now().UnixNano()), 4, 4, flags...)
	f.brief = true
	f.spread()
	f.load(*tortureClients)
	for _, x := range chosen {
		f.inflict(x)
	}
	f.net.heal()
	f.everywhere()
	f.report(f.finish())
}

// group has the answers of a command for a group.
type group struct {
	backedUp
	Group        uint32
	Skipped      string
	LastEntry    uint64
	Removed      []string
	Observations int
}

type perGroup struct{ Groups []group }

// grouped are servers of a cluster of two groups that do not run.
func grouped(t *testing.T, servers int, flags ...string) []*seat {
	t.Helper()
	var addresses []string
	for range servers {
		addresses = append(addresses, freePort(t))
	}
	var all []*seat
	for n, address := range addresses {
		all = append(all, &seat{dir: filepath.Join(t.TempDir(), strconv.Itoa(n)), flags: append([]string{
			"--cluster-address", address, "--cluster-join", strings.Join(addresses, ","), "--cluster-groups", "2",
		}, flags...)})
	}
	return all
}

// begin starts servers, and waits until two groups have all of them as members, and an owner each if there are several.
func begin(t *testing.T, all []*seat) {
	t.Helper()
	for _, s := range all {
		s.launch(t)
	}
	for _, s := range all {
		eventually(t, "a server knows both groups", func() bool {
			groups := s.cluster(t).GetGroups()
			return len(groups) == 2 && !slices.ContainsFunc(groups, func(g *hindsightv1.Group) bool {
				return g.GetOwner() == "" || len(g.GetServers()) != len(all)
			})
		})
	}
	eventually(t, "each group has an owner of its own", func() bool {
		groups := all[0].cluster(t).GetGroups()
		if groups[0].GetOwner() == groups[1].GetOwner() { // A server that became the owner of group 0 moves nothing by itself.
			_, _ = hindsightv1.NewClusterServiceClient(all[0].connection).RebalanceCluster(t.Context(), &hindsightv1.RebalanceClusterRequest{})
		}
		return groups[0].GetOwner() != groups[1].GetOwner() || len(all) == 1
	})
}

// learned tells a model to learn, over elections.
func (s *seat) learned(t *testing.T, model string, to int) {
	t.Helper()
	for n := range to {
		eventually(t, "an observation is learned", func() bool {
			o := observation(n)
			o.Model = model
			_, err := s.predictor.Observe(t.Context(), o)
			require.True(t, err == nil || status.Code(err) == codes.Unavailable, err)
			return err == nil
		})
	}
}

func (s *seat) digestOf(t *testing.T, model string, sequence int) (digest string) {
	t.Helper()
	eventually(t, "a server has a model", func() bool {
		r, err := s.models.GetModelStats(t.Context(), &hindsightv1.GetModelStatsRequest{Model: model})
		require.True(t, err == nil || status.Code(err) == codes.Unavailable, err)
		digest = r.GetStats().GetStateDigest()
		return err == nil && r.GetStats().GetObservations() == uint64(sequence)
	})
	return digest
}

// inBoth are models of both groups, with the numbers of their observations.
func inBoth(t *testing.T) map[string]int {
	t.Helper()
	models, of := map[string]int{}, map[int]bool{}
	for n := range 4 {
		name := fmt.Sprintf("m%d", n)
		models[name], of[placement.Of(name, 2)] = 5+n, true
	}
	require.Equal(t, 2, len(of), "a group has no model")
	return models
}

// Of three servers that share a place the owner alone takes scheduled backups, all of which are whole.
func TestOneServerOfAClusterBacksUp(t *testing.T) {
	t.Parallel()
	place := filepath.Join(t.TempDir(), "place")
	var addresses []string
	for range 3 {
		addresses = append(addresses, freePort(t))
	}
	var all []*seat
	for n, address := range addresses {
		all = append(all, &seat{dir: filepath.Join(t.TempDir(), strconv.Itoa(n)), flags: []string{
			"--cluster-address", address, "--cluster-join", strings.Join(addresses, ","),
			"--backup-to", place, "--backup-every", "1s", "--backup-keep", "2",
		}})
		all[n].launch(t)
	}
	all[0].logged(t, "the owner of the models", 1)
	all[0].createAs(t, "m", "")
	owners := map[string]bool{}
	eventually(t, "the owner has taken backups", func() bool {
		owners[all[0].cluster(t).GetOwner()] = true // A busy machine may elect another one.
		taken := 0
		for _, s := range all {
			backups := s.logged(t, backupTaken, 0)
			id := s.cluster(t).GetServer()
			require.True(t, backups <= 0 || owners[id], "server %s, which did not own the models, has taken %d backups", id, backups)
			taken += backups
		}
		return taken >= 3
	})
	// A command on another server would back up what that server has, which may be less than was acknowledged.
	manual := t.TempDir()
	for _, s := range all {
		before := s.cluster(t).GetOwner()
		b := succeed[group](t, "backup", "--data-dir", s.dir, "--to", manual)
		after := s.cluster(t)
		owner := after.GetOwner()
		assert.True(t, owner != before || (b.Backup != "") == (owner == after.GetServer()), "server %s, while %s owns the models: %+v", after.GetServer(), owner, b)
		assert.True(t, b.Backup != "" || strings.Contains(b.Skipped, "another server owns"), "no backup, because %q", b.Skipped)
	}
	for _, s := range all {
		s.kill(t)
	}
	succeed[struct{}](t, "verify", "--from", place)
}

// A burnt cluster of groups comes back from the place of --backup-to. The owner of a group backs the group up, on its
// schedule and when a command asks its server.
func TestBurntCluster(t *testing.T) {
	t.Parallel()
	place := filepath.Join(t.TempDir(), "place")
	all := grouped(t, 3, "--backup-to", place, "--backup-every", "1s", "--backup-keep", "2")
	begin(t, all)
	models, want := inBoth(t), map[string]string{}
	for m, n := range models {
		all[0].createAs(t, m, "")
		all[len(want)%3].learned(t, m, n)
		want[m] = all[1].digestOf(t, m, n)
	}

	manual, taken := t.TempDir(), map[uint32]int{}
	for _, s := range all {
		for _, g := range succeed[perGroup](t, "backup", "--data-dir", s.dir, "--to", manual).Groups {
			assert.True(t, (g.Skipped == "") != (g.Backup == ""), "%+v", g)
			if g.Skipped == "" {
				taken[g.Group] = g.Models
			}
		}
	}
	assert.True(t, len(taken) == 2 && taken[1]+taken[2] == len(models), "models of the backed up groups: %v", taken)
	v := succeed[perGroup](t, "verify", "--from", manual)
	assert.Len(t, v.Groups, 2, v)

	for n := 1; n <= 2; n++ {
		of := filepath.Join(place, fmt.Sprintf("group-%d", n))
		eventually(t, "a backup has the whole group", func() bool {
			found := 0
			names := succeed[struct{ Backups []string }](t, "restore", "--list", "--from", of).Backups
			if len(names) == 0 {
				return false
			}
			for _, m := range manifestOf(t, of, names[len(names)-1]).Models {
				if placement.Of(m.ID, 2) == n && models[m.ID] == int(m.Sequence) {
					found++
				}
			}
			return found == taken[uint32(n)]
		})
	}
	eventually(t, "two servers show their backups", func() bool { // The groups get two owners while they are backed up.
		owners := 0
		for _, s := range all {
			metrics := s.scrape(t, "")
			if f := metrics["hindsight_backup_last_success_timestamp_seconds"]; f != nil {
				owners++
				assert.True(t, s.logged(t, backupTaken, 0) != 0 && time.Since(time.Unix(int64(f.GetMetric()[0].GetGauge().GetValue()), 0)) <= time.Hour, "the backups of a server: %v", f)
			}
		}
		return owners >= 2
	})
	for _, s := range all {
		s.kill(t)
	}

	fresh := grouped(t, 3)
	into := []string{"restore", "--from", place, "--data-dir", fresh[1].dir}
	away := filepath.Join(t.TempDir(), "away")
	require.NoError(t, os.Rename(filepath.Join(place, "group-2"), away))
	a := execute(t, into...)
	assert.True(t, a.code == 1 && strings.Contains(a.errors, "of 2 groups it lacks [2]"), "a restore of one of two groups: %+v", a)
	require.NoError(t, os.Rename(away, filepath.Join(place, "group-2")))
	r := succeed[perGroup](t, into...)
	assert.True(t, len(r.Groups) == 2 && r.Groups[0].Models+r.Groups[1].Models == len(models), "restored %+v", r)
	r = succeed[perGroup](t, "fsck", "--data-dir", fresh[1].dir)
	assert.True(t, len(r.Groups) == 3 && r.Groups[1].Models+r.Groups[2].Models == len(models), "fsck: %+v", r)
	for _, flags := range [][]string{nil, {"--cluster-address", freePort(t)}, {"--cluster-address", freePort(t), "--cluster-groups", "3"}} {
		if p, err := tryLaunch(t, fresh[1].dir, []string{binary}, flags...); err == nil {
			err := p.await(t)
			assert.True(t, err != nil && strings.Contains(err.Error(), "cluster"), "%v: %v", flags, err)
		}
	}
	begin(t, fresh)
	for m, n := range models {
		for k, s := range fresh {
			got := s.digestOf(t, m, n)
			assert.True(t, got == want[m], "server %d: the state of %s is %s, want %s", k, m, got, want[m])
		}
		fresh[2].learned(t, m, n+3)
		fresh[0].digestOf(t, m, n+3)
	}
}

// A restore of a time is of all groups. One group, and one model, come out of the place as from the place of a server.
func TestRestoreGroupsAtATime(t *testing.T) {
	t.Parallel()
	all := grouped(t, 1)
	begin(t, all)
	models, place := inBoth(t), t.TempDir()
	for m, n := range models {
		all[0].createAs(t, m, "")
		all[0].learned(t, m, n)
	}
	at := time.Now()
	early := succeed[perGroup](t, "backup", "--data-dir", all[0].dir, "--to", place).Groups
	for m, n := range models {
		all[0].learned(t, m, n+10)
	}
	all[0].terminate(t)
	late := succeed[perGroup](t, "backup", "--data-dir", all[0].dir, "--to", place).Groups
	require.True(t, len(early) == 2 && len(late) == 2 && early[1].Backup < late[0].Backup, "%+v, %+v", early, late)
	for _, c := range []struct {
		which []string
		more  int // Observations of each model.
	}{
		{[]string{"--at", at.Format(time.RFC3339Nano), "--backup", late[1].Backup}, 0},
		{[]string{"--backup", early[1].Backup}, 0},
		{nil, 10},
	} {
		dir, want, got := filepath.Join(t.TempDir(), "restored"), 0, 0
		succeed[perGroup](t, append([]string{"restore", "--from", place, "--data-dir", dir}, c.which...)...)
		for _, g := range succeed[perGroup](t, "fsck", "--data-dir", dir).Groups {
			got += g.Observations
		}
		for _, n := range models {
			want += n + c.more
		}
		assert.Equal(t, want, got, c.which)
	}
	one := filepath.Join(t.TempDir(), "one")
	succeed[struct{}](t, "restore", "--from", filepath.Join(place, "group-1"), "--data-dir", one)
	p := launch(t, one)
	for m, n := range models {
		got := p.model(t, m)
		assert.True(t, (got != nil) == (placement.Of(m, 2) == 1) && (got == nil || got.GetSequence() == uint64(n)+10), "%s: %v", m, got)
	}
	p.terminate(t)
	if p, err := tryLaunch(t, one, []string{binary}, all[0].flags...); err == nil {
		err := p.await(t)
		assert.True(t, err != nil && strings.Contains(err.Error(), "has models without groups"), "models of a server in a cluster of groups: %v", err)
	}

	// A place with both kinds of backups says so.
	succeed[backedUp](t, "backup", "--data-dir", one, "--to", place)
	a := execute(t, "restore", "--from", place, "--data-dir", filepath.Join(t.TempDir(), "both"))
	assert.True(t, a.code == 1 && strings.Contains(a.errors, "with groups and without"), "both kinds: %+v", a)
}

// A remaining server continues with all groups of its directory.
func TestRecoverGroups(t *testing.T) {
	t.Parallel()
	all := grouped(t, 3)
	begin(t, all)
	models := inBoth(t)
	for m, n := range models {
		all[0].createAs(t, m, "")
		all[0].learned(t, m, n)
		all[2].digestOf(t, m, n)
	}
	for _, s := range all {
		s.kill(t)
	}
	arguments := []string{"cluster", "recover", "--data-dir", all[2].dir, "--json"}
	a := execute(t, append(arguments, "--group", "7")...)
	assert.True(t, a.code == 2 && strings.Contains(a.errors, "--group: got 7"), "no group 7: %+v", a)
	a = execute(t, arguments...)
	assert.True(t, a.code == 1 && strings.Count(a.out, `"lastEntry"`) == 3, "not confirmed: %+v", a)
	r := succeed[perGroup](t, append(arguments[:4:4], "--group", "2", "--yes")...)
	assert.True(t, len(r.Groups) == 1 && r.Groups[0].Group == 2, "one group: %+v", r)
	for k, g := range succeed[perGroup](t, append(arguments[:4:4], "--yes")...).Groups {
		assert.True(t, int(g.Group) == k && g.LastEntry != 0 && (len(g.Removed) == 2 || g.Group == 2), "%+v", g)
	}
	all[2].launch(t)
	for m, n := range models {
		all[2].learned(t, m, n+3)
		all[2].digestOf(t, m, n+3)
	}
	all[2].terminate(t)
}
