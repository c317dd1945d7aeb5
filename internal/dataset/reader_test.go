package dataset_test

import (
	"bytes"
	"errors"
	"io"
	"math"
	"strings"
	"testing"

	"hindsight/internal/dataset"
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
		"x1;y\n1;a\n":      {"line 2", "column 2", "(y)", `"a"`},
		"x1,y\n1,NA\n":     {"line 2", "(y)", "no label"},
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

// The delimiter is that of which the header has most, or the one that is asked for.
func TestDelimiters(t *testing.T) {
	for _, c := range []struct {
		text      string
		delimiter rune
	}{
		{"x1,y\n1.5,2\n", 0},
		{"x1;y\n1.5;2\n", 0},
		{"x1;y\n1,5;2,0\n", 0},
		{"x1\ty\n1.5\t2\n", 0},
		{"\xef\xbb\xbfx1;y\r\n1,5;2\r\n", 0},
		{"\"x1,,,\";y\n1,5;2\n", 0},
		{"x1;y\n1.5;2\n", ';'},
		{"x1|y\n1.5|2\n", '|'},
		{"x1|y\n1.5|2\n", 0},
		{"x1|y\n1,5|2\n", 0},
		{"x1\ty\n1,5\t2\n", 0},
		{"sep=;\nx1;y\n1,5;2\n", 0},
		{"\"sep=\t\"\r\nx1\ty\r\n1.5\t2\r\n", 0},
		{",x1,y\n0,1.5,2\n", 0},
		{"Unnamed: 0,x1,y\n0,1.5,2\n", 0},
	} {
		r, err := dataset.NewSelected(strings.NewReader(c.text), "a.csv", dataset.Selection{Target: "y", Delimiter: c.delimiter})
		if err != nil {
			t.Errorf("%q: %v", c.text, err)
			continue
		}
		var y [1]float64
		if x, err := r.Read(nil, y[:]); err != nil || x[0] != 1.5 || y[0] != 2 {
			t.Errorf("%q: %v, %v, %v", c.text, x, y, err)
		}
	}
}

// A header of numbers is one if pandas writes it for a table without names, or if the target is in it.
func TestHeadersOfNumbers(t *testing.T) {
	for text, target := range map[string]string{"0,1,2\n5,6,7\n": "2", ",0,1,2\n0,5,6,7\n": "2", "2019,2020,2021\n5,6,7\n": "2021"} {
		r, err := dataset.NewReader(strings.NewReader(text), "a.csv", target)
		if err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		var y [1]float64
		if x, err := r.Read(nil, y[:]); err != nil || len(x) != 2 || x[0] != 5 || y[0] != 7 {
			t.Errorf("%q: %v, %v, %v", text, x, y, err)
		}
	}
	for text, says := range map[string]string{
		"5.1,3.5,7\n1,2,3\n": "a.csv: line 1, column 1: the first line holds numbers, not the names of the columns; if they are the names, --target names one of them",
		",\n1,2\n":           "no column has a name",
		"PK\x03\x04\x14":     "a.csv: the file is a zip file, as a workbook of Excel is",
	} {
		if _, err := dataset.NewReader(strings.NewReader(text), "a.csv", "y"); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v, want %s", text, err, says)
		}
	}
}

// A row without a label has features, and an error that says so.
func TestNoLabel(t *testing.T) {
	for _, label := range []string{"", "NA", "nan", "null", "?", "none", "-", "inf", "-Infinity"} {
		r, err := dataset.NewReader(strings.NewReader("x1,y,x2\n1,"+label+",2\n3,4,5\n"), "a.csv", "y")
		if err != nil {
			t.Fatal(err)
		}
		var y [1]float64
		x, err := r.Read(nil, y[:])
		if !errors.Is(err, dataset.ErrNoLabel) || len(x) != 2 || x[0] != 1 || x[1] != 2 {
			t.Errorf("%q: %v, %v", label, x, err)
		}
		if _, err := r.Read(nil, y[:]); err != nil || y[0] != 4 {
			t.Errorf("%q: the next row: %v, %v", label, y, err)
		}
	}
	for text, want := range map[string]string{"none": "none", "-": "-", "NA": "", "": "", "?": "", "nan": ""} {
		if class, err := dataset.Class(text); class != want || (want == "") != errors.Is(err, dataset.ErrNoLabel) {
			t.Errorf("class %q is %q, %v", text, class, err)
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
