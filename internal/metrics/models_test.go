package metrics_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"hindsight/internal/engine/account"
	"hindsight/internal/engine/account/classes"
	"hindsight/internal/engine/account/interval"
	"hindsight/internal/engine/figures"
	"hindsight/internal/metrics"
	"hindsight/internal/model/input"
)

const learner = "pkawv_taylor"

// source is a list of models as a Source.
type source []figures.Live

func (s *source) Each(yield func(*figures.Live)) {
	for i := range *s {
		yield(&(*s)[i])
	}
}

// set puts models in the place of all that were there.
func (s *source) set(models ...figures.Live) { *s = models }

// watch makes metrics of at most limit models over an empty source.
func watch(tb testing.TB, limit int) (*metrics.Metrics, *prometheus.Registry, *source) {
	tb.Helper()
	m, registry := newMetrics(tb, metrics.Options{MaxModels: limit})
	src := new(source)
	require.NoError(tb, m.WatchModels(src.Each))
	return m, registry, src
}

// plain is a model that has learned n observations.
func plain(name string, n int) figures.Live {
	live := figures.Live{ID: name, Learner: learner, Behind: -1}
	live.Observations, live.Regret = uint64(n), 5*float64(n)
	live.Whole.Prequential.Loss = 3 * float64(n)
	live.KnownCertificate, live.ServedCertificate, live.SwitchingRegret = math.NaN(), math.NaN(), math.NaN()
	return live
}

// regression is a regression model of which every number is known.
func regression() figures.Live {
	live := plain("energy", 7)
	live.Predictions, live.Predicted, live.Expired, live.Duplicates = 9, 6, 1, 4
	live.Whole.Prequential = account.Figures{Loss: 2.5, RunningMean: 5, LastLabel: 10}
	live.Served = account.Figures{Loss: 3.5, RunningMean: 14, LastLabel: 7}
	live.Recent = account.Performance{Observations: 1000, Served: account.Figures{Loss: 1, RunningMean: 4, LastLabel: 8}}
	live.Regret, live.RegretBound, live.Certified, live.CertificateOK, live.ServedRegret = 0.25, 4, true, true, 1.25
	live.KnownCertificate, live.ServedCertificate, live.SwitchingRegret = 2, 3, 6
	live.Behind, live.Pending, live.PendingLimit = 11, 2, 1000
	live.StateBytes, live.SnapshotTime, live.Unsnapshotted = 4096, time.Unix(1, 0), 3
	live.Drift.Detected, live.Drift.Rises = 3, 2
	live.Gate.On, live.Gate.SetAside, live.Gate.Starts = true, 2, 1
	live.Intervals = []interval.Statistics{{Level: 0.99, Scored: 1000, RecentCoverage: 0.984}, {Level: 0.9, Scored: 1000, RecentCoverage: 0.874}}
	for _, shift := range []float64{0.1, 0.3, 0.2} {
		live.Inputs = append(live.Inputs, figures.InputStatistics{Statistics: input.Statistics{ShiftKnown: true, Shift: shift}})
	}
	live.Inputs = append(live.Inputs, figures.InputStatistics{Statistics: input.Statistics{Shift: 9}})
	return live
}

// classifier is a classifier of which every number is known.
func classifier() figures.Live {
	live := plain("digits", 20)
	s := new(figures.ClassStatistics)
	s.Whole.Prequential = classes.Figures{Errors: 4, Majority: 8, Last: 9}
	s.Served = classes.Figures{Errors: 5, Majority: 10, Last: 11}
	s.Recent = classes.Performance{Observations: 1000, Served: classes.Figures{Errors: 1, Majority: 4, Last: 8}}
	live.ClassAccount = s
	return live
}

// fresh is a model that knows nothing yet.
func fresh() figures.Live {
	live := plain("fresh", 0)
	live.Regret, live.ServedRegret = math.NaN(), math.NaN()
	live.Recent = account.Performance{Observations: 999, Served: account.Figures{Loss: 1, RunningMean: 4, LastLabel: 8}}
	live.Intervals = []interval.Statistics{{Level: 0.9, Scored: 999, RecentCoverage: 0.1}}
	return live
}

// lines returns what a scrape shows of a model, without histograms: sorted lines without the labels model and learner.
func lines(t *testing.T, registry prometheus.Gatherer, model string) (found []string) {
	t.Helper()
	label := fmt.Sprintf("learner=%q,model=%q", learner, model)
	for line := range strings.Lines(expose(t, registry, "text/plain")) {
		if strings.Contains(line, label) && !strings.Contains(line, "_seconds_") {
			found = append(found, strings.NewReplacer(","+label, "", "{"+label+"}", "", "hindsight_", "").Replace(strings.TrimSpace(line)))
		}
	}
	slices.Sort(found)
	return found
}

func TestModelSeries(t *testing.T) {
	m, registry, src := watch(t, 3)
	src.set(regression(), classifier(), fresh())
	for _, live := range *src {
		m.Timings(live.ID, live.Learner)
	}
	for name, want := range map[string]string{
		"energy": `baseline_loss_total{baseline="last",kind="prequential"} 10
baseline_loss_total{baseline="last",kind="served"} 7
baseline_loss_total{baseline="mean",kind="prequential"} 5
baseline_loss_total{baseline="mean",kind="served"} 14
certificate{kind="prequential"} 2
certificate{kind="served"} 3
certificate_ok 1
drift_detected_total{direction="fall"} 1
drift_detected_total{direction="rise"} 2
duplicates_total 4
expired_labels_total 1
follower_behind_observations 11
interval_nominal_coverage{coverage="0.99"} 0.99
interval_nominal_coverage{coverage="0.9"} 0.9
interval_recent_coverage{coverage="0.99"} 0.984
interval_recent_coverage{coverage="0.9"} 0.874
labels_set_aside_total 2
largest_input_shift 0.3
learner_starts_total 1
loss_total{kind="prequential"} 2.5
loss_total{kind="served"} 3.5
observations_total 7
pending_labels 2
pending_labels_limit 1000
predictions_total 9
read_only 0
recent_skill 0.75
regret{kind="prequential"} 0.25
regret{kind="served"} 1.25
regret_bound 4
served_observations_total 6
skill{kind="prequential"} 0.5
skill{kind="served"} 0.5
snapshot_timestamp_seconds 1
state_bytes 4096
switching_regret 6
unsnapshotted_observations 3`,
		"digits": `certificate_ok 0
classifier_baseline_errors_total{baseline="last",kind="prequential"} 9
classifier_baseline_errors_total{baseline="last",kind="served"} 11
classifier_baseline_errors_total{baseline="majority",kind="prequential"} 8
classifier_baseline_errors_total{baseline="majority",kind="served"} 10
classifier_errors_total{kind="prequential"} 4
classifier_errors_total{kind="served"} 5
drift_detected_total{direction="fall"} 0
drift_detected_total{direction="rise"} 0
duplicates_total 0
expired_labels_total 0
loss_total{kind="prequential"} 60
loss_total{kind="served"} 0
observations_total 20
pending_labels 0
predictions_total 0
read_only 0
recent_skill 0.75
regret{kind="prequential"} 100
regret{kind="served"} 0
served_observations_total 0
state_bytes 0
unsnapshotted_observations 0`,
		"fresh": `baseline_loss_total{baseline="last",kind="prequential"} 0
baseline_loss_total{baseline="last",kind="served"} 0
baseline_loss_total{baseline="mean",kind="prequential"} 0
baseline_loss_total{baseline="mean",kind="served"} 0
certificate_ok 0
drift_detected_total{direction="fall"} 0
drift_detected_total{direction="rise"} 0
duplicates_total 0
expired_labels_total 0
interval_nominal_coverage{coverage="0.9"} 0.9
loss_total{kind="prequential"} 0
loss_total{kind="served"} 0
observations_total 0
pending_labels 0
predictions_total 0
read_only 0
served_observations_total 0
state_bytes 0
unsnapshotted_observations 0`,
	} {
		want := strings.Split(want, "\n")
		slices.Sort(want)
		if got := lines(t, registry, name); !slices.Equal(got, want) {
			t.Errorf("%s:\n%s\nwant\n%s", name, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
	src.set()
	assert.Empty(t, lines(t, registry, "energy"))
}

// models are the model labels of a metric, sorted.
func models(t *testing.T, registry prometheus.Gatherer, name string) (found []string) {
	t.Helper()
	for _, s := range series(t, registry, name) {
		for _, l := range s.GetLabel() {
			if l.GetName() == "model" {
				found = append(found, l.GetValue())
			}
		}
	}
	slices.Sort(found)
	return found
}

// wantModels fails unless these models have series, and without models have none.
func wantModels(t *testing.T, registry prometheus.Gatherer, without int, want ...string) {
	t.Helper()
	assert.Equal(t, want, models(t, registry, "hindsight_observations_total"))
	assert.Equal(t, float64(without), series(t, registry, "hindsight_models_without_series")[0].GetGauge().GetValue(), without)
}

// value is the value of the first series of a model in a family, NaN without one.
func value(t *testing.T, registry prometheus.Gatherer, name, model string) float64 {
	t.Helper()
	for _, s := range series(t, registry, name) {
		for _, l := range s.GetLabel() {
			if l.GetName() == "model" && l.GetValue() == model {
				return s.GetCounter().GetValue() + s.GetGauge().GetValue()
			}
		}
	}
	return math.NaN()
}

// The first models up to the limit have series, and keep them until they are forgotten. A free place is for the next
// model that the engine takes up.
func TestPlaces(t *testing.T) {
	m, registry, src := watch(t, 2)
	all := []figures.Live{plain("a", 1), plain("b", 2), plain("c", 3), plain("d", 4)}
	for _, live := range all[:3] {
		m.Timings(live.ID, live.Learner).Predict(1, "")
		m.Timings(live.ID, live.Learner).Predict(1, "")
	}
	src.set(all[2], all[1], all[0])
	wantModels(t, registry, 1, "a", "b")
	assert.Equal(t, []string{"a", "b"}, models(t, registry, "hindsight_predict_seconds"))
	assert.EqualValues(t, 2, histogram(t, registry, "hindsight_predict_seconds").GetSampleCount())
	m.Forget("a", learner)
	m.Forget("a", learner)
	m.Forget("never seen", learner)
	src.set(all...) // A scrape that has begun may list a forgotten model once more.
	wantModels(t, registry, 3, "b")
	m.Timings("d", learner)
	wantModels(t, registry, 2, "b", "d")
	m.Forget("b", learner)
	m.Timings("b", learner).Predict(1, "")
	src.set(all[1:]...)
	wantModels(t, registry, 1, "b", "d")
	assert.EqualValues(t, 1, histogram(t, registry, "hindsight_predict_seconds").GetSampleCount())
}

// What would make the registry reject a whole scrape costs one model at most.
func TestASourceThatMisbehaves(t *testing.T) {
	m, registry, src := watch(t, 10)
	m.Timings("a", learner)
	m.Timings("\xff", learner).Predict(1, "")
	m.Timings("b", "\xfe").Predict(1, "")
	odd := plain("b", 6)
	odd.Learner = "\xfe"
	worse := plain("worse", 3)
	worse.Regret, worse.RegretBound, worse.Certified = math.Inf(-1), math.NaN(), true
	worse.Whole.Prequential.Loss, worse.Served.Loss = math.NaN(), math.Inf(1)
	worse.Intervals = []interval.Statistics{{Level: 0.9, Scored: 1000, RecentCoverage: math.NaN()}}
	m.Timings("worse", learner).Observe(math.NaN(), "")
	src.set(plain("a", 1), plain("a", 1), plain("\xff", 5), odd, worse)
	wantModels(t, registry, 2, "a", "worse")
	for line := range strings.Lines(expose(t, registry, "text/plain")) {
		v := line[strings.LastIndexByte(line, ' ')+1:]
		assert.True(t, !strings.HasPrefix(line, "hindsight") || !strings.Contains(v, "NaN") && !strings.Contains(v, "Inf"), "exported: %s", line)
	}
}

// RestoreModel sets the figures of a model back, and the deletion of another model changes nothing. The counters stay,
// and count on from the restored state.
func TestCountersOfARestoredModelNeverFall(t *testing.T) {
	m, registry, src := watch(t, 2)
	m.Timings("a", learner)
	m.Timings("b", learner)
	for i, step := range []struct{ state, want int }{{9, 9}, {2, 9}, {5, 12}, {1, 12}, {4, 15}} {
		src.set(plain("a", step.state), plain("b", i))
		if i > 2 {
			m.Forget("b", learner)
			src.set(plain("a", step.state))
		}
		got := value(t, registry, "hindsight_observations_total", "a")
		assert.True(t, got == float64(step.want), "step %d: %v observations, want %d", i, got, step.want)
		got = value(t, registry, "hindsight_loss_total", "a")
		assert.True(t, got == float64(3*step.want), "step %d: the loss is %v, want %d", i, got, 3*step.want)
		got = value(t, registry, "hindsight_regret", "a")
		assert.True(t, got == float64(5*step.state), "step %d: the regret is %v, want the state's regret, %d", i, got, 5*step.state)
	}
}

// Whatever happens in whatever order, a counter is the number of all observations since its model got a place.
func TestCountersOfRandomHistories(t *testing.T) {
	seeds := uint64(16)
	if testing.Short() {
		seeds = 5
	}
	for seed := range seeds {
		rng := rand.New(rand.NewPCG(seed, 1))
		m, registry, src := watch(t, 3)
		state, learned := map[string]int{}, map[string]int{}
		list := func() {
			src.set()
			for name, n := range state {
				*src = append(*src, plain(name, n))
			}
		}
		for range 200 {
			name := fmt.Sprint("m", rng.IntN(3))
			n, hosted := state[name]
			switch {
			case !hosted:
				m.Timings(name, learner)
				state[name], learned[name] = 0, 0
			case rng.IntN(4) > 0:
				k := rng.IntN(10)
				state[name], learned[name] = n+k, learned[name]+k
			case rng.IntN(2) > 0:
				state[name] = rng.IntN(n + 1)
				before, after := plain(name, n), plain(name, state[name])
				without := plain("without series", n)
				m.Counted(&before)
				m.Counted(&after)
				m.Counted(&without)
			case rng.IntN(3) == 0:
				m.Forget(name, learner)
				delete(state, name)
			}
			if rng.IntN(5) > 0 {
				continue
			}
			list()
			for name := range state {
				require.Equal(t, float64(learned[name]), value(t, registry, "hindsight_observations_total", name), "seed %d observations of %s, want %d", seed, name, learned[name])
			}
		}
	}
}

// host is a source as an engine is one: it calls Timings and Forget under the
// lock that Each needs.
type host struct {
	m      *metrics.Metrics
	mu     sync.RWMutex
	models map[string]bool
}

func (h *host) Each(yield func(*figures.Live)) {
	h.mu.RLock()
	defer h.mu.RUnlock()
	for name := range h.models {
		live := plain(name, 1)
		yield(&live)
	}
}

func (h *host) create(name string) metrics.Timings {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.models[name] = true
	return h.m.Timings(name, learner)
}

func (h *host) remove(name string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.models, name)
	h.m.Forget(name, learner)
}

func TestConcurrentUse(t *testing.T) {
	const rounds, workers = 100, 4
	m, registry := newMetrics(t, metrics.Options{MaxModels: 3})
	h := &host{m: m, models: map[string]bool{}}
	require.NoError(t, m.WatchModels(h.Each))
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for i := range rounds {
				name := fmt.Sprint("model-", w, "-", i%3)
				timings := h.create(name)
				timings.Predict(1e-5, "")
				timings.Observe(1e-4, "0a")
				live := plain(name, 1)
				m.Counted(&live)
				if i%2 == 0 {
					h.remove(name)
				}
			}
		})
		wg.Go(func() {
			for range rounds / 4 {
				_, err := registry.Gather()
				assert.NoError(t, err)
			}
		})
	}
	wg.Wait()
	for w := range workers {
		for i := range 3 {
			h.remove(fmt.Sprint("model-", w, "-", i))
		}
	}
	wantModels(t, registry, 0)
	for i := range 4 { // No place was lost.
		h.create(fmt.Sprint("new-", i))
	}
	wantModels(t, registry, 1, "new-0", "new-1", "new-2")
}

// A scrape is text that Prometheus reads in both formats, and a counter has one name in both.
func TestFormats(t *testing.T) {
	m, registry, src := watch(t, 2)
	odd := plain("odd \"name\"\\\n", 1)
	src.set(odd, regression())
	m.Timings(odd.ID, odd.Learner)
	m.Timings("energy", learner)
	for _, accept := range []string{"text/plain;version=0.0.4", "application/openmetrics-text;version=1.0.0"} {
		text := expose(t, registry, accept)
		for _, want := range []string{"\nhindsight_loss_total{", "\nhindsight_baseline_loss_total{", `model="odd \"name\"\\\n"`} {
			assert.Contains(t, text, want, accept)
		}
	}
	n, err := testutil.GatherAndCount(registry, "hindsight_loss_total")
	assert.True(t, n == 4 && err == nil, "%d series of the loss, %v, want 4", n, err)
}
