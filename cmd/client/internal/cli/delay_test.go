package cli_test

import (
	"context"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
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

func TestDelay(t *testing.T) {
	const rows = 30
	for _, delay := range []int{1, 3, 10, rows - 1, rows, 100} {
		f := served(t)
		csv, labels := table(t, rows, false)
		out := filepath.Join(t.TempDir(), "out.csv")
		d := document(t, 0, "replay", "--csv", csv, "--model", "m", "--run", "r", "--out", out,
			"--delay", strconv.Itoa(delay))
		wantOrder(t, f, late(rows, delay))
		if got, want := read(t, out), wantOutcomes(labels, 1); got != want {
			t.Errorf("delay %d: outcomes\n%s\nwant\n%s", delay, got, want)
		}
		if d["delay"] != float64(delay) || d["rounds"] != float64(rows) || d["acknowledged"] != float64(rows) || d["nextOffset"] != float64(rows) {
			t.Errorf("delay %d: %v", delay, d)
		}
		// What was served had learned from fewer labels.
		want := 0.0
		for i, y := range labels {
			known := &fakeModel{labels: labels[:max(i-delay, 0)]}
			want += square(y - known.mean())
		}
		if got, _ := stat(d, "servedLossSum").(float64); got < want*(1-1e-12) || got > want*(1+1e-12) {
			t.Errorf("delay %d: served loss %v, want %v", delay, got, want)
		}
	}
}

func TestNoDelay(t *testing.T) {
	f := served(t)
	csv, _ := table(t, 10, false)
	document(t, 0, "replay", "--csv", csv, "--model", "m", "--run", "r", "--serve")
	wantOrder(t, f, late(10, 0))
}

// TestDelayRetries loses calls before and after their effect.
func TestDelayRetries(t *testing.T) {
	for _, delay := range []int{1, 12} {
		f := served(t)
		f.fault = func(call string, n int, done bool) error {
			if call == "predict" && (n == 8 && done || n == 20 && !done) || call == "observe" && (n == 4 && !done || n == 16 && done) {
				return status.Error(codes.Unavailable, "lost")
			}
			return nil
		}
		csv, labels := table(t, 40, false)
		out := filepath.Join(t.TempDir(), "out.csv")
		d := document(t, 0, "replay", "--csv", csv, "--model", "m", "--run", "r", "--out", out,
			"--delay", strconv.Itoa(delay))
		wantOrder(t, f, late(40, delay))
		if got, want := read(t, out), wantOutcomes(labels, 1); got != want {
			t.Errorf("delay %d: outcomes\n%s\nwant\n%s", delay, got, want)
		}
		if retries, _ := d["retries"].(float64); retries < 2 || d["duplicates"].(float64) < 1 {
			t.Errorf("delay %d: %v retries, %v duplicates", delay, d["retries"], d["duplicates"])
		}
	}
}

// TestDelayContinues stops a replay and continues it. The model sees the calls of
// a replay that was not stopped.
func TestDelayContinues(t *testing.T) {
	const rows, delay = 30, 6
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
		args := []string{"replay", "--csv", csv, "--model", "m", "--run", "r", "--retries", "0", "--delay", strconv.Itoa(delay), "--json"}
		r := runWith(ctx, "", args...)
		cancel()
		d := decode(t, r.out)
		next, _ := d["nextOffset"].(float64)
		if want := map[bool]int{false: 3, true: 130}[interrupt]; r.code != want || next < 7 || next != d["acknowledged"] || next >= rows-delay {
			t.Fatalf("interrupt %v: exit code %d, %v", interrupt, r.code, d)
		}
		if begun, _ := d["rounds"].(float64); interrupt && begun != next+delay {
			t.Errorf("%v rounds begun and %v acknowledged: want the labels that are not due kept back", begun, next)
		}
		f.mu.Lock()
		f.fault = nil
		f.mu.Unlock()
		out := filepath.Join(t.TempDir(), "out.csv")
		d = document(t, 0, append(args[:len(args)-1:len(args)-1], "--offset", strconv.Itoa(int(next)), "--out", out)...)
		wantOrder(t, f, late(rows, delay))
		if want := map[bool]float64{false: 1, true: 0}[interrupt]; d["duplicates"] != want {
			t.Errorf("interrupt %v: %v duplicates, want %v", interrupt, d["duplicates"], want)
		}
		if got, want := read(t, out), wantOutcomes(labels, int(next)+1); got != want {
			t.Errorf("outcomes\n%s\nwant\n%s", got, want)
		}
	}
}

// TestDelayRefused stops at the round that the server refuses.
func TestDelayRefused(t *testing.T) {
	for _, call := range []string{"predict", "observe"} {
		f := served(t)
		f.fault = func(c string, n int, done bool) error {
			if c == call && n == 9 && !done {
				return refuse(codes.Unavailable, "STORAGE_FAILED", "disk")
			}
			return nil
		}
		csv, _ := table(t, 20, false)
		d := document(t, 1, "replay", "--csv", csv, "--model", "m", "--delay", "3")
		want := map[string]int{"predict": 5, "observe": 8}[call]
		next, _ := d["nextOffset"].(float64)
		if int(next) != want || f.calls["observe"] > want+1 {
			t.Errorf("%s: %d labels sent, %v", call, f.calls["observe"], d)
		}
	}
}

// TestDelayOfLostPredictions sends the features to a server that lost the
// predictions.
func TestDelayOfLostPredictions(t *testing.T) {
	f := served(t)
	f.fault = func(call string, n int, done bool) error {
		if call == "observe" && n == 3 && !done {
			clear(f.models["m"].predictions)
		}
		return nil
	}
	csv, labels := table(t, 10, false)
	out := filepath.Join(t.TempDir(), "out.csv")
	document(t, 0, "replay", "--csv", csv, "--model", "m", "--delay", "4", "--out", out)
	if got, want := read(t, out), wantOutcomes(labels, 1); got != want {
		t.Errorf("outcomes\n%s\nwant\n%s", got, want)
	}
}

func TestDelayOfAnotherFile(t *testing.T) {
	served(t)
	csv, _ := table(t, 10, false)
	document(t, 0, "replay", "--csv", csv, "--model", "m", "--run", "r")
	other := written(t, "other.csv", strings.ReplaceAll(read(t, csv), ",5\n", ",6\n"))
	r := run(t, "replay", "--csv", other, "--model", "m", "--run", "r")
	if r.code != 1 || !strings.Contains(r.errors, "OBSERVATION_CONFLICT") || !slices.Contains(strings.Fields(r.errors), "1:") {
		t.Errorf("the same run with other features: %+v", r)
	}
}
