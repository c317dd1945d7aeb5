package rpc

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
	"hindsight/internal/clock"
	"hindsight/internal/engine"
)

// Group is a group of models as this server sees it. A server without a cluster, and a cluster of one group,
// have group 0 alone.
type Group struct {
	Number uint32
	// Engine has the models. It is nil while this server has no copy of the group. The engine changes when this
	// server opens the store of the group again, so each call asks for the group.
	Engine *engine.Engine
	// Cluster has the servers of the group, nil without a cluster. It is the same value in all calls for one number.
	Cluster Cluster
}

// Groups are the groups of models. The methods may be called concurrently.
type Groups interface {
	// Of returns the group of a model or an alias.
	Of(name string) Group
	// All returns the groups with models, by number.
	All() []Group
	// Numbered returns a group by its number. In a cluster of several groups, group 0 has no models. Its members are
	// all servers.
	Numbered(number uint32) (Group, bool)
	// Rebalance makes the next step towards balanced groups, without the servers that leave. It returns the step,
	// empty if the groups are balanced, and the number of steps that follow.
	Rebalance(ctx context.Context, leaving []string) (step string, left int, err error)
}

type single [1]Group

// Single returns the groups of a server with one group. The cluster is nil for a server without a cluster.
func Single(e *engine.Engine, cluster Cluster) Groups { return &single{{Engine: e, Cluster: cluster}} }

func (s *single) Of(string) Group { return s[0] }

func (s *single) All() []Group { return s[:] }

func (s *single) Numbered(number uint32) (Group, bool) { return s[0], number == 0 }

// Rebalance implements Groups. One group is always balanced.
func (*single) Rebalance(context.Context, []string) (step string, left int, err error) {
	return "", 0, nil
}

var errAbsent = fmt.Errorf("%w: this server has no copy of the model's group", engine.ErrNotOwner)

type hosts struct{ Groups }

// engine returns the engine of a model or an alias, a closed one if this server has no copy of the group.
func (h hosts) engine(name string) *engine.Engine {
	if e := h.Of(name).Engine; e != nil {
		return e
	}
	return engine.Closed()
}

// together rejects a name in another group. A log orders the changes of one group alone.
func (h hosts) together(field, name, with string) error {
	valid := engine.CheckID(name) == nil && engine.CheckID(with) == nil // The engine rejects other names.
	if !valid || h.Of(name).Number == h.Of(with).Number {
		return nil
	}
	return engine.Invalid(field, fmt.Sprintf("%q, which is in another group than %q", name, with),
		"a name in the same group: names with the same part before the first '.' share a group")
}

const asksAtOnce = 16

// listedGroups returns the groups that a list has: all groups, or the group of a forwarded list. It sets the trailer with
// the age of the oldest state.
func (m *models) listedGroups(ctx context.Context) ([]Group, error) {
	if m.forward == nil {
		return m.groups.All(), nil
	}
	if m.forward.member {
		text := strings.Join(metadata.ValueFromIncomingContext(ctx, groupKey), "")
		number, err := strconv.ParseUint(cmp.Or(text, "0"), 10, 32)
		g, exists := m.groups.Numbered(uint32(number))
		if err != nil || !exists {
			return nil, engine.Invalid("group", text, "a group of the cluster")
		}
		return []Group{g}, nil
	}
	all := m.groups.All()
	oldest, replica := time.Duration(0), false
	for _, g := range all {
		if g.Engine != nil && !g.Cluster.Confirm(ctx) {
			oldest, replica = max(oldest, g.Cluster.Age()), true
		}
	}
	if replica {
		setAge(ctx, oldest)
	}
	return all, nil
}

// ask asks one group: the engine of this server by here, or else the owner of the group. If no owner has confirmed the state of
// this server since the server started, the state may lack what was committed before. Then ask prefers the owner. Another server
// asks only the owner, which may not have applied all earlier changes yet.
func (m *models) ask(
	ctx context.Context, g Group, method string, request any, here func(*engine.Engine) (any, error), options ...grpc.CallOption,
) (answer any, err error) {
	f := m.forward
	search, cancel := searching(ctx)
	defer cancel()
	switch {
	case f != nil && f.member && !f.becomesOwner(ctx, g):
		return nil, f.named(g, engine.ErrNotOwner)
	case f != nil && !f.member && g.Engine != nil && g.Cluster.Age() == math.MaxInt64:
		for pause := firstPause; ; pause = min(2*pause, longestPause) {
			answer, err = f.byOwner(search, search, g, request, method, nil, options...)
			if err == nil {
				return answer, nil
			}
			if !errors.Is(err, engine.ErrUnknown) || !clock.Sleep(search, pause) { // The owner has ended during the call.
				break
			}
		}
	}
	err = errAbsent
	if g.Engine != nil {
		if err = g.Engine.AwaitChanges(ctx); err == nil {
			answer, err = here(g.Engine)
		}
		err = f.absent(err)
	}
	if !errors.Is(err, errAbsent) || f == nil || f.member {
		return answer, f.named(g, err)
	}
	return f.byOwner(ctx, search, g, request, method, nil, options...)
}

// of returns the group of a request. It returns false if the request names a group that does not exist.
func (h hosts) of(request any) (Group, bool) {
	switch r := request.(type) {
	case *hindsightv1.RemoveServerRequest, *hindsightv1.RebalanceClusterRequest: // Group 0 has all servers.
		return h.Numbered(0)
	case interface{ GetGroup() uint32 }:
		return h.Numbered(r.GetGroup())
	case interface{ GetAlias() string }:
		return h.Of(r.GetAlias()), true
	case interface{ GetModel() string }:
		return h.Of(r.GetModel()), true
	case interface{ GetModel() *hindsightv1.Model }:
		return h.Of(r.GetModel().GetId()), true
	case interface{ GetId() string }:
		return h.Of(r.GetId()), true
	}
	return h.Numbered(0)
}
