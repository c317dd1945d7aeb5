package metrics_test

import (
	"cmp"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"runtime"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/client_golang/prometheus/testutil"
	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"hindsight/internal/metrics"
)

func newMetrics(tb testing.TB, opts metrics.Options) (*metrics.Metrics, *prometheus.Registry) {
	tb.Helper()
	registry := prometheus.NewPedanticRegistry()
	opts.MaxModels = cmp.Or(opts.MaxModels, 1000)
	m, err := metrics.New(registry, opts)
	require.NoError(tb, err)
	return m, registry
}

// expose scrapes a registry over HTTP.
func expose(t *testing.T, registry prometheus.Gatherer, accept string) string {
	t.Helper()
	request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", http.NoBody)
	request.Header.Set("Accept", accept)
	answer := httptest.NewRecorder()
	promhttp.HandlerFor(registry, promhttp.HandlerOpts{EnableOpenMetrics: true}).ServeHTTP(answer, request)
	require.EqualValues(t, http.StatusOK, answer.Code, answer.Body)
	return answer.Body.String()
}

// exposes fails unless these are among the lines.
func exposes(t *testing.T, registry prometheus.Gatherer, lines ...string) {
	t.Helper()
	text := expose(t, registry, "text/plain")
	for _, want := range lines {
		assert.Contains(t, text, "\n"+want+"\n", want)
	}
}

// series returns the series of a metric family. An absent family has none.
func series(t *testing.T, registry prometheus.Gatherer, name string) []*dto.Metric {
	t.Helper()
	families, err := registry.Gather()
	require.NoError(t, err)
	for _, f := range families {
		if f.GetName() == name {
			return f.GetMetric()
		}
	}
	return nil
}

// histogram is the histogram of the first series of a family.
func histogram(t *testing.T, registry prometheus.Gatherer, name string) *dto.Histogram {
	t.Helper()
	all := series(t, registry, name)
	require.True(t, len(all) != 0, "no %s", name)
	return all[0].GetHistogram()
}

// figure has what rows of a test show.
type figure struct{ count, level, unknown float64 }

func rows() []metrics.Row[figure] {
	return []metrics.Row[figure]{
		{Name: "hindsight_test_events_total", Help: "Events.", Value: func(f figure) float64 { return f.count }},
		{Name: "hindsight_test_level", Help: "A level.", Value: func(f figure) float64 { return f.level }},
		{Name: "hindsight_test_unknown", Help: "Not known.", Value: func(f figure) float64 { return f.unknown }},
	}
}

func TestWatch(t *testing.T) {
	m, registry := newMetrics(t, metrics.Options{})
	now := figure{1, -2, math.NaN()}
	require.NoError(t, metrics.Watch(m, func() figure { return now }, rows()...))
	exposes(t, registry, "# TYPE hindsight_test_events_total counter", "hindsight_test_events_total 1",
		"# HELP hindsight_test_level A level.", "# TYPE hindsight_test_level gauge", "hindsight_test_level -2")
	now = figure{2, 0, math.Inf(1)}
	exposes(t, registry, "hindsight_test_events_total 2", "hindsight_test_level 0")
	assert.Empty(t, series(t, registry, "hindsight_test_unknown"))
}

func TestTimestampAndFlag(t *testing.T) {
	assert.Equal(t, 5.5, metrics.Timestamp(time.Unix(5, 5e8)))
	got := metrics.Timestamp(time.Time{})
	assert.True(t, math.IsNaN(got), "the zero time is %v, want NaN", got)
	assert.True(t, metrics.Flag(true) == 1 && metrics.Flag(false) == 0, "a flag is neither 1 nor 0")
}

func TestBuildInfoAndRuntime(t *testing.T) {
	_, registry := newMetrics(t, metrics.Options{Version: "v1.2.3"})
	text := expose(t, registry, "text/plain")
	for _, want := range []string{
		`hindsight_build_info{go_version="` + runtime.Version() + `",version="v1.2.3"} 1`,
		"go_goroutines ", "process_start_time_seconds ",
	} {
		assert.Contains(t, text, "\n"+want, want)
	}
}

func TestRejections(t *testing.T) {
	m, registry := newMetrics(t, metrics.Options{})
	rejected, err := m.Rejections([]string{"OVERLOADED", "NONE"})
	require.NoError(t, err)
	rejected("OVERLOADED")
	exposes(t, registry, `hindsight_rejections_total{reason="OVERLOADED"} 1`, `hindsight_rejections_total{reason="NONE"} 0`)
}

func TestCluster(t *testing.T) {
	m, registry := newMetrics(t, metrics.Options{})
	err := m.WatchCluster(func() metrics.Cluster {
		return metrics.Cluster{Behind: 3, Age: 1500 * time.Millisecond, Offset: time.Second, Members: map[string]int{"owner": 1, "voter": 2}}
	})
	require.NoError(t, err)
	exposes(t, registry, `hindsight_cluster_members{state="owner"} 1`, `hindsight_cluster_members{state="voter"} 2`,
		`hindsight_cluster_members{state="missing"} 0`, "hindsight_state_behind 3", "hindsight_state_age_seconds 1.5",
		"hindsight_cluster_clock_offset_seconds 1")
}

// traced are the traces of the exemplars of a histogram by their bucket's upper bound, and
// how many native exemplars it has.
func traced(h *dto.Histogram) string {
	classic := map[float64]string{}
	for _, b := range h.GetBucket() {
		for _, l := range b.GetExemplar().GetLabel() {
			classic[b.GetUpperBound()] = l.GetValue()
		}
	}
	return fmt.Sprint(classic, " ", len(h.GetExemplars()))
}

// The newest exemplar of each bucket is shown, with and without a finite upper bound.
func TestExemplars(t *testing.T) {
	m, registry := newMetrics(t, metrics.Options{})
	timings := m.Timings("a", learner)
	timings.Predict(3e-3, "")
	assert.Equal(t, "map[] 0", traced(histogram(t, registry, "hindsight_predict_seconds")))
	timings.Predict(3e-3, "0a")
	timings.Predict(4e-3, "0b")
	timings.Predict(20, "0c")
	timings.Predict(math.NaN(), "0d")
	m.Stages.Commit(4e-3, "0e")
	m.Stages.Queue(-1, "0f")
	m.Stages.Learn(math.Inf(1), "10")
	m.Stages.Fsync(1e-3)
	assert.Equal(t, "map[0.005:0b +Inf:0c] 3", traced(histogram(t, registry, "hindsight_predict_seconds")))
	for name, want := range map[string]string{
		"hindsight_commit_seconds": "map[0.005:0e] 1", "hindsight_queue_seconds": "map[1e-06:0f] 1",
		"hindsight_learn_seconds": "map[] 0", "hindsight_store_fsync_seconds": "map[] 0",
	} {
		assert.Equal(t, want, traced(histogram(t, registry, name)), name)
	}
}

func TestTimings(t *testing.T) {
	m, registry := newMetrics(t, metrics.Options{})
	timings := m.Timings("a", learner)
	for _, s := range []float64{1e-6, 2.6e-6, 0.3, -1, math.NaN(), math.Inf(1)} {
		timings.Predict(s, "")
	}
	timings.Observe(20, "")
	h := histogram(t, registry, "hindsight_predict_seconds")
	if h.GetSampleCount() != 4 || math.Abs(h.GetSampleSum()-0.3000036) > 1e-12 || len(h.GetPositiveDelta()) == 0 {
		t.Errorf("predict: %v, want 4 durations of 0.3000036 s with native buckets", h)
	}
	for _, b := range h.GetBucket() {
		want := uint64(2) // 1 µs, and the duration below 0
		if b.GetUpperBound() >= 5e-6 {
			want++
		}
		if b.GetUpperBound() >= 0.3 {
			want++
		}
		assert.Equal(t, want, b.GetCumulativeCount(), "predict at most %v s", b.GetUpperBound())
	}
	h = histogram(t, registry, "hindsight_observe_seconds")
	n := len(h.GetBucket())
	assert.True(t, h.GetSampleCount() == 1 && n == 22 && h.GetBucket()[0].GetUpperBound() == 1e-6 && h.GetBucket()[n-1].GetUpperBound() == 10, "observe: %v, want 22 buckets from 1e-06 to 10", h)
}

// Without a trace a duration allocates nothing.
func TestTimingsAllocateNothing(t *testing.T) {
	m, _ := newMetrics(t, metrics.Options{})
	timings := m.Timings("a", learner)
	if n := testing.AllocsPerRun(1000, func() {
		timings.Predict(1e-5, "")
		timings.Observe(1e-4, "")
		m.Stages.Queue(1e-4, "")
		m.Stages.Commit(1e-4, "")
	}); n != 0 {
		t.Errorf("%v allocations for a call, want none", n)
	}
}

func TestZeroTimings(*testing.T) {
	var timings metrics.Timings
	timings.Predict(1, "")
	timings.Observe(1, "0a")
}

func TestLint(t *testing.T) {
	m, registry, src := watch(t, 2)
	src.set(regression(), classifier())
	m.Timings("energy", learner).Predict(1e-4, "")
	problems, err := testutil.GatherAndLint(registry)
	require.NoError(t, err)
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}

func TestNewRejects(t *testing.T) {
	registry := prometheus.NewRegistry()
	m, err := metrics.New(registry, metrics.Options{})
	require.NoError(t, err)
	_, err = metrics.New(registry, metrics.Options{})
	assert.Error(t, err, "the same registry is accepted twice")
	for name, register := range map[string]func() error{
		"models":     func() error { return m.WatchModels(new(source).Each) },
		"rows":       func() error { return metrics.Watch(m, func() figure { return figure{} }, rows()...) },
		"rejections": func() error { _, err := m.Rejections([]string{"A"}); return err },
	} {
		assert.NoError(t, register(), name)
		assert.Error(t, register(), name)
	}
}
