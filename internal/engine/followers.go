package engine

import (
	"context"
	"errors"
	"fmt"

	"go.uber.org/zap"

	"hindsight/internal/engine/alias"
	"hindsight/internal/engine/hosted"
	"hindsight/internal/engine/record"
	"hindsight/internal/engine/replica"
	"hindsight/internal/engine/storage"
)

// followAll lets the followers learn until the lifetime of the engine ends, one commit of one follower after the other: all
// of them take one processor at most.
func (e *Engine) followAll() {
	lifetime := e.env.Lifetime
	for {
		select {
		case <-lifetime.Done():
			return
		case <-e.followers.Woken():
		}
		for more := true; more && lifetime.Err() == nil; {
			more = false
			for _, r := range e.followers.All() {
				if e.follow(lifetime, r) {
					more = true
				}
			}
		}
	}
}

// follow lets a follower learn once, and reports whether more follows. A failure is tried again with the next
// observation or the next sweep.
func (e *Engine) follow(ctx context.Context, r *replica.Follower) (more bool) {
	f := r.Follows()
	if f == nil || e.o.CheckOwner() != nil || e.changes.pending.Load() > 0 || e.o.Store.Failed() != nil {
		return false
	}
	leader, err := e.leader(f)
	if errors.Is(err, ErrModelNotFound) && !e.registryDamaged.Load() { // The leader was purged.
		err = fmt.Errorf("%w: %w", replica.ErrStops, err)
	}
	if err == nil {
		if leader.Paused() {
			return false
		}
		var left uint64
		if left, err = r.Behind(&leader.follower); err == nil && left == 0 {
			return false
		}
	}
	if err == nil {
		more, err = r.Step(ctx, &leader.follower)
	}
	switch {
	case err == nil || ctx.Err() != nil:
		return more
	case errors.Is(err, replica.ErrRestored):
		if err = e.claimed(ctx, r.ID(), e.continueFollower); err == nil {
			return true
		}
	case errors.Is(err, replica.ErrStops):
		why := err.Error()
		err = e.claimed(ctx, r.ID(), func(ctx context.Context, m *hostedModel) error {
			if m.Registered().Follow == nil {
				return nil // It was stopped before its name was claimed.
			}
			return e.stopFollowing(ctx, m, why)
		})
	}
	if err != nil && ctx.Err() == nil {
		e.o.Log.Debug("a model cannot follow now", zap.String("model", r.ID()), zap.Error(err))
	}
	return false
}

// claimed calls f with a model and the claim on its name.
func (e *Engine) claimed(ctx context.Context, id string, f func(context.Context, *hostedModel) error) error {
	m, release, err := e.lookUpClaimed(ctx, id)
	if err != nil {
		return err
	}
	defer release()
	return f(ctx, m)
}

// stopFollowing makes a follower a model of its own, durably, and sets aliases in the same write. The model
// keeps what it has learned. The caller holds the claim on the name.
func (e *Engine) stopFollowing(ctx context.Context, m *hostedModel, why string, also ...storage.Alias) error {
	next := changed(m.Registered(), e.o.Now())
	leader := next.Follow.Leader.ID
	next.Follow = nil
	if err := m.Register(ctx, next, also...); err != nil {
		return err
	}
	m.SetRegistered(next)
	e.followers.Enlist(&m.follower, false)
	e.o.Log.Warn("a model follows no more", zap.String("model", m.ID()), zap.String("followed", leader), zap.String("why", why))
	return nil
}

// continuation is what a model follows after a restore of its leader, nil if it follows nothing. While the
// leader is restored, or after its purge, that is what the model followed before: followAll decides later.
func (e *Engine) continuation(m *hostedModel) (*record.Follow, error) {
	f := m.Registered().Follow
	if f == nil {
		return nil, nil
	}
	leader, err := e.leader(f)
	if errors.Is(err, ErrModelNotFound) || err == nil && leader.Paused() {
		return f, nil
	}
	if err != nil {
		return nil, err
	}
	return m.follower.Continuation(&leader.follower)
}

// continueFollower lets a follower continue after a restore of its leader, or stops it if it has learned what was undone,
// durably. The caller holds the claim on the name.
func (e *Engine) continueFollower(ctx context.Context, m *hostedModel) error {
	next, err := e.continuation(m)
	switch {
	case err != nil || next == m.Registered().Follow:
		return err
	case next == nil:
		return e.stopFollowing(ctx, m, "the model that it follows was restored, and it has learned what was undone")
	}
	registered := *m.Registered()
	registered.Follow = next
	if err := m.Register(ctx, &registered); err != nil {
		return err
	}
	m.SetRegistered(&registered)
	return nil
}

// continueFollowers calls continueFollower for the followers of a restored model. A failure is tried again with the next observation
// or the next sweep.
func (e *Engine) continueFollowers(ctx context.Context, leader *hostedModel) {
	for _, r := range e.followers.Of(leader.Ref()) {
		if err := e.claimed(ctx, r.ID(), e.continueFollower); err != nil {
			e.o.Log.Debug("a follower of a restored model cannot continue now", zap.String("model", r.ID()), zap.Error(err))
		}
	}
}

func (e *Engine) claimLeader(ctx context.Context, leader *hostedModel) (release func(), err error) {
	for {
		names := []string{leader.ID()}
		for _, r := range e.followers.Of(leader.Ref()) {
			names = append(names, r.ID())
		}
		if release, err = e.table.claimAll(ctx, names...); err != nil {
			return nil, err
		}
		// Only the holder of the claim on the leader creates followers of it.
		if now := len(e.followers.Of(leader.Ref())); now+1 <= len(names) {
			return release, nil
		}
		release()
	}
}

// promote makes a follower a model of its own and sets an alias to it in place of its leader: at the leader's
// turn, when the follower has learned everything, and in one write. After a crash the follower still follows, or
// the alias names it. The caller holds the claims, which promote releases.
func (e *Engine) promote(ctx context.Context, m *hostedModel, current, next *alias.Binding, release func()) error {
	leader, err := e.leader(m.Registered().Follow)
	if err == nil {
		// Most of it is learned outside of the leader's turn.
		err = m.follower.CatchUp(ctx, &leader.follower, hosted.MaxCommitRows)
	}
	if err != nil {
		release()
		return err
	}
	return leader.turnClaimed(ctx, release, func(ctx context.Context) error {
		if err := leader.Advance(); err != nil {
			return err
		}
		if err := m.follower.CatchUp(ctx, &leader.follower, 1); err != nil {
			return err
		}
		if err := e.stopFollowing(ctx, m, "an alias names it in place of the model that it followed", next.Stored()); err != nil {
			return err
		}
		return e.aliases.Serve(current, next, e.named(current))
	})
}

// CompareModels compares a model with its followers, or the leader of a follower with all of its followers: the
// leader comes first, then the followers by their recent loss. It costs one commit of each follower at most.
func (e *Engine) CompareModels(ctx context.Context, name string) ([]Comparison, error) {
	if err := e.asOwner(ctx); err != nil {
		return nil, err
	}
	leader, err := e.find(ctx, name)
	if err != nil {
		return nil, err
	}
	if f := leader.Registered().Follow; f != nil {
		if leader, err = e.leader(f); err != nil {
			return nil, err
		}
	}
	if err := leader.Load(ctx); err != nil {
		return nil, err
	}
	return e.followers.Compare(ctx, &leader.follower)
}

// behind is how many observations of its leader a model has not learned, -1 if that is not known or the model is
// no follower.
func (e *Engine) behind(m *hostedModel) int64 {
	f := m.Registered().Follow
	if f == nil {
		return -1
	}
	leader, err := e.leader(f)
	if err != nil {
		return -1
	}
	n, err := m.follower.Behind(&leader.follower)
	if err != nil {
		return -1
	}
	return int64(n)
}
