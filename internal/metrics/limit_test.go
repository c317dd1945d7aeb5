package metrics_test

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"hindsight/internal/metrics"
)

const learner = "linear_awv"

// plain is a model whose numbers all follow from n.
func plain(name string, n int) Model {
	return Model{
		Name: name, Learner: learner,
		Observations: uint64(n), Predictions: uint64(2 * n),
		PrequentialLoss: float64(3 * n), ServedLoss: float64(4 * n),
		Regret: float64(5 * n), RegretBound: float64(6 * n), CertificateOK: true,
		Features: 7 * n, StateBytes: uint64(8 * n), PendingLabels: uint64(9 * n), ExpiredLabels: uint64(10 * n),
	}
}

func wantModels(t *testing.T, m prometheus.Gatherer, want ...string) {
	t.Helper()
	if got := models(t, m, "hindsight_regret"); !slices.Equal(got, want) {
		t.Errorf("series of models %q, want %q", got, want)
	}
}

func TestModelsAboveTheLimitAreSummed(t *testing.T) {
	m, src := watch(t, 2)
	broken := plain("e", 1000)
	broken.CertificateOK, broken.ReadOnly = false, true
	src.set(plain("a", 1), plain("b", 10), plain("c", 100), plain("d", 200), broken)
	wantModels(t, m, "a", "b", metrics.Other)
	for name, want := range map[string]float64{
		"hindsight_observations_total":   1300,
		"hindsight_predictions_total":    2600,
		"hindsight_regret":               6500,
		"hindsight_regret_bound":         7800,
		"hindsight_certificate_ok":       0,
		"hindsight_features":             9100,
		"hindsight_state_bytes":          10400,
		"hindsight_pending_labels":       11700,
		"hindsight_expired_labels_total": 13000,
		"hindsight_read_only":            1,
	} {
		if got := value(t, m, name, metrics.Other); got != want {
			t.Errorf("%s of the others: %v, want %v", name, got, want)
		}
	}
	if got := value(t, m, "hindsight_models_aggregated", ""); got != 3 {
		t.Errorf("%v aggregated, want 3", got)
	}
	compareLosses(t, m, 3900, 5200)
}

func compareLosses(t *testing.T, m prometheus.Gatherer, prequential, served float64) {
	t.Helper()
	families, err := m.Gather()
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]float64{"prequential": prequential, "served": served}
	for _, f := range families {
		if f.GetName() != "hindsight_loss_total" {
			continue
		}
		for _, s := range f.GetMetric() {
			labels := map[string]string{}
			for _, l := range s.GetLabel() {
				labels[l.GetName()] = l.GetValue()
			}
			if got := s.GetCounter().GetValue(); labels["model"] == metrics.Other && got != want[labels["kind"]] {
				t.Errorf("%s loss of the others: %v, want %v", labels["kind"], got, want[labels["kind"]])
			}
		}
	}
}

// Models among the others cannot make a series each by asking for a level each.
func TestLevelsAreBounded(t *testing.T) {
	m, src := watch(t, 1)
	var all []Model
	for i := range 50 {
		one := plain(fmt.Sprint("model-", i), 1)
		for j := range 1 + 49*(1-min(i, 1)) { // The first has fifty, the rest one each.
			one.Intervals = append(one.Intervals, Interval{Coverage: float64(i+j+1) / 100})
		}
		all = append(all, one)
	}
	src.set(all...)
	if n, err := testutil.GatherAndCount(m, "hindsight_interval_realised_coverage"); n != 20 || err != nil {
		t.Errorf("%d series, want 10 of the model and 10 of the others; error %v", n, err)
	}
}

// What a worse model says is not hidden by a better one, nor by one that knows
// nothing yet; what has no common scale is not shown.
func TestTheOthersShowTheWorstPerformance(t *testing.T) {
	m, src := watch(t, 1)
	good, bad, fresh := energy(), energy(), energy()
	good.Name, bad.Name, fresh.Name = "good", "bad", "fresh"
	bad.Recent.Skill, bad.ServedBaselines = -2, Baselines{Mean: bad.ServedLoss / 4, Last: bad.ServedLoss}
	bad.Intervals = []Interval{{Coverage: 0.9, Judged: 1000, Realised: 0.75, Recent: 0.5, MeanWidth: 1, MeanScore: 1}}
	fresh.Recent = Recent{Observations: 10, Skill: -100}
	fresh.ServedBaselines = Baselines{}
	fresh.Intervals = []Interval{{Coverage: 0.9, Judged: 10, Realised: math.NaN()}}
	src.set(energy(), fresh, good, bad, fresh)
	exposes(t, m,
		`hindsight_recent_skill{learner="pkawv_taylor",model="other"} -2`,
		`hindsight_skill{kind="prequential",learner="pkawv_taylor",model="other"} 0.5`,
		`hindsight_skill{kind="served",learner="pkawv_taylor",model="other"} -3`,
		`hindsight_interval_nominal_coverage{coverage="0.9",learner="pkawv_taylor",model="other"} 0.9`,
		`hindsight_interval_realised_coverage{coverage="0.9",learner="pkawv_taylor",model="other"} 0.75`,
		`hindsight_interval_recent_coverage{coverage="0.9",learner="pkawv_taylor",model="other"} 0.5`,
		`hindsight_interval_recent_coverage{coverage="0.99",learner="pkawv_taylor",model="other"} 0.984`,
		`hindsight_drift_detected_total{direction="rise",learner="pkawv_taylor",model="other"} 6`,
		`hindsight_baseline_loss_total{baseline="last",kind="served",learner="pkawv_taylor",model="other"} 10.5`,
	)
	for _, name := range []string{
		"hindsight_recent_loss", "hindsight_drift_loss_after", "hindsight_drift_last_change_sequence", "hindsight_interval_mean_width",
	} {
		if got := models(t, m, name); slices.Contains(got, metrics.Other) || len(got) == 0 {
			t.Errorf("%s is shown of %q, want of energy alone", name, got)
		}
	}
}

// Learners are not mixed: their regrets are not of a kind.
func TestTheOthersAreKeptApartByLearner(t *testing.T) {
	m, src := watch(t, 1)
	fourier := plain("c", 3)
	fourier.Learner = "fourier_awv"
	src.set(plain("a", 1), plain("b", 2), fourier)
	wantModels(t, m, "a", metrics.Other, metrics.Other)
}

func TestPlacesAreStable(t *testing.T) {
	m, src := watch(t, 2)
	a, b, c, d := plain("a", 1), plain("b", 1), plain("c", 1), plain("d", 1)
	src.set(a, b, c)
	wantModels(t, m, "a", "b", metrics.Other)
	src.set(c, b, a)
	wantModels(t, m, "a", "b", metrics.Other)
	// A freed place is not for a model that is among the others already …
	m.Forget("a", learner)
	src.set(c, b)
	wantModels(t, m, "b", metrics.Other)
	// … but for the next new one.
	src.set(c, b, d)
	wantModels(t, m, "b", "d", metrics.Other)
	// A name that comes back is new.
	m.Forget("d", learner)
	src.set(c, b)
	wantModels(t, m, "b", metrics.Other)
	src.set(a, b, c, d)
	wantModels(t, m, "a", "b", metrics.Other)
}

// Timings take a place before the first scrape, and keep it while the source
// does not list the model yet.
func TestTimingsHoldAPlace(t *testing.T) {
	m, src := watch(t, 1)
	m.Timings("a", learner)
	src.set(plain("b", 1))
	wantModels(t, m, metrics.Other)
	src.set(plain("b", 1), plain("a", 1))
	wantModels(t, m, "a", metrics.Other)
}

// A scrape that is under way when its model is forgotten may list it once
// more; its place is not lost for that.
func TestAForgottenModelThatIsListedOnceMore(t *testing.T) {
	m, src := watch(t, 1)
	m.Timings("a", learner)
	m.Forget("a", learner)
	src.set(plain("a", 1))
	wantModels(t, m, "a")
	src.set()
	wantModels(t, m)
	src.set(plain("b", 1))
	wantModels(t, m, "b")
}

// Deleting a model must not look like a restart of the counters of the rest.
func TestCountersOfTheOthersNeverFall(t *testing.T) {
	m, src := watch(t, 1)
	a := plain("a", 1)
	step := func(want float64, models ...Model) {
		t.Helper()
		src.set(append([]Model{a}, models...)...)
		if got := value(t, m, "hindsight_observations_total", metrics.Other); got != want {
			t.Errorf("observations of the others: %v, want %v", got, want)
		}
		compareLosses(t, m, 3*want, 4*want)
	}
	step(30, plain("b", 10), plain("c", 20))
	step(35, plain("b", 15), plain("c", 20))
	m.Forget("b", learner)
	step(37, plain("c", 22))
	step(41, plain("b", 4), plain("c", 22)) // a new model of an old name
	step(41, plain("b", 4), plain("c", 7))  // set back to a snapshot
	step(42, plain("b", 4), plain("c", 8))
	if got := value(t, m, "hindsight_regret", metrics.Other); got != 60 {
		t.Errorf("regret of the others: %v, want that of those present, 60", got)
	}
}

// RestoreModel sets the figures of a model back. Its counters stay, and count on from the restored state.
func TestCountersOfARestoredModelNeverFall(t *testing.T) {
	m, src := watch(t, 2)
	for i, step := range []struct{ state, want int }{{9, 9}, {2, 9}, {5, 12}, {1, 12}, {4, 15}} {
		model := plain("a", step.state)
		model.Inputs = []Input{{Name: "load", Seen: uint64(step.state), Mean: math.NaN(), Deviation: math.NaN(), Shift: math.NaN()}}
		src.set(model)
		for _, name := range []string{"hindsight_observations_total", "hindsight_input_seen_total"} {
			if got := value(t, m, name, "a"); got != float64(step.want) {
				t.Errorf("step %d: %s is %v, want %d", i, name, got, step.want)
			}
		}
		if got := value(t, m, "hindsight_regret", "a"); got != float64(5*step.state) {
			t.Errorf("step %d: the regret is %v, want that of the state, %d", i, got, 5*step.state)
		}
	}
}

// What a model learns between a scrape and a restore, and between the restore and the next scrape, counts: in its own
// series and in one that it shares.
func TestCountersCountBetweenScrapesAroundARestore(t *testing.T) {
	for _, c := range []struct {
		model string
		names []string
	}{
		{"a", []string{"hindsight_observations_total", "hindsight_input_seen_total"}},
		{metrics.Other, []string{"hindsight_observations_total"}},
	} {
		m, src := watch(t, 1)
		name := c.model
		if name == metrics.Other {
			name = "b"
		}
		at := func(n int) Model {
			model := plain(name, n)
			model.Inputs = []Input{{Name: "load", Seen: uint64(n), Mean: math.NaN(), Deviation: math.NaN(), Shift: math.NaN()}}
			return model
		}
		scrape := func(n, want int) {
			t.Helper()
			src.set(at(n))
			if name == "b" {
				src.set(plain("a", 1), at(n))
			}
			for _, metric := range c.names {
				if got := value(t, m, metric, c.model); got != float64(want) {
					t.Errorf("%s of %s is %v, want %d", metric, c.model, got, want)
				}
			}
		}
		restore := func(from, to int) {
			before, after := at(from).live(), at(to).live()
			m.Counted(&before)
			m.Counted(&after)
		}
		restore(3, 1) // Before the first scrape.
		scrape(9, 9)
		restore(30, 2)  // 21 since the scrape.
		scrape(42, 70)  // 40 since the restore.
		restore(42, 10) // None since the scrape.
		restore(11, 4)
		scrape(4, 71)
	}
}

// A model may be named "other", and does not collide with the others.
func TestAModelNamedOther(t *testing.T) {
	m, src := watch(t, 1)
	m.Timings(metrics.Other, learner).Predict(1, "")
	src.set(plain(metrics.Other, 1), plain("a", 2), plain("b", 3))
	wantModels(t, m, "a", metrics.Other)
	if got := value(t, m, "hindsight_observations_total", metrics.Other); got != 4 {
		t.Errorf("observations: %v, want 4", got)
	}
	m.Forget(metrics.Other, learner)
	if n := histograms(t, m); n != 1 {
		t.Errorf("%d histograms, want 1: forgetting one of the others keeps those that are shared", n)
	}
}

// What would make the registry refuse a whole scrape costs one model at most.
func TestASourceThatMisbehaves(t *testing.T) {
	m, src := watch(t, 10)
	odd := plain("\xff", 5)
	odd.Learner = "\xfe"
	m.Timings(odd.Name, odd.Learner).Predict(1, "")
	src.set(plain("a", 1), plain("a", 1), odd)
	wantModels(t, m, "a", metrics.Other)
}

func histograms(t *testing.T, m prometheus.Gatherer) int {
	t.Helper()
	n, err := testutil.GatherAndCount(m, "hindsight_predict_seconds")
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestTimingsAreBoundedToo(t *testing.T) {
	const limit, all = 3, 50
	m, _ := watch(t, limit)
	for i := range all {
		name := fmt.Sprint("model-", i)
		m.Timings(name, learner).Predict(0.1, "")
		m.Timings(name, learner).Predict(0.1, "")
	}
	want := []string{"model-0", "model-1", "model-2", metrics.Other}
	if got := models(t, m, "hindsight_predict_seconds"); !slices.Equal(got, want) {
		t.Errorf("histograms of %q, want %q", got, want)
	}
	if got := count(t, m, metrics.Other); got != 2*(all-limit) {
		t.Errorf("%d calls of the others, want %d", got, 2*(all-limit))
	}
	for i := range all {
		m.Forget(fmt.Sprint("model-", i), learner)
	}
	if got := models(t, m, "hindsight_predict_seconds"); !slices.Equal(got, []string{metrics.Other}) {
		t.Errorf("histograms of %q after all are forgotten", got)
	}
}

// count is how many durations of Predict a model's histogram took.
func count(t *testing.T, m prometheus.Gatherer, model string) uint64 {
	t.Helper()
	families, err := m.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != "hindsight_predict_seconds" {
			continue
		}
		for _, s := range f.GetMetric() {
			for _, l := range s.GetLabel() {
				if l.GetName() == "model" && l.GetValue() == model {
					return s.GetHistogram().GetSampleCount()
				}
			}
		}
	}
	t.Fatalf("no histogram of model %q", model)
	return 0
}
