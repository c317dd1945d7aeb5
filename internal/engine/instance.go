package engine

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/semaphore"

	"hindsight/internal/engine/account"
	"hindsight/internal/engine/account/classes"
	"hindsight/internal/engine/account/interval"
	"hindsight/internal/engine/machine"
	"hindsight/internal/engine/mailbox"
	"hindsight/internal/engine/record"
	"hindsight/internal/engine/recovery"
	"hindsight/internal/engine/storage"
	"hindsight/internal/model"
	"hindsight/internal/model/codec"
	"hindsight/internal/model/input"
)

// Timings takes the durations of a model's calls, in seconds.
// Trace is the id of the sampled trace that the call belongs to, empty without one.
type Timings interface {
	Predict(seconds float64, trace string)
	Observe(seconds float64, trace string)
}

// Stages takes what the stages of an observation's way cost, over all models, in
// seconds. Queue is the wait for the model's turn, Commit the append of so many
// observations, Learn their learning, and Snapshot the writing of a snapshot.
type Stages interface {
	Queue(seconds float64, trace string)
	Commit(observations int, seconds float64, trace string)
	Learn(seconds float64, trace string)
	Snapshot(seconds float64)
}

// noStages takes nothing.
type noStages struct{}

func (noStages) Queue(float64, string)       {}
func (noStages) Commit(int, float64, string) {}
func (noStages) Learn(float64, string)       {}
func (noStages) Snapshot(float64)            {}

// Options of an engine. Every field is required unless it says otherwise.
type Options struct {
	// Store outlives the engine.
	Store storage.Store
	// Now is the clock.
	Now func() time.Time
	Log *zap.Logger
	// NewID mints prediction ids.
	NewID func() (string, error)
	// Timings gives the instruments of a model; ForgetTimings is called when
	// the model is deleted.
	Timings       func(model, learner string) Timings
	ForgetTimings func(model, learner string)
	// Stages takes what the stages cost; nil is nothing.
	Stages Stages
	// Durability is reported in the statistics: sync or async.
	Durability string
	// SnapshotReplay and SnapshotInterval say when a snapshot is due: once
	// replaying the log behind the newest one would take so long, or once the
	// newest one of a model that has learned since is so old. SnapshotsKept
	// says how many stay.
	SnapshotReplay   time.Duration
	SnapshotInterval time.Duration
	SnapshotsKept    int
	// IDWindow is how long ids are remembered, while at least IDWindowMin
	// over all models are.
	IDWindow    time.Duration
	IDWindowMin int
	// LabelTTL is how long a prediction waits for its label unless the call
	// says otherwise.
	LabelTTL time.Duration
	// Queue bounds the observations that wait for a model's turn,
	// PendingLimit the predictions of a model that wait for their labels,
	// PendingTotalLimit those of all models.
	Queue                           int
	PendingLimit, PendingTotalLimit int64
	// ModelLimit bounds the models, deleted ones that can be brought back among them.
	ModelLimit int
	// DeletedKept is how long a deleted model can be brought back; 0 removes it at
	// once.
	DeletedKept time.Duration
	// ModelMemory is what the states in memory may take, in bytes; 0 is
	// without a limit. Models that are idle leave it when it is exceeded.
	ModelMemory int64
	// ReportCPU is the share of one processor that may go into reports in the
	// background; 0 is none.
	ReportCPU float64
	// Sweep is how often due snapshots, expired predictions and old ids are
	// looked for.
	Sweep time.Duration
}

// shared is what the models of an engine have in common.
type shared struct {
	o        Options
	learners machine.Learners
	// lifetime ends with Close. Work that no caller waits for runs under it.
	lifetime context.Context //nolint:containedctx // It is that of the engine's own goroutines.
	// appends is the context of appends: what was accepted is appended, though
	// the engine closes.
	appends context.Context //nolint:containedctx // As above.
	// turns counts the goroutines of the mailboxes.
	turns sync.WaitGroup
	// Each of these bounds what its name says: recoveries at work, copies of states
	// on their way to the disk or to a client, copies of states that reports are
	// solved of, and reports that take long.
	loading, copies, reporting, solving chan struct{}
	// lists bounds the lists of all models that are sorted or chosen.
	lists chan struct{}
	// commits lends the memory of commits: a busy model needs it always, an idle
	// one never.
	commits sync.Pool
	// snapshots takes the captures that are due.
	snapshots chan capture
	// resident is the bytes of the states in memory; pressure asks for some to
	// leave.
	resident atomic.Int64
	pressure chan struct{}
	// reserved is the bytes of the states that are being loaded, wanted of those that wait
	// for memory. admitting is held while one is let in, freed is told that others may be.
	reserved, wanted atomic.Int64
	admitting        sync.Mutex
	freed            chan struct{}
	// copyBytes bounds the copies of states, and snapshots in memory, in bytes.
	copyBytes *semaphore.Weighted
	// watching counts the watchers of all models.
	watching atomic.Int64
	// following are the models that follow others, by their ids, followers counts them.
	// wake lets them look for what they have not learned.
	following struct {
		sync.Mutex
		byID map[string]*instance
	}
	followers atomic.Int32
	wake      chan struct{}
	figures
}

// take waits for one of the places that a channel bounds. The place is given back
// by receiving from the channel.
func take(ctx context.Context, places chan struct{}, what string) error {
	select {
	case places <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("engine: wait for %s: %w", what, context.Cause(ctx))
	}
}

// figures count what happened since the start.
type figures struct {
	wakes, wakeNanoseconds, hibernations atomic.Int64
	badSnapshots, reloads, panics        atomic.Int64
	reports, reportNanoseconds           atomic.Int64
	snapshotFailures                     atomic.Int64
	// starting, started and startFailed count the models that the start loads, startDone
	// says that it has ended.
	starting, started, startFailed atomic.Int64
	startDone                      atomic.Bool
	// replayed counts the observations that were learned again, replaying those that
	// models which are being loaded have before them.
	replayed, replaying atomic.Int64
}

// capture is a copy of a model's state on its way to the disk.
type capture struct {
	codec.Snapshot
	instance *instance
	epoch    uint64
	// replay is what replaying cost that the snapshot saves, made when the state was
	// copied, in nanoseconds since 1970.
	replay, made int64
	// done gives back the memory that is taken for it.
	done func()
}

// figuresOf are the figures of a state that cost little.
type figuresOf struct {
	stats   model.Stats
	summary account.Summary
	// inputs are those of named inputs, classes those of a classifier with the names
	// of its classes.
	inputs  []input.Statistics
	classes *classes.Summary
	names   []string
}

// figuresNow are the figures of a machine with these statistics.
func figuresNow(m *machine.Machine, stats model.Stats) figuresOf {
	return figuresOf{
		stats: stats, summary: atSequence(m.Summary(), m.Sequence()),
		inputs: m.Inputs(), classes: m.ClassSummary(), names: m.Classes(),
	}
}

// atSequence counts the changes of the loss by the model's sequence: an account is
// younger than its model if an older version made the model.
func atSequence(s account.Summary, sequence uint64) account.Summary {
	if s.Drift.Detected > 0 {
		s.Drift.Change += sequence - s.Observed
	}
	return s
}

// solved is a report with the state that it is of.
type solved struct {
	sequence uint64
	epoch    uint64
	figuresOf
	intervals [][]interval.Statistics
	digest    [32]byte
	report    model.Report
	// features are the names of the features that the report has weights of.
	features []string
	// asked is what was asked for beside the rest.
	asked StatsOptions
	at    time.Time
}

// sums are the losses of a model at a sequence.
type sums struct {
	sequence uint64
	whole    account.Performance
	// classes are those of a classifier.
	classes classes.Performance
	// known is false of a model that was not in memory since the start.
	known bool
}

// compared is how a follower and the model that it follows did, on the same
// observations.
type compared struct {
	// through is the sequence, of the model that is followed, of the last of them.
	through     uint64
	own, leader sums
}

// instance is one hosted model. Its state is in memory while it is used and
// may be elsewhere while it is not.
//
// The mailbox gives jobs their turn, one at a time. Only a job that has its
// turn changes the state, so that only it may read the state without the lock.
// Lock order: the turn, then disk, then mu.
type instance struct {
	*shared
	recovery.Source
	id string
	// entry is the registry entry without its spec. It is never written to: who has
	// claimed the name puts another one in its place.
	entry atomic.Pointer[record.Entry]
	// schema is that of the spec's inputs, nil without any.
	schema  *input.Schema
	timings Timings
	box     *mailbox.Box[*Ticket]

	mu struct {
		sync.RWMutex
		// machine is nil while the model is not in memory.
		machine *machine.Machine
		// broken is why the model no longer learns.
		broken error
		// known says that the state was in memory since the start; last are its
		// figures of when it left, nil if it has not.
		known bool
		last  *figuresOf
	}
	recent   recent
	watchers watchers
	// derived says that the store and recent have all ids of the log. After a crash those
	// of the last records are missing until the model is loaded.
	derived atomic.Bool
	// answered are predictions whose removal waits, unremoved counts them.
	// Only the model's turn changes answered.
	answered  []string
	unremoved atomic.Int64
	// choosing is held while predictions under ids of callers are kept.
	choosing sync.Mutex
	// keeping is held, shared, while predictions are kept.
	keeping sync.RWMutex
	// disk holds a token while a snapshot is written. The epoch changes when the
	// captures of before may not be written any more.
	disk  chan struct{}
	epoch atomic.Uint64

	// used is when the model was last asked for something, bytes what its
	// state is accounted with while it is in memory, lastBytes with what when it left.
	used, bytes, lastBytes atomic.Int64
	// yields asks a busy model to leave memory after its batch.
	yields atomic.Bool
	// predictions counts rows answered since the start, expired predictions
	// that were given up.
	predictions, expired atomic.Uint64
	// duplicates counts the observations since the start that came again under their
	// id, conflicts those that were refused because it stands for another one.
	duplicates, conflicts atomic.Uint64
	// snapshotAt is the sequence of the newest snapshot on disk, snapshotTime
	// when one was last captured, snapshotTook how long the last one took.
	snapshotAt                 atomic.Uint64
	snapshotTime, snapshotTook atomic.Int64
	// snapshotMade is when the newest snapshot was made, or when the model was taken up
	// if that is later, snapshotBytes its size, 0 if that is not known.
	snapshotMade, snapshotBytes atomic.Int64
	// replay estimates how many nanoseconds it would take to replay what is
	// behind the newest snapshot.
	replay atomic.Int64
	// rate counts the newest observations.
	rate rate
	// paused keeps followers from learning of this model while it is restored. It stays
	// set while rewinding, which belongs to the turn, says that a Rewind has not ended.
	paused    atomic.Bool
	rewinding bool
	// aim are the figures of the model that this one follows at the sequence that it
	// learns up to. They belong to the turn. compared are both models' when it got there.
	aim      *sums
	compared atomic.Pointer[compared]
	// solved is the newest report.
	solved atomic.Pointer[solved]
}

// ref names the model, and no other that has its id later.
func (i *instance) ref() record.Ref { return record.Ref{ID: i.id, Created: i.entry.Load().Created} }

// name is the name of the model's learner.
func (i *instance) name() string { return i.Spec.Name() }

// description is what is known of the model without its state.
func (i *instance) description() Info {
	e := i.entry.Load()
	follows := ""
	if e.Follow != nil {
		follows = e.Follow.Leader.ID
	}
	return Info{
		Follows: follows,
		ID:      i.id, Learner: i.name(), Spec: i.Spec, Created: entryTime(e.Created), Metadata: e.Metadata,
		Imported: e.Imported, ETag: etag(e), Updated: entryTime(e.Updated), Deleted: entryTime(e.Deleted), Purge: entryTime(e.Purge),
	}
}

// isDeleted tells whether the model is deleted and can be brought back.
func (i *instance) isDeleted() bool { return i.entry.Load().Deleted != 0 }

// info tells what the model is. Of one whose removal has begun it is ErrModelNotFound.
func (i *instance) info() (Info, error) {
	info := i.description()
	i.mu.RLock()
	m := i.mu.machine
	if m != nil {
		info.Sequence = m.Sequence()
	}
	i.mu.RUnlock()
	if m != nil {
		return info, nil
	}
	var err error
	info.Sequence, err = i.Kept.Last()
	if errors.Is(err, storage.ErrNotFound) {
		return info, notFound(i.id) // It is being removed.
	}
	return info, i.errorf("find the end of the log", recovery.StorageError(err))
}

// errorf says what was being done to the model when something failed.
func (i *instance) errorf(doing string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("engine: %s of model %q: %w", doing, i.id, err)
}

// register makes an entry of the model durable, with aliases or not at all. The name is
// claimed.
func (i *instance) register(ctx context.Context, next *record.Entry, also ...storage.Alias) error {
	value, err := encodeEntry(next, i.Spec)
	if err != nil {
		return err
	}
	return i.errorf("register a change", recovery.StorageError(i.Kept.SetValue(ctx, value, also...)))
}

// takeBroken notes why the model no longer learns.
func (i *instance) takeBroken(err error) {
	i.mu.Lock()
	i.mu.broken = err
	i.mu.Unlock()
	i.o.Log.Error("the model no longer learns", zap.String("model", i.id), zap.Error(err))
}

// isBroken is why the model no longer learns, nil if it does.
func (i *instance) isBroken() error {
	i.mu.RLock()
	defer i.mu.RUnlock()
	return i.mu.broken
}

// waitingLabels is how many predictions wait for their labels.
func (i *instance) waitingLabels() int64 {
	return max(0, i.Kept.CountWaiting()-i.unremoved.Load())
}
