package check

import (
	"context"
	"fmt"

	"hindsight/internal/engine/storage"
)

// Options of a check.
type Options struct {
	// Repair cuts away what keeps a model from being recovered. The store has to be
	// open for writing.
	Repair bool
	// Tell is told how far the check is, from its goroutine; nil is nobody.
	Tell func(Progress)
	// Size estimates what is kept of a model, in bytes; nil is the same of each. Only
	// the share depends on it.
	Size func(storage.Model) int64
}

// Progress is how far a check is.
type Progress struct {
	Models, TotalModels int
	// Records are those of logs, snapshots, ids and predictions, Bytes their size.
	Records uint64
	Bytes   int64
	// Share of what there is to check, from 0 to 1.
	Share float64
}

// tellEvery is after how many records a check tells how far it is.
const tellEvery = 256

// meter adds up the progress of a check.
type meter struct {
	o    Options
	at   Progress
	size map[string]int64
	// done is the size of the models before, whole that of all.
	done, whole int64
	// now is the size of the model that is being gone through, and part the share of
	// its log that was.
	now  int64
	part float64
}

func newMeter(ctx context.Context, disk storage.Store, o Options) (*meter, error) {
	m := &meter{o: o, size: map[string]int64{}}
	if o.Tell == nil {
		return m, nil
	}
	err := disk.Models(ctx, func(e storage.Entry) error {
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

// begin begins with a model, and so ends the one before.
func (m *meter) begin(name string) {
	m.done += m.now
	m.now, m.part = m.size[name], 0
	m.at.Models++
	m.tell()
}

// read counts a record.
func (m *meter) read(bytes int) {
	m.at.Records++
	m.at.Bytes += int64(bytes)
	if m.at.Records%tellEvery == 0 {
		m.tell()
	}
}

func (m *meter) tell() {
	if m.o.Tell == nil {
		return
	}
	m.at.Share = (float64(m.done) + float64(m.part*float64(m.now))) / float64(max(m.whole, 1))
	m.o.Tell(m.at)
}
