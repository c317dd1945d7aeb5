package store

import "math"

// Metrics are the store's figures, over both of its databases.
type Metrics struct {
	DiskBytes         uint64  `metric:"hindsight_store_disk_bytes" help:"Space of the store on disk."`
	LogBytes          uint64  `metric:"hindsight_store_log_bytes" help:"Space of the store's write-ahead log."`
	FreeBytes         float64 `metric:"hindsight_store_filesystem_available_bytes,largest" help:"Free space of the file system of the data directory."`
	SizeBytes         float64 `metric:"hindsight_store_filesystem_size_bytes,largest" help:"Size of the file system of the data directory."`
	MemTableBytes     uint64  `metric:"hindsight_store_memtable_bytes" help:"Memory of the store's unflushed writes."`
	RememberedIDs     int     `metric:"hindsight_store_remembered_ids" help:"Remembered observation ids."`
	Flushes           int64   `metric:"hindsight_store_flushes_total" help:"Flushes of the store's unflushed writes."`
	Compactions       int64   `metric:"hindsight_store_compactions_total" help:"Compactions of the store."`
	Compacting        int64   `metric:"hindsight_store_compactions_running" help:"Compactions of the store that are in progress."`
	CompactedBytes    uint64  `metric:"hindsight_store_compacted_bytes_total" help:"Bytes that flushes and compactions wrote."`
	CompactionDebt    uint64  `metric:"hindsight_store_compaction_debt_bytes" help:"Estimated bytes that compactions have before them."`
	ReadAmplification int     `metric:"hindsight_store_read_amplification,largest" help:"Tables that a read may have to look into."`
	Stalls            int64   `metric:"hindsight_store_stalls_total" help:"Writes that waited, because flushes and compactions were behind."`
	StallSeconds      float64 `metric:"hindsight_store_stall_seconds_total" help:"Time that writes waited for flushes and compactions."`
	CacheBytes        int64   `metric:"hindsight_store_cache_bytes" help:"Memory of the store's cache of blocks."`
	CacheHits         int64   `metric:"hindsight_store_cache_hits_total" help:"Blocks found in the store's cache."`
	CacheMisses       int64   `metric:"hindsight_store_cache_misses_total" help:"Blocks not found in the store's cache."`
	Failed            bool    `metric:"hindsight_store_failed,largest" help:"1 when the store takes no more writes, else 0."`

	// Fsyncs counts the syncs of write-ahead logs.
	Fsyncs uint64
}

// Metrics reads the figures.
func (s *Store) Metrics() Metrics {
	out := Metrics{
		RememberedIDs: int(s.remembered.Load()), Failed: s.Failed() != nil,
		FreeBytes: math.NaN(), SizeBytes: math.NaN(), // The file system may not say.
	}
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
		out.FreeBytes, out.SizeBytes = float64(usage.AvailBytes), float64(usage.TotalBytes)
	}
	return out
}
