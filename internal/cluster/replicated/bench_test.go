package replicated_test

import (
	"context"
	"fmt"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"hindsight/internal/cluster/command"
	"hindsight/internal/cluster/replicated"
	"hindsight/internal/engine/storage"
	"hindsight/internal/store"
)

// nothing is a local store that does nothing, so that a benchmark measures only the replication.
type nothing struct {
	storage.Store
	models uint64
}

type noModel struct {
	storage.Model
	number uint64
}

func (n *nothing) Models(context.Context, func(storage.Entry) error) error { return nil }
func (n *nothing) Position() storage.Position                              { return storage.Position{} }

func (n *nothing) Create(context.Context, string, []byte) (storage.Model, error) {
	n.models++
	return &noModel{number: n.models}, nil
}
func (m *noModel) Number() uint64                               { return m.number }
func (m *noModel) Last() (uint64, error)                        { return 0, nil }
func (m *noModel) Append(context.Context, storage.Commit) error { return nil }
func (m *noModel) ID(string) ([]byte, bool, error)              { return nil, false, nil }
func (m *noModel) PutIDs(context.Context, []storage.ID) error   { return nil }
func (m *noModel) PutWaiting([]storage.Prediction) error        { return nil }

// serial is a log of one server that takes so long to commit an entry.
type serial struct {
	mu    sync.Mutex
	delay time.Duration
	apply func(index uint64, entry []byte) error
	index uint64
}

func (l *serial) Propose(_ context.Context, entry []byte) error {
	if l.delay > 0 {
		time.Sleep(l.delay)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.index++
	return l.apply(l.index, entry)
}

// processor is the time that the process has used.
func processor(b *testing.B) time.Duration {
	b.Helper()
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		b.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// The cost of a commit without the log and the local store, for several numbers of concurrent callers, with a fast
// and a slow log.
func BenchmarkAppend(b *testing.B) {
	for _, c := range []struct {
		callers int
		delay   time.Duration
	}{{1, 0}, {64, 0}, {256, 0}, {64, time.Millisecond}, {256, time.Millisecond}, {1024, time.Millisecond}} {
		callers := c.callers
		b.Run(fmt.Sprint("callers=", callers, "/commit=", c.delay), func(b *testing.B) {
			l := &serial{}
			s, err := replicated.New(b.Context(), replicated.Options{Local: &nothing{}, Log: l})
			if err != nil {
				b.Fatal(err)
			}
			defer s.Close()
			l.apply = s.Apply
			models := make([]storage.Model, callers)
			for n := range models {
				if models[n], err = s.Create(b.Context(), strconv.Itoa(n), nil); err != nil {
					b.Fatal(err)
				}
			}
			data, value := make([]byte, 188), make([]byte, 80)
			var next atomic.Int64
			before, used := l.index, processor(b)
			l.delay = c.delay
			b.SetParallelism(max(1, callers/runtime.GOMAXPROCS(0)))
			b.ReportAllocs()
			b.ResetTimer()
			b.RunParallel(func(p *testing.PB) {
				m := models[int(next.Add(1)-1)%callers]
				ids := []storage.ID{{ID: "0123456789abcdef", Value: value}}
				for n := uint64(1); p.Next(); n++ {
					c := storage.Commit{Record: storage.Record{First: n, Last: n, Data: data}, IDs: ids}
					if err := m.Append(context.Background(), c); err != nil {
						b.Error(err)
						return
					}
				}
			})
			b.ReportMetric(float64(b.N)/float64(l.index-before), "commands/entry")
			b.ReportMetric(float64(processor(b)-used)/float64(b.N), "cpu-ns/op")
		})
	}
}

// The cost of an observation that a server applies for another owner, to a store on disk.
func BenchmarkFollow(b *testing.B) {
	local, err := store.Open(b.TempDir(), store.Options{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = local.Close() })
	s, err := replicated.New(b.Context(), replicated.Options{Local: local, Log: &serial{}, Owner: func() bool { return false }})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	index := uint64(0)
	apply := func(c command.Command) {
		body := c.Append(nil)
		index++
		if err := s.Apply(index, append(command.NewEntry(command.Header{Proposer: [16]byte{1}}, len(body)), body...)); err != nil {
			b.Fatal(err)
		}
	}
	apply(command.Command{Kind: command.Create, Name: "m"})
	data, value, n := make([]byte, 188), make([]byte, 80), uint64(0)
	used := processor(b)
	b.ReportAllocs()
	for b.Loop() {
		n++
		ids := []storage.ID{{ID: strconv.FormatUint(n, 10), At: time.Unix(int64(n), 0), Value: value}}
		apply(command.Command{Kind: command.Append, Model: 1, Record: storage.Record{First: n, Last: n, Data: data}, IDs: ids})
	}
	b.ReportMetric(float64(processor(b)-used)/float64(b.N), "cpu-ns/op")
}

// The cost of a prediction.
func BenchmarkPutWaiting(b *testing.B) {
	l := &serial{}
	s, err := replicated.New(b.Context(), replicated.Options{Local: &nothing{}, Log: l})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	l.apply = s.Apply
	m, err := s.Create(b.Context(), "m", nil)
	if err != nil {
		b.Fatal(err)
	}
	rows := []storage.Prediction{{ID: "0123456789abcdef", Value: make([]byte, 200), Minted: true}}
	b.ReportAllocs()
	for b.Loop() {
		if err := m.PutWaiting(rows); err != nil {
			b.Fatal(err)
		}
	}
}
