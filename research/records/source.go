package records

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"google.golang.org/protobuf/types/known/structpb"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
	"hindsight/cmd/research/papers"
	"hindsight/internal/dataset"
	"hindsight/internal/infer"
)

// naming gives the columns of a stream the names and classes that they have at its
// source. The files of the streams call them by numbers, x1 and so on, and y.
type naming struct {
	stream  string
	columns []string
	// classes are the texts of the labels, nil where these are numbers.
	classes map[string]string
	// with is the name of a column that the file lacks, empty for none. Restore gives
	// its cells.
	with    string
	restore func(rows [][]string) ([]string, error)
}

// name is the name of the stream in the report.
func (n naming) name() string {
	if n.with == "" {
		return n.stream
	}
	return n.stream + plus + n.with
}

// plus is between a stream and the column that was added to it.
const plus = "+"

func bikeNames() naming {
	return naming{stream: "bike", columns: []string{
		"season", "yr", "mnth", "hr", "holiday", "weekday", "workingday", "weathersit", "temp", "atemp", "hum", "windspeed", "cnt",
	}}
}

func elec2Names() naming {
	return naming{
		stream:  "elec2",
		columns: []string{"date", "day", "period", "nswprice", "nswdemand", "vicprice", "vicdemand", "transfer", "class"},
		classes: map[string]string{"1": "UP", "-1": "DOWN"},
	}
}

// dated is bike with the day of each row, which was left out of its file.
func dated() naming {
	n := bikeNames()
	n.with, n.restore = "dteday", bikeDays
	return n
}

// bikeDays finds the day of each row of bike. The rows begin with 1 January 2011 and
// have all days in their order; a new day has another weekday. Year, month and weekday
// of every row must agree.
func bikeDays(rows [][]string) ([]string, error) {
	const year, month, weekday = 1, 2, 5
	day := time.Date(2011, time.January, 1, 0, 0, 0, 0, time.UTC)
	var days []string
	for i, row := range rows {
		if i > 0 && row[weekday] != rows[i-1][weekday] {
			day = day.AddDate(0, 0, 1)
		}
		want := []string{strconv.Itoa(day.Year() - 2011), strconv.Itoa(int(day.Month())), strconv.Itoa(int(day.Weekday()))}
		if got := []string{row[year], row[month], row[weekday]}; !slices.Equal(got, want) {
			return nil, fmt.Errorf("row %d: year, month and weekday are %v, those of %s are %v", i+1, got, day.Format(time.DateOnly), want)
		}
		days = append(days, day.Format(time.DateOnly))
	}
	return days, nil
}

// file is the file of a stream as text.
type file struct {
	name   string
	header []string
	rows   [][]string
	// limit is how many rows to take.
	limit int
}

// readFile reads the file of a stream. The last column has the labels. The error is
// fs.ErrNotExist if there is none.
func readFile(p Plan, name string) (*file, error) {
	path := stream(name).Path(p.Data)
	in, err := os.Open(path) //nolint:gosec // the user names the directory
	if err != nil {
		return nil, err
	}
	f, err := read(in, filepath.Base(path))
	if err = errors.Join(err, in.Close()); err != nil {
		return nil, err
	}
	f.name, f.limit = name, len(f.rows)
	if p.Rows > 0 {
		f.limit = min(f.limit, p.Rows)
	}
	return f, nil
}

func read(in io.Reader, name string) (*file, error) {
	table, err := dataset.NewTable(in, name, 0)
	if err != nil {
		return nil, err
	}
	f := &file{header: table.Columns()}
	if last := f.header[len(f.header)-1]; last != "y" || len(f.header) < 2 {
		return nil, table.AtHeader(fmt.Errorf("the last of several columns is y, not %q", last))
	}
	for {
		row, err := table.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		f.rows = append(f.rows, slices.Clone(row))
	}
	if len(f.rows) == 0 {
		return nil, fmt.Errorf("%s: no row", name)
	}
	return f, nil
}

// set is a stream, ready to be observed.
type set struct {
	name string
	// spec says what its inputs and labels are. It has no learner.
	spec   *hindsightv1.ModelSpec
	rounds []*hindsightv1.ObserveRequest
}

// named is a stream of named columns.
type named struct {
	set
	inferred *infer.Result
}

// readNamed reads a stream, gives it its names, and infers its spec.
func readNamed(p Plan, n naming) (*named, error) {
	f, err := readFile(p, n.stream)
	if err != nil {
		return nil, err
	}
	out, err := f.named(n)
	if err != nil {
		return nil, fmt.Errorf("the file of %s: %w", n.stream, err)
	}
	return out, nil
}

// named gives a stream its names and infers its spec from the whole file, as an
// application would that has it so.
func (f *file) named(n naming) (*named, error) {
	rows, err := f.dressed(n)
	if err != nil {
		return nil, err
	}
	var text bytes.Buffer
	out := csv.NewWriter(&text)
	if err := out.WriteAll(rows); err != nil {
		return nil, err
	}
	last := len(rows[0]) - 1
	table, err := dataset.NewTable(&text, n.name()+".csv", 0)
	if err != nil {
		return nil, err
	}
	inferred, err := infer.Read(table, infer.Options{Target: rows[0][last]})
	if err != nil {
		return nil, err
	}
	classes := inferred.Spec.GetClasses() != nil
	if classes != (n.classes != nil) {
		return nil, fmt.Errorf("inferred classes: %t", classes)
	}
	s := set{name: n.name(), spec: inferred.Spec}
	for _, row := range rows[1 : 1+f.limit] {
		o := &hindsightv1.ObserveRequest{}
		if o.Inputs, err = record(inferred.Columns[:last], row); err != nil {
			return nil, err
		}
		if err := label(o, row[last], classes); err != nil {
			return nil, err
		}
		s.rounds = append(s.rounds, o)
	}
	return &named{s, inferred}, nil
}

// dressed is the header and all rows with names, classes and the column that the file
// lacks.
func (f *file) dressed(n naming) ([][]string, error) {
	if len(n.columns) != len(f.header) {
		return nil, fmt.Errorf("%d columns, want %d: %v", len(f.header), len(n.columns), n.columns)
	}
	out := [][]string{n.columns}
	for _, row := range f.rows {
		row = slices.Clone(row)
		if y := &row[len(row)-1]; n.classes != nil {
			class, ok := n.classes[*y]
			if !ok {
				return nil, fmt.Errorf("a label is %q", *y)
			}
			*y = class
		}
		out = append(out, row)
	}
	if n.with == "" {
		return out, nil
	}
	cells, err := n.restore(f.rows)
	if err != nil {
		return nil, err
	}
	for i, cell := range append([]string{n.with}, cells...) {
		out[i] = append([]string{cell}, out[i]...)
	}
	return out, nil
}

// record is a row by the names of its columns.
func record(columns []*infer.Column, row []string) (*structpb.Struct, error) {
	fields := make(map[string]*structpb.Value, len(columns))
	for i, c := range columns {
		if c.Input == nil {
			continue
		}
		v, err := c.Value(row[i])
		if err != nil {
			return nil, err
		}
		if fields[c.Name], err = structpb.NewValue(v); err != nil {
			return nil, err
		}
	}
	return &structpb.Struct{Fields: fields}, nil
}

// label sets the target of an observation.
func label(o *hindsightv1.ObserveRequest, cell string, class bool) error {
	if class {
		o.Target = &hindsightv1.ObserveRequest_Class{Class: cell}
		return nil
	}
	y, err := strconv.ParseFloat(cell, 64)
	o.Target = &hindsightv1.ObserveRequest_Label{Label: y}
	return err
}

// vectors is the stream with the inputs as vectors and the labels as classes.
func (f *file) vectors() (set, error) {
	last := len(f.header) - 1
	s := set{name: f.name, spec: &hindsightv1.ModelSpec{Dimension: int32(last), Seed: papers.Seed}}
	for _, row := range f.rows[:f.limit] {
		x, err := numbers(row[:last])
		if err != nil {
			return set{}, fmt.Errorf("%s: %w", f.name, err)
		}
		o := &hindsightv1.ObserveRequest{Features: x}
		if err := label(o, row[last], true); err != nil {
			return set{}, err
		}
		s.rounds = append(s.rounds, o)
	}
	return s, nil
}

func numbers(cells []string) ([]float64, error) {
	x := make([]float64, len(cells))
	for i, cell := range cells {
		v, err := dataset.Number(cell)
		if err != nil {
			return nil, err
		}
		x[i] = v
	}
	return x, nil
}

// scaled is a table of the same rows as the rounds of a set, scaled by hand, with the
// classes of the set.
func (s set) scaled(t *papers.Table) set {
	out := set{name: s.name, spec: &hindsightv1.ModelSpec{Dimension: int32(t.Dimension()), Seed: papers.Seed}}
	for i, o := range s.rounds {
		out.rounds = append(out.rounds, &hindsightv1.ObserveRequest{Features: t.X[i], Target: o.GetTarget()})
	}
	return out
}

// Empty reports whether no stream has its file.
func (p Plan) Empty() bool {
	for _, name := range []string{"bike", "elec2", "ijcnn1", "digits"} {
		// Any other error is reported when the file is read.
		if _, err := os.Stat(stream(name).Path(p.Data)); !errors.Is(err, fs.ErrNotExist) {
			return false
		}
	}
	return true
}
