package store

// SmallMemTables makes flushes and compactions come early.
func SmallMemTables(o *Options) { o.memTable = 128 << 10 }

// What reads stored bytes, for the fuzz test.
var (
	DecodeRecord = decodeRecord
	SplitAged    = splitAged
	SplitTimed   = splitTimed
	SplitEntry   = splitEntry
	SplitModel   = splitModel
	SplitRewind  = splitRewind
)
