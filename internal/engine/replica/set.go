package replica

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"go.uber.org/zap"

	"hindsight/internal/engine/account"
	"hindsight/internal/engine/account/classes"
	"hindsight/internal/engine/account/confidence"
	"hindsight/internal/engine/record"
)

// Set holds the followers of an engine.
type Set struct {
	log *zap.Logger
	mu  struct {
		sync.Mutex
		byID map[string]*Follower
	}
	// count == len(mu.byID)
	count atomic.Int32
	wake  chan struct{}
}

// NewSet returns an empty set.
func NewSet(log *zap.Logger) *Set {
	s := &Set{log: log, wake: make(chan struct{}, 1)}
	s.mu.byID = map[string]*Follower{}
	return s
}

// Enlist takes a model into the set, or out of it.
func (s *Set) Enlist(r *Follower, follows bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if follows {
		s.mu.byID[r.ID()] = r
	} else {
		delete(s.mu.byID, r.ID())
	}
	s.count.Store(int32(len(s.mu.byID)))
	s.Wake()
}

// Wake lets the followers look for what they have not learned. It does not wait, and costs one atomic load
// without replicas.
func (s *Set) Wake() {
	if s.count.Load() == 0 {
		return
	}
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// Woken has a token while followers may have something to learn.
func (s *Set) Woken() <-chan struct{} { return s.wake }

// All returns the followers in the order of their ids.
func (s *Set) All() []*Follower {
	if s.count.Load() == 0 {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.SortedFunc(maps.Values(s.mu.byID), func(a, b *Follower) int { return strings.Compare(a.ID(), b.ID()) })
}

// Of returns the followers of a leader in the order of their ids.
func (s *Set) Of(leader record.Ref) []*Follower {
	return slices.DeleteFunc(s.All(), func(r *Follower) bool {
		f := r.Follows()
		return f == nil || f.Leader != leader
	})
}

// Follow reports whether a model has a follower. It costs one atomic load without followers, else
// O(followers of all models), and allocates nothing.
func (s *Set) Follow(leader record.Ref) bool {
	if s.count.Load() == 0 {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.mu.byID {
		if f := r.Follows(); f != nil && f.Leader == leader {
			return true
		}
	}
	return false
}

// AwaitTurns waits until every follower of a leader has ended the turn that it has now.
func (s *Set) AwaitTurns(ctx context.Context, leader record.Ref) error {
	for _, r := range s.Of(leader) {
		if err := r.model.Turn(ctx, func(context.Context) error { return nil }); err != nil {
			return err
		}
	}
	return nil
}

// KeepFrom returns the first sequence that the log of a leader must keep, at most through: a follower may not
// have learned it.
func (s *Set) KeepFrom(leader record.Ref, through uint64) uint64 {
	var learned []uint64
	for _, r := range s.Of(leader) {
		if f := r.Follows(); f != nil {
			if at, err := r.leaderSequence(f); err == nil {
				learned = append(learned, at)
			}
		}
	}
	return neededBy(learned, through)
}

// neededBy returns the first sequence that followers which have learned so far need, at most through. A
// follower more than followLimit behind counts for nothing.
func neededBy(learned []uint64, through uint64) uint64 {
	first := through
	for _, at := range learned {
		if at+1 < first && through-at <= followLimit {
			first = at + 1
		}
	}
	return first
}

// Comparison is how a model did beside its leader.
type Comparison struct {
	ID, Learner string
	// Observations counts the leader's observations that this model has learned and that the figures are of,
	// Behind those since.
	Observations, Behind uint64
	// Own are the figures of the model, Followed the figures of the leader over the same observations, nil of the
	// leader itself. The classes are nil unless the model is a classifier.
	Own                         account.Performance
	Followed                    *account.Performance
	OwnClasses, FollowedClasses *classes.Performance
	// Difference is the mean prequential loss of the model minus the mean prequential loss of its leader over Paired of the
	// same observations, of classifiers the error rates. It is nil of the leader, and while it is not known.
	Difference *confidence.Interval
	Paired     uint64
	recent     float64
}

// Compare compares a leader in memory with its followers: the leader first, then the followers by their recent
// loss. It costs one commit of each follower at most.
func (s *Set) Compare(ctx context.Context, leader *Follower) ([]Comparison, error) {
	learned, err := sumsOf(leader.model)
	if err != nil {
		return nil, err
	}
	first := Comparison{ID: leader.model.ID(), Learner: leader.model.Learner(), Observations: learned.sequence, Own: learned.whole}
	if leader.model.Spec().Classes != nil {
		first.OwnClasses = &learned.classes
	}
	var rest []Comparison
	for _, r := range s.Of(leader.model.Ref()) {
		c, err := r.comparison(ctx, leader)
		switch {
		case err != nil && ctx.Err() != nil:
			return nil, err
		case err != nil:
			s.log.Debug("a follower cannot be compared now", zap.String("model", r.ID()), zap.Error(err))
		default:
			rest = append(rest, c)
		}
	}
	slices.SortStableFunc(rest, func(a, b Comparison) int { return cmp.Compare(a.recent, b.recent) })
	return append([]Comparison{first}, rest...), nil
}

// comparison is how a follower did, at the last sequence where the losses of both models were noted. Without
// one since the start its figures are 0.
func (r *Follower) comparison(ctx context.Context, leader *Follower) (Comparison, error) {
	if _, err := r.Step(ctx, leader); err != nil {
		return Comparison{}, err
	}
	f := r.model.Registered().Follow
	if f == nil {
		return Comparison{}, ErrStops
	}
	sequence, err := leader.model.Sequence()
	if err != nil {
		return Comparison{}, err
	}
	at := r.compared.Load()
	if at == nil {
		at = &compared{through: f.From}
	}
	c := Comparison{
		ID: r.model.ID(), Learner: r.model.Learner(), Own: at.follower.whole, Followed: &at.leader.whole,
		Observations: at.through - f.From, Behind: sequence - min(at.through, sequence),
	}
	if r.model.Spec().Classes != nil {
		c.OwnClasses, c.FollowedClasses = &at.follower.classes, &at.leader.classes
	}
	present, _ := sumsOf(r.model) // A model that cannot be read has no recent loss.
	c.recent = present.recent
	if i, ok := confidence.Paired(present.pairs); ok {
		c.Difference, c.Paired = &i, uint64(present.pairs.Count)
	}
	return c, nil
}
