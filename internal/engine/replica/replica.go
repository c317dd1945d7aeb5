// Package replica lets a model learn from another model's log. A follower's own observations are those
// of its leader behind Follow.From, one after the other, so that the two logs alone say how far the
// follower is: each observation is learned once.
package replica

import (
	"context"
	"errors"
	"fmt"
	"math"
	"reflect"
	"sync/atomic"

	"hindsight/internal/engine/account"
	"hindsight/internal/engine/account/classes"
	"hindsight/internal/engine/account/confidence"
	"hindsight/internal/engine/hosted"
	"hindsight/internal/engine/record"
	"hindsight/internal/model"
	"hindsight/internal/model/codec"
)

// followLimit is how far the log of a leader reaches back for its followers, in observations. A follower that
// is further behind stops.
const followLimit = 1_000_000

var (
	// ErrStops is why a follower can learn from its leader no more.
	ErrStops = errors.New("it follows no more")
	// ErrRestored says that the leader was restored since the follower learned of it. The follower learns nothing until
	// the engine has decided whether it continues.
	ErrRestored = errors.New("the model that it follows was restored")
)

// Follower is what a table entry knows of its model as a follower, and as a leader.
type Follower struct {
	model *hosted.Model // immutable
	// Losses are empty of a model without followers.
	Losses Losses
	// aim is what the follower learns up to: figures of the leader at the epoch aimEpoch. nil at first.
	aim      *sums  // turn
	aimEpoch uint64 // turn
	// compared are the figures of both models when the follower last reached aim.
	compared atomic.Pointer[compared]
}

// compared is how a follower and its leader did on the same observations, up to the leader's sequence
// through.
type compared struct {
	through          uint64
	follower, leader sums
}

// Init makes r a follower of the leader that the entry of the model names, if it names one.
func (r *Follower) Init(m *hosted.Model) { r.model = m }

// ID is the id of the follower.
func (r *Follower) ID() string { return r.model.ID() }

// Follows is what the follower follows, nil if the model follows none.
func (r *Follower) Follows() *record.Follow { return r.model.Registered().Follow }

// Restored forgets the figures and losses of before a restore of the model. It runs at the model's turn.
func (r *Follower) Restored() {
	r.Losses.Forget()
	r.aim = nil
	r.compared.Store(nil)
}

type sums struct {
	sequence uint64
	whole    account.Performance
	classes  classes.Performance
	// pairs are as in account.Summary.
	pairs confidence.Moments
	// recent is the loss of a recent observation, +Inf if the model has learned none.
	recent float64
	// known is false of a model that was not in memory since the start.
	known bool
}

func sumsOf(m *hosted.Model) (s sums, err error) {
	f, known, broken := m.Figures()
	s.known, s.sequence = known, f.Sequence
	if !f.Resident {
		if broken != nil {
			return s, broken
		}
		s.sequence, err = m.LogEnd()
	}
	summary := &f.Summary
	s.whole, s.pairs = summary.Whole, summary.Pairs
	loss, observations := summary.Recent.Served.Loss, summary.Recent.Observations
	if c := f.Classes; c != nil {
		s.classes = c.Whole
		loss, observations = c.Recent.Served.Errors, c.Recent.Observations
	}
	s.recent = math.Inf(1)
	if observations > 0 {
		s.recent = loss / observations
	}
	return s, err
}

func (s *sums) encode() []byte {
	v := codec.Appending(nil)
	s.visit(&v)
	out, _ := v.Appended() // Appending numbers does not fail.
	return out
}

func decodeSums(data []byte) (s sums, err error) {
	err = codec.Read(data, s.visit)
	return s, err
}

func (s *sums) visit(v *codec.Visitor) {
	s.whole.Visit(v, math.MaxFloat64)
	s.classes.Visit(v, math.MaxFloat64)
}

// Begin returns what a new follower follows: the leader, from its present sequence on, with its losses until
// then. Begin loads the leader, whose log is not cut until release.
func Begin(ctx context.Context, leader *hosted.Model) (f *record.Follow, release func(), err error) {
	for {
		if release, err = leader.HoldLog(ctx); err != nil {
			return nil, nil, err
		}
		s, err := sumsOf(leader)
		if err == nil && s.known {
			return &record.Follow{Leader: leader.Ref(), Epoch: leader.Registered().Restored.Epoch, From: s.sequence, Sums: s.encode()}, release, nil
		}
		if release(); err != nil {
			return nil, nil, err
		}
		// The leader has left memory again.
	}
}

func (r *Follower) leaderSequence(f *record.Follow) (uint64, error) {
	last, err := r.model.LogEnd()
	return f.From + last, err
}

// Continuation returns what the follower follows after a restore of its leader: the present Follow without
// a restore, and nil if the follower has learned undone observations. The leader knows only its newest
// restore, so a follower that missed two restores counts as one with undone observations.
func (r *Follower) Continuation(leader *Follower) (*record.Follow, error) {
	f, restored := r.Follows(), leader.model.Registered().Restored
	if f.Epoch == restored.Epoch {
		return f, nil
	}
	at, err := r.leaderSequence(f)
	if err != nil || f.Epoch > restored.Epoch || restored.Epoch-f.Epoch > 1 || at > restored.Sequence {
		return nil, err
	}
	next := *f
	next.Epoch = restored.Epoch
	return &next, nil
}

// Behind is how many observations of the leader the follower has not learned.
func (r *Follower) Behind(leader *Follower) (uint64, error) {
	f := r.Follows()
	if f == nil {
		return 0, ErrStops
	}
	if f.Epoch != leader.model.Registered().Restored.Epoch {
		return 0, ErrRestored
	}
	at, err := r.leaderSequence(f)
	if err != nil {
		return 0, err
	}
	sequence, err := leader.model.Sequence()
	if err == nil && at > sequence { // The leader's state may lag behind its log.
		sequence, err = leader.model.LogEnd()
	}
	if err == nil && at > sequence {
		err = fmt.Errorf("%w: it has learned sequence %d of model %q, whose log ends at %d", ErrStops, at, leader.model.ID(), sequence)
	}
	return sequence - min(at, sequence), err
}

// Step learns the next observations of the leader, at most one commit, at the follower's turn. It reports
// whether more follow.
func (r *Follower) Step(ctx context.Context, leader *Follower) (bool, error) {
	result := make(chan bool, 1)
	err := r.model.Turn(ctx, func(ctx context.Context) error {
		more, err := r.step(ctx, leader)
		result <- more
		return err
	})
	if err != nil {
		return false, err
	}
	return <-result, nil
}

// step is Step at the turn. It never waits for the turn of the leader, which may wait for this one.
func (r *Follower) step(ctx context.Context, leader *Follower) (more bool, err error) {
	f := r.Follows()
	if f == nil || leader.model.Paused() {
		return false, nil
	}
	// A restore of the leader waits for this turn, so that neither value changes during it.
	if f.Epoch != leader.model.Registered().Restored.Epoch {
		return false, ErrRestored
	}
	if broken := leader.model.Broken(); broken != nil {
		return false, broken // Another model may have taken its place, and been restored since.
	}
	sequence, room, err := r.model.Resume()
	if err != nil {
		return false, err
	}
	at := f.From + sequence
	if r.aim == nil || r.aimEpoch != f.Epoch || r.aim.sequence <= at {
		aim, err := sumsOf(leader.model)
		if err != nil {
			return false, err
		}
		r.aim, r.aimEpoch = &aim, f.Epoch
	}
	if at < r.aim.sequence {
		n := min(r.aim.sequence-at, hosted.MaxCommitRows, uint64(room))
		learned, err := r.learn(ctx, leader, at, n)
		if err != nil {
			return false, err
		}
		at += learned
	}
	if at != r.aim.sequence {
		return at < r.aim.sequence, nil
	}
	if err := r.compare(f); err != nil {
		return false, err
	}
	left, err := r.Behind(leader)
	return left > 0, err
}

func (r *Follower) learn(ctx context.Context, leader *Follower, at, n uint64) (uint64, error) {
	if n == 0 {
		return 0, fmt.Errorf("%w: %w", ErrStops, model.ErrObservationLimit)
	}
	observations, err := leader.model.Logged(ctx, at, at+n)
	if errors.Is(err, hosted.ErrLogCut) {
		return 0, fmt.Errorf("%w: %w", ErrStops, err)
	}
	if err != nil {
		return 0, err
	}
	for k := range observations {
		observations[k].LeaderLoss = leader.Losses.At(at + 1 + uint64(k))
	}
	learned, rejected, err := r.model.Relearn(observations)
	if rejected != nil && err == nil {
		err = fmt.Errorf("%w: it cannot learn sequence %d of model %q: %w", ErrStops, at+uint64(learned)+1, leader.model.ID(), rejected)
	}
	return uint64(learned), err
}

// compare notes the losses of both models at a sequence that both have reached.
func (r *Follower) compare(f *record.Follow) error {
	follower, err := sumsOf(r.model)
	if err != nil || !r.aim.known {
		return err
	}
	from, err := decodeSums(f.Sums)
	if err != nil {
		return fmt.Errorf("engine: read the figures that a comparison begins with of model %q: %w: %w", r.ID(), hosted.ErrCorrupt, err)
	}
	leader := *r.aim
	leader.whole.Sub(from.whole)
	leader.classes.Sub(from.classes)
	r.compared.Store(&compared{through: r.aim.sequence, follower: follower, leader: leader})
	return nil
}

// CatchUp learns until the follower is less than so many observations behind.
func (r *Follower) CatchUp(ctx context.Context, leader *Follower, behind uint64) error {
	for {
		if _, err := r.Step(ctx, leader); err != nil {
			return err
		}
		if left, err := r.Behind(leader); err != nil || left < behind {
			return err
		}
	}
}

// CheckLeader rejects a spec whose inputs, labels or classes differ from the leader's, and a leader that
// is a follower itself.
func CheckLeader(spec *model.Spec, leader *hosted.Model) error {
	var errs []error
	reject := func(field, got, want string) { errs = append(errs, hosted.Invalid(field, got, want)) }
	differ := func(field string, got, want any) {
		if !reflect.DeepEqual(got, want) {
			reject("spec."+field, fmt.Sprintf("%v", got), fmt.Sprintf("%v, as the model that it follows has", want))
		}
	}
	if f := leader.Registered().Follow; f != nil {
		reject("follows", fmt.Sprintf("%q, which follows %q", leader.ID(), f.Leader.ID), "a model that follows none")
	}
	switch {
	case !reflect.DeepEqual(model.WithoutEncoding(spec.Inputs), model.WithoutEncoding(leader.Spec().Inputs)):
		reject("spec.inputs", fmt.Sprintf("%d inputs", len(spec.Inputs)),
			fmt.Sprintf("the same %d inputs, but for the encodings of categories, as the model that it follows has", len(leader.Spec().Inputs)))
	case len(spec.Inputs) == 0:
		differ("dimension", spec.Dimension, leader.Spec().Dimension)
	}
	switch {
	case (spec.Classes == nil) != (leader.Spec().Classes == nil):
		differ("classes", spec.Classes != nil, leader.Spec().Classes != nil)
	case spec.Classes != nil:
		differ("classes.max_classes", *spec.Classes.MaxClasses, *leader.Spec().Classes.MaxClasses)
	}
	if spec.Classes == nil {
		differ("outputs", spec.Outputs, leader.Spec().Outputs)
	}
	return model.JoinFields(errs...)
}
