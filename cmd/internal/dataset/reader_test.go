package dataset_test

import (
	"bytes"
	"errors"
	"io"
	"math"
	"strings"
	"testing"

	"hindsight/cmd/internal/dataset"
)

func TestErrorsNameTheirPlace(t *testing.T) {
	for text, says := range map[string][]string{
		"":                 {"a.csv"},
		"x1,x2\n1,2\n":     {`"y"`},
		"y\n1\n":           {"a.csv"},
		"x1,y\n1,2\n3,a\n": {"line 3", "column 2", "(y)", `"a"`},
		"x1,y\n,2\n":       {"line 2", "column 1", "(x1)"},
		"x1,y\n1\n":        {"line 2"},
		"x1,y\nNaN,1\n":    {"line 2", "(x1)"},
		"x1,y\n1,Inf\n":    {"line 2", "(y)"},
		"x1,x1,y\n1,2,3\n": {"x1"},
		"x1;y\n1;2\n":      {"line 1", "semicolons, want commas"},
		"x1\ty\n1\t2\n":    {"line 1", "tabs, want commas"},
	} {
		r, err := dataset.NewReader(strings.NewReader(text), "a.csv", "y")
		for err == nil {
			_, err = r.Read(nil, make([]float64, r.Outputs()))
		}
		if errors.Is(err, io.EOF) {
			t.Errorf("%q is read without an error", text)
			continue
		}
		for _, w := range says {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("%q: %v, want it to say %s", text, err, w)
			}
		}
	}
}

// FuzzReader checks that every row of every file is finite and has the dimension
// of the header, or is an error.
func FuzzReader(f *testing.F) {
	f.Add([]byte("x1,y,x2\n1,10,5\n3,20,5\n2,30,5\n"))
	f.Add([]byte("x1,y\n1,\"2\n"))
	f.Add([]byte{0x1f, 0x8b, 8})
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := dataset.NewReader(bytes.NewReader(data), "f", "y")
		if err != nil {
			return
		}
		for range 1000 {
			y := make([]float64, r.Outputs())
			x, err := r.Read(nil, y)
			if err != nil {
				return
			}
			if len(x) != r.Dimension() {
				t.Fatalf("%d features, want %d", len(x), r.Dimension())
			}
			for _, v := range append(x, y...) {
				if math.IsNaN(v) || math.IsInf(v, 0) {
					t.Fatalf("row %v, %v", x, y)
				}
			}
		}
	})
}
