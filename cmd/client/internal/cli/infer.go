package cli

import (
	"errors"
	"strings"
	"unicode/utf8"

	"hindsight/cmd/client/internal/stream"
	"hindsight/cmd/internal/command"
	"hindsight/internal/dataset"
	"hindsight/internal/infer"
)

func (e *env) infer() verb {
	var (
		file    string
		options stream.FileOptions
	)
	return verb{
		use:   "infer --csv FILE",
		short: "Print a spec for the columns of a CSV file",
		long: `Read a whole CSV file and print a spec with its columns as named inputs. Standard
error gets a line for each column that says why. infer calls no server. The spec has no
learner; add one, or leave it to auto.

` + fileHelp + `

Columns are numbers, booleans (such as yes and no, or 0 and 1), categories and times. Of
$1,234, 12 kg and 45% the number counts: 45% is 45 in every file. (5) is -5, 1.5k is 1500,
3/4 is 0.75, <0.05 is 0.05, 52°30'S is -52.5; 1:02:03, 1:02:03 PM, PT1H2M3S and 1h 2m 3s are
seconds. Several units in one column, such as 500 g and 2 kg, are converted into one. The spec
names the unit, of labels too, and whether the day or the month is first in dates: later files are read by it. Integers that name things, such as users or stores, are categories: if
the labels of neighboring integers are no more alike than others, or if the name of the
column says so, as user, storeId or zip_code do. A few integers, such as hours, are
categories if labels follow them in no line; grades, counts and years are numbers. Of more
than 64 categories each is a key, whose effect auto learns; other learners need
max_categories or hash_buckets in place of key. Texts of which most do not repeat another
are texts whose words count if most have four words or more. Left out, by replay too, are a
column of other such texts, and one without a name, as of the index of pandas.
Integers from 2^53 on are categories: no number has all of them. 120/80 and POINT (1.5 2) are vectors.
Times have many forms, such as 2026-11-21 18:00 or 21.11.2026; without a zone they are UTC.
Seconds to nanoseconds since 1970, and the days that spreadsheets count, are times if the name of the
column says so, as ts, created_at or order_date.
Records have times in RFC 3339; replay converts them.

Every input takes missing values: empty cells, NA, #N/A, null and the like. At most one in
20 cells of a column of numbers or times may be of another kind, and one in five of numbers
that hardly repeat, or among which is but one word. Such cells are missing values too, or rows without a label, and the
reason names the first. A column with more of them is one of texts.

An empty --target means no label. Numbers are real labels, unless --classes says that they
are classes. Whole numbers from 0 on set label.min of the spec to 0: Observe then rejects a
label below 0. Texts are classes; the spec has max_classes for the classes of the file. Rows
may have no label.`,
		example: `  hindsight infer --csv trips.csv --target duration > trips.json
  hindsight replay --csv trips.csv --target duration --model trips --create @trips.json`,
		flags: func(f *flagSet) {
			e.callsNoServer(f.cmd)
			f.file(&file, &options.Delimiter, &options.Target, "the file; - is standard input (required)")
			f.BoolVar(&options.Classes, "classes", false, "the labels are classes, though they are numbers")
		},
		before: func(c *call) error {
			if file == "" {
				return command.Usagef("--csv is missing")
			}
			return e.spooled(&file, func() error {
				if err := e.likelyTarget(file, &options, c.given("target")); err != nil {
					return err
				}
				result, err := inferFile(file, options.Delimiter, infer.Options{Target: options.Target, Classes: options.Classes})
				if err != nil {
					return &command.UsageError{Err: err}
				}
				return e.emitInferred(result)
			})
		},
	}
}

const fileHelp = `The file is CSV, plain or compressed with gzip, or Parquet. CSV is UTF-8, UTF-16, or
else Windows-1252. Its first line names the columns; a second column x is
x.1. If the first line is numbers in no order, the columns are column 1, column 2 and so on.
Titles and comments before the names, lines of few fields behind the last row, lines
of totals and drawn lines are left out. The comma, semicolon, tab or bar that the
first line has most of separates the fields; a field may be quoted with ". Numbers have a
decimal point or comma. The other cells of a column decide whether 1,234 or 1.234 is 1234.
A cell that they do not decide is rejected. Parquet is read as CSV would write it.`

func (f *flagSet) file(name *string, separator *rune, target *string, usage string) {
	f.StringVar(name, "csv", "", usage)
	f.Var((*delimiter)(separator), "delimiter",
		"what separates the fields: one character, or tab; found by default")
	f.StringVar(target, "target", "y", "label column, or comma-separated label columns")
}

type delimiter rune

// String implements pflag.Value.
func (d *delimiter) String() string {
	if *d == 0 {
		return ""
	}
	return string(*d)
}

// Type implements pflag.Value.
func (d *delimiter) Type() string { return "character" }

// Set implements pflag.Value.
func (d *delimiter) Set(text string) error {
	if text == "tab" || text == `\t` {
		text = "\t"
	}
	c, size := utf8.DecodeRuneInString(text)
	if size == 0 || size < len(text) || c == utf8.RuneError || strings.ContainsRune("\"\r\n", c) {
		return errors.New("want one character, which is no quote and no end of a line, or tab")
	}
	*d = delimiter(c)
	return nil
}

func inferFile(path string, delimiter rune, o infer.Options) (result *infer.Result, err error) {
	err = stream.WithTable(path, delimiter, func(table *dataset.Table) (err error) {
		result, err = infer.Read(table, o)
		return err
	})
	return result, err
}

// emitInferred writes the spec to standard output, and the reasons to standard error.
func (e *env) emitInferred(r *infer.Result) error {
	if !e.JSON() {
		if err := r.Explain(e.Stderr); err != nil {
			return err
		}
	}
	if len(r.Spec.GetInputs()) == 0 {
		return command.Usagef("no column can be an input")
	}
	spec, err := r.SpecJSON()
	if err != nil {
		return err
	}
	return e.emit(r, func(w *command.Page) { w.Printf("%s", spec) })
}
