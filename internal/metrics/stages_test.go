package metrics_test

import (
	"fmt"
	"math"
	"testing"

	dto "github.com/prometheus/client_model/go"

	"hindsight/internal/engine/account/classes"
	"hindsight/internal/metrics"
)

// family is what m shows under a name.
func family(t *testing.T, m *metrics.Metrics, name string) *dto.MetricFamily {
	t.Helper()
	all, err := m.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range all {
		if f.GetName() == name {
			return f
		}
	}
	t.Fatalf("no %s", name)
	return nil
}

// traced are the traces of the exemplars of a histogram by their bucket's upper bound, and
// how many native exemplars it has.
func traced(h *dto.Histogram) (classic map[float64]string, native int) {
	classic = map[float64]string{}
	for _, b := range h.GetBucket() {
		for _, l := range b.GetExemplar().GetLabel() {
			classic[b.GetUpperBound()] = l.GetValue()
		}
	}
	return classic, len(h.GetExemplars())
}

// The newest exemplar of each bucket is shown, with and without a finite upper bound.
func TestExemplars(t *testing.T) {
	m := newMetrics(t, metrics.Options{})
	timings := m.Timings("a", learner)
	timings.Predict(3e-3, "")
	h := family(t, m, "hindsight_predict_seconds").GetMetric()[0].GetHistogram()
	if classic, native := traced(h); len(classic) != 0 || native != 0 {
		t.Errorf("exemplars without a trace: %v, %d native", classic, native)
	}
	timings.Predict(3e-3, "0a")
	timings.Predict(4e-3, "0b")
	timings.Predict(20, "0c")
	timings.Predict(math.NaN(), "0d")
	m.Stages.Commit(3, 4e-3, "0e")
	m.Stages.Queue(-1, "0f")
	m.Stages.Learn(math.Inf(1), "10")
	h = family(t, m, "hindsight_predict_seconds").GetMetric()[0].GetHistogram()
	classic, native := traced(h)
	if want := map[float64]string{5e-3: "0b", math.Inf(1): "0c"}; fmt.Sprint(classic) != fmt.Sprint(want) || native != 2 || h.GetSampleCount() != 4 {
		t.Errorf("exemplars %v and %d native of %d", classic, native, h.GetSampleCount())
	}
	for name, want := range map[string]string{
		"hindsight_commit_seconds": "map[0.005:0e]", "hindsight_queue_seconds": "map[1e-06:0f]", "hindsight_learn_seconds": "map[]",
	} {
		h := family(t, m, name).GetMetric()[0].GetHistogram()
		if classic, _ := traced(h); fmt.Sprint(classic) != want {
			t.Errorf("%s has the exemplars %v, want %s", name, classic, want)
		}
	}
	if got := family(t, m, "hindsight_commit_observations").GetMetric()[0].GetHistogram().GetSampleSum(); got != 3 {
		t.Errorf("commits of %v observations, want 3", got)
	}
}

// What a model has too many of, and what the models without series of their own have, is
// counted.
func TestOmittedPartsAreCounted(t *testing.T) {
	m, src := watch(t, 1)
	many := energy()
	for n := range 40 {
		many.Inputs = append(many.Inputs, Input{Name: fmt.Sprint("i", n)})
	}
	other := digits()
	src.set(many, other)
	got := map[string]float64{}
	for _, s := range family(t, m, "hindsight_metrics_omitted").GetMetric() {
		got[s.GetLabel()[0].GetValue()] = s.GetGauge().GetValue()
	}
	want := map[string]float64{
		"input": float64(8 + len(other.Inputs)), "class": float64(len(other.Classifier.Classes)), "bin": classes.Bins, "coverage": 0,
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("omitted %v, want %v", got, want)
	}
}

// A value that is not known counts as the last one.
func TestCounts(t *testing.T) {
	m := newMetrics(t, metrics.Options{})
	c, err := m.Refusals([]string{"OVERLOADED", "OTHER"})
	if err != nil {
		t.Fatal(err)
	}
	c.Count("OVERLOADED")
	c.Count("unheard of")
	c.Count("OTHER")
	exposes(t, m, `hindsight_refusals_total{reason="OVERLOADED"} 1`, `hindsight_refusals_total{reason="OTHER"} 2`)
	if _, err := m.Refusals([]string{"A"}); err == nil {
		t.Error("the name is given twice")
	}
}

// Without a trace a duration allocates nothing.
func TestTimingsAllocateNothing(t *testing.T) {
	m := newMetrics(t, metrics.Options{})
	timings := m.Timings("a", learner)
	if n := testing.AllocsPerRun(100, func() {
		timings.Predict(1e-4, "")
		timings.Observe(1e-4, "")
		m.Stages.Queue(1e-4, "")
		m.Stages.Commit(4, 1e-4, "")
	}); n != 0 {
		t.Errorf("%v allocations, want 0", n)
	}
}
