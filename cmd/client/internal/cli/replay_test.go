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
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
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
	rate, _ := d["roundsPerSecond"].(float64)
	assert.True(t, loss == m.lossSum && rate > 0, "loss %v, want %v, %v rounds a second", d["lossSum"], m.lossSum, rate)
	// The fake is the first baseline.
	performance, _ := stat(d, "performance").(map[string]any)
	prequential, _ := performance["prequential"].(map[string]any)
	assert.Equal(t, 0.0, prequential["skill"])
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
	path := written(t, "bad.csv", "x1,x2,y\n1,2,3\n\n1,2,three\n")
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

// written writes a file and returns its path.
func written(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// serving starts a fake without a model.
func serving(t *testing.T) *fake {
	t.Helper()
	f := newFake()
	t.Setenv("HINDSIGHT_ADDRESS", f.start(t))
	return f
}

// record is a record in JSON.
func record(t *testing.T, text string) *structpb.Struct {
	t.Helper()
	s := new(structpb.Struct)
	require.NoError(t, protojson.Unmarshal([]byte(text), s))
	return s
}

// trips are rows with every kind of column, in which the classes are late, early and
// on time.
func trips(rows int) string {
	var b strings.Builder
	b.WriteString("arrival,at,rain,temp,city\n")
	for i := range rows {
		rain := []string{"yes", "no", ""}[i%3]
		fmt.Fprintf(&b, "%s,%d.3.2026 %d:30,%s,%g,%s\n", tripClass(i), 1+i%28, i%24, rain, float64(i)/2, []string{"Oslo", "Bergen, Norway", "NA"}[i%3])
	}
	return strings.ReplaceAll(b.String(), "Bergen, Norway", `"Bergen, Norway"`)
}

func tripClass(i int) string { return []string{"late", "early", "on time", "late", "late"}[i%5] }

// TestReplayRecords sends what infer says of a file as records, whatever the order of
// the columns.
func TestReplayRecords(t *testing.T) {
	const rows = 60
	for _, delay := range []string{"0", "7"} {
		f := serving(t)
		path := written(t, "trips.csv", trips(rows))
		spec := written(t, "spec.json", run(t, "infer", "--csv", path, "--target", "arrival").out)
		out := filepath.Join(t.TempDir(), "out.csv")
		args := []string{
			"replay", "--csv", path, "--target", "arrival", "--model", "trips", "--create", "@" + spec,
			"--run", "r", "--serve", "--delay", delay, "--out", out,
		}
		d := document(t, 0, args...)
		m := f.models["trips"]
		assert.True(t, d["acknowledged"] == float64(rows) && d["lossSum"] == m.lossSum && m.lossSum != 0, "%v", d)
		s := m.model.GetSpec()
		assert.True(t, s.GetDimension() == 0 && s.GetOutputs() == 0 && len(s.GetInputs()) == 4, "the spec %v", s)
		for i, want := range map[int]string{
			1: `{"at": "2026-03-01T00:30:00Z", "rain": true, "temp": 0, "city": "Oslo"}`,
			3: `{"at": "2026-03-03T02:30:00Z", "rain": null, "temp": 1, "city": null}`,
			5: `{"at": "2026-03-05T04:30:00Z", "rain": false, "temp": 2, "city": "Bergen, Norway"}`,
		} {
			got := m.outcomes["r-"+strconv.Itoa(i)].inputs
			assert.True(t, proto.Equal(got, record(t, want)), "row %d is %v, want %s", i, got, want)
		}
		lines := strings.Split(read(t, out), "\n")
		assert.True(t, lines[0] == "t,y,prediction,loss,regret" && lines[1] == "1,late,,1," && lines[3] == "3,on time,late,1," && len(lines) == rows+2, "outcomes %q", lines)
		// The same rows with their columns in another order are the same calls.
		again := written(t, "again.csv", turned(t, trips(rows)))
		d = document(t, 0, "replay", "--csv", again, "--target", "arrival", "--model", "trips", "--run", "r", "--serve")
		assert.True(t, d["duplicates"] == float64(rows), "%v", d)
	}
}

// turned has the last column first.
func turned(t *testing.T, text string) string {
	t.Helper()
	lines := strings.Split(strings.TrimSpace(text), "\n")
	for i, line := range lines {
		at := strings.LastIndexByte(line, ',')
		if strings.HasSuffix(line, `"`) {
			at = strings.LastIndex(line, `,"`)
		}
		lines[i] = line[at+1:] + "," + line[:at]
	}
	return strings.Join(lines, "\n") + "\n"
}

// TestReplayRecordsAfterLoss sends the records again to a server that lost the
// predictions.
func TestReplayRecordsAfterLoss(t *testing.T) {
	f := serving(t)
	f.fault = func(call string, n int, done bool) error {
		switch {
		case call == "observe" && n == 3 && !done:
			clear(f.models["m"].predictions)
		case call == "observe" && n == 9 && done:
			return status.Error(codes.Unavailable, "lost")
		}
		return nil
	}
	path := written(t, "trips.csv", trips(30))
	d := document(t, 0, "replay", "--csv", path, "--target", "arrival", "--model", "m", "--serve",
		"--create", run(t, "infer", "--csv", path, "--target", "arrival").out)
	classes := f.models["m"].classes
	assert.True(t, d["acknowledged"] == 30.0 && len(classes) == 30, "%v, %q", d, classes)
	for i, class := range f.models["m"].classes {
		assert.Equal(t, tripClass(i), class, i+1)
	}
}

// TestReplayClassesOfFeatures takes vectors through a classifier.
func TestReplayClassesOfFeatures(t *testing.T) {
	f := serving(t)
	path := written(t, "rows.csv", "x1,kind,x2\n1,up,5\n2,down,6\n3, up ,7\n")
	document(t, 0, "replay", "--csv", path, "--target", "kind", "--model", "m", "--run", "r", "--create", `{"classes": {}}`)
	m := f.models["m"]
	want := map[float64]string{1: "up", 2: "down", 3: "up"}
	for id, o := range m.outcomes {
		x := o.features
		assert.True(t, o.class == want[x[0]] && x[1] == x[0]+4, "%s: %q of %v", id, o.class, x)
	}
	assert.True(t, len(m.outcomes) == 3 && m.model.GetSpec().GetDimension() == 2, "%d outcomes, %v", len(m.outcomes), m.model.GetSpec())
}

// TestReplayWithoutLabels predicts rows without a label, observes the others, and counts
// both. What infer leaves out is left out.
func TestReplayWithoutLabels(t *testing.T) {
	var b strings.Builder
	b.WriteString("order id;price;share;y\n")
	for i := range 100 {
		label := fmt.Sprintf("%d,5", i)
		if i%4 == 1 {
			label = []string{"", "NA", "inf"}[i%3]
		}
		fmt.Fprintf(&b, "order %d;$%d,25;%d%%;%s\n", i, i, i, label)
	}
	path := written(t, "orders.csv", b.String())
	inferred := run(t, "infer", "--csv", path)
	require.True(t, inferred.code == 0 && strings.Contains(inferred.errors, "25 rows have no label: replay predicts them"), "%+v", inferred)
	for _, args := range [][]string{nil, {"--serve"}, {"--delay", "3"}, {"--delimiter", ";"}} {
		f := serving(t)
		args = append([]string{"replay", "--csv", path, "--model", "m", "--run", "r", "--create", inferred.out}, args...)
		r := run(t, args...)
		if r.code != 0 || !strings.Contains(r.errors, "order id is left out: most cells do not repeat another") ||
			!strings.Contains(r.out, "without a label") || strings.Contains(r.out, "next offset") {
			t.Errorf("%v: %+v", args, r)
		}
		d := document(t, 0, append(args[:len(args):len(args)], "--model", "m2")...)
		// Two runs. Batches ask for the predictions of rows without a label alone.
		calls := 200
		_, batches := d["batches"]
		if batches {
			calls = 50
		}
		if d["rounds"] != 100.0 || d["acknowledged"] != 75.0 || d["unlabelled"] != 25.0 || d["nextOffset"] != 100.0 || f.calls["predict"] != calls {
			t.Errorf("%v: %v, %d predictions", args, d, f.calls["predict"])
		}
		for id, o := range f.models["m"].outcomes {
			inputs := o.inputs.GetFields()
			if !batches {
				inputs = f.models["m"].predictions[id].inputs.GetFields()
			}
			price := inputs["price"].GetNumberValue()
			assert.True(t, price == o.label-0.25 && inputs["share"].GetNumberValue() == o.label-0.5, "%s: label %v of %v", id, o.label, inputs)
		}
	}
	r := run(t, "replay", "--csv", path, "--model", "m", "--delimiter", ";;")
	assert.True(t, r.code == 2 && strings.Contains(r.errors, "want one character"), "%+v", r)
}
