package cli_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
	"hindsight/cmd/internal/child"
	"hindsight/internal/servertest"
)

// late is the order of the calls of the run r if the label of round t comes after the
// prediction of round t+delay and before that of the next one.
func late(rounds, delay int) []string {
	var calls []string
	for t := 1; t <= rounds; t++ {
		calls = append(calls, "predict r-"+strconv.Itoa(t))
		if t > delay {
			calls = append(calls, "observe r-"+strconv.Itoa(t-delay))
		}
	}
	for t := max(rounds-delay, 0) + 1; t <= rounds; t++ {
		calls = append(calls, "observe r-"+strconv.Itoa(t))
	}
	return calls
}

// wantOrder compares the order of the calls that had an effect.
func wantOrder(t *testing.T, f *fake, want []string) {
	t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range max(len(f.order), len(want)) {
		if i >= len(f.order) || i >= len(want) || f.order[i] != want[i] {
			t.Fatalf("%d calls, want %d; from call %d on\n%q, want\n%q", len(f.order), len(want), i,
				f.order[min(i, len(f.order)):min(i+8, len(f.order))], want[min(i, len(want)):min(i+8, len(want))])
		}
	}
}

// Served rows are predicted and observed one call after another; without a delay only --serve asks for that.
func TestDelay(t *testing.T) {
	const rows = 30
	for _, delay := range []int{0, 1, 3, 10, rows - 1, rows, 100} {
		f := served(t)
		csv, labels := table(t, rows, false)
		out := filepath.Join(t.TempDir(), "out.csv")
		d := document(t, 0, "replay", "--csv", csv, "--model", "m", "--run", "r", "--out", out, "--serve", "--delay", strconv.Itoa(delay))
		wantOrder(t, f, late(rows, delay))
		if got, want := read(t, out), wantOutcomes(labels, 1); got != want {
			t.Errorf("delay %d: outcomes\n%s\nwant\n%s", delay, got, want)
		}
		assert.True(t, d["delay"] == float64(delay) && d["rounds"] == float64(rows) && d["acknowledged"] == float64(rows) && d["nextOffset"] == float64(rows), "delay %d: %v", delay, d)
		// What was served had learned from fewer labels.
		want := 0.0
		for i, y := range labels {
			known := &fakeModel{labels: labels[:max(i-delay, 0)]}
			want += square(y - known.mean())
		}
		got, _ := stat(d, "servedLossSum").(float64)
		assert.False(t, got < want*(1-1e-12) || got > want*(1+1e-12), "delay %d: served loss %v, want %v", delay, got, want)
	}
}

// Calls are lost before and after their effect, and the server loses its predictions.
func TestDelayRetries(t *testing.T) {
	for _, delay := range []int{0, 1, 4, 12} {
		f := served(t)
		f.fault = func(call string, n int, done bool) error {
			if call == "predict" && (n == 8 && done || n == 20 && !done) || call == "observe" && (n == 4 && !done || n == 16 && done) {
				return status.Error(codes.Unavailable, "lost")
			}
			return nil
		}
		csv, labels := table(t, 40, false)
		out := filepath.Join(t.TempDir(), "out.csv")
		args := []string{"replay", "--csv", csv, "--model", "m", "--run", "r", "--out", out, "--serve", "--delay", strconv.Itoa(delay)}
		d := document(t, 0, args...)
		wantOrder(t, f, late(40, delay))
		got, want := read(t, out), wantOutcomes(labels, 1)
		assert.True(t, got == want && len(f.models["m"].labels) == 40, "delay %d: outcomes\n%s\nwant\n%s", delay, got, want)
		retries, _ := d["retries"].(float64)
		assert.False(t, retries < 2 || d["duplicates"].(float64) < 1, "delay %d: %v retries, %v duplicates", delay, d["retries"], d["duplicates"])
		f = served(t)
		f.fault = func(call string, n int, done bool) error {
			if call == "observe" && n == 3 && !done {
				clear(f.models["m"].predictions)
			}
			return nil
		}
		document(t, 0, args...)
		got, want = read(t, out), wantOutcomes(labels, 1)
		assert.Equal(t, want, got, "delay %d, lost predictions: outcomes", delay)
	}
}

// A replay that lost its server, or was interrupted, goes on with --offset. The model sees the calls of a replay that was
// not stopped.
func TestDelayContinues(t *testing.T) {
	const rows = 30
	for _, delay := range []int{0, 6} {
		for _, interrupt := range []bool{false, true} {
			f := served(t)
			ctx, cancel := context.WithCancel(t.Context())
			f.fault = func(call string, n int, done bool) error {
				switch {
				case call != "observe" || n < 8:
				case interrupt && n == 8 && !done:
					cancel()
				case !interrupt && (n > 8 || done):
					return status.Error(codes.Unavailable, "gone")
				}
				return nil
			}
			csv, labels := table(t, rows, false)
			args := []string{"replay", "--csv", csv, "--model", "m", "--run", "r", "--retries", "0", "--serve", "--delay", strconv.Itoa(delay), "--json"}
			r := runWith(ctx, "", args...)
			cancel()
			d := decode(t, r.out)
			next, _ := d["nextOffset"].(float64)
			if want := map[bool]int{false: 3, true: 130}[interrupt]; r.code != want || next < 7 || next != d["acknowledged"] || int(next) >= rows-delay || (d["stats"] == nil) == interrupt {
				t.Fatalf("delay %d, interrupt %v: exit code %d, %v", delay, interrupt, r.code, d)
			}
			begun, _ := d["rounds"].(float64)
			assert.False(t, interrupt && begun != next+float64(delay), "%v rounds begun and %v acknowledged: want the labels that are not due kept back", begun, next)
			if want := fmt.Sprintf("; continue with --run r --offset %v", next); !strings.Contains(r.errors, want) {
				t.Errorf("%q, want %q", r.errors, want)
			}
			f.mu.Lock()
			f.fault = nil
			f.mu.Unlock()
			out := filepath.Join(t.TempDir(), "out.csv")
			d = document(t, 0, append(args[:len(args)-1:len(args)-1], "--offset", strconv.Itoa(int(next)), "--out", out)...)
			wantOrder(t, f, late(rows, delay))
			if want := map[bool]float64{false: 1, true: 0}[interrupt]; d["duplicates"] != want || stat(d, "observations") != strconv.Itoa(rows) {
				t.Errorf("interrupt %v: %v, want %v duplicates", interrupt, d, want)
			}
			if got, want := read(t, out), wantOutcomes(labels, int(next)+1); got != want {
				t.Errorf("outcomes\n%s\nwant\n%s", got, want)
			}
		}
	}
}

// A replay stops at the round that the server rejects.
func TestDelayRejected(t *testing.T) {
	for _, delay := range []int{0, 3} {
		for _, call := range []string{"predict", "observe"} {
			f := served(t)
			f.fault = func(c string, n int, done bool) error {
				if c == call && n == 9 && !done {
					return reject(codes.Unavailable, "STORAGE_FAILED", "disk")
				}
				return nil
			}
			csv, _ := table(t, 20, false)
			d := document(t, 1, "replay", "--csv", csv, "--model", "m", "--serve", "--delay", strconv.Itoa(delay))
			want := 8
			if call == "predict" {
				want -= delay
			}
			e, _ := d["error"].(map[string]any)
			next, _ := d["nextOffset"].(float64)
			assert.True(t, int(next) == want && f.calls["observe"] <= want+1 && e["reason"] == "STORAGE_FAILED" && d["stats"] != nil, "%s: %d labels sent, %v", call, f.calls["observe"], d)
		}
	}
}

func TestDelayOfAnotherFile(t *testing.T) {
	served(t)
	csv, _ := table(t, 10, false)
	document(t, 0, "replay", "--csv", csv, "--model", "m", "--run", "r")
	other := written(t, "other.csv", strings.ReplaceAll(read(t, csv), ",5\n", ",6\n"))
	r := run(t, "replay", "--csv", other, "--model", "m", "--run", "r")
	assert.True(t, r.code == 1 && strings.Contains(r.errors, "OBSERVATION_CONFLICT") && slices.Contains(strings.Fields(r.errors), "1:"), "the same run with other features: %+v", r)
}

// build builds the server once for all tests.
var build = sync.OnceValues(func() (string, error) {
	return servertest.Program(context.Background(), "../../../..", programs)
})

// realServer starts the server until the test ends.
func realServer(t *testing.T) *child.Server {
	t.Helper()
	if os.Getenv("HINDSIGHT_E2E") == "" {
		t.Skip("make test-e2e runs it: the server program")
	}
	program, err := build()
	require.NoError(t, err)
	s, err := child.Start(t.Context(), program, "--data-dir", filepath.Join(t.TempDir(), "data"), "--grpc-address", "127.0.0.1:0", "--http-address", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, s.Stop(context.WithoutCancel(t.Context()))) })
	t.Setenv("HINDSIGHT_ADDRESS", s.GRPC)
	return s
}

// TestReplayWithTheServer creates auto from the file, and serves it while labels are late.
func TestReplayWithTheServer(t *testing.T) {
	realServer(t)
	csv, _ := table(t, 300, true)
	for _, delay := range []string{"1", "20"} {
		args := []string{"replay", "--csv", csv, "--model", "m" + delay, "--create", "{}", "--run", "r", "--delay", delay}
		d := document(t, 0, args...)
		assert.True(t, stat(d, "learner") == "auto" && d["acknowledged"] == 300.0 && stat(d, "servedLossSum") != nil, "delay %s: %v", delay, d)
		// Every id is known, and nothing is learned again.
		again := document(t, 0, args...)
		assert.True(t, again["duplicates"] == 300.0 && again["lossSum"] == d["lossSum"] && stat(again, "stateDigest") == stat(d, "stateDigest"), "delay %s: again %v", delay, again)
	}
}

// TestReplayInBatchesWithTheServer: rows that are observed in batches leave the state, the
// losses and the regret of one call after another.
func TestReplayInBatchesWithTheServer(t *testing.T) {
	realServer(t)
	csv, _ := table(t, 400, true)
	outcomes := func(id string, mode ...string) (string, map[string]any) {
		out := filepath.Join(t.TempDir(), "out.csv")
		d := document(t, 0, append([]string{"replay", "--csv", csv, "--model", id, "--create", "{}", "--run", "r", "--out", out}, mode...)...)
		return read(t, out), d
	}
	want, turn := outcomes("turn", "--serve")
	got, batches := outcomes("batches")
	if got != want || batches["lossSum"] != turn["lossSum"] || stat(batches, "stateDigest") != stat(turn, "stateDigest") || stat(batches, "regret") != stat(turn, "regret") {
		t.Errorf("in batches %v, in turn %v", batches, turn)
	}
	again, d := outcomes("batches")
	assert.True(t, again == want && d["duplicates"] == 400.0 && stat(d, "stateDigest") == stat(turn, "stateDigest"), "again %v", d)
	// Half of the rows were served by an earlier run.
	outcomes("both", "--serve", "--limit", "150")
	both, d := outcomes("both")
	assert.True(t, both == want && d["duplicates"] == 150.0 && stat(d, "stateDigest") == stat(turn, "stateDigest"), "served, then in batches %v", d)
}

// The model of predict --local --csv learns as late as the last row of --csv is asked for, and learns every row.
func TestPredictTrainsWithDelay(t *testing.T) {
	t.Setenv(actAsServer, "yes")
	t.Setenv("HINDSIGHT_ADDRESS", nowhere(t))
	const rows = 40
	var train strings.Builder
	train.WriteString("x,y\n")
	sum := 0.0
	for n := range rows {
		train.WriteString(strconv.Itoa(n%7) + "." + strconv.Itoa(n) + "," + strconv.Itoa(n) + "\n")
		sum += float64(n)
	}
	path := written(t, "train.csv", train.String())
	for _, asked := range []int{1, 5, 30} {
		r := run(t, "predict", "--local", "--server", program(t), "--train", path, "--csv", written(t, "asked.csv", "x\n"+strings.Repeat("1.5\n", asked)))
		assert.Equal(t, 0, r.code, "%d rows: %+v", asked, r)
		assert.True(t, strings.Contains(r.errors, "learned 40 rows"), "%d rows: %q", asked, r.errors)
		for n, line := range strings.Split(strings.TrimSpace(r.out), "\n")[1:] {
			assert.Equal(t, strconv.Itoa(n+1)+","+strconv.FormatFloat(sum/rows, 'g', -1, 64), line, "%d rows, want the mean of all labels", asked)
		}
	}
	r := run(t, "predict", "--local", "--server", program(t), "--train", path, "--csv", written(t, "cut.csv", "x,a,b\n1.5,1,1\n2\n"))
	note := "the table ends with line 2: what follows is left out"
	assert.True(t, r.code == 0 && strings.Count(r.out, "\n") == 2 && strings.Count(r.errors, note) == 1, "want one row and %q: %+v", note, r)
	for text, says := range map[string]string{"x\nz\n": "wrong.csv: line 2", "x\n": "wrong.csv: there is no row below the header"} {
		r := run(t, "predict", "--local", "--server", program(t), "--train", path, "--csv", written(t, "wrong.csv", text))
		assert.True(t, r.code == 2 && strings.Contains(r.errors, says) && !strings.Contains(r.errors, "learned"), "want --csv rejected before the training: %+v", r)
	}
}

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
			assert.True(t, d["batches"] == float64(f.calls["batch"]), "%v: %v", mode, d)
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
