package stream

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"google.golang.org/protobuf/types/known/structpb"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
	"hindsight/internal/dataset"
	"hindsight/internal/infer"
	"hindsight/internal/nearest"
)

// RecordOptions say which rows of a file to take, and how. A column that is neither an
// input nor a target is rejected, unless it is ignored or infer leaves it out.
type RecordOptions struct {
	FileOptions
	// Inputs are the declared inputs. Each is the column of its name.
	Inputs []*hindsightv1.Input
}

// Records yields rows of a CSV file as records of named inputs. Times and categories need a
// first pass over the file; see infer.Declared. It is not safe for concurrent use.
type Records struct {
	rows

	declared []*hindsightv1.Input
	table    *dataset.Table
	targets  []int
	labels   []placed // of targets that are no classes
	inputs   []placed
	noticed  []*infer.Column
	notes    []string
}

type placed struct {
	*infer.Column
	at int
}

var errFeatures = errors.New("--features: the model has named inputs, which are the features")

// OpenRecords opens a file. Close must be called.
func OpenRecords(path string, o RecordOptions) (*Records, error) {
	rows, err := newRows(path, o.FileOptions)
	switch {
	case err != nil:
		return nil, err
	case len(o.Features) > 0:
		return nil, errFeatures
	}
	r := &Records{rows: rows, declared: o.Inputs}
	r.read = r.readRow
	if r.file, r.table, err = openTable(path, o.Delimiter); err != nil {
		return nil, err
	}
	r.targets, err = r.table.Targets(o.Target)
	if err == nil && o.Classes && len(r.targets) > 1 {
		err = r.table.AtHeader(errClasses)
	}
	if err == nil {
		err = r.place()
	}
	if err == nil {
		err = r.begin()
	}
	if err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

// CheckHeader checks the header of a file and that the targets are in it.
func CheckHeader(path, target string, delimiter rune) error {
	return WithTable(path, delimiter, func(table *dataset.Table) error {
		_, err := table.Targets(target)
		return err
	})
}

// LikelyTarget is dataset.Table.LikelyTarget of a file.
func LikelyTarget(path string, delimiter rune) (target string, err error) {
	err = WithTable(path, delimiter, func(table *dataset.Table) (err error) {
		target, err = table.LikelyTarget()
		return err
	})
	return target, err
}

func (r *Records) place() error {
	columns, names := r.table.Columns(), make([]string, len(r.declared))
	for i, in := range r.declared {
		names[i] = in.GetName()
	}
	for _, name := range r.options.Ignore {
		if _, err := r.table.Column(name); err != nil && name != AllOthers {
			return err
		}
	}
	var unknown, missing []string
	for i, c := range columns {
		switch target := slices.Contains(r.targets, i); {
		case target && slices.Contains(names, c):
			return r.table.AtColumn(i, fmt.Errorf("%q is an input and a target", c))
		case !target && !slices.Contains(names, c):
			unknown = append(unknown, c)
		}
	}
	for _, name := range names {
		if !slices.Contains(columns, name) {
			missing = append(missing, name)
		}
	}
	if len(missing) > 0 {
		return r.table.AtHeader(fmt.Errorf("there is no column %q, which is an input%s", missing[0], nearest.Meant(missing[0], unknown)))
	}
	if unknown = slices.DeleteFunc(unknown, r.options.Ignores); len(unknown) > 0 {
		if err := r.leaveOut(unknown); err != nil {
			return err
		}
	}
	return r.survey()
}

// survey finds out how the cells of inputs and labels are written.
func (r *Records) survey() error {
	var how *infer.Conventions
	columns := r.table.Columns()
	declared := slices.Clone(r.declared)
	if !r.options.Classes {
		for _, i := range r.targets {
			declared = append(declared, infer.LabelOf(columns[i], r.options.Label))
		}
	}
	err := WithTable(r.path, r.options.Delimiter, func(table *dataset.Table) (err error) {
		how, err = infer.Declared(table, declared)
		r.notes = table.Notes()
		return err
	})
	if err != nil {
		return err
	}
	for i, in := range declared {
		column := how.Columns[in.GetName()]
		at := placed{column, slices.Index(columns, in.GetName())}
		if i < len(r.declared) {
			r.inputs = append(r.inputs, at)
		} else {
			r.labels = append(r.labels, at)
		}
		if column.Notice() != "" {
			r.noticed = append(r.noticed, column)
		}
	}
	r.count(how.Rows)
	return nil
}

// leaveOut leaves out the unknown columns that infer leaves out, and rejects the first other
// unknown column. A column is unknown if it is neither an input nor a target.
func (r *Records) leaveOut(unknown []string) error {
	var inferred *infer.Result
	err := WithTable(r.path, r.options.Delimiter, func(table *dataset.Table) (err error) {
		inferred, err = infer.Read(table, infer.Options{})
		return err
	})
	if err != nil {
		return err
	}
	for i, c := range inferred.Columns {
		switch {
		case !slices.Contains(unknown, c.Name):
		case c.Kind == infer.LeftOut:
			r.noticed = append(r.noticed, c)
		default:
			return r.table.AtColumn(i, fmt.Errorf("%q is neither an input nor a target: --ignore %s leaves it out, --ignore '%s' all such columns",
				c.Name, argument(c.Name), AllOthers))
		}
	}
	return nil
}

// Noticed are the columns that were left out as infer leaves them out, and the columns of which a few cells
// are taken for missing values.
func (r *Records) Noticed() []*infer.Column { return r.noticed }

// Notes are the notes of the table.
func (r *Records) Notes() []string { return r.notes }

// argument quotes the name of a column for a shell and for the flag --ignore, a list of CSV.
func argument(name string) string {
	if strings.ContainsAny(name, `,"`) {
		name = `"` + strings.ReplaceAll(name, `"`, `""`) + `"`
	}
	if regexp.MustCompile(`^[\pL\pN_.-]+$`).MatchString(name) {
		return name
	}
	return "'" + strings.ReplaceAll(name, "'", `'\''`) + "'"
}

// Outputs returns the number of labels.
func (r *Records) Outputs() int { return len(r.targets) }

func (r *Records) readRow() (Round, error) {
	row, err := r.table.Read()
	if err != nil {
		return Round{}, err
	}
	values := make(map[string]*structpb.Value, len(r.inputs))
	for _, in := range r.inputs {
		v, err := in.Value(row[in.at])
		if err == nil {
			values[in.Name], err = structpb.NewValue(v)
		}
		if err != nil {
			return Round{}, r.table.AtField(in.at, err)
		}
	}
	out := Round{Inputs: &structpb.Struct{Fields: values}}
	if r.options.Classes {
		for _, i := range r.targets {
			var err error
			out.Class, err = dataset.Class(row[i])
			out.Unlabelled = err != nil
		}
		return out, nil
	}
	for _, l := range r.labels {
		v, err := l.Value(row[l.at])
		if err != nil {
			return Round{}, r.table.AtField(l.at, err)
		}
		y, known := v.(float64)
		out.Labels, out.Unlabelled = append(out.Labels, y), out.Unlabelled || !known
	}
	if out.Unlabelled {
		out.Labels = nil
	}
	return out, nil
}
