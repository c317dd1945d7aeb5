package metrics_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"hindsight/internal/metrics"
)

// both yields what Scrape prints and what promhttp prints of Gather, but for
// the numbers of the process, which change meanwhile.
func both(t *testing.T, m *metrics.Metrics, textFirst bool) (text, general string) {
	t.Helper()
	if textFirst {
		text = scrape(t, m)
	}
	general = expose(t, m, "text/plain")
	if !textFirst {
		text = scrape(t, m)
	}
	return ours(text), ours(general)
}

func scrape(t *testing.T, m *metrics.Metrics) string {
	t.Helper()
	s, err := m.Scrape()
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := s.WriteText(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func ours(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		if strings.HasPrefix(strings.TrimPrefix(strings.TrimPrefix(line, "# HELP "), "# TYPE "), "hindsight_") {
			b.WriteString(line)
		}
	}
	return b.String()
}

// everyNumber shows all metrics there are.
func everyNumber(tb testing.TB) *metrics.Metrics {
	tb.Helper()
	m, src := watch(tb, 2)
	second := energy()
	second.Name = "second"
	src.set(energy(), digits(), second)
	err := metrics.Watch(m, func() counts { return counts{Sum: 0.5, Atomics: new(Atomics)} })
	if err != nil {
		tb.Fatal(err)
	}
	if _, err := m.Refusals([]string{"OVERLOADED", "OTHER"}); err != nil {
		tb.Fatal(err)
	}
	if _, _, err := m.LogLines([]string{"info", "error"}); err != nil {
		tb.Fatal(err)
	}
	for _, own := range []Model{energy(), digits()} {
		timings := m.Timings(own.Name, own.Learner)
		timings.Predict(1e-4, "")
		timings.Observe(1e-3, "")
	}
	return m
}

func TestTextIsValid(t *testing.T) {
	text := scrape(t, everyNumber(t))
	problems, err := promlint.New(strings.NewReader(text)).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	h := families["hindsight_predict_seconds"].GetMetric()
	if len(h) != 2 || h[0].GetHistogram().GetSampleCount() != 1 || len(h[0].GetHistogram().GetBucket()) != 23 {
		t.Errorf("histograms %v", h)
	}
	if families["go_goroutines"] == nil || families["process_start_time_seconds"] == nil {
		t.Error("nothing of the process")
	}
}

// A scraper that asks for protobuf gets the native histograms as well.
func TestProtobufHasNativeHistograms(t *testing.T) {
	m := everyNumber(t)
	scrape(t, m) // It keeps classic counts, and those alone.
	const accept = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited"
	decoder := expfmt.NewDecoder(strings.NewReader(expose(t, m, accept)), expfmt.NewFormat(expfmt.TypeProtoDelim))
	native, named := 0, map[string]bool{}
	for {
		var f dto.MetricFamily
		if err := decoder.Decode(&f); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		named[f.GetName()] = true
		for _, s := range f.GetMetric() {
			if h := s.GetHistogram(); strings.HasPrefix(f.GetName(), "hindsight_") && len(h.GetPositiveSpan()) > 0 && h.GetSampleCount() == 1 {
				native++
			}
		}
	}
	if native != 4 {
		t.Errorf("%d native histograms, want 4", native)
	}
	for _, name := range names(t, m) {
		if !named[name] {
			t.Errorf("protobuf has no %s", name)
		}
	}
}

// The registry of the server refuses the name of a metric that models have.
func TestANameIsGivenOnce(t *testing.T) {
	registry := prometheus.NewRegistry()
	m, err := metrics.New(registry, metrics.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := m.WatchModels(&source{energy().live()}); err != nil {
		t.Fatal(err)
	}
	m.Timings("energy", "pkawv_taylor")
	for _, name := range []string{"hindsight_regret", "hindsight_loss_total", "hindsight_interval_mean_width", "hindsight_input_mean", "hindsight_predict_seconds"} {
		if err := registry.Register(prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: "Another."})); err == nil {
			t.Errorf("%s is given twice", name)
		}
		first := prometheus.NewRegistry()
		first.MustRegister(prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: "Another."}))
		if _, err := metrics.New(first, metrics.Options{}); err == nil {
			t.Errorf("%s is taken from a registry that has it", name)
		}
	}
}

// broken is a collector that has failed.
type broken struct{ prometheus.Collector }

func (broken) Collect(ch chan<- prometheus.Metric) {
	ch <- prometheus.NewInvalidMetric(prometheus.NewInvalidDesc(errBroken), errBroken)
}

var errBroken = errors.New("broken on purpose")

func TestAScrapeThatFails(t *testing.T) {
	registry := prometheus.NewRegistry()
	m, err := metrics.New(registry, metrics.Options{})
	if err != nil {
		t.Fatal(err)
	}
	s, err := m.Scrape()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.WriteText(failing{}); !errors.Is(err, errBroken) {
		t.Errorf("a writer that fails: %v", err)
	}
	registry.MustRegister(broken{prometheus.NewGauge(prometheus.GaugeOpts{Name: "broken", Help: "Broken."})})
	if _, err := m.Scrape(); !errors.Is(err, errBroken) {
		t.Errorf("a collector that fails: %v", err)
	}
	if _, err := m.Gather(); !errors.Is(err, errBroken) {
		t.Errorf("a collector that fails, gathered: %v", err)
	}
}

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, errBroken }

// discard is a response that counts its bytes.
type discard struct {
	header http.Header
	bytes  int
}

func (d *discard) Header() http.Header { return d.header }
func (d *discard) WriteHeader(int)     {}

func (d *discard) Write(p []byte) (int, error) {
	d.bytes += len(p)
	return len(p), nil
}

// fill gives m a number of each kind and two levels, all with many digits.
func fill(rng *rand.Rand, m *Model) {
	for _, v := range []*float64{
		&m.PrequentialLoss, &m.ServedLoss, &m.Regret, &m.RegretBound, &m.ServedRegret, &m.PrequentialSkill, &m.ServedSkill,
		&m.PrequentialBaselines.Mean, &m.PrequentialBaselines.Last, &m.ServedBaselines.Mean, &m.ServedBaselines.Last,
		&m.Recent.MeanLoss, &m.Recent.Skill, &m.Drift.LossBefore, &m.Drift.LossAfter,
	} {
		*v = 1000 * rng.Float64()
	}
	m.Recent.Observations, m.Drift.Detected = 1000, 1
	for _, coverage := range []float64{0.9, 0.99} {
		m.Intervals = append(m.Intervals, Interval{
			Coverage: coverage, Judged: 1000,
			Realised: rng.Float64(), Recent: rng.Float64(), MeanWidth: rng.Float64(), MeanScore: rng.Float64(),
		})
	}
}

// BenchmarkScrape answers a scrape in the text format, by Scrape and by
// promhttp of Gather. Of the models, as many as it says were used since the
// last scrape.
func BenchmarkScrape(b *testing.B) {
	learners := []string{
		"linear_awv", "kernel_awv", "fourier_awv", "fogd", "raker", "ada_raker", "pkawv_taylor", "pkawv_nystrom",
	}
	for _, c := range []struct{ models, durations, used int }{
		{1000, 5, 0}, {1000, 5, 10}, {1000, 5, 1000}, {1000, 500, 0}, {1000, 500, 10}, {1000, 500, 1000}, {100_000, 5, 0},
	} {
		m, src := watch(b, 0)
		rng := rand.New(rand.NewPCG(1, 2))
		models, timings := make([]Model, c.models), make([]metrics.Timings, c.models)
		for i := range models {
			models[i] = plain(fmt.Sprint("model-", i), i+1)
			models[i].Learner = learners[i%len(learners)]
			fill(rng, &models[i])
			timings[i] = m.Timings(models[i].Name, models[i].Learner)
			for range c.durations {
				timings[i].Predict(1e-4*math.Exp(rng.NormFloat64()), "")
				timings[i].Observe(1e-3*math.Exp(rng.NormFloat64()), "")
			}
		}
		src.set(models...)
		for name, handler := range map[string]http.Handler{
			"promhttp": promhttp.HandlerFor(m, promhttp.HandlerOpts{DisableCompression: true}),
			"text": http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				s, err := m.Scrape()
				if err != nil {
					b.Fatal(err)
				}
				if err := s.WriteText(w); err != nil {
					b.Fatal(err)
				}
			}),
		} {
			b.Run(fmt.Sprintf("models=%d/durations=%d/used=%d/%s", c.models, c.durations, c.used, name), func(b *testing.B) {
				request := httptest.NewRequestWithContext(b.Context(), http.MethodGet, "/metrics", http.NoBody)
				w := &discard{header: http.Header{}}
				handler.ServeHTTP(w, request)
				b.ReportAllocs()
				for b.Loop() {
					b.StopTimer()
					for i := range c.used {
						timings[i].Predict(1e-4, "")
						timings[i].Observe(1e-3, "")
						(*src)[i].Observations++
					}
					w.bytes = 0
					b.StartTimer()
					handler.ServeHTTP(w, request)
				}
				b.ReportMetric(float64(w.bytes), "response-B")
			})
		}
	}
}

// names are the metrics of the server's own that m shows, sorted.
func names(t *testing.T, m prometheus.Gatherer) []string {
	t.Helper()
	families, err := m.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, f := range families {
		if strings.HasPrefix(f.GetName(), "hindsight_") {
			all = append(all, f.GetName())
		}
	}
	return all
}
