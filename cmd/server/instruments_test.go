package main_test

import (
	"compress/gzip"
	"errors"
	"io"
	"math"
	"net/http"
	"slices"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"google.golang.org/protobuf/types/known/structpb"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
)

// The scraper gets the format and the compression that it asks for.
func TestScrapesInAllFormats(t *testing.T) {
	p := launch(t, t.TempDir())
	p.create(t)
	p.learn(t, 0, 10)
	const (
		protobuf    = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited"
		openMetrics = "application/openmetrics-text;version=1.0.0"
		prometheus3 = openMetrics + ";escaping=allow-utf-8;q=0.6," +
			"text/plain;version=1.0.0;escaping=allow-utf-8;q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.2"
	)
	for name, c := range map[string]struct {
		accept, encoding, query string
		contentType             string
		alone                   bool // hindsight_regret
	}{
		"text":                  {accept: "text/plain;version=0.0.4", contentType: "text/plain; version=0.0.4"},
		"anything":              {accept: "*/*", contentType: "text/plain; version=0.0.4"},
		"OpenMetrics or text":   {accept: prometheus3, contentType: "text/plain; version="},
		"OpenMetrics":           {accept: openMetrics, contentType: "text/plain; version=0.0.4"},
		"compressed":            {accept: prometheus3, encoding: "gzip", contentType: "text/plain; version="},
		"protobuf":              {accept: protobuf, contentType: "application/vnd.google.protobuf; "},
		"compressed protobuf":   {accept: protobuf, encoding: "gzip", contentType: "application/vnd.google.protobuf; "},
		"one name":              {accept: "text/plain", query: "?name[]=hindsight_regret", contentType: "text/plain; version=0.0.4", alone: true},
		"one name, as protobuf": {accept: protobuf, query: "?name[]=hindsight_regret", contentType: "application/vnd.google.protobuf; ", alone: true},
	} {
		t.Run(name, func(t *testing.T) {
			header, families := p.scrape(t, c.query, c.accept, c.encoding)
			if got := header.Get("Content-Type"); !strings.HasPrefix(got, c.contentType) {
				t.Errorf("content type %q, want %q", got, c.contentType)
			}
			if got := header.Get("Content-Encoding"); got != c.encoding {
				t.Errorf("encoding %q, want %q", got, c.encoding)
			}
			if n := families["hindsight_regret"].GetMetric(); len(n) != 1 {
				t.Errorf("%d models have a regret, want 1", len(n))
			}
			if c.alone {
				if len(families) != 1 {
					t.Errorf("%d families, want 1", len(families))
				}
				return
			}
			if got := families["hindsight_observations_total"].GetMetric()[0].GetCounter().GetValue(); got != 10 {
				t.Errorf("%v observations, want 10", got)
			}
			h := families["hindsight_observe_seconds"].GetMetric()[0].GetHistogram()
			if h.GetSampleCount() == 0 || len(h.GetBucket()) < 22 {
				t.Errorf("histogram %v", h)
			}
			if strings.HasPrefix(c.contentType, "application/") && len(h.GetPositiveSpan()) == 0 {
				t.Error("protobuf has no native buckets")
			}
			if families["go_goroutines"] == nil || families["grpc_server_handled_total"] == nil {
				t.Error("the rest of the server is missing")
			}
		})
	}
}

// The metrics of a classifier with named inputs are what GetModelStats reports.
func TestScrapeOfAClassifier(t *testing.T) {
	const load, class = "load \"kW\"\\", "a \"quoted\"\nclass"
	p := launch(t, t.TempDir())
	_, err := p.models.CreateModel(t.Context(), &hindsightv1.CreateModelRequest{Id: "m", Spec: &hindsightv1.ModelSpec{
		Inputs: []*hindsightv1.Input{
			{Name: load, Kind: &hindsightv1.Input_Numeric{Numeric: &hindsightv1.NumericInput{}}},
			{Name: "city", Kind: &hindsightv1.Input_Categorical{Categorical: &hindsightv1.CategoricalInput{}}},
		},
		Learner: &hindsightv1.ModelSpec_Rlsc{Rlsc: &hindsightv1.Rlsc{}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	for range 12 {
		batch := &hindsightv1.ObserveBatchRequest{Model: "m"}
		for n := range 100 {
			k := 37 * n % 100
			inputs, err := structpb.NewStruct(map[string]any{load: float64(k), "city": []any{nil, "Oslo", "Rome", "Oslo"}[k%4]})
			if err != nil {
				t.Fatal(err)
			}
			batch.Observations = append(batch.Observations, &hindsightv1.ObserveRequest{
				Inputs: inputs, Target: &hindsightv1.ObserveRequest_Class{Class: []string{"other", class}[k/50]},
			})
		}
		if _, err := p.predictor.ObserveBatch(t.Context(), batch); err != nil {
			t.Fatal(err)
		}
	}
	_, families := p.scrape(t, "", "text/plain", "")
	value := func(name string, labels ...string) float64 {
		for _, m := range families[name].GetMetric() {
			texts := []string{}
			for _, l := range m.GetLabel() {
				texts = append(texts, l.GetValue())
			}
			if slices.Equal(texts, append(labels, "rlsc", "m")) {
				return m.GetCounter().GetValue() + m.GetGauge().GetValue()
			}
		}
		return math.NaN()
	}
	stats := p.stats(t)
	in, performance := stats.GetInputs()[0], stats.GetClasses().GetPerformance().GetPrequential()
	for _, v := range []struct {
		name      string
		got, want float64
	}{
		{"the shift", value("hindsight_largest_input_shift"), max(in.GetShift(), stats.GetInputs()[1].GetShift())},
		{"errors", value("hindsight_classifier_errors_total", "prequential"), math.Round(1200 * performance.GetErrorRate())},
		{"the recent skill", value("hindsight_classifier_recent_skill"), stats.GetClasses().GetRecent().GetServed().GetSkill()},
	} {
		if v.got != v.want {
			t.Errorf("%s: the metrics have %v, GetModelStats %v", v.name, v.got, v.want)
		}
	}
	if performance.GetSkill() < 0.5 || in.Shift == nil {
		t.Errorf("statistics %v", stats)
	}
	if len(families["hindsight_baseline_loss_total"].GetMetric()) > 0 || stats.GetPerformance().GetPrequential().RunningMeanLoss != nil {
		t.Error("a classifier has baselines of its loss")
	}
}

// scrape asks for /metrics and decodes the answer.
func (p *process) scrape(t *testing.T, query, accept, encoding string) (http.Header, map[string]*dto.MetricFamily) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, p.http+"/metrics"+query, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Accept", accept)
	// With an encoding of its own the transport decodes nothing.
	request.Header.Set("Accept-Encoding", "identity")
	if encoding != "" {
		request.Header.Set("Accept-Encoding", encoding)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }() // It was only read.
	if response.StatusCode != http.StatusOK {
		t.Fatalf("status %d", response.StatusCode)
	}
	var body io.Reader = response.Body
	if response.Header.Get("Content-Encoding") == "gzip" {
		if body, err = gzip.NewReader(response.Body); err != nil {
			t.Fatal(err)
		}
	}
	if !strings.HasPrefix(response.Header.Get("Content-Type"), "application/") {
		parser := expfmt.NewTextParser(model.UTF8Validation)
		families, err := parser.TextToMetricFamilies(body)
		if err != nil {
			t.Fatal(err)
		}
		return response.Header, families
	}
	families := make(map[string]*dto.MetricFamily)
	decoder := expfmt.NewDecoder(body, expfmt.NewFormat(expfmt.TypeProtoDelim))
	for {
		f := new(dto.MetricFamily)
		if err := decoder.Decode(f); errors.Is(err, io.EOF) {
			return response.Header, families
		} else if err != nil {
			t.Fatal(err)
		}
		families[f.GetName()] = f
	}
}
