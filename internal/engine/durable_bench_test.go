package engine_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"hindsight/internal/engine"
	"hindsight/internal/engine/storage"
	"hindsight/internal/model"
	"hindsight/internal/store"
)

// slowFS is a file system whose syncs of files take syncTime and are counted.
type slowFS struct {
	vfs.FS
	syncs *atomic.Int64
}

const syncTime = time.Millisecond

func (f slowFS) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	file, err := f.FS.Create(name, category)
	return slowFile{file, f.syncs}, err
}

func (f slowFS) ReuseForWrite(oldName, newName string, category vfs.DiskWriteCategory) (vfs.File, error) {
	file, err := f.FS.ReuseForWrite(oldName, newName, category)
	return slowFile{file, f.syncs}, err
}

type slowFile struct {
	vfs.File
	syncs *atomic.Int64
}

func (f slowFile) Sync() error {
	f.syncs.Add(1)
	time.Sleep(syncTime)
	return f.File.Sync()
}

func (f slowFile) SyncData() error { return f.Sync() }

// BenchmarkGroupCommit is observations of so many clients, of one model or of 64, beside appends of as many writers
// to the store alone. The two alternate: an operation is a round of both. The metric of-store is the rate of the
// observations divided by the rate of the appends. The metrics /sync are how many rows share a sync, which a busy
// machine changes less.
func BenchmarkGroupCommit(b *testing.B) {
	for _, clients := range []int{64, 256} {
		for _, models := range []int{1, 64} {
			b.Run(fmt.Sprintf("clients=%d/models=%d", clients, models), func(b *testing.B) { benchmarkGroupCommit(b, clients, models) })
		}
	}
}

func benchmarkGroupCommit(b *testing.B, clients, models int) {
	b.Helper()
	const rows = 100
	open := func(syncs *atomic.Int64) *store.Store {
		s := must(store.Open("data", store.Options{FS: slowFS{vfs.NewMem(), syncs}}))(b)
		return s
	}
	var appendSyncs, observeSyncs atomic.Int64
	alone, s := open(&appendSyncs), open(&observeSyncs)
	e := openOver(b, s)
	defer func() {
		shut(b, e, s)
		if err := alone.Close(); err != nil {
			b.Error(err)
		}
	}()
	for n := range models {
		spec := model.Spec{Dimension: 10, Scaling: model.Unscaled(), PKAWVTaylor: &model.PKAWVTaylor{Degree: ptr(2)}}
		must(e.CreateModel(b.Context(), fmt.Sprint("m", n), spec, engine.CreateOptions{}))(b)
	}
	writers := make([]storage.Model, clients)
	for n := range writers {
		var err error
		if writers[n], err = alone.Create(b.Context(), fmt.Sprint("m", n), nil); err != nil {
			b.Fatal(err)
		}
	}
	data := make([]byte, 120)
	appendRow := func(client int, n uint64) error {
		return writers[client].Append(context.Background(), storage.Commit{Record: storage.Record{First: n, Last: n, Data: data}})
	}
	random, inputs := rand.New(rand.NewPCG(1, 2)), [64][]float64{}
	for n := range inputs {
		for range 10 {
			inputs[n] = append(inputs[n], random.NormFloat64())
		}
	}
	names := make([]string, models)
	for n := range names {
		names[n] = fmt.Sprint("m", n)
	}
	observe := func(client int, n uint64) error {
		_, err := e.Observe(context.Background(), names[client%models], []engine.Observation{{
			Features: inputs[(client+int(n))%len(inputs)], Labels: []float64{1}, Weight: 1, ObservationID: strconv.FormatUint(n<<8|uint64(client), 36),
		}})
		return err
	}
	first := uint64(1)
	round := func(do func(client int, n uint64) error) time.Duration {
		begun := time.Now()
		var group sync.WaitGroup
		for client := range clients {
			group.Go(func() {
				for n := range uint64(rows) {
					if err := do(client, first+n); err != nil {
						b.Error(err)
						return
					}
				}
			})
		}
		group.Wait()
		return time.Since(begun)
	}
	appendSyncs.Store(0)
	observeSyncs.Store(0)
	var appending, observing time.Duration
	for b.Loop() {
		appending += round(appendRow)
		observing += round(observe)
		first += rows
	}
	total := float64(b.N * clients * rows)
	b.ReportMetric(float64(appending)/float64(observing), "of-store")
	b.ReportMetric(total/float64(appendSyncs.Load()), "appends/sync")
	b.ReportMetric(total/float64(observeSyncs.Load()), "observes/sync")
	b.ReportMetric(total/appending.Seconds(), "appends/s")
	b.ReportMetric(total/observing.Seconds(), "observes/s")
}
