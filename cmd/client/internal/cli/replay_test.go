package cli_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// table writes a CSV file of two features and a label, gzipped or not.
func table(t *testing.T, rows int, zipped bool) (path string, labels []float64) {
	t.Helper()
	rng := rand.New(rand.NewPCG(1, 2))
	var b bytes.Buffer
	b.WriteString("x1,y,x2\n")
	for i := range rows {
		y := math.Round(rng.NormFloat64()*1e6) / 1e6
		labels = append(labels, y)
		fmt.Fprintf(&b, "%d,%s,5\n", i, strconv.FormatFloat(y, 'g', -1, 64))
	}
	if zipped {
		var z bytes.Buffer
		w := gzip.NewWriter(&z)
		if _, err := w.Write(b.Bytes()); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		b = z
	}
	path = filepath.Join(t.TempDir(), "data")
	if err := os.WriteFile(path, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return path, labels
}

func read(t *testing.T, path string) string {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// wantOutcomes is the content of --out if the labels were learned in order. It
// begins with round first.
func wantOutcomes(labels []float64, first int) string {
	m := &fakeModel{}
	var b strings.Builder
	b.WriteString("t,y,prediction,loss,regret\n")
	for t, y := range labels {
		prediction := m.mean()
		loss := (y - prediction) * (y - prediction)
		m.lossSum += loss
		m.labels = append(m.labels, y)
		if t+1 >= first {
			fmt.Fprintf(&b, "%d,%s,%s,%s,%s\n", t+1, exact(y), exact(prediction), exact(loss), exact(m.regret()))
		}
	}
	return b.String()
}

func exact(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }

func TestReplayInTurn(t *testing.T) {
	const rows = 200
	f := served(t)
	csv, labels := table(t, rows, true)
	out := filepath.Join(t.TempDir(), "out.csv")
	d := document(t, 0, "replay", "--csv", csv, "--model", "m", "--serve", "--out", out)
	if got, want := read(t, out), wantOutcomes(labels, 1); got != want {
		t.Errorf("outcomes\n%.300s\nwant\n%.300s", got, want)
	}
	m := f.models["m"]
	if d["rounds"] != 200.0 || d["acknowledged"] != 200.0 || d["nextOffset"] != 200.0 || d["duplicates"] != 0.0 {
		t.Errorf("%v", d)
	}
	if loss, _ := d["lossSum"].(float64); loss != m.lossSum || !near(number(t, d, "meanLoss"), (loss-labels[0]*labels[0])/(rows-1)) {
		t.Errorf("loss %v, want %v, of the mean %v", d["lossSum"], m.lossSum, d["meanLoss"])
	}
	for _, key := range []string{"predictP50Seconds", "predictP99Seconds", "observeP50Seconds", "observeP99Seconds", "roundsPerSecond"} {
		if v, _ := d[key].(float64); !(v > 0) {
			t.Errorf("%s = %v", key, d[key])
		}
	}
	// The fake is the first baseline.
	if d["skill"] != 0.0 || d["verdict"] != "as good as trivial" || d["servedSkill"] == nil || d["servedVerdict"] == nil {
		t.Errorf("skill %v, %v", d["skill"], d["verdict"])
	}
	stats, _ := d["stats"].(map[string]any)
	if stats["regret"] != m.regret() || stats["regretBound"] != m.regret()+1 || stats["certificateOk"] != true || stats["features"] != 1.0 {
		t.Errorf("statistics %v", stats)
	}
}

// stat returns one of the statistics of a document.
func stat(d map[string]any, name string) any {
	stats, _ := d["stats"].(map[string]any)
	return stats[name]
}

// TestReplayCreates fills in the dimension of the spec. It accepts a model that
// exists.
func TestReplayCreates(t *testing.T) {
	f := served(t)
	csv, labels := table(t, 20, false)
	out := filepath.Join(t.TempDir(), "out.csv")
	args := []string{"replay", "--csv", csv, "--model", "new", "--create", "{}", "--run", "r5"}
	document(t, 0, append(args, "--limit", "12")...)
	d := document(t, 0, append(args, "--offset", "10", "--out", out)...)
	if d["rounds"] != 10.0 || d["duplicates"] != 2.0 || d["nextOffset"] != 20.0 || stat(d, "observations") != "20" {
		t.Errorf("continued %v", d)
	}
	if got, want := read(t, out), wantOutcomes(labels, 11); got != want {
		t.Errorf("outcomes\n%s\nwant\n%s", got, want)
	}
	if got := f.models["new"].model.GetSpec(); got.GetDimension() != 2 || got.GetOutputs() != 1 || got.GetLearner() != nil {
		t.Errorf("spec %v", got)
	}
}

// TestReplayRetries loses calls before and after their effect.
func TestReplayRetries(t *testing.T) {
	f := served(t)
	f.fault = func(call string, n int, done bool) error {
		if call == "predict" && (n == 8 && done || n == 20 && !done) || call == "observe" && (n == 4 && !done || n == 16 && done) {
			return status.Error(codes.Unavailable, "lost")
		}
		return nil
	}
	csv, labels := table(t, 40, false)
	out := filepath.Join(t.TempDir(), "out.csv")
	d := document(t, 0, "replay", "--csv", csv, "--model", "m", "--serve", "--out", out)
	if got, want := read(t, out), wantOutcomes(labels, 1); got != want {
		t.Errorf("outcomes\n%s\nwant\n%s", got, want)
	}
	if n := len(f.models["m"].labels); n != 40 {
		t.Errorf("%d learned, want 40", n)
	}
	if retries, _ := d["retries"].(float64); retries < 2 || d["duplicates"].(float64) < 1 {
		t.Errorf("%v retries, %v duplicates", d["retries"], d["duplicates"])
	}
}

// TestReplayLateLabel sends the features to a server that lost the predictions.
func TestReplayLateLabel(t *testing.T) {
	f := served(t)
	f.fault = func(call string, n int, done bool) error {
		if call == "observe" && n == 3 && !done {
			clear(f.models["m"].predictions)
		}
		return nil
	}
	csv, labels := table(t, 10, false)
	out := filepath.Join(t.TempDir(), "out.csv")
	document(t, 0, "replay", "--csv", csv, "--model", "m", "--serve", "--out", out)
	if got, want := read(t, out), wantOutcomes(labels, 1); got != want {
		t.Errorf("outcomes\n%s\nwant\n%s", got, want)
	}
}

// TestReplayGone continues a replay after its server was lost.
func TestReplayGone(t *testing.T) {
	f := served(t)
	f.fault = func(call string, n int, done bool) error {
		if call == "observe" && n >= 8 && (n > 8 || done) {
			return status.Error(codes.Unavailable, "gone")
		}
		return nil
	}
	csv, labels := table(t, 20, false)
	args := []string{"replay", "--csv", csv, "--model", "m", "--serve", "--run", "r0", "--retries", "1"}
	d := document(t, 3, args...)
	if d["acknowledged"] != 7.0 || d["nextOffset"] != 7.0 || d["stats"] != nil {
		t.Fatalf("%v", d)
	}
	f.mu.Lock()
	f.fault = nil
	f.mu.Unlock()
	out := filepath.Join(t.TempDir(), "out.csv")
	d = document(t, 0, append(args, "--offset", "7", "--out", out)...)
	if d["duplicates"] != 1.0 || stat(d, "observations") != "20" {
		t.Errorf("continued %v", d)
	}
	if got, want := read(t, out), wantOutcomes(labels, 8); got != want {
		t.Errorf("outcomes\n%s\nwant\n%s", got, want)
	}
	r := run(t, "--address", nowhere(t), "replay", "--csv", "/dev/null", "--model", "m")
	if r.code != 2 {
		t.Errorf("an empty file: %+v", r)
	}
}

// TestReplayRefused stops at the round that the server refuses.
func TestReplayRefused(t *testing.T) {
	for _, call := range []string{"predict", "observe"} {
		f := served(t)
		f.fault = func(c string, n int, done bool) error {
			if c == call && n == 6 && !done {
				return refuse(codes.Unavailable, "STORAGE_FAILED", "disk")
			}
			return nil
		}
		csv, _ := table(t, 20, false)
		d := document(t, 1, "replay", "--csv", csv, "--model", "m", "--serve")
		e, _ := d["error"].(map[string]any)
		if d["nextOffset"] != 5.0 || e["reason"] != "STORAGE_FAILED" || d["stats"] == nil {
			t.Errorf("%s: %v", call, d)
		}
	}
}

// TestReplayBadRow finds a wrong row before the model is created.
func TestReplayBadRow(t *testing.T) {
	f := served(t)
	path := filepath.Join(t.TempDir(), "bad.csv")
	if err := os.WriteFile(path, []byte("x1,x2,y\n1,2,3\n\n1,2,three\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	r := run(t, "replay", "--csv", path, "--model", "new", "--create", "{}", "--serve")
	if r.code != 2 || !strings.Contains(r.errors, `line 4, column 3 (y): "three" is not a number`) || r.out != "" {
		t.Errorf("%+v", r)
	}
	if f.models["new"] != nil || f.calls["predict"] > 0 {
		t.Error("the model was created, or learned")
	}
	r = run(t, "replay", "--csv", path, "--model", "m", "--limit", "1", "--out", filepath.Join(filepath.Dir(path), ".", "bad.csv"))
	if text, err := os.ReadFile(path); r.code != 2 || !strings.Contains(r.errors, "is the file of --csv") || len(text) == 0 {
		t.Errorf("--out over --csv: %+v, %q, %v", r, text, err)
	}
	empty := written(t, "empty.csv", "x1,y\n")
	r = run(t, "replay", "--csv", empty, "--model", "new", "--create", "{}")
	if r.code != 2 || !strings.Contains(r.errors, "empty.csv: there is no row below the header") || f.models["new"] != nil {
		t.Errorf("header alone: %+v", r)
	}
	// Rows that are not taken may be wrong.
	document(t, 0, "replay", "--csv", path, "--model", "m", "--limit", "1")
}

func TestInterrupt(t *testing.T) {
	f := served(t)
	ctx, cancel := context.WithCancel(t.Context())
	f.fault = func(call string, n int, done bool) error {
		if call == "observe" && n == 5 && !done {
			cancel()
		}
		return nil
	}
	csv, _ := table(t, 20, false)
	r := runWith(ctx, "", "replay", "--csv", csv, "--model", "m", "--serve", "--json")
	d := decode(t, r.out)
	n, _ := d["acknowledged"].(float64)
	if r.code != 130 || n < 5 || n > 9 || n != d["rounds"] || d["stats"] == nil {
		t.Errorf("exit code %d, %v", r.code, d)
	}
	if n != float64(len(f.models["m"].labels)) {
		t.Errorf("%v acknowledged, %d learned", n, len(f.models["m"].labels))
	}
	if want := fmt.Sprintf("; continue with --run %v --offset %v: interrupted\n", d["run"], d["nextOffset"]); !strings.HasSuffix(r.errors, want) {
		t.Errorf("%q, want it to end with %q", r.errors, want)
	}
}
