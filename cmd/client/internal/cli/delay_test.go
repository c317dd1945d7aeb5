package cli_test

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
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
