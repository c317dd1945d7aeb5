package stream_test

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

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
