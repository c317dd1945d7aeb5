package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	clusterv1 "hindsight/api/proto/hindsight/cluster/v1"
	"hindsight/internal/clock"
	"hindsight/internal/cluster/placement"
	"hindsight/internal/engine/storage"
)

const (
	// A server becomes a voter of a group within stepTimeout, or the step fails and may be made again.
	stepTimeout = 5 * time.Minute
	// While a server joins a group, pollInterval is the time between two looks at it.
	pollInterval = 20 * time.Millisecond
	// Until the founding ends, each server looks at the groups every placeInterval.
	placeInterval = time.Second
)

// ErrHasGroups reports that a server leaves the cluster only after its groups have moved to other servers.
var ErrHasGroups = errors.New("cluster: move the groups of the server before removing it")

// ErrNotReachable reports that groups do not move while a server does not answer.
var ErrNotReachable = errors.New("cluster: groups move only while every server answers: start the server, or name it as leaving")

// Rebalance makes the next step towards groups that are spread evenly over the servers, without those that leave. It
// returns the step, zero if nothing is left to do, and how many steps follow. The owner of group 0 rebalances; on other
// servers Rebalance fails with storage.ErrNotOwner. After an error a further call continues.
func (h *Host) Rebalance(ctx context.Context, leaving []string) (step placement.Step, left int, err error) {
	if !h.groups[0].Owns() {
		return step, 0, fmt.Errorf("cluster: rebalance: %w", storage.ErrNotOwner)
	}
	for _, server := range leaving { // The name of no member does not end the founding.
		if _, err := find(h.members(), server); err != nil {
			return step, 0, err
		}
	}
	inside, cancel := within(ctx, stepTimeout)
	defer cancel()
	if err = h.until(inside, h.rebalancing.TryLock); err == nil {
		if len(leaving) > 0 {
			err = h.endFounding()
		}
		if err == nil {
			step, left, err = placement.Rebalance(inside, fleet{h}, leaving)
		}
		h.rebalancing.Unlock()
	}
	if err != nil && !errors.Is(err, ErrNotReachable) { // A server may have ended during the step.
		if _, _, why := (fleet{h}).Look(ctx, leaving); errors.Is(why, ErrNotReachable) {
			err = why
		}
	}
	return step, left, err
}

// MayLeave fails with ErrHasGroups if a server, named by id or address, is a member of a group of models.
func (h *Host) MayLeave(ctx context.Context, server string) error {
	m, err := find(h.members(), server)
	if err != nil {
		return err
	}
	groups, _, err := fleet{h}.Look(ctx, []string{m.Address})
	if err != nil {
		return err
	}
	var has []int
	for _, g := range groups {
		if slices.Contains(g.Members, m.Address) {
			has = append(has, g.Number)
		}
	}
	if len(has) == 0 {
		return nil
	}
	return fmt.Errorf("%w: %s has the groups %v: hindsight cluster rebalance --leaving %s", ErrHasGroups, server, has, m.Address)
}

var errSpread = errors.New("cluster: the founding has ended")

// fleet implements placement.Fleet.
type fleet struct{ *Host }

// Look implements placement.Fleet.
func (h fleet) Look(ctx context.Context, leaving []string) ([]placement.Group, []string, error) {
	n := h.groups[0].node.Load()
	if n == nil || len(h.groups) == 1 {
		return nil, nil, nil
	}
	var addresses, servers []string
	var left []string
	for _, m := range n.Status().Members {
		addresses = append(addresses, m.Address)
		if slices.Contains(leaving, m.Address) || slices.Contains(leaving, m.ID) {
			left = append(left, m.Address)
		} else {
			servers = append(servers, m.Address)
		}
	}
	if len(left) < len(leaving) {
		return nil, nil, fmt.Errorf("%w: one of %q", ErrNoMember, leaving)
	}
	known := map[uint32]placement.Group{}
	for k, a := range h.askAll(ctx, addresses) {
		if a.err != nil && slices.Contains(servers, addresses[k]) {
			return nil, nil, fmt.Errorf("%w: %s", ErrNotReachable, a.err.Error()) // Without the status of a.err.
		}
		for _, hosted := range a.said.GetHosted() {
			if hosted.GetOwnerAddress() == a.address { // Only the owner knows all members.
				known[hosted.GetGroup()] = placement.Group{Number: int(hosted.GetGroup()), Members: addressesOf(hosted.GetMembers()), Owner: a.address}
			}
		}
	}
	groups := make([]placement.Group, 0, len(h.groups)-1)
	for _, g := range h.groups[1:] {
		group, ok := known[g.number]
		if !ok {
			return nil, nil, fmt.Errorf("cluster: group %d has no owner at present: %w", g.number, storage.ErrNotOwner)
		}
		groups = append(groups, group)
	}
	return groups, servers, nil
}

// askAll asks servers about group 0 and for all their groups, concurrently. It keeps the owners of the groups that this
// server is no member of, and whether the founding has ended.
func (h *Host) askAll(ctx context.Context, addresses []string) []answer {
	out := h.greetEach(ctx, &clusterv1.HelloRequest{Id: h.id(0), All: true}, addresses)
	for _, a := range out {
		if a.said.GetSpread() {
			h.spread.Store(true)
		}
		for _, hosted := range a.said.GetHosted() {
			if g := h.Group(hosted.GetGroup()); g != nil && g.node.Load() == nil && hosted.GetOwnerAddress() == a.address {
				g.set(a.address, addressesOf(hosted.GetMembers()))
			}
		}
	}
	return out
}

// make makes a step: the server Add joins and votes, then Owner owns, then Remove leaves.
func (h *Host) make(ctx context.Context, s placement.Step) error {
	ctx, cancel := context.WithTimeout(ctx, stepTimeout)
	defer cancel()
	h.log.Info("a group moves", zap.Int("group", s.Group), zap.String("joins", s.Add), zap.String("owns", s.Owner), zap.String("leaves", s.Remove))
	g := h.groups[s.Group]
	if s.Add != "" {
		if err := h.join(ctx, g, s.Add); err != nil {
			return fmt.Errorf("cluster: %s joins group %d: %w", s.Add, s.Group, err)
		}
	}
	if s.Owner != "" {
		if err := h.change(ctx, g, &clusterv1.ChangeGroupRequest{Group: g.number, Own: s.Owner}); err != nil {
			return fmt.Errorf("cluster: %s owns group %d: %w", s.Owner, s.Group, err)
		}
		if err := h.until(ctx, func() bool { return h.owner(ctx, g) == s.Owner }); err != nil {
			return fmt.Errorf("cluster: %s owns group %d: %w", s.Owner, s.Group, err)
		}
	}
	if s.Remove != "" {
		if err := h.change(ctx, g, &clusterv1.ChangeGroupRequest{Group: g.number, Remove: s.Remove}); err != nil {
			return fmt.Errorf("cluster: %s leaves group %d: %w", s.Remove, s.Group, err)
		}
		// A server that does not answer finds out by itself.
		if client, err := h.client(s.Remove); err == nil {
			ctx, cancel := context.WithTimeout(ctx, helloTimeout)
			defer cancel()
			_, _ = client.LeaveGroup(ctx, &clusterv1.LeaveGroupRequest{Group: g.number})
		}
	}
	return nil
}

func (h *Host) join(ctx context.Context, g *Group, server string) error {
	client, err := h.client(server)
	if err != nil {
		return err
	}
	waited := h.until(ctx, func() bool {
		// The server may have restarted since the last call, or may have left the group just before.
		asking, cancel := within(ctx, helloTimeout)
		defer cancel()
		if _, err = client.OpenGroup(asking, &clusterv1.OpenGroupRequest{Group: g.number}); err != nil {
			return true
		}
		owner := h.owner(ctx, g)
		if owner == "" {
			return false
		}
		said, helloErr := h.hello(ctx, g.number, owner)
		return helloErr == nil && slices.ContainsFunc(said.GetMembers(), func(p *clusterv1.Peer) bool { return p.GetAddress() == server && p.GetVoter() })
	})
	return errors.Join(waited, err)
}

func (h *Host) owner(ctx context.Context, g *Group) string {
	if n := g.node.Load(); n != nil {
		owner, _ := n.Owner()
		return owner.Address
	}
	return g.search(ctx)
}

func (h *Host) change(ctx context.Context, g *Group, r *clusterv1.ChangeGroupRequest) (err error) {
	waited := h.until(ctx, func() bool {
		owner := h.owner(ctx, g)
		if owner == "" {
			return false
		}
		client, connectErr := h.client(owner)
		if connectErr != nil {
			err = connectErr
			return true
		}
		_, err = client.ChangeGroup(ctx, r)
		return status.Code(err) != codes.Unavailable // The server took the call.
	})
	return errors.Join(waited, err)
}

// until calls done until it returns true. It fails with storage.ErrNotOwner once this server does not own group 0: then
// another server moves groups, by another plan.
func (h *Host) until(ctx context.Context, done func() bool) error {
	for h.groups[0].Owns() {
		if done() {
			return nil
		}
		if !clock.Sleep(ctx, pollInterval) {
			return context.Cause(ctx)
		}
	}
	return storage.ErrNotOwner
}

// place spreads the founded groups over the servers of Options.Join, once all of them are members of the cluster. The owner of
// group 0 moves the groups. A group that lacks a member later is not a founded group. So the founding ends for good once every
// group has all its members, or an operator moves groups away from a server: each server keeps the end of the founding on its
// disk, and the others learn of it by Hello.
func (h *Host) place(ctx context.Context) {
	begun := false
	for !h.spread.Load() {
		if err := h.placeAll(ctx, &begun); err != nil {
			h.log.Debug("the founded groups wait for their members", zap.Error(err))
		}
		if !clock.Sleep(ctx, placeInterval) {
			return
		}
	}
	if err := h.endFounding(); err != nil {
		h.log.Warn("the end of the founding is not on the disk", zap.Error(err))
	}
}

func (h *Host) endFounding() error {
	h.spread.Store(true)
	if n := h.groups[0].node.Load(); n != nil {
		return n.local.SetGroupsSpread(true)
	}
	return nil
}

// placeAll looks at all groups, and spreads them if this server owns group 0. It sets begun once it moves groups.
func (h *Host) placeAll(ctx context.Context, begun *bool) error {
	h.rebalancing.Lock()
	defer h.rebalancing.Unlock()
	groups, servers, err := founding{fleet{h}}.Look(ctx, nil)
	lacks := func(founder string) bool { return !slices.Contains(servers, founder) }
	if err != nil || slices.ContainsFunc(h.founders(), lacks) {
		return err
	}
	want := min(placement.Replicas, len(servers))
	*begun = *begun || slices.ContainsFunc(groups, func(g placement.Group) bool { return len(g.Members) < want })
	if *begun {
		if err := placement.Spread(ctx, founding{fleet{h}}); err != nil {
			return err
		}
		h.log.Info("the groups are spread over the servers", zap.Int("groups", len(groups)), zap.Int("servers", len(servers)))
	}
	h.spread.Store(true)
	return nil
}

// founding is the fleet of the owner of group 0 until the founding ends.
type founding struct{ fleet }

// Look implements placement.Fleet.
func (f founding) Look(ctx context.Context, leaving []string) ([]placement.Group, []string, error) {
	groups, servers, err := f.fleet.Look(ctx, leaving)
	switch {
	case err != nil:
	case f.spread.Load():
		err = errSpread
	case !f.groups[0].Owns():
		err = storage.ErrNotOwner
	}
	return groups, servers, err
}

// Make implements placement.Fleet.
func (h fleet) Make(ctx context.Context, steps []placement.Step) error {
	failures := make([]error, len(steps))
	var making sync.WaitGroup
	for k, s := range steps {
		making.Go(func() { failures[k] = h.make(ctx, s) })
	}
	making.Wait()
	return errors.Join(failures...)
}
