package store

// Metrics are the store's figures.
type Metrics struct {
	// DiskBytes is what both databases take, LogBytes their write-ahead
	// logs, MemTableBytes their memory tables.
	DiskBytes, LogBytes, MemTableBytes uint64
	// Fsyncs counts the syncs of write-ahead logs, FsyncSeconds their time.
	Fsyncs       uint64
	FsyncSeconds float64
	// RememberedIDs counts ids of learned observations.
	RememberedIDs int
	// Compactions counts compactions.
	Compactions int64
}

// Metrics reads the figures.
func (s *Store) Metrics() Metrics {
	out := Metrics{RememberedIDs: int(s.remembered.Load())}
	for _, db := range []*database{s.logDB, s.pendingDB} {
		m := db.Metrics()
		out.DiskBytes += m.DiskSpaceUsage()
		out.LogBytes += m.WAL.PhysicalSize
		out.MemTableBytes += m.MemTable.Size
		out.Compactions += m.Compact.Count
		out.Fsyncs += uint64(db.fs.syncs.Load())
		out.FsyncSeconds += float64(db.fs.nanoseconds.Load()) / 1e9
	}
	return out
}
