package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"go.uber.org/zap"

	"hindsight/internal/engine/account"
	"hindsight/internal/engine/account/classes"
	"hindsight/internal/engine/storage"
)

// stopFollowing makes a follower a model of its own, durably, and sets aliases with it or
// not at all. It keeps what it has learned. It follows, and its name is claimed.
func (e *Engine) stopFollowing(ctx context.Context, i *instance, why string, also ...storage.Alias) error {
	next := changed(i.entry.Load(), e.o.Now())
	followed := next.Follow.Leader.ID
	next.Follow = nil
	if err := i.register(ctx, next, also...); err != nil {
		return err
	}
	i.entry.Store(next)
	i.enlist(i, false)
	e.o.Log.Warn("a model follows no more", zap.String("model", i.id), zap.String("followed", followed), zap.String("why", why))
	return nil
}

// settle lets a follower go on after a restore of its leader, or stops it if it has learned
// what was undone, durably. Its name is claimed.
func (e *Engine) settle(ctx context.Context, i *instance) error {
	f := i.follows()
	next, err := e.followsStill(i)
	switch {
	case err != nil || next == f:
		return err
	case next == nil:
		return e.stopFollowing(ctx, i, "the model that it follows was restored, and it has learned what was undone")
	}
	entry := *i.entry.Load()
	entry.Follow = next
	if err := i.register(ctx, &entry); err != nil {
		return err
	}
	i.entry.Store(&entry)
	return nil
}

// settleByID is settle for a follower whose name is not claimed.
func (e *Engine) settleByID(ctx context.Context, id string) error {
	i, release, err := e.own(ctx, id)
	if err != nil {
		return err
	}
	defer release()
	return e.settle(ctx, i)
}

// lead lets the followers learn, one commit of one follower after the other, so that all
// of them take one processor at most.
func (e *Engine) lead() {
	for {
		select {
		case <-e.lifetime.Done():
			return
		case <-e.wake:
		}
		for more := true; more && e.lifetime.Err() == nil; {
			more = false
			for _, i := range e.allFollowers() {
				if e.leadOne(i) {
					more = true
				}
			}
		}
	}
}

// leadOne lets a follower learn once, and tells whether there is more. What fails is tried
// again with the next observation, or the next sweep.
func (e *Engine) leadOne(i *instance) (more bool) {
	f := i.follows()
	if f == nil || e.o.Store.Failed() != nil {
		return false
	}
	leader, err := e.leaderOf(f)
	if errors.Is(err, ErrModelNotFound) && !e.unread {
		err = fmt.Errorf("%w: %w", errStops, err)
	}
	if err == nil && leader.paused.Load() {
		return false
	}
	if err == nil {
		var left uint64
		if left, err = i.behind(f, leader); err == nil && left == 0 {
			return false
		}
	}
	if err == nil {
		more, err = i.followAtTurn(e.lifetime, leader)
	}
	switch {
	case err == nil || e.lifetime.Err() != nil:
		return more
	case errors.Is(err, errRestored):
		if err = e.settleByID(e.lifetime, i.id); err == nil {
			return true
		}
	case errors.Is(err, errStops): // What is not found otherwise is the follower itself.
		err = e.stopByID(e.lifetime, i.id, err)
	}
	if err != nil && e.lifetime.Err() == nil {
		e.o.Log.Debug("a model cannot follow now", zap.String("model", i.id), zap.Error(err))
	}
	return false
}

// stopByID is stopFollowing for a follower whose name is not claimed.
func (e *Engine) stopByID(ctx context.Context, id string, why error) error {
	i, release, err := e.own(ctx, id)
	if err != nil {
		return err
	}
	defer release()
	if i.follows() == nil {
		return nil // It was stopped before its name was claimed.
	}
	return e.stopFollowing(ctx, i, why.Error())
}

// followAtTurn is follow at the follower's turn.
func (i *instance) followAtTurn(ctx context.Context, leader *instance) (bool, error) {
	told := make(chan bool, 1)
	err := i.box.Do(ctx, func(ctx context.Context) error {
		more, err := i.follow(ctx, leader)
		told <- more
		return err
	})
	if err != nil {
		return false, err
	}
	return <-told, nil
}

// promote ends the following of a model that an alias is to name in place of the model
// that it follows, and sets the alias: at the turn of that one, when the follower has
// learned all that it has, and in one write. After a crash the follower still follows, or
// the alias names it. The names are claimed, and released at the end.
func (e *Engine) promote(ctx context.Context, i *instance, now, next *alias, release func()) error {
	leader, err := e.leaderOf(i.follows())
	if err == nil {
		// The most of it is learned outside of the other model's turn.
		err = i.catchUp(ctx, leader, maxCommitRows)
	}
	if err != nil {
		release()
		return err
	}
	return leader.atTurn(ctx, release, func(ctx context.Context) error {
		if err := i.catchUp(ctx, leader, 1); err != nil {
			return err
		}
		set := storage.Alias{Name: next.name, Value: next.Encode()}
		if err := e.stopFollowing(ctx, i, "an alias names it in place of the model that it followed", set); err != nil {
			return err
		}
		return e.serveAlias(now, next)
	})
}

// catchUp lets a follower learn until it is less than so many observations behind. Its
// name is claimed.
func (i *instance) catchUp(ctx context.Context, leader *instance, behind uint64) error {
	for {
		if _, err := i.followAtTurn(ctx, leader); err != nil {
			return err
		}
		if left, err := i.behind(i.follows(), leader); err != nil || left < behind {
			return err
		}
	}
}

// pauseFollowers keeps the followers of a model from learning until goOn. It runs at the
// model's turn.
func (e *Engine) pauseFollowers(ctx context.Context, leader *instance) (goOn func(), err error) {
	leader.paused.Store(true)
	goOn = func() {
		leader.paused.Store(leader.rewinding)
		leader.wakeFollowers()
	}
	for _, i := range leader.followersOf(leader.ref()) {
		// What it learns at its turn now is still the history of before.
		if err := i.box.Do(ctx, func(context.Context) error { return nil }); err != nil {
			goOn()
			return nil, err
		}
	}
	return goOn, nil
}

// settleFollowers settles the followers of a model that was restored. What fails is tried
// again with the next observation, or the next sweep.
func (e *Engine) settleFollowers(ctx context.Context, leader *instance) {
	for _, i := range leader.followersOf(leader.ref()) {
		if err := e.settleByID(ctx, i.id); err != nil {
			e.o.Log.Debug("a follower of a restored model is not settled", zap.String("model", i.id), zap.Error(err))
		}
	}
}

// claimLed claims a model and its followers.
func (e *Engine) claimLed(ctx context.Context, leader *instance) (release func(), err error) {
	for {
		names := []string{leader.id}
		for _, i := range leader.followersOf(leader.ref()) {
			names = append(names, i.id)
		}
		if release, err = e.claimAll(ctx, names...); err != nil {
			return nil, err
		}
		// Followers come by who has claimed the model.
		if now := len(leader.followersOf(leader.ref())); now+1 <= len(names) {
			return release, nil
		}
		release()
	}
}

// Comparison is how a model did beside the model that it follows.
type Comparison struct {
	ID, Learner string
	// Observations counts those of the model that is followed which this one has learned
	// and that the figures are of, Behind those since.
	Observations, Behind uint64
	// Own are the figures of the model, Followed those of the model that it follows over
	// the same observations, nil of that model itself. The classes are nil but of a
	// classifier.
	Own                         account.Performance
	Followed                    *account.Performance
	OwnClasses, FollowedClasses *classes.Performance
	recent                      float64
}

// CompareModels compares a model with those that follow it, or the model that a follower
// follows with all that do. The model comes first, then its followers by their recent
// loss. It costs one commit of each follower at most.
func (e *Engine) CompareModels(ctx context.Context, name string) ([]Comparison, error) {
	leader, err := e.find(ctx, name)
	if err != nil {
		return nil, err
	}
	if f := leader.follows(); f != nil {
		if leader, err = e.leaderOf(f); err != nil {
			return nil, err
		}
	}
	if err := leader.lockLoaded(ctx); err != nil {
		return nil, err
	}
	leader.mu.RUnlock()
	s, err := leader.sums()
	if err != nil {
		return nil, err
	}
	first := Comparison{ID: leader.id, Learner: leader.name(), Observations: s.sequence, Own: s.whole}
	if leader.Spec.Classes != nil {
		first.OwnClasses = &s.classes
	}
	var rest []Comparison
	for _, i := range leader.followersOf(leader.ref()) {
		c, err := i.comparison(ctx, leader)
		switch {
		case err != nil && ctx.Err() != nil:
			return nil, err
		case err != nil:
			e.o.Log.Debug("a follower cannot be compared now", zap.String("model", i.id), zap.Error(err))
		default:
			rest = append(rest, c)
		}
	}
	slices.SortStableFunc(rest, func(a, b Comparison) int { return cmp.Compare(a.recent, b.recent) })
	return append([]Comparison{first}, rest...), nil
}

// comparison is how a follower did. Its figures are of the last sequence that both have
// reached and been told at, and are 0 if there is none since the start.
func (i *instance) comparison(ctx context.Context, leader *instance) (Comparison, error) {
	if _, err := i.followAtTurn(ctx, leader); err != nil {
		return Comparison{}, err
	}
	f := i.follows()
	if f == nil {
		return Comparison{}, errStops
	}
	info, err := leader.info()
	if err != nil {
		return Comparison{}, err
	}
	at := i.compared.Load()
	if at == nil {
		at = &compared{through: f.From}
	}
	c := Comparison{
		ID: i.id, Learner: i.name(), Own: at.own.whole, Followed: &at.leader.whole,
		Observations: at.through - f.From, Behind: info.Sequence - min(at.through, info.Sequence),
	}
	figures := i.figures(i.o.Now())
	loss, observations := figures.Recent.Served.Loss, figures.Recent.Observations
	if i.Spec.Classes != nil {
		c.OwnClasses, c.FollowedClasses = &at.own.classes, &at.leader.classes
		loss, observations = figures.Classes.Served.Errors, figures.Classes.Observations
	}
	c.recent = math.Inf(1) // One that has learned nothing comes last.
	if observations > 0 {
		c.recent = loss / observations
	}
	return c, nil
}
