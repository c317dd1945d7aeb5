package main_test

import (
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
)

// createFrom creates a model of a spec as JSON.
func (c clients) createFrom(t *testing.T, id, spec string) *hindsightv1.Model {
	t.Helper()
	request := &hindsightv1.CreateModelRequest{Id: id, Spec: &hindsightv1.ModelSpec{}}
	if err := protojson.Unmarshal([]byte(spec), request.GetSpec()); err != nil {
		t.Fatal(err)
	}
	r, err := c.models.CreateModel(t.Context(), request)
	if err != nil {
		t.Fatal(err)
	}
	return r.GetModel()
}

func (c clients) statsOf(t *testing.T, id string) *hindsightv1.ModelStats {
	t.Helper()
	r, err := c.models.GetModelStats(t.Context(), &hindsightv1.GetModelStatsRequest{Model: id})
	if err != nil {
		t.Fatal(err)
	}
	return r.GetStats()
}

// noisy is observation n of a stream: a label of about 1, or the one given.
func noisy(id string, n int, label float64) *hindsightv1.ObserveRequest {
	rng := rand.New(rand.NewPCG(uint64(n), 1))
	x := 2*rng.Float64() - 1
	if label == 0 {
		label = math.Sin(3*x) + 0.1*rng.NormFloat64()
	}
	return &hindsightv1.ObserveRequest{
		Model: id, ObservationId: fmt.Sprint("o-", n), Features: []float64{x}, Target: &hindsightv1.ObserveRequest_Label{Label: label},
	}
}

// learnNoisy observes a part of the stream, of which nothing is set aside.
func (c clients) learnNoisy(t *testing.T, id string, from, to int) {
	t.Helper()
	batch := &hindsightv1.ObserveBatchRequest{Model: id}
	for n := from; n < to; n++ {
		batch.Observations = append(batch.Observations, noisy(id, n, 0))
	}
	r, err := c.predictor.ObserveBatch(t.Context(), batch)
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range r.GetOutcomes() {
		if o.GetSetAside() {
			t.Errorf("%s set %v aside", id, o)
		}
	}
}

// observe observes, and fails unless the outcome has these marks.
func (c clients) observe(t *testing.T, o *hindsightv1.ObserveRequest, aside, duplicate bool) *hindsightv1.Outcome {
	t.Helper()
	r, err := c.predictor.Observe(t.Context(), o)
	if err != nil {
		t.Fatalf("%s, %s: %v", o.GetModel(), o.GetObservationId(), err)
	}
	if r.GetOutcome().GetSetAside() != aside || r.GetOutcome().GetDuplicate() != duplicate {
		t.Fatalf("%s, %s: set aside %t, duplicate %t, want %t, %t", o.GetModel(), o.GetObservationId(), r.GetOutcome().GetSetAside(), r.GetOutcome().GetDuplicate(), aside, duplicate)
	}
	return r.GetOutcome()
}

// gateIs checks what statistics and metrics tell of the label gate of m. The models "off"
// and "linear" have none.
func (p *process) gateIs(t *testing.T, want *hindsightv1.LabelGateStats) {
	t.Helper()
	c := clients{p.predictor, p.models}
	s := c.statsOf(t, "m")
	got := s.GetLabelGate()
	share := float64(want.GetSetAside()) / float64(s.GetObservations())
	if got.GetSetAside() != want.GetSetAside() || got.GetLastSetAside() != want.GetLastSetAside() || got.GetShare() != share ||
		got.GetStarts() != want.GetStarts() || got.GetLastStart() != want.GetLastStart() ||
		got.GetSetAsideLoss() < 0.9e12*float64(want.GetSetAside()) || got.RegretBeside == nil || !s.GetCertified() || !s.GetCertificateOk() {
		t.Errorf("statistics %v, want %v and the share %g", s, want, share)
	}
	for _, id := range []string{"off", "linear"} {
		if s := c.statsOf(t, id); s.GetLabelGate() != nil {
			t.Errorf("%s has a label gate: %v", id, s.GetLabelGate())
		}
	}
	p.counted(t, want)
}

// counted checks the metrics of the gate.
func (p *process) counted(t *testing.T, want *hindsightv1.LabelGateStats) {
	t.Helper()
	_, families := p.scrape(t, "", "text/plain", "")
	for name, want := range map[string]uint64{"hindsight_labels_set_aside_total": want.GetSetAside(), "hindsight_learner_starts_total": want.GetStarts()} {
		series := families[name].GetMetric()
		if len(series) != 1 || series[0].GetCounter().GetValue() != float64(want) || !strings.Contains(fmt.Sprint(series[0].GetLabel()), `"m"`) {
			t.Errorf("%s is %v, want %d of m alone", name, series, want)
		}
	}
}

// A label that cannot be right is set aside, and every surface of a real server says so,
// also after kills.
func TestLabelSetAside(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	p := launch(t, dir)
	c := clients{p.predictor, p.models}
	for id, want := range map[string]string{"m": "on", "off": "off", "linear": ""} {
		spec := map[string]string{"m": `{"dimension": 1}`, "off": `{"dimension": 1, "label_gate": "off"}`, "linear": `{"dimension": 1, "linear_awv": {}}`}[id]
		if got := c.createFrom(t, id, spec).GetSpec().GetLabelGate(); got != want {
			t.Errorf("label_gate of %s is %q, want %q", id, got, want)
		}
	}
	const rows, bad = 300, 200
	for _, id := range []string{"m", "off", "linear"} {
		c.learnNoisy(t, id, 0, bad)
		outcome := c.observe(t, noisy(id, bad, 1e6), id == "m", false)
		if outcome.GetLoss() < 0.9e12 || outcome.GetSequence() != bad+1 {
			t.Errorf("the loss counts, and the sequence goes on: %v", outcome)
		}
		c.learnNoisy(t, id, bad+1, rows)
	}
	want := &hindsightv1.LabelGateStats{SetAside: 1, LastSetAside: bad + 1}
	p.gateIs(t, want)
	before := c.observe(t, noisy("m", bad, 1e6), true, true)

	for kill := range 2 { // The log is replayed, then a snapshot is loaded.
		p.kill(t)
		p = launch(t, dir)
		c = clients{p.predictor, p.models}
		p.gateIs(t, want)
		if again := c.observe(t, noisy("m", bad, 1e6), true, true); !proto.Equal(again, before) {
			t.Errorf("after kill %d: %v, want %v", kill+1, again, before)
		}
		if _, err := p.models.SnapshotModel(t.Context(), &hindsightv1.SnapshotModelRequest{Model: "m"}); err != nil {
			t.Fatal(err)
		}
	}

	// Of five in a row the learner learns all: no label is as strange as that.
	for n := range 5 {
		c.observe(t, noisy("m", rows+n, 1e6+float64(n)), n < 4, false)
	}
	want = &hindsightv1.LabelGateStats{SetAside: 5, LastSetAside: rows + 4, Starts: 1, LastStart: rows + 5}
	s := c.statsOf(t, "m").GetLabelGate()
	if s.GetSetAside() != 5 || s.GetLastSetAside() != rows+4 || s.GetStarts() != 1 || s.GetLastStart() != rows+5 {
		t.Errorf("a new start: %v, want %v", s, want)
	}
	p.counted(t, want)

	// JSON over HTTP.
	body, err := protojson.Marshal(noisy("", bad, 1e6))
	if err != nil {
		t.Fatal(err)
	}
	if text := p.json(t, http.MethodPost, "/v1/models/m:observe", string(body)); !strings.Contains(text, `"setAside":true`) {
		t.Errorf("observed: %s", text)
	}
	if text := p.json(t, http.MethodGet, "/v1/models/m/stats", ""); !strings.Contains(text, `"labelGate":{"setAside":`) {
		t.Errorf("statistics: %s", text)
	}
}

// json calls JSON over HTTP, and returns the answer without white space.
func (p *process) json(t *testing.T, method, path, body string) string {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, p.http+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close() //nolint:errcheck // it was only read
	text, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != http.StatusOK {
		t.Fatalf("%s %s: %d, %v, %s", method, path, answer.StatusCode, err, text)
	}
	return strings.Join(strings.Fields(string(text)), "")
}
