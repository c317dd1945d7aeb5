package engine

import (
	"context"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"

	"hindsight/internal/engine/record"
	"hindsight/internal/engine/recovery"
	"hindsight/internal/engine/storage"
	"hindsight/internal/model"
	"hindsight/internal/model/codec"
)

// A model that others follow keeps its log for them as far as followLimit observations
// back. A follower that is further behind stops following.
const followLimit = 1_000_000

// errStops is why a follower can follow no more.
var errStops = errors.New("it follows no more")

// errRestored: the leader was restored since the follower learned of it. The follower
// learns nothing until Engine.settle has decided whether it still follows.
var errRestored = errors.New("the model that it follows was restored")

// sums are those of the present state, or of the last one in memory. It costs what
// Summary costs.
func (i *instance) sums() (s sums, err error) {
	i.mu.RLock()
	defer i.mu.RUnlock()
	m, last := i.mu.machine, i.mu.last
	switch {
	case m != nil:
		s = sums{sequence: m.Sequence(), whole: m.Summary().Whole, known: true}
		if c := m.ClassSummary(); c != nil {
			s.classes = c.Whole
		}
		return s, m.Failed()
	case i.mu.broken != nil:
		return s, i.mu.broken
	case last != nil:
		s.whole, s.known = last.summary.Whole, true
		if last.classes != nil {
			s.classes = last.classes.Whole
		}
	}
	s.sequence, err = i.Kept.Last()
	return s, i.errorf("find the end of the log", recovery.StorageError(err))
}

// encode gives the bytes of the losses.
func (s *sums) encode() []byte { return s.classes.AppendBinary(s.whole.AppendBinary(nil)) }

// decodeSums reads what encode wrote.
func decodeSums(data []byte) (s sums, err error) {
	r := codec.NewReader(data)
	s.whole.Read(r, math.MaxFloat64)
	s.classes.Read(r, math.MaxFloat64)
	return s, r.End()
}

// follows is what the model follows, nil if it follows none.
func (i *instance) follows() *record.Follow { return i.entry.Load().Follow }

// enlist takes a model into the set of followers, or out of it.
func (s *shared) enlist(i *instance, follows bool) {
	s.following.Lock()
	defer s.following.Unlock()
	if follows {
		s.following.byID[i.id] = i
	} else {
		delete(s.following.byID, i.id)
	}
	s.followers.Store(int32(len(s.following.byID)))
	s.wakeFollowers()
}

// followersOf are the followers of a model in the order of their ids.
func (s *shared) followersOf(leader record.Ref) []*instance {
	return slices.DeleteFunc(s.allFollowers(), func(i *instance) bool {
		f := i.follows()
		return f == nil || f.Leader != leader
	})
}

// allFollowers are those of all models in the order of their ids.
func (s *shared) allFollowers() (out []*instance) {
	if s.followers.Load() == 0 {
		return nil
	}
	s.following.Lock()
	defer s.following.Unlock()
	for _, i := range s.following.byID {
		out = append(out, i)
	}
	slices.SortFunc(out, func(a, b *instance) int { return strings.Compare(a.id, b.id) })
	return out
}

// wakeFollowers lets the followers look for what they have not learned. It does not
// wait, and costs one atomic read where no model follows another.
func (s *shared) wakeFollowers() {
	if s.followers.Load() == 0 {
		return
	}
	select {
	case s.wake <- struct{}{}:
	default: // They are awake.
	}
}

// followed is the sequence, of the model that is followed, of the last observation that
// a follower has learned: its own observations are those behind From, one after the
// other, so that its log tells it.
func (i *instance) followed(f *record.Follow) (uint64, error) {
	last, err := i.Kept.Last()
	return f.From + last, i.errorf("find the end of the log", recovery.StorageError(err))
}

// continuation is what a follower follows after a restore of its leader: f if there was no
// restore, nil if the follower has learned what was undone. A follower that was deleted
// during more than one restore counts as one that has: the leader knows its newest alone.
func (i *instance) continuation(f *record.Follow, leader *instance) (*record.Follow, error) {
	r := leader.entry.Load().Restored
	if f.Epoch == r.Epoch {
		return f, nil
	}
	at, err := i.followed(f)
	if err != nil || f.Epoch > r.Epoch || r.Epoch-f.Epoch > 1 || at > r.Sequence {
		return nil, err
	}
	next := *f
	next.Epoch = r.Epoch
	return &next, nil
}

// behind is how many observations of the model that it follows a follower has not learned.
func (i *instance) behind(f *record.Follow, leader *instance) (uint64, error) {
	if f.Epoch != leader.entry.Load().Restored.Epoch {
		return 0, errRestored
	}
	at, err := i.followed(f)
	if err != nil {
		return 0, err
	}
	info, err := leader.info()
	if err == nil && at > info.Sequence {
		err = fmt.Errorf("%w: it has learned sequence %d of model %q, whose log ends at %d", errStops, at, leader.id, info.Sequence)
	}
	return info.Sequence - min(at, info.Sequence), err
}

// needed is the first sequence up to one that the log has to keep: a follower may not
// have learned it.
func (i *instance) needed(through uint64) uint64 {
	var learned []uint64
	for _, follower := range i.followersOf(i.ref()) {
		if f := follower.follows(); f != nil {
			if at, err := follower.followed(f); err == nil {
				learned = append(learned, at)
			}
		}
	}
	return neededBy(learned, through)
}

// neededBy is the first sequence up to one that the log has to keep for followers that
// have learned so far. One that is more than followLimit behind counts for nothing.
func neededBy(learned []uint64, through uint64) uint64 {
	least := through
	for _, at := range learned {
		if at+1 < least && through-at <= followLimit {
			least = at + 1
		}
	}
	return least
}

// logged are the observations of the log behind a sequence, up to another one, without
// what was served.
func (i *instance) logged(ctx context.Context, after, through uint64) (out []record.Observation, err error) {
	first, err := i.Kept.First()
	if err != nil && !errors.Is(err, storage.ErrCorrupt) {
		return nil, i.errorf("find the beginning of the log", recovery.StorageError(err))
	}
	if err != nil || first > after+1 {
		return nil, fmt.Errorf("%w: the log of model %q begins behind sequence %d, which is the next", errStops, i.id, after+1)
	}
	err = i.Kept.Replay(ctx, after, func(r storage.Record) error {
		if r.First > through {
			return recovery.ErrReached
		}
		decoded, err := record.Decode(r.Data)
		if err != nil {
			return fmt.Errorf("%w: %w", ErrCorrupt, err)
		}
		for n := range decoded.Observations {
			if at := r.First + uint64(n); at > after && at <= through {
				o := &decoded.Observations[n]
				o.ID, o.Served = "", nil
				out = append(out, *o)
			}
		}
		if r.Last >= through {
			return recovery.ErrReached
		}
		return nil
	})
	if err != nil && !errors.Is(err, recovery.ErrReached) {
		return nil, i.errorf("read the log for a follower", recovery.StorageError(err))
	}
	if uint64(len(out)) != through-after {
		return nil, i.errorf("read the log for a follower", fmt.Errorf("%d observations behind sequence %d, want %d: %w", len(out), after, through-after, ErrCorrupt))
	}
	return out, nil
}

// sameQuestion refuses a spec whose inputs, labels or classes are not those of the model
// that it is to follow.
func sameQuestion(spec, leader *model.Spec) error {
	var errs []error
	differ := func(field string, got, want any) {
		if !reflect.DeepEqual(got, want) {
			errs = append(errs, &model.FieldError{
				Field: "spec." + field, Err: ErrInvalidRequest, Got: fmt.Sprintf("%v", got), Want: fmt.Sprintf("%v, as the model that it follows has", want),
			})
		}
	}
	// How a model scales its categories is its own matter.
	unscaled := func(inputs []*model.Input) []*model.Input {
		return model.WithJointScale(inputs, func(int, *bool) *bool { return nil })
	}
	if !reflect.DeepEqual(unscaled(spec.Inputs), unscaled(leader.Inputs)) {
		errs = append(errs, &model.FieldError{
			Field: "spec.inputs", Err: ErrInvalidRequest, Got: fmt.Sprintf("%d inputs", len(spec.Inputs)),
			Want: fmt.Sprintf("the same %d inputs, in all that is said of them, as the model that it follows has", len(leader.Inputs)),
		})
	} else if len(spec.Inputs) == 0 {
		differ("dimension", spec.Dimension, leader.Dimension)
	}
	if (spec.Classes == nil) != (leader.Classes == nil) {
		differ("classes", spec.Classes != nil, leader.Classes != nil)
	} else if spec.Classes != nil {
		differ("classes.max_classes", *spec.Classes.MaxClasses, *leader.Classes.MaxClasses)
	}
	if spec.Classes == nil {
		differ("outputs", spec.Outputs, leader.Outputs)
	}
	return model.JoinFields(errs...)
}

// leads refuses a model that no other can follow.
func leads(i *instance) error {
	if f := i.follows(); f != nil {
		return &model.FieldError{
			Field: "follows", Err: ErrInvalidRequest, Got: fmt.Sprintf("%q, which follows %q", i.id, f.Leader.ID), Want: "a model that follows none",
		}
	}
	return nil
}

// beginAt is where a model begins to follow another: at its present sequence, with its
// figures of then. Until release its log is not cut.
func (i *instance) beginAt(ctx context.Context) (f *record.Follow, release func(), err error) {
	for {
		if err := i.lockLoaded(ctx); err != nil {
			return nil, nil, err
		}
		i.mu.RUnlock()
		if err := i.takeDisk(ctx); err != nil {
			return nil, nil, err
		}
		release = func() { <-i.disk }
		s, err := i.sums()
		if err == nil && s.known {
			return &record.Follow{Leader: i.ref(), Epoch: i.entry.Load().Restored.Epoch, From: s.sequence, Sums: s.encode()}, release, nil
		}
		release()
		if err != nil {
			return nil, nil, err
		}
	}
}
