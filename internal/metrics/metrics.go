// Package metrics holds every instrument of the server. A scrape reads numbers through Source
// and the functions given to Watch. The data path hands durations to Timings and Stages.
//
// # Rows
//
// A metric of the server is a field of a struct, tagged with the name and the help of the
// metric: see Watch. A metric of each model is one row of a table: its name, its help, its
// kind and the function that takes its number from a figures.Live. The tables are in modelrows.go
// and classrows.go; what a model has several of, such as inputs, has tables in parts.go.
//
// # Bounded series
//
// A model costs about ninety series, with inputs and classes up to 420, so
// Options.MaxModels bounds how many models get series of their own. Models get them in the order in which they
// appear, and a model keeps what it got: the labels of a model never change
// while it lives. All further models are shown together under the model label
// "other", with one set of series for each learner, and
// hindsight_models_aggregated says how many they are. The place of a forgotten
// model goes to the next new model. A model that is named "other" is always
// among the others.
//
// # Two outputs
//
// Gather yields what client_golang prints in every format of Prometheus. Scrape
// prints the text format alone, at a small part of the cost. A test holds that
// both print the same text.
package metrics

import (
	"errors"
	"fmt"
	"math"
	"runtime"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	dto "github.com/prometheus/client_model/go"
)

const (
	// DefaultMaxModels is how many models get series of their own when
	// Options does not say.
	DefaultMaxModels = 1000
	// Other is the model label of the models without series of their own.
	Other = "other"
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
// concurrently, and under any lock: Metrics never calls a Source while it
// holds a lock that Timings or Forget need.
type Metrics struct {
	// server has the instruments that are not of a model, perModel the others.
	// No name is in both: server refuses what perModel has.
	server, perModel *prometheus.Registry
	models           *models
	families         []family
	// Stages takes what the stages of an observation's way cost.
	Stages *Stages
}

// New registers the instruments that need no source: timings, build
// information, the Go runtime and the process. The caller may register more at
// the registry, before and after. After an error some instruments may stay
// registered.
func New(registry *prometheus.Registry, opts Options) (*Metrics, error) {
	if opts.MaxModels < 0 {
		return nil, fmt.Errorf("metrics: MaxModels is %d, want at least 0", opts.MaxModels)
	}
	if opts.MaxModels == 0 {
		opts.MaxModels = DefaultMaxModels
	}
	if opts.Version == "" {
		opts.Version = "unknown"
	}
	m := &Metrics{server: registry, perModel: prometheus.NewRegistry(), models: newModels(opts.MaxModels)}
	m.families = newFamilies(m.models)
	if err := m.perModel.Register(m.models); err != nil {
		return nil, fmt.Errorf("metrics: %w", err)
	}
	for _, c := range []prometheus.Collector{reserved{m.models}, buildInfo(opts.Version)} {
		if err := registry.Register(c); err != nil {
			return nil, fmt.Errorf("metrics: %w", err)
		}
	}
	var err error
	if m.Stages, err = newStages(registry); err != nil {
		return nil, err
	}
	// A registry may have these two already, as the default one does.
	for _, c := range []prometheus.Collector{
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	} {
		var there prometheus.AlreadyRegisteredError
		if err := registry.Register(c); err != nil && !errors.As(err, &there) {
			return nil, fmt.Errorf("metrics: %w", err)
		}
	}
	return m, nil
}

// WatchModels shows the models of source: it reads them at every scrape. A
// second call fails.
func (m *Metrics) WatchModels(source Source) error {
	gauges := []prometheus.Collector{prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "hindsight_models_aggregated",
		Help: `Models without series of their own, shown together under the model label "other".`,
	}, m.models.others)}
	for k, kind := range m.models.kinds {
		gauges = append(gauges, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name:        "hindsight_metrics_omitted",
			Help:        "Inputs, classes, coverages and bins without series: beyond the first 32 of a model, and of models without series of their own.",
			ConstLabels: prometheus.Labels{labelPart: kind.label},
		}, func() float64 { return m.models.omitted(k) }))
	}
	for _, g := range gauges {
		if err := m.server.Register(g); err != nil {
			return fmt.Errorf("metrics: models: %w", err)
		}
	}
	m.models.watch(source)
	return nil
}

// Gather implements prometheus.Gatherer: it yields all instruments.
func (m *Metrics) Gather() ([]*dto.MetricFamily, error) {
	// The models come first, since a number of the server is about them.
	families, err := prometheus.Gatherers{m.perModel, m.server}.Gather()
	if err != nil {
		return families, fmt.Errorf("metrics: %w", err)
	}
	return families, nil
}

// reserved describes the series of models to the registry of the server and
// shows none there, so that the registry refuses a second use of a name.
type reserved struct{ prometheus.Collector }

// Collect implements prometheus.Collector.
func (reserved) Collect(chan<- prometheus.Metric) {}

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

// finite tells whether v may be shown. A number that is not known yet, or
// that overflowed, has no series.
func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

// known is v, and not known unless so.
func known(so bool, v float64) float64 {
	if so {
		return v
	}
	return math.NaN()
}

// timestamp is a time in seconds since 1970; the zero time is not known.
func timestamp(t time.Time) float64 { return known(!t.IsZero(), float64(t.UnixNano())/1e9) }

func flag(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
