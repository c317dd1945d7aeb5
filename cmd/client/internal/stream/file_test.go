package stream_test

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protojson"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
	"hindsight/cmd/client/internal/stream"
)

const small = "x1,y,x2\n1,10,5\n3,20,5\n2,30,5\n"

func write(t *testing.T, name string, data []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(path, data, 0o600))
	return path
}

func zipped(t *testing.T, text string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, err := io.WriteString(w, text)
	require.NoError(t, errors.Join(err, w.Close()))
	return b.Bytes()
}

// takeFile returns the features and the label of every row as text.
func takeFile(t *testing.T, path string, o stream.FileOptions) string {
	t.Helper()
	o.Target = "y"
	s, err := stream.OpenFile(path, o)
	require.NoError(t, err)
	defer func() { assert.NoError(t, s.Close()) }()
	var out []string
	for {
		r, err := s.Next()
		if errors.Is(err, io.EOF) {
			return strings.Join(out, " ")
		}
		require.NoError(t, err)
		out = append(out, fmt.Sprint(r.Features, r.Labels[0]))
	}
}

func TestRows(t *testing.T) {
	plain := write(t, "a.csv", []byte(small))
	// Gzip is recognised by the content, not by the name.
	packed := write(t, "b.csv", zipped(t, small))
	for _, c := range []struct {
		o    stream.FileOptions
		want string
	}{
		{stream.FileOptions{}, "[1 5] 10 [3 5] 20 [2 5] 30"},
		{stream.FileOptions{Offset: 1, Limit: 1}, "[3 5] 20"},
		{stream.FileOptions{Offset: 3}, ""},
	} {
		for _, path := range []string{plain, packed} {
			if got := takeFile(t, path, c.o); got != c.want {
				t.Errorf("%+v of %s: %s, want %s", c.o, filepath.Base(path), got, c.want)
			}
		}
	}
}

func TestSeveralTargets(t *testing.T) {
	const text = "y2,x1,y1,other\n1,2,3,4\n5,6,7,8\n"
	path := write(t, "a.csv", []byte(text))
	for _, c := range []struct {
		o         stream.FileOptions
		want      string
		dimension int
		outputs   int
	}{
		{stream.FileOptions{Target: "y"}, "[2 4] [3 1] [6 8] [7 5]", 2, 2},
		{stream.FileOptions{Target: "y2, y1"}, "[2 4] [1 3] [6 8] [5 7]", 2, 2},
		{stream.FileOptions{Target: "other,y1,y2"}, "[2] [4 3 1] [6] [8 7 5]", 1, 3},
		{stream.FileOptions{Target: "other,y2,y1", Limit: 1}, "[2] [4 1 3]", 1, 3},
	} {
		s, err := stream.OpenFile(path, c.o)
		require.NoError(t, err)
		var rows []string
		for {
			r, err := s.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			require.NoError(t, err)
			rows = append(rows, fmt.Sprint(r.Features, r.Labels))
		}
		if got := strings.Join(rows, " "); c.want != "" && got != c.want || len(rows) == 0 || s.Dimension() != c.dimension || s.Outputs() != c.outputs {
			t.Errorf("%+v: %s of %d features and %d outputs", c.o, got, s.Dimension(), s.Outputs())
		}
		assert.NoError(t, s.Close())
	}
	for target, says := range map[string]string{
		"y1": "y2 looks like a target", "y1,y3": `"y3"`, "y1,y2,y1": "named twice", "other,x1,y1,y2": "no feature",
	} {
		_, err := stream.OpenFile(path, stream.FileOptions{Target: target})
		assert.True(t, err != nil && strings.Contains(err.Error(), says), "target %s: %v", target, err)
	}
}

func TestNotesOfFile(t *testing.T) {
	file, err := stream.OpenFile(write(t, "a.csv", []byte("a,b,y\n1,2,3\n4\n")), stream.FileOptions{Target: "y"})
	require.NoError(t, err)
	defer func() { assert.NoError(t, file.Close()) }()
	for err == nil {
		_, err = file.Next()
	}
	require.ErrorIs(t, err, io.EOF)
	assert.Equal(t, []string{"the table ends with line 2: what follows is left out"}, file.Notes())
}

// everyKind declares an input of each kind.
func everyKind(t *testing.T) []*hindsightv1.Input {
	t.Helper()
	spec := new(hindsightv1.ModelSpec)
	if err := protojson.Unmarshal([]byte(`{"inputs": [
		{"name": "n", "numeric": {}}, {"name": "b", "boolean": {}}, {"name": "c", "categorical": {}},
		{"name": "at", "time": {}}, {"name": "v", "vector": {"length": 2}}]}`), spec); err != nil {
		t.Fatal(err)
	}
	return spec.GetInputs()
}

// records are the rows of a file, until its first mistake.
func records(t *testing.T, path string, o stream.RecordOptions) (rounds []stream.Round, total int, err error) {
	t.Helper()
	s, err := stream.OpenRecords(path, o)
	if err != nil {
		return nil, 0, err
	}
	defer func() { assert.NoError(t, s.Close()) }()
	for {
		r, err := s.Next()
		if errors.Is(err, io.EOF) {
			return rounds, s.Total(), nil
		}
		if err != nil {
			return rounds, s.Total(), err
		}
		rounds = append(rounds, r)
	}
}

const threeRows = "y,v,at,b,c,n\n1,1 2,2026-11-21,yes,x,1.5\n2,3 4,,,,\n3,5 6,2026-11-22,no,y,NA\n"

func TestRecordsSkipAndEnd(t *testing.T) {
	all := make(map[float64]int)
	for offset, want := range []int{3, 2, 1, 0, 0} {
		o := stream.RecordOptions{Inputs: everyKind(t), FileOptions: stream.FileOptions{Target: "y", Offset: offset}}
		rounds, total, err := records(t, write(t, "a.csv.gz", zipped(t, threeRows)), o)
		require.True(t, err == nil && len(rounds) == want && total == want, "offset %d: %d rows of %d, %v", offset, len(rounds), total, err)
		for _, r := range rounds {
			all[r.Labels[0]]++
			assert.True(t, len(r.Inputs.GetFields()) == 5 && r.Features == nil, "%v", r)
		}
		o.Limit = 1
		rounds, total, err = records(t, write(t, "a.csv", []byte(threeRows)), o)
		assert.True(t, err == nil && len(rounds) == min(1, want) && total == len(rounds), "offset %d, limit 1: %d rows of %d, %v", offset, len(rounds), total, err)
	}
	assert.True(t, len(all) == 3 && all[1]+all[2]+all[3] == 6, "the rows %v", all)
}

func TestRecordsOfMistakes(t *testing.T) {
	for text, says := range map[string]string{
		"y,V,at,b,c,n\n":                             `no column "v", which is an input; is it "V"?`,
		"y,v,at,b,c,zzzzzz\n":                        `no column "n", which is an input`,
		"y,v,at,b,c,n,more\n1,1 2,,,,,5\n":           `column 7: "more" is neither an input nor a target: --ignore more leaves it out`,
		"y,v,at,b,c,n,an id\n1,1 2,,,,,5\n":          `--ignore 'an id' leaves it out, --ignore '*' all`,
		"y,v,at,b,c,n,\"it's,\"\n1,1 2,,,,,5\n":      `--ignore '"it'\''s,"' leaves it out`,
		"y,v,at,b,c,n\n1,one,,,,\n":                  `line 2, column 2 (v): "one" is no vector`,
		"y,v,at,b,c,n\n1,,,maybe,,\n":                `line 2, column 4 (b): "maybe" is no boolean`,
		"y,v,at,b,c,n\n1,,,,\"é\xff\",\n":            `line 2, column 5 (c)`,
		"y,v,at,b,c,n\nx,,,,,\n":                     `line 2, column 1 (y): "x" is no number`,
		"":                                           "the file is empty",
		"y,v,at,b,c,n\n1,,,,,\n\n2,,,,,,7\n3,,,,,\n": "line 4, column 7",
	} {
		o := stream.RecordOptions{Inputs: everyKind(t), FileOptions: stream.FileOptions{Target: "y"}}
		_, _, err := records(t, write(t, "a.csv", []byte(text)), o)
		assert.True(t, err != nil && strings.Contains(err.Error(), says), "%q: %v, want %s", text, err, says)
	}
	for _, o := range []stream.RecordOptions{
		{FileOptions: stream.FileOptions{Limit: -1}},
		{FileOptions: stream.FileOptions{Target: "y,c", Classes: true}},
	} {
		_, err := stream.OpenRecords(write(t, "a.csv", []byte(threeRows)), o)
		assert.Error(t, err, o)
	}
	assert.Error(t, stream.CheckHeader("/nonexistent", "y", 0), "there is a file that does not exist")
}

// Rows without a label have inputs alone, in files of features and of records.
func TestRowsWithoutALabel(t *testing.T) {
	for _, text := range []string{"x,y\n1,10\n2,NA\n3,\n4,40\n", "x;y\n1;a\n2;NA\n3;\n4;b\n"} {
		o := stream.FileOptions{Target: "y", Classes: strings.Contains(text, "a")}
		path := write(t, "a.csv", []byte(text))
		file, err := stream.OpenFile(path, o)
		require.NoError(t, err)
		labelled := make(map[float64]bool)
		for {
			r, err := file.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			require.NoError(t, err)
			labelled[r.Features[0]] = !r.Unlabelled
			has := len(r.Labels) > 0 || r.Class != ""
			assert.True(t, has != r.Unlabelled, "%+v", r)
		}
		assert.NoError(t, file.Close())
		assert.Equal(t, map[float64]bool{1: true, 2: false, 3: false, 4: true}, labelled, text)
		inputs := everyKind(t)[:1]
		inputs[0].Name = "x"
		rounds, _, err := records(t, path, stream.RecordOptions{FileOptions: o, Inputs: inputs})
		require.True(t, err == nil && len(rounds) == 4, "%d rows, %v", len(rounds), err)
		for _, r := range rounds {
			x := r.Inputs.GetFields()["x"].GetNumberValue()
			has := len(r.Labels) > 0 || r.Class != ""
			assert.True(t, has == labelled[x] && r.Unlabelled != labelled[x], "%q: %+v", text, r)
		}
	}
}

// A column that infer leaves out is left out.
func TestRecordsLeaveOut(t *testing.T) {
	var b strings.Builder
	b.WriteString("order id,empty,n,y\n")
	for i := range 100 {
		fmt.Fprintf(&b, "order %d,,%d,%d\n", i, i, i)
	}
	inputs := everyKind(t)[:1]
	s, err := stream.OpenRecords(write(t, "a.csv", []byte(b.String())), stream.RecordOptions{FileOptions: stream.FileOptions{Target: "y"}, Inputs: inputs})
	require.NoError(t, err)
	var names []string
	for _, c := range s.Noticed() {
		names = append(names, c.Name)
	}
	assert.Equal(t, []string{"order id", "empty"}, names)
	assert.NoError(t, s.Close())
}

// FuzzRecords: every row of every file is a record of all inputs and a class, or an
// error.
func FuzzRecords(f *testing.F) {
	f.Add([]byte(threeRows))
	f.Add([]byte("n,b,c,at,v,y\n1,t,\"a,b\",21.11.2026 18:00,\"[1,2]\",z\n"))
	f.Add([]byte{0x1f, 0x8b, 8})
	path := filepath.Join(f.TempDir(), "f")
	f.Fuzz(func(t *testing.T, data []byte) {
		require.NoError(t, os.WriteFile(path, data, 0o600))
		o := stream.RecordOptions{Inputs: everyKind(t), FileOptions: stream.FileOptions{Target: "y", Classes: true, Limit: 1000}}
		rounds, _, err := records(t, path, o)
		for _, r := range rounds {
			require.True(t, len(r.Inputs.GetFields()) == 5 && (r.Class == "") == r.Unlabelled, "%v, %v", r, err)
		}
	})
}

func take(t *testing.T, seed uint64) (all []stream.Round) {
	t.Helper()
	s := stream.NewDrifting(300, 3, seed)
	for {
		r, err := s.Next()
		if errors.Is(err, io.EOF) {
			return all
		}
		require.NoError(t, err)
		all = append(all, r)
	}
}

func TestDriftingIsTheStreamOfItsSeed(t *testing.T) {
	a, b, c := take(t, 1), take(t, 1), take(t, 2)
	assert.True(t, len(a) == 300 && reflect.DeepEqual(a, b) && !reflect.DeepEqual(a, c), "not the stream of its seed")
	for n, r := range a {
		require.True(t, len(r.Features) == 3 && len(r.Labels) == 1 && math.Abs(r.Labels[0]) < 100, "round %d: %+v", n, r)
	}
}
