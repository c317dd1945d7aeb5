package store

// SmallMemTables makes flushes and compactions come early.
func SmallMemTables(o *Options) { o.memTable = 128 << 10 }

// SmallFilter makes the filter of ids have room for a few.
func SmallFilter(o *Options) { o.filterRoom = 64 }

// MayRemember tells what the filter says of an id of a model.
func (m *Model) MayRemember(id string) bool { return m.store.filter.may(m.number, id) }

// What reads stored bytes, for the fuzz test.
var (
	DecodeRecord = decodeRecord
	SplitAged    = splitAged
	SplitTimed   = splitTimed
	SplitEntry   = splitEntry
	SplitModel   = splitModel
	SplitRewind  = splitRewind
)

// SyncPending makes the pending predictions durable now, not within a second.
func (s *Store) SyncPending() error { return s.syncPending() }

// LogSyncs counts the syncs of the write-ahead log of the database log.
func (s *Store) LogSyncs() int64 { return s.logDB.fs.syncs.Load() }
