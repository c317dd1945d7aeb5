package papers

import (
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"

	"hindsight/cmd/research/markdown"
	"hindsight/internal/dataset"
)

// Table is a stream in memory, scaled.
type Table struct {
	// X are the inputs, Y the labels, row by row.
	X [][]float64
	Y []float64
	// Missing is the number of rows without a label. They are left out.
	Missing int
	// Mean are the means of the input columns.
	Mean []float64
	// Sigma is the bandwidth: σ² is the mean squared distance of two rows.
	Sigma float64
	// Unit is what 1 of Y is in the units of the file: the range of the labels if
	// they were scaled, else 1.
	Unit float64
}

// Load reads a stream from its file in a directory. Scaling, means and bandwidth
// are computed from the whole file. Then the first limit rows are kept; 0 keeps
// all. The error is fs.ErrNotExist if there is no such file.
func Load(dir string, s Stream, limit int) (*Table, error) {
	path := s.Path(dir)
	file, err := os.Open(path) //nolint:gosec // the user names the directory
	if err != nil {
		return nil, err
	}
	t, err := read(file, filepath.Base(path), s)
	if err = errors.Join(err, file.Close()); err != nil {
		return nil, err
	}
	if !s.AsPublished {
		t.scale(s)
	}
	t.measure()
	if limit > 0 && limit < len(t.Y) {
		t.X, t.Y = t.X[:limit], t.Y[:limit]
	}
	return t, nil
}

// read reads the rows without scaling.
func read(r io.Reader, name string, s Stream) (*Table, error) {
	table, err := dataset.NewTable(r, name, 0)
	if err != nil {
		return nil, err
	}
	reader, err := dataset.NewReader(table, dataset.Selection{Target: "y"})
	if err != nil {
		return nil, err
	}
	if n := reader.Outputs(); n != 1 {
		return nil, fmt.Errorf("%s: %d labels a row where one is expected", name, n)
	}
	t := &Table{Unit: 1}
	var label [1]float64
	for {
		x, err := reader.Read(make([]float64, 0, reader.Dimension()), label[:])
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		y := label[0]
		if s.SkipMissing && y == MissingLabel {
			t.Missing++
			continue
		}
		if s.Signs && math.Abs(y) != 1 {
			return nil, fmt.Errorf("%s: a label is %v where only -1 and +1 are expected", name, y)
		}
		t.X, t.Y = append(t.X, x), append(t.Y, y)
	}
	if len(t.Y) == 0 {
		return nil, fmt.Errorf("%s: no row has a label", name)
	}
	return t, nil
}

// Dimension returns the number of inputs.
func (t *Table) Dimension() int { return len(t.X[0]) }

// scale maps every input column onto [0, 1] by its smallest and largest value,
// and the labels too unless they are signs. A constant becomes 0.
func (t *Table) scale(s Stream) {
	low, high := slices.Clone(t.X[0]), slices.Clone(t.X[0])
	for _, x := range t.X {
		for i, v := range x {
			low[i], high[i] = min(low[i], v), max(high[i], v)
		}
	}
	for _, x := range t.X {
		for i, v := range x {
			x[i] = unit(v, low[i], high[i])
		}
	}
	if s.Signs {
		return
	}
	bottom, top := slices.Min(t.Y), slices.Max(t.Y)
	for i, y := range t.Y {
		t.Y[i] = unit(y, bottom, top)
	}
	if top > bottom {
		t.Unit = top - bottom
	}
}

// unit maps v from [low, high] to [0, 1].
func unit(v, low, high float64) float64 {
	if high <= low {
		return 0
	}
	return (v - low) / (high - low)
}

// measure computes the means of the columns and the bandwidth: σ² is the mean
// squared distance of two rows, which is twice the sum of the variances of the
// columns, and σ is rounded to two digits.
func (t *Table) measure() {
	n := float64(len(t.X))
	t.Mean = make([]float64, t.Dimension())
	for _, x := range t.X {
		for i, v := range x {
			t.Mean[i] += v / n
		}
	}
	distance := 0.0
	for _, x := range t.X {
		for i, v := range x {
			distance += 2 * (v - t.Mean[i]) * (v - t.Mean[i]) / n
		}
	}
	t.Sigma = 1
	if distance > 0 {
		t.Sigma = markdown.Round(math.Sqrt(distance), 2)
	}
}

// Inputs returns the inputs of row i for a learner.
func (t *Table) Inputs(i int, l Learner) []float64 {
	x := t.X[i]
	if !l.Centred {
		return x
	}
	centred := make([]float64, len(x))
	for j, v := range x {
		centred[j] = v - t.Mean[j]
	}
	return centred
}
