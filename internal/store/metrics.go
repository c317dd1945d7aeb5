package store

import "math"

// Metrics are the store's figures, over both of its databases.
type Metrics struct {
	DiskBytes            uint64
	FreeBytes, SizeBytes float64 // Of the file system; NaN if it does not say.
	RememberedIDs        int
	// Stalls counts the writes that waited for flushes and compactions, StallSeconds their time.
	Stalls       int64
	StallSeconds float64
	Failed       bool
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
		out.DiskBytes += db.Metrics().DiskSpaceUsage()

		out.Stalls += db.stalls.Load()
		out.StallSeconds += float64(db.stalled.Load()) / 1e9
	}
	if usage, err := s.fs.GetDiskUsage(s.dir); err == nil {
		out.FreeBytes, out.SizeBytes = float64(usage.AvailBytes), float64(usage.TotalBytes)
	}
	return out
}
