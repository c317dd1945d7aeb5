package cli_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A command with --local starts a server, and leaves neither the server nor its directory.
func TestLocal(t *testing.T) {
	t.Setenv(actAsServer, "yes")
	t.Setenv("HINDSIGHT_ADDRESS", nowhere(t))
	dir := temporary(t)
	text, labels, _ := sales(60)
	path := written(t, "sales.csv", text)
	d := document(t, 0, "replay", "--csv", path, "--local", "--server", program(t))
	assert.True(t, d["model"] == "local" && d["acknowledged"] == float64(len(labels)) && d["unlabelled"] == float64(60-len(labels)), "replay: %v", d)
	d = document(t, 0, "compare", "--csv", path, "--local", "--server", program(t), "--delay", "3")
	assert.Len(t, d["learners"].([]any), 4, d)
	d = document(t, 0, "predict", "--local", "--server", program(t), "--train", path, "--inputs", `{"hour": 3, "price": 2}`)
	var sum float64
	for _, y := range labels {
		sum += y
	}
	v, _ := d["value"].(float64)
	assert.True(t, near(v, sum/float64(len(labels))), "predict: %v, want the mean of the file", d)
	r := run(t, "infer", "--csv", path, "--target", "sold")
	assert.True(t, r.code == 0 && strings.Contains(r.out, `"price"`), "infer: %+v", r)
	assert.True(t, isEmpty(t, dir), "the temporary directory is left")
	for says, args := range map[string][]string{
		"--local and --train need each other": {"predict", "--local", "1"},
		"exclude each other":                  {"predict", "--local", "--train", path, "--model", "m", "1"},
		"ended before it was ready":           {"replay", "--local", "--server", "/bin/false", "--csv", path},
		"the target has no label":             {"predict", "--local", "--server", program(t), "--train", written(t, "n.csv", "x,sold\n1,\n2,\n"), "--inputs", "{}"},
	} {
		r := run(t, args...)
		assert.True(t, r.code != 0 && strings.Contains(r.errors, says), "%v: want %q: %+v", args, says, r)
	}
	// Without --server the program is looked up beside this one, then on the PATH.
	t.Setenv("PATH", t.TempDir())
	r = run(t, "compare", "--local", "--csv", path)
	assert.True(t, r.code == 2 && strings.Contains(r.errors, "neither beside this program nor on the PATH"), "%+v", r)
	require.NoError(t, os.Symlink(program(t), filepath.Join(os.Getenv("PATH"), "hindsight-server")))
	r = run(t, "compare", "--local", "--csv", path)
	assert.Equal(t, 0, r.code, r)
}

// predict --csv sends the rows, and after an error the file of --out is as before.
func TestPredictFile(t *testing.T) {
	f := served(t)
	out := written(t, "out.csv", "before")
	for rows, code := range map[string]int{"x1,y,x2\n1,,2\n3,7,4\n5,?,6\n": 0, "a,b\n1,z\n": 2} {
		want := read(t, out)
		r := run(t, "predict", "m", "--csv", written(t, "rows.csv", rows), "--out", out)
		if code == 0 {
			want = "row,prediction\n1,0\n2,0\n3,0\n"
		}
		got := read(t, out)
		assert.True(t, r.code == code && got == want, "%+v, the file is %q, want %q", r, got, want)
	}
	want := [][]float64{{1, 2}, {3, 4}, {5, 6}}
	assert.True(t, slices.EqualFunc(f.batched, want, func(a fakeInput, b []float64) bool { return slices.Equal(a.features, b) }), "asked for %v, want %v", f.batched, want)
	left, err := filepath.Glob(out + ".*")
	assert.True(t, err == nil && len(left) == 0, "%v are left: %v", left, err)
}
