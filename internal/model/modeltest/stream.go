package modeltest

import (
	"bufio"
	"compress/gzip"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"hindsight/internal/model"
)

// Long reports whether the long forms of the tests run: make test-e2e sets the variable.
func Long() bool { return os.Getenv("HINDSIGHT_E2E") != "" }

// Stream reads the first n rows of a published stream, all rows if n < 0. The label is the
// last column. Without the file, Stream skips the test. The file research/results/README.md
// names the sources of the streams.
func Stream(t *testing.T, name string, n int) []Sample {
	t.Helper()
	path := filepath.Join(streams(t), name)
	file, err := os.Open(path) //nolint:gosec // The test names the file.
	if errors.Is(err, os.ErrNotExist) {
		t.Skipf("there is no stream %s; the environment variable %s names the directory of the streams", path, streamsEnv)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }() // It was only read.
	unzipped, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(unzipped)
	lines.Scan() // The header.
	var samples []Sample
	for len(samples) != n && lines.Scan() {
		var row []float64
		for cell := range strings.SplitSeq(lines.Text(), ",") {
			v, err := strconv.ParseFloat(cell, 64)
			if err != nil {
				t.Fatal(err)
			}
			row = append(row, v)
		}
		last := len(row) - 1
		samples = append(samples, Sample{X: row[:last], Y: row[last], Weight: 1})
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return samples
}

// streamsEnv is the environment variable that names the directory of the streams.
const streamsEnv = "HINDSIGHT_STREAMS"

// streams is the directory of the streams: the directory in streamsEnv, or ../shared/data
// beside the root of the project.
func streams(t *testing.T) string {
	t.Helper()
	if dir := os.Getenv(streamsEnv); dir != "" {
		return dir
	}
	return filepath.Join(filepath.Dir(root(t)), "shared", "data")
}

// root is the directory of go.mod.
func root(t *testing.T) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			t.Fatal("no go.mod above the test")
		}
		dir = parent
	}
}

// Scale maps every input onto [0, 1] by its smallest and largest value.
func Scale(samples []Sample) {
	for j := range samples[0].X {
		low, high := math.Inf(1), math.Inf(-1)
		for _, s := range samples {
			low, high = math.Min(low, s.X[j]), math.Max(high, s.X[j])
		}
		for _, s := range samples {
			if s.X[j] -= low; high > low {
				s.X[j] /= high - low
			}
		}
	}
}

// Scores teaches samples to a learner of one output, and returns the mean squared error of its
// prequential predictions and the share of predictions of the wrong sign. The sign of 0 is
// wrong.
func Scores(t *testing.T, l model.Learner, samples []Sample) (squared, wrong float64) {
	t.Helper()
	for _, s := range samples {
		out, err := Observe(l, s.X, s.Y, s.Weight)
		if err != nil {
			t.Fatal(err)
		}
		squared += (s.Y - out.Prediction) * (s.Y - out.Prediction)
		if s.Y*out.Prediction <= 0 {
			wrong++
		}
	}
	return squared / float64(len(samples)), wrong / float64(len(samples))
}
