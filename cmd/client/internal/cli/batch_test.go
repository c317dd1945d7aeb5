package cli_test

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
)

// wrongLabel is a label that ObserveBatch rejects.
const wrongLabel = 666

// ObserveBatch learns all rows or none. A row whose label is wrong rejects the batch, and
// so does a batch of more than maxRows.
func (f *fake) ObserveBatch(_ context.Context, r *hindsightv1.ObserveBatchRequest) (*hindsightv1.ObserveBatchResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls["batch"]++
	n := f.calls["batch"]
	if err := f.faulty("batch", n, false); err != nil {
		return nil, err
	}
	m, err := f.model(r.GetModel())
	if err != nil {
		return nil, err
	}
	if f.maxRows > 0 && len(r.GetObservations()) > f.maxRows {
		return nil, reject(codes.InvalidArgument, "BATCH_TOO_LARGE", "too many rows", "observations")
	}
	for i, o := range r.GetObservations() {
		if o.GetLabel() == wrongLabel {
			return nil, reject(codes.InvalidArgument, "LABEL_OUT_OF_RANGE", "a wrong label", fmt.Sprintf("observations[%d].label", i))
		}
	}
	answer := &hindsightv1.ObserveBatchResponse{}
	for _, o := range r.GetObservations() {
		outcome, err := m.learn(o)
		if err != nil {
			return nil, err
		}
		if !outcome.GetDuplicate() {
			f.order = append(f.order, "observe "+o.GetObservationId())
		}
		if f.outcome != nil {
			spec := m.model.GetSpec().ProtoReflect()
			f.outcome(string(spec.WhichOneof(spec.Descriptor().Oneofs().ByName("learner")).Name()), outcome)
		}
		answer.Outcomes = append(answer.Outcomes, outcome)
	}
	return answer, f.faulty("batch", n, true)
}

// A replay that is asked for neither a delay nor to serve predicts nothing. It
// measures, and leaves, what one call after another does.
func TestReplayInBatches(t *testing.T) {
	const rows = 1500
	csv, labels := table(t, rows, false)
	var digests []any
	for _, mode := range [][]string{{"--serve"}, nil, {"--delay", "0"}} {
		f := served(t)
		out := filepath.Join(t.TempDir(), "out.csv")
		d := document(t, 0, append([]string{"replay", "--csv", csv, "--model", "m", "--run", "r", "--out", out}, mode...)...)
		got, want := read(t, out), wantOutcomes(labels, 1)
		assert.Equal(t, want, got, "%v: outcomes", mode)
		loss, _ := d["lossSum"].(float64)
		assert.True(t, loss == f.models["m"].lossSum && d["acknowledged"] == float64(rows) && d["nextOffset"] == float64(rows), "%v: %v", mode, d)
		digests = append(digests, stat(d, "stateDigest"))
		if mode == nil || mode[0] == "--delay" {
			assert.True(t, f.calls["predict"] == 0 && f.calls["observe"] == 0 && f.calls["batch"] >= 3 && f.calls["batch"] <= 100, "%v: calls %v, want batches alone", mode, f.calls)
			assert.True(t, d["batches"] == float64(f.calls["batch"]) && d["predictP50Seconds"] == nil && d["observeP50Seconds"].(float64) > 0, "%v: %v", mode, d)
		}
	}
	assert.True(t, digests[0] != nil && digests[1] == digests[0] && digests[2] == digests[0], "digests %v, want those of one call after another", digests)
	served(t)
	r := run(t, "replay", "--csv", csv, "--model", "m")
	assert.True(t, r.code == 0 && strings.Contains(r.out, "rounds/s") && !strings.Contains(r.out, "labels late"), "%+v", r)
}

// Batches whose answer is lost are sent again, and learned once.
func TestReplayBatchesRetried(t *testing.T) {
	f := served(t)
	f.fault = func(call string, n int, done bool) error {
		if call == "batch" && (n == 2 && done || n == 4 && !done) {
			return status.Error(codes.Unavailable, "lost")
		}
		return nil
	}
	csv, labels := table(t, 300, false)
	out := filepath.Join(t.TempDir(), "out.csv")
	d := document(t, 0, "replay", "--csv", csv, "--model", "m", "--out", out)
	got, want := read(t, out), wantOutcomes(labels, 1)
	assert.Equal(t, want, got, "outcomes")
	n := len(f.models["m"].labels)
	assert.True(t, n == 300 && d["retries"] == 2.0 && d["duplicates"].(float64) > 0, "%d learned, %v", n, d)
}

// A replay that lost its server, or was interrupted, goes on where it was: with the
// offset, and without it, where every row answers what it answered then.
func TestReplayBatchesContinue(t *testing.T) {
	const rows = 200
	for _, interrupt := range []bool{false, true} {
		for _, offset := range []bool{false, true} {
			f := served(t)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			f.fault = func(call string, n int, done bool) error {
				switch {
				case call != "batch":
				case interrupt && n == 2 && !done:
					cancel()
				case !interrupt && n >= 3 && (n > 3 || done):
					return status.Error(codes.Unavailable, "gone")
				}
				return nil
			}
			csv, labels := table(t, rows, false)
			args := []string{"replay", "--csv", csv, "--model", "m", "--run", "r", "--retries", "1", "--json"}
			r := runWith(ctx, "", args...)
			d := decode(t, r.out)
			next, _ := d["nextOffset"].(float64)
			learned := len(f.models["m"].labels)
			if want := map[bool]int{false: 3, true: 130}[interrupt]; r.code != want || next == 0 || next >= rows || next != d["acknowledged"] || interrupt && learned != int(next) {
				t.Fatalf("interrupt %v: exit code %d, %d learned, %v", interrupt, r.code, learned, d)
			}
			assert.Contains(t, r.errors, fmt.Sprintf("; continue with --run r --offset %v", next), interrupt)
			f.mu.Lock()
			f.fault = nil
			f.mu.Unlock()
			out := filepath.Join(t.TempDir(), "out.csv")
			args, first, duplicates := append(args[:len(args)-1:len(args)-1], "--out", out), 1, learned
			if offset {
				args, first, duplicates = append(args, "--offset", fmt.Sprint(next)), int(next)+1, learned-int(next)
			}
			d = document(t, 0, args...)
			if got, want := read(t, out), wantOutcomes(labels, first); got != want {
				t.Errorf("interrupt %v, offset %v: outcomes\n%.300s\nwant\n%.300s", interrupt, offset, got, want)
			}
			if d["duplicates"] != float64(duplicates) || len(f.models["m"].labels) != rows {
				t.Errorf("interrupt %v, offset %v: %d learned, %v, want %d duplicates", interrupt, offset, len(f.models["m"].labels), d, duplicates)
			}
		}
	}
}

// A run that was served goes on in batches, and the reverse: rounds keep their ids.
func TestReplayBatchesAfterServing(t *testing.T) {
	for _, modes := range [][2][]string{{{"--serve"}, nil}, {nil, {"--serve"}}} {
		f := served(t)
		csv, labels := table(t, 60, false)
		args := []string{"replay", "--csv", csv, "--model", "m", "--run", "r"}
		document(t, 0, append(append(args, "--limit", "25"), modes[0]...)...)
		out := filepath.Join(t.TempDir(), "out.csv")
		d := document(t, 0, append(append(args, "--out", out), modes[1]...)...)
		got, want := read(t, out), wantOutcomes(labels, 1)
		assert.True(t, got == want && d["duplicates"] == 25.0 && len(f.models["m"].labels) == 60, "%v: %v, outcomes\n%.300s\nwant\n%.300s", modes, d, got, want)
	}
}

// The rows before one that is rejected are learned, and the error names its round. A
// server that takes fewer rows at once gets fewer.
func TestReplayBatchesRejected(t *testing.T) {
	for _, maxRows := range []int{0, 1, 5, 100} {
		f := served(t)
		f.maxRows = maxRows
		var b strings.Builder
		b.WriteString("x1,x2,y\n")
		for i := range 300 {
			y := float64(i % 7)
			if i == 201 {
				y = wrongLabel
			}
			fmt.Fprintf(&b, "%d,5,%g\n", i, y)
		}
		path := written(t, "rows.csv", b.String())
		d := document(t, 1, "replay", "--csv", path, "--model", "m", "--run", "r")
		e, _ := d["error"].(map[string]any)
		text := fmt.Sprint(e["message"])
		if d["nextOffset"] != 201.0 || d["acknowledged"] != 201.0 || len(f.models["m"].labels) != 201 || e["reason"] != "LABEL_OUT_OF_RANGE" || !strings.Contains(text, "round 202: observe:") {
			t.Errorf("at most %d rows: %v, %d learned", maxRows, d, len(f.models["m"].labels))
		}
		d = document(t, 0, "replay", "--csv", path, "--model", "m", "--run", "r", "--offset", "202")
		assert.True(t, len(f.models["m"].labels) == 299 && d["acknowledged"] == 98.0, "at most %d rows: %v", maxRows, d)
	}
	f := served(t)
	f.fault = func(call string, _ int, _ bool) error {
		if call == "batch" {
			return reject(codes.Unavailable, "STORAGE_FAILED", "disk")
		}
		return nil
	}
	csv, _ := table(t, 20, false)
	d := document(t, 1, "replay", "--csv", csv, "--model", "m")
	e, _ := d["error"].(map[string]any)
	assert.True(t, d["nextOffset"] == 0.0 && e["reason"] == "STORAGE_FAILED", "%v", d)
}
