package metrics_test

import (
	"math"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"hindsight/internal/engine/figures"
	"hindsight/internal/metrics"
)

// source is a list of models as a Source.
type source []figures.Live

func (s *source) Each(yield func(*figures.Live)) {
	for i := range *s {
		yield(&(*s)[i])
	}
}

// set puts models in the place of all that were there.
func (s *source) set(models ...Model) {
	*s = nil
	for _, m := range models {
		*s = append(*s, m.live())
	}
}

func newMetrics(tb testing.TB, opts metrics.Options) *metrics.Metrics {
	tb.Helper()
	m, err := metrics.New(prometheus.NewPedanticRegistry(), opts)
	if err != nil {
		tb.Fatal(err)
	}
	return m
}

// watch makes metrics of at most limit models over an empty source.
func watch(tb testing.TB, limit int) (*metrics.Metrics, *source) {
	tb.Helper()
	m := newMetrics(tb, metrics.Options{MaxModels: limit})
	src := new(source)
	if err := m.WatchModels(src); err != nil {
		tb.Fatal(err)
	}
	return m, src
}

func compare(t *testing.T, m prometheus.Gatherer, want string, names ...string) {
	t.Helper()
	if err := testutil.GatherAndCompare(m, strings.NewReader(want), names...); err != nil {
		t.Error(err)
	}
}

// expose scrapes reg over HTTP.
func expose(t *testing.T, m prometheus.Gatherer, accept string) string {
	t.Helper()
	req := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", http.NoBody)
	req.Header.Set("Accept", accept)
	rec := httptest.NewRecorder()
	promhttp.HandlerFor(m, promhttp.HandlerOpts{EnableOpenMetrics: true}).ServeHTTP(rec, req)
	if rec.Code != http.StatusOK {
		t.Fatalf("status %d: %s", rec.Code, rec.Body)
	}
	return rec.Body.String()
}

// copied is when a snapshot was made.
var copied = time.Unix(1, 0)

func energy() Model {
	return Model{
		Name: "energy", Learner: "pkawv_taylor",
		Observations: 7, Predictions: 9,
		PrequentialLoss: 2.5, ServedLoss: 3.5,
		Regret: 0.25, RegretAge: 3, RegretBound: 4, CertificateOK: true,
		Features: 351, StateBytes: 1 << 20, PendingLabels: 2, PendingLimit: 1000,
		SnapshotTime: copied, SnapshotBytes: 4096,
		PrequentialBaselines: Baselines{Mean: 5, Last: 10}, ServedBaselines: Baselines{Mean: 14, Last: 7},
		PrequentialSkill: 0.5, ServedSkill: 0.5, ServedObservations: 6, ServedRegret: 1.25,
		Recent: Recent{Observations: 1000, MeanLoss: 0.125, Skill: 0.75},
		Drift:  Drift{Detected: 3, Rises: 2, Sequence: 5, LossBefore: 0.25, LossAfter: 8},
		Gate:   Gate{On: true, SetAside: 2, Starts: 1},
		Intervals: []Interval{
			{Coverage: 0.99, Judged: 1000, Realised: 0.985, Recent: 0.984, MeanWidth: 3, MeanScore: 4},
			{Coverage: 0.9, Judged: 1000, Realised: 0.875, Recent: 0.874, MeanWidth: 1, MeanScore: 2},
		},
	}
}

func TestModelSeries(t *testing.T) {
	m, src := watch(t, 0)
	src.set(energy(), Model{Name: "price", Learner: "linear_awv"})
	compare(t, m, `
# HELP hindsight_certificate_ok 1 while the regret is consistent, 0 when the state is corrupt.
# TYPE hindsight_certificate_ok gauge
hindsight_certificate_ok{learner="linear_awv",model="price"} 0
hindsight_certificate_ok{learner="pkawv_taylor",model="energy"} 1
# HELP hindsight_features Features of the model.
# TYPE hindsight_features gauge
hindsight_features{learner="linear_awv",model="price"} 0
hindsight_features{learner="pkawv_taylor",model="energy"} 351
# HELP hindsight_labels_set_aside_total Observations whose label the label gate set aside.
# TYPE hindsight_labels_set_aside_total counter
hindsight_labels_set_aside_total{learner="pkawv_taylor",model="energy"} 2
# HELP hindsight_learner_starts_total Restarts of the learner by the label gate.
# TYPE hindsight_learner_starts_total counter
hindsight_learner_starts_total{learner="pkawv_taylor",model="energy"} 1
# HELP hindsight_loss_total Sum of the losses of judged observations, all but the first and those set aside: of prequential or of served predictions.
# TYPE hindsight_loss_total counter
hindsight_loss_total{kind="prequential",learner="linear_awv",model="price"} 0
hindsight_loss_total{kind="prequential",learner="pkawv_taylor",model="energy"} 2.5
hindsight_loss_total{kind="served",learner="linear_awv",model="price"} 0
hindsight_loss_total{kind="served",learner="pkawv_taylor",model="energy"} 3.5
# HELP hindsight_models_aggregated Models without series of their own, shown together under the model label "other".
# TYPE hindsight_models_aggregated gauge
hindsight_models_aggregated 0
# HELP hindsight_observations_total Observations learned, or set aside by the label gate.
# TYPE hindsight_observations_total counter
hindsight_observations_total{learner="linear_awv",model="price"} 0
hindsight_observations_total{learner="pkawv_taylor",model="energy"} 7
# HELP hindsight_pending_labels Pending predictions.
# TYPE hindsight_pending_labels gauge
hindsight_pending_labels{learner="linear_awv",model="price"} 0
hindsight_pending_labels{learner="pkawv_taylor",model="energy"} 2
# HELP hindsight_predictions_total Predictions answered.
# TYPE hindsight_predictions_total counter
hindsight_predictions_total{learner="linear_awv",model="price"} 0
hindsight_predictions_total{learner="pkawv_taylor",model="energy"} 9
# HELP hindsight_regret Prequential loss minus the loss of the best fixed function, or best expert, in hindsight; during a warm-up of the best constant.
# TYPE hindsight_regret gauge
hindsight_regret{learner="linear_awv",model="price"} 0
hindsight_regret{learner="pkawv_taylor",model="energy"} 0.25
# HELP hindsight_regret_age_observations Observations learned since the shown regret was computed; 0 if regret is tracked.
# TYPE hindsight_regret_age_observations gauge
hindsight_regret_age_observations{learner="linear_awv",model="price"} 0
hindsight_regret_age_observations{learner="pkawv_taylor",model="energy"} 3
# HELP hindsight_regret_bound The guarantee of the regret.
# TYPE hindsight_regret_bound gauge
hindsight_regret_bound{learner="linear_awv",model="price"} 0
hindsight_regret_bound{learner="pkawv_taylor",model="energy"} 4
# HELP hindsight_state_bytes Memory of the model's state.
# TYPE hindsight_state_bytes gauge
hindsight_state_bytes{learner="linear_awv",model="price"} 0
hindsight_state_bytes{learner="pkawv_taylor",model="energy"} 1.048576e+06
`, "hindsight_certificate_ok", "hindsight_features", "hindsight_labels_set_aside_total", "hindsight_learner_starts_total", "hindsight_loss_total",
		"hindsight_models_aggregated", "hindsight_observations_total", "hindsight_pending_labels",
		"hindsight_predictions_total", "hindsight_regret", "hindsight_regret_age_observations",
		"hindsight_regret_bound", "hindsight_state_bytes")
}

// How well the model predicts, beside what needs no inputs. What is not known
// has no series.
func TestPerformanceSeries(t *testing.T) {
	m, src := watch(t, 0)
	fresh := Model{
		Name: "fresh", Learner: "linear_awv", PrequentialSkill: math.NaN(), ServedSkill: math.NaN(), ServedRegret: math.NaN(),
		Recent:    Recent{Observations: 999, MeanLoss: 1, Skill: -1},
		Drift:     Drift{Sequence: 1, LossBefore: 1, LossAfter: 1},
		Intervals: []Interval{{Coverage: 0.9, Judged: 999, Realised: 0.1, Recent: 0.1, MeanWidth: math.NaN(), MeanScore: math.NaN()}},
	}
	src.set(energy(), fresh)
	compare(t, m, `
# HELP hindsight_baseline_loss_total Sum of the losses of predictors that ignore the inputs, over the same observations as hindsight_loss_total: mean, the running mean of the labels; last, the last label.
# TYPE hindsight_baseline_loss_total counter
hindsight_baseline_loss_total{baseline="last",kind="prequential",learner="linear_awv",model="fresh"} 0
hindsight_baseline_loss_total{baseline="last",kind="prequential",learner="pkawv_taylor",model="energy"} 10
hindsight_baseline_loss_total{baseline="last",kind="served",learner="linear_awv",model="fresh"} 0
hindsight_baseline_loss_total{baseline="last",kind="served",learner="pkawv_taylor",model="energy"} 7
hindsight_baseline_loss_total{baseline="mean",kind="prequential",learner="linear_awv",model="fresh"} 0
hindsight_baseline_loss_total{baseline="mean",kind="prequential",learner="pkawv_taylor",model="energy"} 5
hindsight_baseline_loss_total{baseline="mean",kind="served",learner="linear_awv",model="fresh"} 0
hindsight_baseline_loss_total{baseline="mean",kind="served",learner="pkawv_taylor",model="energy"} 14
# HELP hindsight_drift_detected_total Detected changes of the loss.
# TYPE hindsight_drift_detected_total counter
hindsight_drift_detected_total{direction="fall",learner="linear_awv",model="fresh"} 0
hindsight_drift_detected_total{direction="rise",learner="linear_awv",model="fresh"} 0
hindsight_drift_detected_total{direction="fall",learner="pkawv_taylor",model="energy"} 1
hindsight_drift_detected_total{direction="rise",learner="pkawv_taylor",model="energy"} 2
# HELP hindsight_drift_last_change_sequence Estimated sequence of the last change.
# TYPE hindsight_drift_last_change_sequence gauge
hindsight_drift_last_change_sequence{learner="pkawv_taylor",model="energy"} 5
# HELP hindsight_drift_loss_after Mean loss after the last change, until it was detected.
# TYPE hindsight_drift_loss_after gauge
hindsight_drift_loss_after{learner="pkawv_taylor",model="energy"} 8
# HELP hindsight_drift_loss_before Mean loss before the last change.
# TYPE hindsight_drift_loss_before gauge
hindsight_drift_loss_before{learner="pkawv_taylor",model="energy"} 0.25
# HELP hindsight_interval_mean_score Mean interval score: the width, and 2/(1 - coverage) times what the label missed the interval by.
# TYPE hindsight_interval_mean_score gauge
hindsight_interval_mean_score{coverage="0.9",learner="pkawv_taylor",model="energy"} 2
hindsight_interval_mean_score{coverage="0.99",learner="pkawv_taylor",model="energy"} 4
# HELP hindsight_interval_mean_width Mean width of the intervals.
# TYPE hindsight_interval_mean_width gauge
hindsight_interval_mean_width{coverage="0.9",learner="pkawv_taylor",model="energy"} 1
hindsight_interval_mean_width{coverage="0.99",learner="pkawv_taylor",model="energy"} 3
# HELP hindsight_interval_nominal_coverage The label coverage as a number.
# TYPE hindsight_interval_nominal_coverage gauge
hindsight_interval_nominal_coverage{coverage="0.9",learner="linear_awv",model="fresh"} 0.9
hindsight_interval_nominal_coverage{coverage="0.9",learner="pkawv_taylor",model="energy"} 0.9
hindsight_interval_nominal_coverage{coverage="0.99",learner="pkawv_taylor",model="energy"} 0.99
# HELP hindsight_interval_realised_coverage Share of labels inside the intervals.
# TYPE hindsight_interval_realised_coverage gauge
hindsight_interval_realised_coverage{coverage="0.9",learner="linear_awv",model="fresh"} 0.1
hindsight_interval_realised_coverage{coverage="0.9",learner="pkawv_taylor",model="energy"} 0.875
hindsight_interval_realised_coverage{coverage="0.99",learner="pkawv_taylor",model="energy"} 0.985
# HELP hindsight_interval_recent_coverage Share of labels inside the last 1000 judged intervals.
# TYPE hindsight_interval_recent_coverage gauge
hindsight_interval_recent_coverage{coverage="0.9",learner="pkawv_taylor",model="energy"} 0.874
hindsight_interval_recent_coverage{coverage="0.99",learner="pkawv_taylor",model="energy"} 0.984
# HELP hindsight_recent_loss Mean loss over the last 1000 to 1050 judged observations: served, else prequential.
# TYPE hindsight_recent_loss gauge
hindsight_recent_loss{learner="pkawv_taylor",model="energy"} 0.125
# HELP hindsight_recent_skill Skill over the last 1000 to 1050 judged observations.
# TYPE hindsight_recent_skill gauge
hindsight_recent_skill{learner="pkawv_taylor",model="energy"} 0.75
# HELP hindsight_served_observations_total Judged observations with a served prediction: the divisor of losses with kind="served".
# TYPE hindsight_served_observations_total counter
hindsight_served_observations_total{learner="linear_awv",model="fresh"} 0
hindsight_served_observations_total{learner="pkawv_taylor",model="energy"} 6
# HELP hindsight_served_regret Regret with served losses in place of prequential ones.
# TYPE hindsight_served_regret gauge
hindsight_served_regret{learner="pkawv_taylor",model="energy"} 1.25
# HELP hindsight_skill 1 - loss / loss of the better baseline.
# TYPE hindsight_skill gauge
hindsight_skill{kind="prequential",learner="pkawv_taylor",model="energy"} 0.5
hindsight_skill{kind="served",learner="pkawv_taylor",model="energy"} 0.5
`, "hindsight_baseline_loss_total", "hindsight_drift_detected_total", "hindsight_drift_last_change_sequence",
		"hindsight_drift_loss_after", "hindsight_drift_loss_before", "hindsight_interval_mean_score",
		"hindsight_interval_mean_width", "hindsight_interval_nominal_coverage", "hindsight_interval_realised_coverage",
		"hindsight_interval_recent_coverage", "hindsight_recent_loss", "hindsight_recent_skill",
		"hindsight_served_observations_total", "hindsight_served_regret", "hindsight_skill")
}

// The series are read at scrape time and follow the source.
func TestModelSeriesAreLive(t *testing.T) {
	m, src := watch(t, 0)
	for _, n := range []uint64{1, 5} {
		live := energy()
		live.Observations = n
		src.set(live)
		if got := value(t, m, "hindsight_observations_total", "energy"); got != float64(n) {
			t.Errorf("after %d observations: %v", n, got)
		}
	}
	src.set()
	if n, err := testutil.GatherAndCount(m, "hindsight_observations_total"); n != 0 || err != nil {
		t.Errorf("of a model that is gone: %d series, %v", n, err)
	}
}

func TestNothingNotFiniteIsExported(t *testing.T) {
	m, src := watch(t, 1)
	bad := Model{
		Name: "bad", Learner: "linear_awv", Observations: 3,
		PrequentialLoss: math.NaN(), ServedLoss: math.Inf(1), Regret: math.Inf(-1), RegretBound: math.NaN(),
	}
	worse := bad
	worse.Name = "worse" // past the limit: summed
	src.set(bad, worse)
	if err := metrics.Watch(m, func() counts { return counts{Sum: math.NaN(), Atomics: new(Atomics)} }); err != nil {
		t.Fatal(err)
	}
	timings := m.Timings("bad", "linear_awv")
	for _, v := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		timings.Predict(v, "")
		timings.Observe(v, "")
	}
	for line := range strings.Lines(expose(t, m, "text/plain")) {
		if v := line[strings.LastIndexByte(strings.TrimSpace(line), ' ')+1:]; strings.HasPrefix(line, "hindsight") &&
			(strings.Contains(v, "NaN") || strings.Contains(v, "Inf")) {
			t.Errorf("exported: %s", line)
		}
	}
	for _, name := range []string{"hindsight_regret", "hindsight_regret_bound", "hindsight_test_sum_total"} {
		if n, err := testutil.GatherAndCount(m, name); n != 0 || err != nil {
			t.Errorf("%s: %d series, want none; error %v", name, n, err)
		}
	}
	if got := value(t, m, "hindsight_observations_total", metrics.Other); got != 3 {
		t.Errorf("observations of the others: %v, want 3", got)
	}
}

// counts have a field of every kind that Watch takes.
type counts struct {
	Count    uint64  `metric:"hindsight_test_events_total" help:"Events."`
	Negative int     `metric:"hindsight_test_level" help:"A level."`
	Sum      float64 `metric:"hindsight_test_sum_total" help:"A sum."`
	On       bool    `metric:"hindsight_test_on" help:"1 or 0."`
	Limit    int64   `metric:"hindsight_test_limit,positive" help:"A limit."`
	untagged int
	Parts
	*Atomics
}

// Atomics are counters that others add to.
type Atomics struct {
	Signed   atomic.Int64  `metric:"hindsight_test_signed" help:"A number."`
	Unsigned atomic.Uint64 `metric:"hindsight_test_unsigned_total" help:"A number."`
	Spent    atomic.Int64  `metric:"hindsight_test_spent_seconds_total,nanoseconds" help:"A time."`
	Done     atomic.Bool   `metric:"hindsight_test_done" help:"1 or 0."`
}

// Parts are fields within a struct of counts.
type Parts struct {
	Took time.Duration `metric:"hindsight_test_seconds" help:"A duration."`
	Last time.Time     `metric:"hindsight_test_timestamp_seconds" help:"A time."`
}

func TestWatchShowsEveryKindOfField(t *testing.T) {
	m := newMetrics(t, metrics.Options{})
	now := counts{Atomics: new(Atomics)}
	if err := metrics.Watch(m, func() counts { return now }); err != nil {
		t.Fatal(err)
	}
	text := expose(t, m, "text/plain")
	for _, absent := range []string{"hindsight_test_limit", "hindsight_test_timestamp_seconds", "untagged"} {
		if strings.Contains(text, absent) {
			t.Errorf("%s is shown of the zero value:\n%s", absent, text)
		}
	}
	now = counts{
		Count: 1, Negative: -2, Sum: 0.5, On: true, Limit: 3, untagged: 4, Parts: Parts{Took: 1500 * time.Millisecond, Last: time.Unix(5, 5e8)},
		Atomics: new(Atomics),
	}
	now.Signed.Store(-6)
	now.Unsigned.Store(7)
	now.Spent.Store(2.5e9)
	now.Done.Store(true)
	exposes(t, m,
		"# TYPE hindsight_test_events_total counter", "hindsight_test_events_total 1", "# TYPE hindsight_test_level gauge", "hindsight_test_level -2",
		"# HELP hindsight_test_sum_total A sum.", "hindsight_test_sum_total 0.5", "hindsight_test_on 1", "hindsight_test_limit 3",
		"hindsight_test_seconds 1.5", "hindsight_test_timestamp_seconds 5.5",
		"hindsight_test_signed -6", "hindsight_test_unsigned_total 7", "hindsight_test_spent_seconds_total 2.5", "hindsight_test_done 1",
	)
}

// exposes fails unless these are among the lines.
func exposes(t *testing.T, m prometheus.Gatherer, lines ...string) {
	t.Helper()
	text := expose(t, m, "text/plain")
	for _, want := range lines {
		if !strings.Contains(text, "\n"+want+"\n") {
			t.Errorf("not exposed: %s", want)
		}
	}
}

func TestBuildInfoAndRuntime(t *testing.T) {
	m := newMetrics(t, metrics.Options{Version: "v1.2.3"})
	text := expose(t, m, "text/plain")
	for _, want := range []string{
		`hindsight_build_info{go_version="` + runtime.Version() + `",version="v1.2.3"} 1`,
		"go_goroutines ",
		"process_start_time_seconds ",
	} {
		if !strings.Contains(text, "\n"+want) {
			t.Errorf("not exposed: %s", want)
		}
	}
}

// The names of the losses are the same in both text formats: OpenMetrics would
// append _total to a counter.
func TestLossNameInOpenMetrics(t *testing.T) {
	m, src := watch(t, 0)
	src.set(energy())
	for _, accept := range []string{"text/plain;version=0.0.4", "application/openmetrics-text;version=1.0.0"} {
		for _, name := range []string{"hindsight_loss_total", "hindsight_baseline_loss_total"} {
			if text := expose(t, m, accept); !strings.Contains(text, "\n"+name+"{") {
				t.Errorf("%s: no %s in\n%s", accept, name, text)
			}
		}
	}
}

func TestLint(t *testing.T) {
	m, src := watch(t, 1)
	other := energy()
	other.Name = "second"
	src.set(energy(), other)
	if err := metrics.Watch(m, func() counts { return counts{Atomics: new(Atomics)} }); err != nil {
		t.Fatal(err)
	}
	m.Timings("energy", "pkawv_taylor").Predict(1e-4, "")
	m.Timings("energy", "pkawv_taylor").Observe(1e-3, "")
	problems, err := testutil.GatherAndLint(m)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}

func TestNewRefuses(t *testing.T) {
	reg := prometheus.NewRegistry()
	if _, err := metrics.New(reg, metrics.Options{MaxModels: -1}); err == nil {
		t.Error("a negative limit is taken")
	}
	m, err := metrics.New(reg, metrics.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := metrics.New(reg, metrics.Options{}); err == nil {
		t.Error("the same registry is taken twice")
	}
	for range 2 {
		err = m.WatchModels(new(source))
	}
	if err == nil {
		t.Error("models are watched twice")
	}
	for range 2 {
		err = metrics.Watch(m, func() counts { return counts{Atomics: new(Atomics)} })
	}
	if err == nil {
		t.Error("counts are watched twice")
	}
}

// A registry may have the collectors of the runtime already.
func TestNewOnARegistryWithRuntimeCollectors(t *testing.T) {
	reg := prometheus.NewRegistry()
	reg.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	if _, err := metrics.New(reg, metrics.Options{}); err != nil {
		t.Error(err)
	}
}

// value is the value of the series of one model, of any kind and learner.
func value(t *testing.T, m prometheus.Gatherer, name, model string) float64 {
	t.Helper()
	families, err := m.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		for _, s := range f.GetMetric() {
			if model == "" {
				return s.GetGauge().GetValue()
			}
			for _, l := range s.GetLabel() {
				if l.GetName() == "model" && l.GetValue() == model {
					return s.GetCounter().GetValue() + s.GetGauge().GetValue()
				}
			}
		}
	}
	t.Fatalf("no %s of model %q", name, model)
	return 0
}

// models are the model labels of a metric, sorted.
func models(t *testing.T, m prometheus.Gatherer, name string) []string {
	t.Helper()
	families, err := m.Gather()
	if err != nil {
		t.Fatal(err)
	}
	labels := []string{}
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		for _, s := range f.GetMetric() {
			for _, l := range s.GetLabel() {
				if l.GetName() == "model" {
					labels = append(labels, l.GetValue())
				}
			}
		}
	}
	slices.Sort(labels)
	return labels
}
