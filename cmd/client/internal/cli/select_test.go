package cli_test

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

func TestReplayChosenColumns(t *testing.T) {
	f := served(t)
	path := written(t, "rows.csv", "id,x1,y,x2\n7,1,3,2\n8,4,6,5\n")
	for i, args := range [][]string{{"--features", "x2,x1"}, {"--ignore", "id"}} {
		run := []string{"a", "b"}[i]
		document(t, 0, append([]string{"replay", "--csv", path, "--model", "m", "--run", run}, args...)...)
		assert.Equal(t, [][]float64{{2, 1}, {1, 2}}[i], f.models["m"].outcomes[run+"-1"].features, args)
	}
}

func TestReplayStandardInput(t *testing.T) {
	f := served(t)
	dir := temporary(t)
	r := runWith(t.Context(), "x1,x2,y\n1,2,3\n4,5,6\n", "replay", "--csv", "-", "--model", "m", "--json")
	d := decode(t, r.out)
	assert.True(t, r.code == 0 && d["acknowledged"] == 2.0 && len(f.models["m"].labels) == 2, "%+v", r)
	r = runWith(t.Context(), "x1,y\n1,2\n3,a\n", "replay", "--csv", "-", "--model", "m")
	assert.True(t, r.code == 2 && strings.Contains(r.errors, "hindsight: standard input: line 3"), "%+v", r)
	r = runWith(t.Context(), "", "replay", "--csv", "-", "--model", "m")
	assert.Equal(t, "hindsight: standard input: the file is empty\n", r.errors, "%+v", r)
	assert.True(t, isEmpty(t, dir), "the temporary file is left")
}

// TestDelayBy sends labels by their times. The times are numbers, and times of day.
func TestDelayBy(t *testing.T) {
	rows := []struct{ at, paid int }{{1, 4}, {2, 3}, {3, 9}, {4, 4}, {4, 20}, {6, 7}}
	// At 3 the label of the second row is there, at 4 that of the first. The fourth is there
	// at once, but its own prediction comes first.
	want := []string{
		"predict r-1", "predict r-2", "observe r-2", "predict r-3", "observe r-1", "predict r-4", "observe r-4",
		"predict r-5", "predict r-6", "observe r-6", "observe r-3", "observe r-5",
	}
	for name, write := range map[string]func(int) string{
		"numbers": strconv.Itoa,
		"times":   func(v int) string { return fmt.Sprintf("2026-11-21 %02d:30", v) },
	} {
		var text strings.Builder
		text.WriteString("ordered,x1,paid,x2,y\n")
		for i, row := range rows {
			fmt.Fprintf(&text, "%s,%d,%s,1,%d\n", write(row.at), i, write(row.paid), i)
		}
		path := written(t, "rows.csv", text.String())
		f := served(t)
		args := []string{"replay", "--csv", path, "--model", "m", "--run", "r", "--time", "ordered", "--delay-by", "paid"}
		d := document(t, 0, args...)
		wantOrder(t, f, want)
		assert.True(t, d["servedRounds"] == 6.0 && d["servedMeanLoss"] != nil && d["nextOffset"] == 6.0, "%s: %v", name, d)
		// Continued at any row, it makes the same calls.
		for _, offset := range []string{"0", "2"} {
			d := document(t, 0, append(args, "--offset", offset)...)
			assert.True(t, d["duplicates"] == d["rounds"], "%s, from %s again: %v", name, offset, d)
		}
		wantOrder(t, f, want)
	}
}

// TestRunAgain gives an interrupted command again: no row is learned twice, and the
// account is that of the whole run.
func TestRunAgain(t *testing.T) {
	for _, delay := range []string{"0", "3"} {
		f := served(t)
		f.fault = func(call string, n int, done bool) error {
			if call == "observe" && n >= 8 && (n > 8 || done) {
				return status.Error(codes.Unavailable, "gone")
			}
			return nil
		}
		csv, labels := table(t, 20, false)
		out := filepath.Join(t.TempDir(), "out.csv")
		args := []string{
			"replay", "--csv", csv, "--model", "m", "--serve", "--delay", delay,
			"--run", "r", "--retries", "0", "--out", out,
		}
		r := run(t, args...)
		if r.code != 3 || !strings.Contains(r.out, "UNFINISHED") || !strings.Contains(r.out, "7 of 20 observations") ||
			!strings.Contains(r.out, "continue with --run r --offset 7") {
			t.Fatalf("%+v", r)
		}
		f.mu.Lock()
		f.fault = nil
		f.mu.Unlock()
		d := document(t, 0, args...)
		assert.True(t, d["duplicates"] == 8.0 && d["acknowledged"] == 20.0 && d["unfinished"] == false && len(f.models["m"].labels) == 20, "again: %v", d)
		got, want := read(t, out), wantOutcomes(labels, 1)
		assert.Equal(t, want, got, "outcomes")
	}
}

// A run that learned nothing prints no table of zeros.
func TestNothingLearned(t *testing.T) {
	f := served(t)
	f.fault = func(string, int, bool) error { return status.Error(codes.Unavailable, "gone") }
	csv, _ := table(t, 5, false)
	r := run(t, "replay", "--csv", csv, "--model", "m", "--retries", "0")
	assert.True(t, r.code == 3 && r.out == "" && strings.Contains(r.errors, "unfinished: 0 of 5 observations acknowledged; continue with --run"), "%+v", r)
	d := document(t, 3, "replay", "--csv", csv, "--model", "m", "--retries", "0")
	assert.True(t, d["unfinished"] == true && d["error"] != nil, "%v", d)
}
