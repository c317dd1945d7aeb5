package hosted

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"hindsight/internal/engine/machine"
	"hindsight/internal/engine/mailbox"
	"hindsight/internal/engine/storage"
	"hindsight/internal/model"
	"hindsight/internal/model/input"
)

// Timings takes the durations of a model's calls, in seconds. Trace is the id of the sampled trace
// that the call belongs to, empty without one.
type Timings interface {
	Predict(seconds float64, trace string)
	Observe(seconds float64, trace string)
}

// Stages takes what the stages of an observation cost, over all models, in seconds: Queue the wait
// for the model's turn, Commit the append of a commit, and Learn the learning of its observations.
type Stages interface {
	Queue(seconds float64, trace string)
	Commit(seconds float64, trace string)
	Learn(seconds float64, trace string)
}

type noStages struct{}

func (noStages) Queue(float64, string) {}

func (noStages) Commit(float64, string) {}

func (noStages) Learn(float64, string) {}

// Limits bound what models take.
type Limits struct {
	// Queue bounds the observations that wait for a model's turn.
	Queue int
	// PendingLimit bounds the pending predictions of a model, PendingTotalLimit the pending predictions of all models.
	PendingLimit, PendingTotalLimit int64
	// ModelMemory bounds the bytes of the states in memory; 0 is no limit. Idle models leave memory
	// when it is exceeded.
	ModelMemory int64
}

// Options of the models of an engine. Every field is required unless it says otherwise.
type Options struct {
	Limits
	// Store outlives the engine.
	Store storage.Store
	Now   func() time.Time
	Log   *zap.Logger
	// NewID mints prediction ids.
	NewID func() (string, error)
	// Stages may be nil.
	Stages Stages
	// A snapshot is due once replaying the log behind the newest snapshot would take SnapshotReplay,
	// or once the newest snapshot of a model that has learned since is SnapshotInterval old. The
	// newest SnapshotsKept stay.
	SnapshotReplay   time.Duration
	SnapshotInterval time.Duration
	SnapshotsKept    int
	// LabelTTL is how long a prediction is pending unless the call or the model says otherwise.
	LabelTTL time.Duration
	Replication
}

// Replication are the options of a replicated store. The zero value is for a store that only this server changes.
type Replication struct {
	// Owner reports whether this server owns the store: it may change the store, and has applied all changes of
	// earlier owners. It is nil if the store is not replicated.
	Owner func() bool
	// Compare receives the digest of a model on the owner after an entry of the log, to compare it with the digests of the
	// other servers. It must not wait.
	Compare func(model string, index uint64, digest storage.Digest)
	// Lost receives the id of a model that this server cannot recover from its log. It must not wait.
	Lost func(model string)
	// Cold: only the owner learns and makes snapshots. The owner sends its snapshots to the other servers. All servers
	// have the same value.
	Cold bool
}

// RestsCold reports whether this server does not learn, because a cold server learns only as the owner.
func (r *Replication) RestsCold() bool { return r.Cold && r.CheckOwner() != nil }

// CheckOwner rejects a change on a server that does not own the store.
func (r *Replication) CheckOwner() error {
	if r.Owner != nil && !r.Owner() {
		return fmt.Errorf("engine: %w", ErrNotOwner)
	}
	return nil
}

// Counters count what happened to the models since the start.
type Counters struct {
	Wakes            atomic.Int64
	SnapshotFailures atomic.Int64
	Panics           atomic.Int64
	Replayed         atomic.Int64
	DigestMismatches atomic.Int64
}

// Slots bound how many do something at once, across models.
type Slots chan struct{}

// Take waits for a free slot. What names those who hold the slots, for the error of a caller that
// leaves.
func (s Slots) Take(ctx context.Context, what string) error {
	select {
	case s <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("engine: wait for %s: %w", what, context.Cause(ctx))
	}
}

// Free gives a slot back.
func (s Slots) Free() { <-s }

// CopiesAtOnce bounds the copies of states on their way to the disk or to a client, and again those
// in reports, over all models.
const CopiesAtOnce = 2

const receivedAtOnce = 32

// Env is what the models of an engine share.
type Env struct {
	Options
	Learners machine.Learners
	Memory   *Memory
	Counters Counters
	// ahead are the nanoseconds by which Time is ahead of the clock.
	ahead atomic.Int64
	// residents have every model in memory, except those that HibernateIdle looks at.
	residents residents
	// newest is the spec of the newest model: see shared.
	newest atomic.Pointer[specified]
	// Loading bounds the recoveries at work, copies the copies of states outside of reports.
	Loading, copies Slots
	// Lifetime ends when the engine closes. Work that no caller waits for runs under it.
	Lifetime context.Context //nolint:containedctx // The lifetime of the engine's goroutines.
	// appends never ends: an accepted observation is appended although the engine closes.
	appends context.Context //nolint:containedctx // As above.
	turns   *mailbox.Turns[*Ticket]
	// captures are written in the background. It has room for every capture that holds a copy's slot.
	captures chan func(context.Context)
	// received are the owner's snapshots that this server has received and not written.
	received chan func(context.Context)
	// Asked are models with a snapshot whose digest another server waits for.
	Asked chan *Model
}

// Time is the time by which predictions and ids expire. It is the clock's, but never before the time of an Expire in the
// store's log: if the clock of an earlier owner was ahead, Time stays as far ahead.
func (e *Env) Time() time.Time {
	now, newest := e.Now(), e.Store.Time()
	for {
		ahead := e.ahead.Load()
		more := int64(newest.Sub(now))
		if more <= ahead {
			return now.Add(time.Duration(ahead))
		}
		if e.ahead.CompareAndSwap(ahead, more) {
			return newest
		}
	}
}

// NewEnv returns what models share. At most loads models are recovered at once.
func NewEnv(lifetime context.Context, o Options, learners machine.Learners, loads int) *Env {
	if o.Stages == nil {
		o.Stages = noStages{}
	}
	e := &Env{
		Options: o, Learners: learners, Memory: newMemory(o.ModelMemory), Loading: make(Slots, loads), copies: make(Slots, CopiesAtOnce),
		Lifetime: lifetime, appends: context.WithoutCancel(lifetime), captures: make(chan func(context.Context), CopiesAtOnce),
		received: make(chan func(context.Context), receivedAtOnce), Asked: make(chan *Model, maxDigests),
	}
	e.turns = mailbox.NewTurns(e.handle)
	return e
}

// specified is a spec with what follows from it. Models of one spec share it.
type specified struct {
	spec    *model.Spec   // immutable
	learner string        // immutable
	schema  *input.Schema // immutable; nil without named inputs
}

// shared returns what follows from a spec. If the newest model has an equal spec, shared returns the value of that model: a thousand
// models usually have one spec, and a spec with named inputs takes more memory than the rest of a model at rest.
func (e *Env) shared(spec *model.Spec) *specified {
	if newest := e.newest.Load(); newest != nil && reflect.DeepEqual(newest.spec, spec) {
		return newest
	}
	next := &specified{spec: spec, learner: spec.Name()}
	if len(spec.Inputs) > 0 {
		next.schema = input.NewSchema(spec.Inputs, spec.MaxKeys(), spec.HasTokens())
	}
	e.newest.Store(next)
	return next
}

// Join waits for the turns of all models, which are closed. WriteSnapshots then ends.
func (e *Env) Join() {
	e.turns.Wait()
	close(e.captures)
}

func (e *Env) closedOr(err error) error {
	if e.Lifetime.Err() != nil {
		return ErrClosed
	}
	return err
}

// CountPanic counts an error that a learner's panic left.
func (e *Env) CountPanic(err error) {
	if errors.Is(err, machine.ErrPanic) {
		e.Counters.Panics.Add(1)
	}
}

// WriteSnapshots writes the captures that models hand over, until Join.
func (e *Env) WriteSnapshots() {
	for write := range e.captures {
		write(e.appends)
		e.copies.Free()
		if e.Memory.wanted.Load() > 0 {
			e.Memory.Press() // The model can leave memory now.
		}
	}
}

// WriteReceived writes the snapshots that the owner sends, until the lifetime ends.
func (e *Env) WriteReceived() {
	for {
		select {
		case write := <-e.received:
			write(e.Lifetime)
		case <-e.Lifetime.Done():
			return
		}
	}
}
