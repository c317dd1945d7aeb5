// Package storage is the contract between the engine and what keeps its
// models: a registry of names and, for each model, a log, the ids that it
// remembers, the predictions that wait for labels, and snapshots.
//
// Values are opaque bytes. A backend knows no learner and no format of the
// engine. Every backend passes the suite of package storetest.
//
// Durable means: what returned without an error is there after any crash.
package storage

import (
	"context"
	"errors"
	"time"
)

// Sentinels, which backends wrap.
var (
	// ErrExists is a model whose name is taken.
	ErrExists = errors.New("storage: the model exists")
	// ErrRefused is a record that does not begin behind the log's end: another
	// writer came before. Nothing was appended.
	ErrRefused = errors.New("storage: the record does not continue the log")
	// ErrFailed is a medium that takes no more writes. It has to be opened
	// again once it is well.
	ErrFailed = errors.New("storage: the storage failed")
	// ErrCorrupt is something that is not what was written.
	ErrCorrupt = errors.New("storage: what is stored is corrupt")
	// ErrNotFound is a snapshot that is not there, or a model that was deleted.
	ErrNotFound = errors.New("storage: not found")
	// ErrInvalidID is an id that is too long.
	ErrInvalidID = errors.New("storage: invalid id")
)

// MaxID is the longest id, in bytes.
const MaxID = 128

// Store is a backend. Its methods may be called by any number of goroutines at
// once.
type Store interface {
	Registry
	Aliases
	Upkeep
}

// Registry holds the models.
type Registry interface {
	// Models calls f for every model, in the order of their names. An entry's
	// value is valid during the call only.
	Models(ctx context.Context, f func(Entry) error) error
	// Create registers a name with a value. It is durable on return. A name
	// that is taken is ErrExists. A model created again under the name of a
	// deleted one shares nothing with it.
	Create(ctx context.Context, name string, value []byte) (Model, error)
	// Import is Create for a model that begins with a snapshot, and with ids
	// and predictions. The model is there whole or not at all.
	Import(ctx context.Context, name string, value []byte, from Import) (Model, error)
}

// Aliases holds values under names of their own, apart from those of models. Every
// change is durable on return.
type Aliases interface {
	// EachAlias calls f for every alias, in the order of their names. The value is valid
	// during the call only.
	EachAlias(ctx context.Context, f func(name string, value []byte) error) error
	// PutAlias keeps a value, in place of that of the same name.
	PutAlias(ctx context.Context, name string, value []byte) error
	// RemoveAlias drops an alias, where it is there.
	RemoveAlias(ctx context.Context, name string) error
}

// Alias is a value under the name of an alias.
type Alias struct {
	Name  string
	Value []byte
}

// Entry is a registered model.
type Entry struct {
	Name  string
	Value []byte
	// Model is nil when Err is not.
	Model Model
	// Rewinding is the sequence of a Rewind that began and did not end, nil
	// when there is none. The model must not be used before the same Rewind
	// was called again.
	Rewinding *uint64
	// Err says why the entry cannot be read.
	Err error
}

// Import is what an imported model begins with.
type Import struct {
	// Sequence is that of the snapshot. The log of the model goes on behind it.
	Sequence uint64
	Snapshot []byte
	IDs      []ID
	Waiting  []Prediction
}

// Upkeep is what concerns all models.
type Upkeep interface {
	// Expire drops the predictions whose expiry is not after now, and calls f
	// for each. It does not wait until that is durable.
	Expire(ctx context.Context, now time.Time, f func(Model)) error
	// Forget drops ids remembered before a time, the oldest first, as long as
	// more than keep are left over all models. It does not wait until that is
	// durable.
	Forget(ctx context.Context, before time.Time, keep int) error
	// CountWaiting counts the predictions of all models, at a cost of O(1).
	CountWaiting() int64
	// Sync makes all that was written so far durable.
	Sync(ctx context.Context) error
	// Failed is ErrFailed with its cause once nothing can be written any more,
	// else nil.
	Failed() error
}

// Model is what is kept of one model. Methods of a deleted model fail or have
// no effect.
type Model interface {
	Log
	IDs
	Waiting
	Snapshots
	// SetValue puts another value in place of the one that the model was registered
	// with, and keeps aliases as PutAlias does: all of it or nothing, also after a crash.
	// It is durable on return. The context counts until then.
	SetValue(ctx context.Context, value []byte, also ...Alias) error
	// Delete forgets the model and all that is kept of it. The context counts
	// until the name is given up. The name is free, durably, on return; what a crash leaves of the rest is removed when the
	// backend is opened again. It takes time in proportion to the ids.
	Delete(ctx context.Context) error
}

// Record is an entry of a log: the observations of the sequences First to
// Last, which became durable together. Sequences begin at 1.
type Record struct {
	First, Last uint64
	Data        []byte
}

// Commit is a record and what becomes durable with it.
type Commit struct {
	Record
	// IDs are those of records before this one that are not remembered yet.
	// Each comes once and is new to the model.
	IDs []ID
}

// Rewind is the way back to a sequence.
type Rewind struct {
	Sequence uint64
	// Last replaces the record that holds Sequence by one that ends with it;
	// nil when a record ends there anyway.
	Last *Record
	// Undone tells of the value of a remembered id whether it belongs to what
	// is undone. It is pure.
	Undone func(value []byte) bool
	// Value takes the place of the value that the model was registered with, unless it is
	// nil. It is durable if and only if the intention to rewind is.
	Value []byte
}

// Log is a model's log. It has one appender at a time.
type Log interface {
	// Last is the end of the log, First its beginning; 0 when it is empty.
	// Last is O(1) after the first call.
	Last() (uint64, error)
	First() (uint64, error)
	// Append adds a record behind the last one, with all of the commit or
	// nothing. It answers one of three things. Nil: the commit is durable.
	// ErrRefused: the record does not begin right behind the log's end, and
	// nothing was written. Any other error: it is not known whether the commit
	// is there, now or after a crash.
	Append(ctx context.Context, c Commit) error
	// Replay calls f for every record that holds a sequence after the given
	// one, in order. A record's data is valid during the call only. It fails
	// with ErrCorrupt on a bad record or a gap, and when the log does not reach
	// back to the sequence; errors of f are passed on as they are.
	Replay(ctx context.Context, after uint64, f func(Record) error) error
	// Truncate drops the records that end before a sequence. The one that holds
	// it stays, and so does the last one. It does not wait until that is
	// durable.
	Truncate(through uint64) error
	// Rewind forgets what came after a sequence: snapshots, ids and log. The
	// context counts until the intention is durable. The rewind is durable on
	// return. After a crash in between the model is as it was or
	// Entry.Rewinding says that the same call completes it.
	Rewind(ctx context.Context, r Rewind) error
}

// ID is what is remembered of a learned observation under its id.
type ID struct {
	ID    string
	At    time.Time
	Value []byte
}

// IDs are what a model remembers.
type IDs interface {
	// ID gives the value that is remembered under an id.
	ID(id string) (value []byte, ok bool, err error)
	// PutIDs remembers ids, anew where they are remembered already. It does not
	// wait until that is durable: any later Append or Sync makes it so.
	PutIDs(ids []ID) error
	// EachID calls f for every remembered id. The value is valid during the
	// call only.
	EachID(ctx context.Context, f func(ID) error) error
}

// Prediction is a prediction that waits for its label.
type Prediction struct {
	ID     string
	Value  []byte
	Expiry time.Time
	// Minted says that the id is new: it was not used before.
	Minted bool
}

// Waiting are the predictions of a model that wait. A row is counted from
// PutWaiting to RemoveWaiting or Expire, once.
type Waiting interface {
	// PutWaiting keeps predictions, in place of those of the same ids. On
	// return they survive the end of the process.
	PutWaiting(rows []Prediction) error
	// GetWaiting gives the prediction kept under an id, expired or not.
	GetWaiting(id string) (Prediction, bool, error)
	// RemoveWaiting drops predictions, where they are there. It does not wait
	// until that is durable.
	RemoveWaiting(ids []string) error
	// CountWaiting is O(1).
	CountWaiting() int64
	// EachWaiting calls f for every prediction. The value is valid during the
	// call only.
	EachWaiting(ctx context.Context, f func(Prediction) error) error
}

// SnapshotFile describes a kept snapshot.
type SnapshotFile struct {
	Bytes   int64
	Created time.Time
	// Head is its first bytes.
	Head []byte
	// Place is where an operator finds it.
	Place string
}

// Snapshots are the kept states of a model. A snapshot is there whole or not
// at all.
type Snapshots interface {
	// Snapshots are the sequences of the snapshots, the newest first.
	Snapshots() ([]uint64, error)
	// WriteSnapshot keeps a snapshot. It is durable on return.
	WriteSnapshot(sequence uint64, data []byte) error
	ReadSnapshot(sequence uint64) ([]byte, error)
	// StatSnapshot describes a snapshot, with at most head of its first bytes.
	StatSnapshot(sequence uint64, head int) (SnapshotFile, error)
	// RemoveSnapshot drops a snapshot, durably.
	RemoveSnapshot(sequence uint64) error
	// SetSnapshotAside takes a snapshot out of the list without dropping it,
	// and tells where it is then.
	SetSnapshotAside(sequence uint64) (place string, err error)
}
