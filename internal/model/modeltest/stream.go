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
)

// Stream reads up to n rows of a benchmark stream, the label last, from the
// shared data beside the checkout; n < 0 reads all. The test is skipped where
// the stream is absent.
func Stream(t *testing.T, name string, n int) []Sample {
	t.Helper()
	file, err := os.Open(filepath.Join(filepath.Dir(root(t)), "shared", "data", name)) //nolint:gosec // The test names the file.
	if errors.Is(err, os.ErrNotExist) {
		t.Skipf("the benchmark stream %s is not here", name)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }() // Only read.
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
