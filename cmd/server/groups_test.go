package main_test

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

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
func (f *fleet) rebalance(leaving ...string) {
	f.t.Helper()
	for done := f.groups == 1; !done; {
		f.ask("rebalance", f.sample(1)[0], func(ctx context.Context, c hindsightv1.ClusterServiceClient) error {
			from := f.since()
			r, err := c.RebalanceCluster(ctx, &hindsightv1.RebalanceClusterRequest{Leaving: leaving})
			done = err == nil && r.GetStep() == ""
			if err == nil && !done {
				f.t.Logf("%v: %s; %d left", time.Duration(f.since()-from).Round(time.Millisecond), r.GetStep(), r.GetLeft())
			}
			return err
		})
	}
}

// spread checks that no server has, or owns, many more groups than another.
func (f *fleet) spread() {
	f.t.Helper()
	f.awaitVoters()
	v := f.view(f.members[0], 0)
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
			f.t.Errorf("%d servers %s %v groups", len(of), what, counts)
		}
	}
	if len(v.GetGroups()) != f.groups {
		f.t.Errorf("a server shows %d groups, want %d", len(v.GetGroups()), f.groups)
	}
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

// Five servers have four groups while the test kills, stops, cuts off, restarts and moves their owners. The test is
// TestCluster for each group. Every server answers for all models.
func TestClusterOfGroups(t *testing.T) {
	endToEnd(t)
	groupsUnderFaults(t, "kill the owner", "cut off the owner", "stop the owner", "restart the owner", "move the owner")
}

// Cold servers keep what warm ones keep.
func TestClusterOfColdGroups(t *testing.T) {
	endToEnd(t)
	groupsUnderFaults(t, "kill the owner", "restart the owner", "move the owner", "--cluster-standby", "cold")
}

// groupsUnderFaults inflicts faults on four groups. Arguments that are no faults are flags.
func groupsUnderFaults(t *testing.T, of ...string) {
	t.Helper()
	chosen := slices.DeleteFunc(faults(), func(x fault) bool { return !slices.Contains(of, x.name) })
	flags := of[len(chosen):]
	f := newFleet(t, uint64(time.Now().UnixNano()), 5, 4, flags...)
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
