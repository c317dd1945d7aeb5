package metrics_test

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"hindsight/internal/engine/figures"
	"hindsight/internal/metrics"
)

func TestTimings(t *testing.T) {
	m := newMetrics(t, metrics.Options{})
	timings := m.Timings("a", learner)
	for _, s := range []float64{1e-6, 2.6e-6, 0.3, -1, math.NaN(), math.Inf(1)} {
		timings.Predict(s, "")
	}
	timings.Observe(20, "")
	families, err := m.Gather()
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, f := range families {
		switch f.GetName() {
		case "hindsight_predict_seconds":
			seen++
			h := f.GetMetric()[0].GetHistogram()
			if h.GetSampleCount() != 4 || math.Abs(h.GetSampleSum()-0.3000036) > 1e-12 {
				t.Errorf("predict: count %d, sum %v", h.GetSampleCount(), h.GetSampleSum())
			}
			if len(h.GetPositiveDelta()) == 0 {
				t.Error("predict: no native buckets")
			}
			for _, b := range h.GetBucket() {
				want := uint64(2) // 1 µs, and what was before 0
				if b.GetUpperBound() >= 5e-6 {
					want++
				}
				if b.GetUpperBound() >= 0.3 {
					want++
				}
				if b.GetCumulativeCount() != want {
					t.Errorf("predict: %d at most %v s, want %d", b.GetCumulativeCount(), b.GetUpperBound(), want)
				}
			}
		case "hindsight_observe_seconds":
			seen++
			h := f.GetMetric()[0].GetHistogram()
			buckets := h.GetBucket()
			if h.GetSampleCount() != 1 || buckets[len(buckets)-1].GetCumulativeCount() != 0 {
				t.Errorf("observe: %v", h)
			}
			if first, last := buckets[0].GetUpperBound(), buckets[len(buckets)-1].GetUpperBound(); first != 1e-6 || last != 10 {
				t.Errorf("buckets from %v to %v s, want 1e-06 to 10", first, last)
			}
		}
	}
	if seen != 2 {
		t.Errorf("%d histograms, want 2", seen)
	}
}

// A model whose durations need more than a hundred native buckets keeps its
// counts, and so do the classic ones.
func TestDurationsOfAllSizes(t *testing.T) {
	m := newMetrics(t, metrics.Options{})
	timings := m.Timings("a", learner)
	n := uint64(0)
	for seconds := 1e-9; seconds < 1e5; seconds *= 1.02 {
		timings.Predict(seconds, "")
		n++
	}
	if text, general := both(t, m, true); text != general {
		t.Errorf("the text is\n%s\nand expfmt prints\n%s", text, general)
	}
	if got := count(t, m, "a"); got != n {
		t.Errorf("%d durations, want %d", got, n)
	}
	if want := fmt.Sprintf("hindsight_predict_seconds_count{learner=%q,model=\"a\"} %d\n", learner, n); !strings.Contains(scrape(t, m), want) {
		t.Errorf("not printed: %s", want)
	}
}

// A histogram that is read while it takes durations holds together: no bucket
// has more than the next one, and none more than the count.
func TestAHistogramHoldsTogether(t *testing.T) {
	m := newMetrics(t, metrics.Options{})
	timings := m.Timings("a", learner)
	var wg sync.WaitGroup
	var done atomic.Bool
	for range 2 {
		wg.Go(func() {
			for seconds := 1e-6; !done.Load(); seconds = math.Mod(1.5*seconds, 1) + 1e-6 {
				timings.Predict(seconds, "")
			}
		})
	}
	for range 10 {
		families, err := m.Gather()
		if err != nil {
			t.Error(err)
		}
		for _, f := range families {
			if f.GetName() != "hindsight_predict_seconds" {
				continue
			}
			h := f.GetMetric()[0].GetHistogram()
			last, native, delta := uint64(0), h.GetZeroCount(), int64(0)
			for _, b := range h.GetBucket() {
				if b.GetCumulativeCount() < last || b.GetCumulativeCount() > h.GetSampleCount() {
					t.Errorf("bucket %v after one of %d, of %d", b, last, h.GetSampleCount())
				}
				last = b.GetCumulativeCount()
			}
			for _, d := range h.GetPositiveDelta() {
				delta += d
				native += uint64(delta)
			}
			if native != h.GetSampleCount() {
				t.Errorf("%d durations in native buckets, of %d", native, h.GetSampleCount())
			}
		}
	}
	done.Store(true)
	wg.Wait()
}

func TestTimingsAfterForget(t *testing.T) {
	m := newMetrics(t, metrics.Options{})
	old := m.Timings("a", learner)
	old.Predict(1, "")
	m.Forget("a", learner)
	m.Forget("a", learner)
	m.Forget("never seen", learner)
	old.Predict(1, "")
	if n := histograms(t, m); n != 0 {
		t.Errorf("%d histograms after Forget", n)
	}
	m.Timings("a", learner).Predict(1, "")
	if got := count(t, m, "a"); got != 1 {
		t.Errorf("a new model of the name begins with %d calls, want 1", got)
	}
}

func TestZeroTimings(*testing.T) {
	var timings metrics.Timings
	timings.Predict(1, "")
	timings.Observe(1, "")
}

// host is a source as an engine is one: it calls Timings and Forget under the
// lock that Each needs.
type host struct {
	m  *metrics.Metrics
	mu struct {
		sync.RWMutex
		models map[string]metrics.Timings
	}
}

func (h *host) Each(yield func(*figures.Live)) {
	h.mu.RLock()
	defer h.mu.RUnlock()
	for name := range h.mu.models {
		live := plain(name, 1).live()
		yield(&live)
	}
}

func (h *host) create(name string) metrics.Timings {
	h.mu.Lock()
	defer h.mu.Unlock()
	t := h.m.Timings(name, learner)
	h.mu.models[name] = t
	return t
}

func (h *host) remove(name string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.mu.models, name)
	h.m.Forget(name, learner)
}

func TestConcurrentUse(t *testing.T) {
	const rounds, workers = 100, 4
	m := newMetrics(t, metrics.Options{MaxModels: 3})
	h := &host{m: m}
	h.mu.models = make(map[string]metrics.Timings)
	if err := m.WatchModels(h); err != nil {
		t.Fatal(err)
	}
	if err := metrics.Watch(m, func() counts { return counts{Atomics: new(Atomics)} }); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for i := range rounds {
				name := fmt.Sprint("model-", w, "-", i%3)
				timings := h.create(name)
				timings.Predict(1e-5, "")
				timings.Observe(1e-4, "")
				if i%2 == 0 {
					h.remove(name)
				}
			}
		})
		wg.Go(func() {
			for range rounds / 4 {
				if _, err := m.Gather(); err != nil {
					t.Error(err)
				}
				parse(t, m)
			}
		})
	}
	wg.Wait()
	for name := range h.names() {
		h.remove(name)
	}
	if got := models(t, m, "hindsight_regret"); len(got) != 0 {
		t.Errorf("series of %q after all models are gone", got)
	}
	// No place was lost.
	for i := range 4 {
		h.create(fmt.Sprint("new-", i))
	}
	if got, want := models(t, m, "hindsight_regret"), []string{"new-0", "new-1", "new-2", metrics.Other}; !slices.Equal(got, want) {
		t.Errorf("series of %q, want %q", got, want)
	}
}

// parse fails unless a scrape is text that Prometheus reads.
func parse(t *testing.T, m *metrics.Metrics) {
	t.Helper()
	s, err := m.Scrape()
	if err != nil {
		t.Error(err)
		return
	}
	var text bytes.Buffer
	if err := s.WriteText(&text); err != nil {
		t.Error(err)
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	if _, err := parser.TextToMetricFamilies(&text); err != nil {
		t.Error(err)
	}
}

func (h *host) names() map[string]struct{} {
	all := make(map[string]struct{})
	for name := range h.mu.models {
		all[name] = struct{}{}
	}
	return all
}

func TestTimingsDoNotAllocate(t *testing.T) {
	m := newMetrics(t, metrics.Options{})
	timings := m.Timings("a", learner)
	timings.Predict(1e-5, "")
	timings.Observe(1e-4, "")
	if n := testing.AllocsPerRun(1000, func() {
		timings.Predict(1e-5, "")
		timings.Observe(1e-4, "")
	}); n != 0 {
		t.Errorf("%v allocations for a call, want none", n)
	}
}

func BenchmarkTimingsPredict(b *testing.B) {
	m := newMetrics(b, metrics.Options{})
	timings := m.Timings("a", learner)
	seconds := 1e-6
	b.ReportAllocs()
	for b.Loop() {
		timings.Predict(seconds, "")
		if seconds *= 1.01; seconds > 1e-3 {
			seconds = 1e-6
		}
	}
}

func BenchmarkTimingsPredictParallel(b *testing.B) {
	m := newMetrics(b, metrics.Options{})
	timings := m.Timings("a", learner)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			timings.Predict(1e-5, "")
		}
	})
}
