package check

import (
	"context"
	"fmt"

	"hindsight/internal/engine/storage"
)

// Options of a check.
type Options struct {
	// Repair removes what prevents recovery. The store must be open for writing.
	Repair bool
	// Report is called with the progress, in the goroutine of the check. It may be nil.
	Report func(Progress)
	// Size estimates the bytes of a model, for Progress.Share; nil means equal sizes.
	Size func(storage.Model) int64
}

// Progress is the progress of a check.
type Progress struct {
	Models, TotalModels int
	// Records counts log records, snapshots, ids and predictions. Bytes is their size.
	Records uint64
	Bytes   int64
	// Share is the share that is done, from 0 to 1.
	Share float64
}

// reportEvery is the number of records between two reports.
const reportEvery = 256

// meter measures the progress of a check.
type meter struct {
	o    Options
	at   Progress
	size map[string]int64
	// done is the size of the checked models, now of the model being checked, whole of all.
	done, now, whole int64
	// part is the checked share of the present model's log.
	part float64
}

func newMeter(ctx context.Context, disk storage.Store, o Options) (*meter, error) {
	m := &meter{o: o, size: map[string]int64{}}
	if o.Report == nil {
		return m, nil
	}
	err := disk.Models(ctx, func(e storage.RegistryEntry) error {
		size := int64(1)
		if o.Size != nil && e.Model != nil {
			size += o.Size(e.Model)
		}
		m.size[e.Name] = size
		m.whole += size
		m.at.TotalModels++
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("check: %w", err)
	}
	return m, nil
}

// begin ends the present model and begins the next.
func (m *meter) begin(name string) {
	m.done += m.now
	m.now, m.part = m.size[name], 0
	m.at.Models++
	m.report()
}

// add counts a record.
func (m *meter) add(bytes int) {
	m.at.Records++
	m.at.Bytes += int64(bytes)
	if m.at.Records%reportEvery == 0 {
		m.report()
	}
}

func (m *meter) report() {
	if m.o.Report == nil {
		return
	}
	m.at.Share = (float64(m.done) + float64(m.part*float64(m.now))) / float64(max(m.whole, 1))
	m.o.Report(m.at)
}
