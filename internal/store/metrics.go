package store

// Metrics are the store's figures.
type Metrics struct {
	// DiskBytes is what both databases take, LogBytes their write-ahead
	// logs, MemTableBytes their memory tables.
	DiskBytes, LogBytes, MemTableBytes uint64
	// FreeBytes is what the file system of the directory has left for this process, of
	// SizeBytes. Both are 0 where it does not say.
	FreeBytes, SizeBytes uint64
	// Fsyncs counts the syncs of write-ahead logs.
	Fsyncs uint64
	// RememberedIDs counts ids of learned observations.
	RememberedIDs int
	// Flushes counts flushes, Compactions compactions. Compacting are in progress.
	// They have written CompactedBytes, and have about CompactionDebt before them.
	Flushes, Compactions, Compacting int64
	CompactedBytes, CompactionDebt   uint64
	// ReadAmplification is how many tables a read may have to look into, of the
	// database with the most.
	ReadAmplification int
	// Stalls counts the writes that waited for flushes and compactions, StallSeconds
	// the time that they waited.
	Stalls       int64
	StallSeconds float64
	// CacheBytes is what the cache of blocks holds.
	CacheBytes, CacheHits, CacheMisses int64
}

// Metrics reads the figures.
func (s *Store) Metrics() Metrics {
	out := Metrics{RememberedIDs: int(s.remembered.Load())}
	s.pending.RLock()
	defer s.pending.RUnlock()
	for _, db := range []*database{s.logDB, s.pendingDB} {
		if db == nil {
			continue
		}
		m := db.Metrics()
		out.DiskBytes += m.DiskSpaceUsage()
		out.LogBytes += m.WAL.PhysicalSize
		out.MemTableBytes += m.MemTable.Size
		out.Flushes += m.Flush.Count
		out.Compactions += m.Compact.Count
		out.Compacting += m.Compact.NumInProgress
		out.CompactionDebt += m.Compact.EstimatedDebt
		for level := range m.Levels {
			out.CompactedBytes += m.Levels[level].TableBytesFlushed + m.Levels[level].TableBytesCompacted
		}
		out.ReadAmplification = max(out.ReadAmplification, m.ReadAmp())
		out.Fsyncs += uint64(db.fs.syncs.Load())
		out.Stalls += db.stalls.Load()
		out.StallSeconds += float64(db.stalled.Load()) / 1e9
		// Both databases have the same cache.
		out.CacheBytes, out.CacheHits, out.CacheMisses = m.BlockCache.Size, m.BlockCache.Hits, m.BlockCache.Misses
	}
	if usage, err := s.fs.GetDiskUsage(s.dir); err == nil {
		out.FreeBytes, out.SizeBytes = usage.AvailBytes, usage.TotalBytes
	}
	return out
}
