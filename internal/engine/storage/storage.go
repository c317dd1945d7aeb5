// Package storage is the contract between the engine and a backend that stores its
// models: a registry of names and, for each model, a log, remembered ids, pending
// predictions and snapshots.
//
// Values are opaque bytes. A backend knows no learner and no format of the
// engine. Every backend passes the suite of package storetest.
//
// Durable means that the effect of a call that returned without an error survives any crash.
package storage

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Sentinels, which backends wrap.
var (
	// ErrExists: the name is taken.
	ErrExists = errors.New("storage: the model exists")
	// ErrRejected: the record does not continue the log, because another writer came first.
	// Nothing was appended.
	ErrRejected = errors.New("storage: the record does not continue the log")
	// ErrFailed: the backend accepts no more writes, and must be opened again once its medium
	// is repaired.
	ErrFailed = errors.New("storage: the storage failed")
	// ErrCorrupt: the bytes are not those that were written.
	ErrCorrupt = errors.New("storage: what is stored is corrupt")
	// ErrNotFound: the snapshot does not exist, or the model was deleted.
	ErrNotFound = errors.New("storage: not found")
	// ErrDeleted is ErrNotFound: the model was deleted.
	ErrDeleted = fmt.Errorf("%w: the model was deleted", ErrNotFound)
	// ErrNotOwner: another server owns the replicated store. Nothing was written.
	ErrNotOwner = errors.New("storage: another server owns the store")
	// ErrUnknown: the store may or may not make the change, now or later.
	ErrUnknown = errors.New("storage: the outcome is unknown")
	// ErrInvalidID: the id is longer than MaxID.
	ErrInvalidID = errors.New("storage: invalid id")
	// ErrReached ends a Replay without an error.
	ErrReached = errors.New("storage: the replay has reached its end")
)

// MaxID is the longest id, in bytes.
const MaxID = 128

// Store is a backend. Its methods may be called concurrently.
type Store interface {
	Registry
	Aliases
	Upkeep
	Formats
	Parts
}

// Registry holds the models.
type Registry interface {
	// Models calls f for every model, in the order of their names. The value of an entry is
	// valid until f returns.
	Models(ctx context.Context, f func(RegistryEntry) error) error
	// Create registers a name with a value. It is durable on return. It fails with ErrExists
	// if the name is taken. A model under the name of a deleted model shares nothing with it.
	Create(ctx context.Context, name string, value []byte) (Model, error)
	// Import is Create for a model that begins with a snapshot, ids and predictions. The
	// import is atomic.
	Import(ctx context.Context, name string, value []byte, from Import) (Model, error)
}

// Aliases holds values under names, in a namespace apart from the models. Every
// change is durable on return.
type Aliases interface {
	// EachAlias calls f for every alias, in the order of their names. The value is valid
	// until f returns.
	EachAlias(ctx context.Context, f func(name string, value []byte) error) error
	// PutAlias stores the value of a new or an existing alias.
	PutAlias(ctx context.Context, name string, value []byte) error
	// RemoveAlias removes an alias if it exists.
	RemoveAlias(ctx context.Context, name string) error
}

// Alias is a value under the name of an alias.
type Alias struct {
	Name  string
	Value []byte
}

// RegistryEntry is a registered model.
type RegistryEntry struct {
	Name  string
	Value []byte
	// (Model == nil) == (Err != nil)
	Model Model
	// Rewinding is the sequence of an interrupted Rewind, or nil. The model must not be used
	// before the same Rewind has returned.
	Rewinding *uint64
	// Err is the error of an entry that cannot be read.
	Err error
}

// Import is the beginning of an imported model.
type Import struct {
	// Sequence is the sequence of the snapshot. The log of the model continues after it.
	Sequence uint64
	Snapshot []byte
	IDs      []ID
	Pending  []Prediction
}

// Upkeep has the calls that concern all models.
type Upkeep interface {
	// Expire removes the predictions whose expiry is not after now, and calls f
	// for each. It does not wait for durability.
	Expire(ctx context.Context, now time.Time, f func(Model)) error
	// Forget removes ids remembered before a time, the oldest first, while more than keep
	// remain over all models. It does not wait for durability.
	Forget(ctx context.Context, before time.Time, keep int) error
	// Time is the newest time of an Expire in the replicated log, 1970 or earlier without one.
	Time() time.Time
	// CountPending counts the predictions of all models, at a cost of O(1).
	CountPending() int64
	// Due reports whether Expire at a time or Forget has anything to remove.
	Due(now, before time.Time, keep int) (bool, error)
	// Sync makes all earlier writes durable.
	Sync(ctx context.Context) error
	// Failed returns ErrFailed with its cause once the backend accepts no more writes, else
	// nil.
	Failed() error
	// Position returns the last written position, zero before the first.
	Position() Position
}

// Formats gates what is written, so that programs of two formats can share a cluster.
type Formats interface {
	// Format returns the format of the store. All that is written has this format or an older one.
	//
	//	OldestFormat <= Format() <= Format
	Format() uint32
	// Raise durably raises the format, which never sinks. The version of a program that reads the format is for error
	// messages of older programs.
	Raise(ctx context.Context, format uint32, version string) error
}

// Parts keeps the parts of changes that are too large for one entry of a replicated log, until the log has all of them.
// It keeps them on disk: parts before a mark of the log are not in the log any more.
type Parts interface {
	// PutPart keeps the part of a transfer that begins at an offset.
	PutPart(ctx context.Context, t Transfer, offset uint64, data []byte) error
	// JoinParts returns the parts of a transfer in the order of their offsets. It fails with ErrNotFound unless they are
	// the bytes 0 to size.
	JoinParts(t Transfer, size uint64) ([]byte, error)
	// DropParts removes the parts of a transfer. It does not wait for durability.
	DropParts(t Transfer) error
	// DropOtherParts removes the parts of all transfers of other proposers. It does not wait for durability.
	DropOtherParts(proposer [16]byte) error
}

// Transfer identifies a change that travels in parts: the process that proposed it, and its number among the transfers of
// the process.
type Transfer struct {
	Proposer [16]byte
	Number   uint64
}

// Model is the stored part of one model. Methods of a deleted model fail or have
// no effect.
type Model interface {
	Log
	Contents
	Snapshots
	// Number is the store's number of the model. No other model ever gets the number. Replicas that apply
	// the same commands give the same numbers.
	Number() uint64
	// Value returns the registered value of the model.
	Value() ([]byte, error)
	// SetValue replaces the registered value of the model, and stores aliases as PutAlias
	// does, atomically. It is durable on return.
	SetValue(ctx context.Context, value []byte, also ...Alias) error
	// Delete removes the model. The context applies until the name is released. The release
	// is durable on return; what a crash leaves of the rest is removed when the backend is
	// opened again. Delete takes time in proportion to the ids.
	Delete(ctx context.Context) error
}

// Record is an entry of a log: the observations First to Last, which became durable
// together.
//
//	1 <= First <= Last
type Record struct {
	First, Last uint64
	Data        []byte
}

// Commit is a record and the ids that become durable with it.
type Commit struct {
	Record
	// IDs are ids of earlier records that are not remembered yet. Each comes once and is
	// new to the model. In a replicated store, other servers may not remember the ids of the
	// last record, so that they come with every commit: they need not be new.
	IDs []ID
	// Answered are the ids of the pending predictions whose labels the record has. Append removes those that exist.
	// A crash may bring them back; a replicated log then removes them again.
	Answered []string
}

// Append is a commit to the log of one of several models, and the answer of Log.Append in Err.
type Append struct {
	Model Model
	Commit
	Err error
}

// Appender is a store that appends to several logs at once.
type Appender interface {
	// AppendAll is Log.Append for each of several models. The commits share one sync.
	AppendAll(ctx context.Context, appends []*Append)
}

// Rewind describes a rewind to a sequence.
type Rewind struct {
	Sequence uint64
	// Last becomes the last record of the log. It ends with Sequence. Nil: the log has a record
	// that ends with Sequence, or Sequence is 0.
	Last *Record
	// Snapshot replaces the snapshot of Sequence, unless nil. Rewind puts IDs before it forgets ids,
	// because a server that begins with the snapshot does not derive the ids of its last record.
	Snapshot []byte
	IDs      []ID
	// Undone reports whether the value of a remembered id is after Sequence. It is pure.
	Undone func(value []byte) bool
	// Value replaces the registered value of the model, unless nil. Value is durable if and
	// only if the intention to rewind is.
	Value []byte
}

// Log is a model's log. It has one appender at a time.
type Log interface {
	// Last returns the end of the log, First its beginning; 0 if the log is empty.
	// Last costs O(1) after the first call.
	Last() (uint64, error)
	First() (uint64, error)
	// Append atomically writes a commit after the last record. It has one of three
	// answers. Nil: the commit is durable. ErrRejected: First != Last() + 1, and nothing was
	// written. Any other error: the commit may or may not be in the log, now and after a
	// crash.
	Append(ctx context.Context, c Commit) error
	// Replay calls f for every record with Last > after, in order. The data of a record is
	// valid until f returns. Replay fails with ErrCorrupt on a damaged record, a gap, or a log
	// that begins after after + 1. It returns errors of f unchanged, except ErrReached.
	Replay(ctx context.Context, after uint64, f func(Record) error) error
	// Truncate removes the records with Last < through, except the last record. It does not
	// wait for durability.
	Truncate(through uint64) error
	// Rewind removes the snapshots, ids and records after a sequence. The context applies
	// until the intention is durable. The rewind is durable on return. After a crash the model
	// is unchanged, or RegistryEntry.Rewinding is set and the same call completes the rewind.
	Rewind(ctx context.Context, r Rewind) error
}

// ID is a remembered id of a learned observation.
type ID struct {
	ID    string
	At    time.Time
	Value []byte
}

// IDs are the remembered ids of a model.
type IDs interface {
	ID(id string) (value []byte, ok bool, err error)
	// PutIDs stores new and existing ids, in a replicated store on this server alone. It does not
	// wait for durability: any later Append or Sync makes them durable, in a replicated store any
	// later WriteSnapshot or Sync.
	PutIDs(ctx context.Context, ids []ID) error
	// EachID calls f for every remembered id. The value is valid until f returns.
	EachID(ctx context.Context, f func(ID) error) error
}

// Prediction is a pending prediction.
type Prediction struct {
	ID     string
	Value  []byte
	Expiry time.Time
	// Minted is true if the id was never used before.
	Minted bool
}

// Pending are the pending predictions of a model. A prediction counts once from
// PutPending to RemovePending or Expire.
type Pending interface {
	// PutPending stores new and existing predictions. On return they survive the end of the
	// process.
	PutPending(rows []Prediction) error
	// GetPending returns the prediction of an id, even if expired.
	GetPending(id string) (Prediction, bool, error)
	// RemovePending removes predictions if they exist, from this server alone. It does not wait for durability.
	RemovePending(ids []string) error
	// CountPending costs O(1).
	CountPending() int64
	// EachPending calls f for every prediction. The value is valid until f returns.
	EachPending(ctx context.Context, f func(Prediction) error) error
}

// Rows selects ids and pending predictions of a model.
type Rows struct {
	// Rows have ids from From to below To. Without a To they go to the end.
	From, To string
	// Ids are remembered since Since, and Without their value is false.
	Since   time.Time
	Without func(value []byte) bool
}

// Contents are the rows of a model. Digests compare the rows of several servers.
type Contents interface {
	IDs
	Pending
	// RowsEnd returns the To of rows from an id on, so that at most limit ids and limit predictions are among them. It is
	// empty if so many do not follow.
	RowsEnd(from string, limit int) (to string, err error)
	// DigestRows returns the digest of rows and of the registered value, and of all aliases for rows without a From.
	DigestRows(r Rows) (digest string, err error)
}

// SnapshotFile describes a snapshot.
type SnapshotFile struct {
	Bytes   int64
	Created time.Time
	// Head has its first bytes.
	Head []byte
	// Place is its location for an operator.
	Place string
}

// Snapshots are the stored states of a model.
type Snapshots interface {
	// Snapshots returns the sequences of the snapshots, the newest first.
	Snapshots() ([]uint64, error)
	// WriteSnapshot writes a snapshot atomically. It is durable on return.
	WriteSnapshot(sequence uint64, data []byte) error
	ReadSnapshot(sequence uint64) ([]byte, error)
	// StatSnapshot describes a snapshot, with at most head bytes of it.
	StatSnapshot(sequence uint64, head int) (SnapshotFile, error)
	// RemoveSnapshot removes a snapshot. It is durable on return.
	RemoveSnapshot(sequence uint64) error
	// SetSnapshotAside takes a snapshot out of the list without removing its bytes, and
	// returns their new place.
	SetSnapshotAside(sequence uint64) (place string, err error)
}
