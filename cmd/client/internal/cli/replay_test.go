package cli_test

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
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
		_, err := w.Write(b.Bytes())
		require.NoError(t, err)
		require.NoError(t, w.Close())
		b = z
	}
	path = filepath.Join(t.TempDir(), "data")
	require.NoError(t, os.WriteFile(path, b.Bytes(), 0o600))
	return path, labels
}

func read(t *testing.T, path string) string {
	t.Helper()
	raw, err := os.ReadFile(path)
	require.NoError(t, err)
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
	got, want := read(t, out), wantOutcomes(labels, 1)
	assert.Equal(t, want, got, "outcomes")
	m := f.models["m"]
	assert.True(t, d["rounds"] == 200.0 && d["acknowledged"] == 200.0 && d["nextOffset"] == 200.0 && d["duplicates"] == 0.0, "%v", d)
	loss, _ := d["lossSum"].(float64)
	assert.True(t, loss == m.lossSum && near(number(t, d, "meanLoss"), (loss-labels[0]*labels[0])/(rows-1)), "loss %v, want %v, of the mean %v", d["lossSum"], m.lossSum, d["meanLoss"])
	for _, key := range []string{"predictP50Seconds", "predictP99Seconds", "observeP50Seconds", "observeP99Seconds", "roundsPerSecond"} {
		v, _ := d[key].(float64)
		assert.True(t, v > 0, "%s = %v", key, d[key])
	}
	// The fake is the first baseline.
	assert.True(t, d["skill"] == 0.0 && d["verdict"] == "as good as trivial" && d["servedSkill"] != nil && d["servedVerdict"] != nil, "skill %v, %v", d["skill"], d["verdict"])
	stats, _ := d["stats"].(map[string]any)
	assert.True(t, stats["regret"] == m.regret() && stats["regretBound"] == m.regret()+1 && stats["certificateOk"] == true && stats["features"] == 1.0, "statistics %v", stats)
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
	assert.True(t, d["rounds"] == 10.0 && d["duplicates"] == 2.0 && d["nextOffset"] == 20.0 && stat(d, "observations") == "20", "continued %v", d)
	if got, want := read(t, out), wantOutcomes(labels, 11); got != want {
		t.Errorf("outcomes\n%s\nwant\n%s", got, want)
	}
	got := f.models["new"].model.GetSpec()
	assert.True(t, got.GetDimension() == 2 && got.GetOutputs() == 1 && got.GetLearner() == nil, "spec %v", got)
}

// TestReplayBadRow finds a wrong row before the model is created.
func TestReplayBadRow(t *testing.T) {
	f := served(t)
	path := filepath.Join(t.TempDir(), "bad.csv")
	require.NoError(t, os.WriteFile(path, []byte("x1,x2,y\n1,2,3\n\n1,2,three\n"), 0o600))
	r := run(t, "replay", "--csv", path, "--model", "new", "--create", "{}", "--serve")
	assert.True(t, r.code == 2 && strings.Contains(r.errors, `line 4, column 3 (y): "three" is not a number`) && r.out == "", "%+v", r)
	assert.True(t, f.models["new"] == nil && f.calls["predict"] <= 0, "the model was created, or learned")
	r = run(t, "replay", "--csv", path, "--model", "m", "--limit", "1", "--out", filepath.Join(filepath.Dir(path), ".", "bad.csv"))
	text, err := os.ReadFile(path)
	assert.True(t, r.code == 2 && strings.Contains(r.errors, "is the file of --csv") && len(text) != 0, "--out over --csv: %+v, %q, %v", r, text, err)
	empty := written(t, "empty.csv", "x1,y\n")
	r = run(t, "replay", "--csv", empty, "--model", "new", "--create", "{}")
	assert.True(t, r.code == 2 && strings.Contains(r.errors, "empty.csv: there is no row below the header") && f.models["new"] == nil, "header alone: %+v", r)
	// Rows that are not taken may be wrong.
	document(t, 0, "replay", "--csv", path, "--model", "m", "--limit", "1")
}
