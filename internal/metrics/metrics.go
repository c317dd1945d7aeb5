// Package metrics holds every instrument of the server, on a registry that
// the caller hands in. It knows the numbers it shows and nothing of the
// packages they come from: what it reads at scrape time it reads through
// Source and a function answering StoreStats, and what it is told on the data
// path it is told through Timings.
//
// # Bounded series
//
// A model costs about sixty series, so Options.MaxModels bounds how many get
// their own. They are given first come, first served, and a model keeps what
// it was given: the label set of a model never changes while it lives. All
// further models are shown together under the model label "other", one set of
// series for each learner, and hindsight_models_aggregated says how many they
// are. The place of a forgotten model goes to the next new one. A model that
// is itself named "other" is always among the others.
package metrics

import (
	"errors"
	"fmt"
	"math"
	"runtime"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

const (
	// DefaultMaxModels is how many models get series of their own when
	// Options does not say.
	DefaultMaxModels = 1000
	// Other is the model label of the models without series of their own.
	Other = "other"

	labelModel   = "model"
	labelLearner = "learner"
	labelKind    = "kind"
)

// Options says what the instruments cannot find out themselves.
type Options struct {
	// Version is the version of the server, for hindsight_build_info.
	Version string
	// MaxModels bounds how many models get series of their own.
	// 0 means DefaultMaxModels.
	MaxModels int
}

// Metrics is the set of instruments of one server. Its methods may be called
// concurrently, and from below any lock: it never calls back into a Source
// while it holds a lock that Timings or Forget need.
type Metrics struct {
	reg     prometheus.Registerer
	slots   *slots
	timings *timingVecs
}

// New registers the instruments that need no source: timings, build
// information, the Go runtime and the process. After an error some of them
// may stay registered.
func New(reg prometheus.Registerer, opts Options) (*Metrics, error) {
	if opts.MaxModels < 0 {
		return nil, fmt.Errorf("metrics: MaxModels is %d, want at least 0", opts.MaxModels)
	}
	if opts.MaxModels == 0 {
		opts.MaxModels = DefaultMaxModels
	}
	if opts.Version == "" {
		opts.Version = "unknown"
	}
	m := &Metrics{
		reg:     reg,
		slots:   newSlots(opts.MaxModels),
		timings: newTimingVecs(),
	}
	for _, c := range []prometheus.Collector{m.timings.predict, m.timings.observe, buildInfo(opts.Version)} {
		if err := reg.Register(c); err != nil {
			return nil, fmt.Errorf("metrics: %w", err)
		}
	}
	// A registry may come with these two already, as the default one does.
	for _, c := range []prometheus.Collector{
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	} {
		var there prometheus.AlreadyRegisteredError
		if err := reg.Register(c); err != nil && !errors.As(err, &there) {
			return nil, fmt.Errorf("metrics: %w", err)
		}
	}
	return m, nil
}

// WatchModels shows the models of src: they are read at every scrape. It is
// called once; a second call fails.
func (m *Metrics) WatchModels(src Source) error {
	if err := m.reg.Register(newModelCollector(src, m.slots)); err != nil {
		return fmt.Errorf("metrics: models: %w", err)
	}
	return nil
}

// WatchStore shows what read answers: it is called at every scrape, possibly
// by several at once. WatchStore is called once; a second call fails.
func (m *Metrics) WatchStore(read func() StoreStats) error {
	if err := m.reg.Register(newStoreCollector(read)); err != nil {
		return fmt.Errorf("metrics: store: %w", err)
	}
	return nil
}

// WatchMemory is WatchStore for the models as a whole.
func (m *Metrics) WatchMemory(read func() MemoryStats) error {
	if err := m.reg.Register(newMemoryCollector(read)); err != nil {
		return fmt.Errorf("metrics: memory: %w", err)
	}
	return nil
}

// WatchCopies is WatchStore for the copies of snapshots, where there are any.
func (m *Metrics) WatchCopies(read func() CopyStats) error {
	if err := m.reg.Register(newCopyCollector(read)); err != nil {
		return fmt.Errorf("metrics: copies: %w", err)
	}
	return nil
}

// WatchCalls is WatchStore for the calls as a whole.
func (m *Metrics) WatchCalls(read func() CallStats) error {
	if err := m.reg.Register(newCallCollector(read)); err != nil {
		return fmt.Errorf("metrics: calls: %w", err)
	}
	return nil
}

func buildInfo(version string) prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "hindsight_build_info",
		Help: "The running build; always 1.",
		ConstLabels: prometheus.Labels{
			"version":    strings.ToValidUTF8(version, "?"),
			"go_version": runtime.Version(),
		},
	}, func() float64 { return 1 })
}

// finite tells whether v may be exported. A number that is not known yet, or
// that overflowed, is shown by the absence of its series.
func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

func flag(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
