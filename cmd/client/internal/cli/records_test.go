package cli_test

import (
	"fmt"
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
