package command

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"
	"golang.org/x/term"
)

// format is how an answer is written. It is the value of the flag -o.
type format string

// The formats.
const (
	formatTable format = "table"
	formatJSON  format = "json"
	formatCSV   format = "csv"
)

func formats() []string { return []string{string(formatTable), string(formatJSON), string(formatCSV)} }

// String implements pflag.Value.
func (f *format) String() string { return string(*f) }

// Type implements pflag.Value.
func (f *format) Type() string { return "table|json|csv" }

// Set implements pflag.Value.
func (f *format) Set(text string) error {
	if !slices.Contains(formats(), text) {
		return fmt.Errorf("want one of %s", strings.Join(formats(), ", "))
	}
	*f = format(text)
	return nil
}

// jsonFlag is the flag --json, which stands for -o json.
type jsonFlag struct{ *format }

// Type implements pflag.Value.
func (jsonFlag) Type() string { return "bool" }

// String implements pflag.Value.
func (j jsonFlag) String() string {
	return strconv.FormatBool(j.format != nil && *j.format == formatJSON)
}

// Set implements pflag.Value.
func (j jsonFlag) Set(text string) error {
	yes, err := strconv.ParseBool(text)
	if err == nil && yes {
		*j.format = formatJSON
	}
	return err
}

// outputFlags adds the flags that choose the format.
func (p *Program) outputFlags(flags *pflag.FlagSet) {
	p.format = formatTable
	flags.VarP(&p.format, "output", "o", "output format: a table, one JSON document, or CSV")
	flags.Var(jsonFlag{&p.format}, "json", "the same as -o json")
	flags.Lookup("json").NoOptDefVal = "true"
	flags.Lookup("json").Hidden = true
}

// JSON tells whether the answer is one JSON document.
func (p *Program) JSON() bool { return p.format == formatJSON }

// Table tells whether the answer is for people.
func (p *Program) Table() bool { return p.format == formatTable }

// Emit writes the answer of a command: the page of human, the document as JSON, or as CSV one line
// of its values below their names. Without human a table is JSON too.
func (p *Program) Emit(document any, human func(*Page)) error {
	p.emitted = true
	switch {
	case p.format == formatCSV:
		return p.emitFlat(document)
	case p.format == formatTable && human != nil:
		return p.page(p.Stdout, human)
	}
	raw, err := indented(document)
	if err != nil {
		return err
	}
	_, err = p.Stdout.Write(raw)
	return err
}

// EmitLine is Emit, with the document as JSON in one line.
func (p *Program) EmitLine(document any, human func(*Page)) error {
	if p.format != formatJSON {
		return p.Emit(document, human)
	}
	p.emitted = true
	if err := json.NewEncoder(p.Stdout).Encode(document); err != nil {
		return fmt.Errorf("write JSON: %w", err)
	}
	return nil
}

// EmitRows writes an answer that is a list: a table with the given header, the document as JSON,
// or CSV with all digits. Rows have as many values as the header.
func (p *Program) EmitRows(document any, header []string, rows [][]any) error {
	if p.format == formatCSV {
		p.emitted = true
		return writeCSV(p.Stdout, true, header, rows...)
	}
	return p.Emit(document, func(w *Page) { w.Rows(header, rows) })
}

// page writes the page of human. It has colours if standard output is a terminal and NO_COLOR is
// not set.
func (p *Program) page(to io.Writer, human func(*Page)) error {
	w := newPage(to)
	if len(p.Colours) > 0 && os.Getenv("NO_COLOR") == "" && IsTerminal(p.Stdout) {
		w.paint = p.paint
	}
	human(w)
	return w.end()
}

// Page returns the page of human, for a terminal that is drawn again.
func (p *Program) Page(human func(*Page)) string {
	var text strings.Builder
	_ = p.page(&text, human) // A strings.Builder takes everything.
	return text.String()
}

// Line writes one line of a list that goes on, as CSV or for people. The header is above the
// first line.
func (p *Program) Line(header []string, row []any, first bool) error {
	p.emitted = true
	if p.format == formatCSV {
		return writeCSV(p.Stdout, first, header, row)
	}
	w := newPage(p.Stdout)
	if first {
		w.Rows(header, [][]any{row})
	} else {
		w.Row(cell(row[0]), strings.Join(cells(row[1:]), "\t"))
	}
	return w.end()
}

// paint colours texts. They must be the last of their line: colours have no width.
func (p *Program) paint(text string) string {
	pairs := make([]string, 0, 2*len(p.Colours))
	for part, colour := range p.Colours {
		pairs = append(pairs, part, "\x1b["+colour+"m"+part+"\x1b[0m")
	}
	return strings.NewReplacer(pairs...).Replace(text)
}

// IsTerminal tells whether a stream is a terminal.
func IsTerminal(stream any) bool {
	file, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

// indented returns a document as JSON that people can read.
func indented(document any) ([]byte, error) {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(document); err != nil {
		return nil, fmt.Errorf("write JSON: %w", err)
	}
	return out.Bytes(), nil
}

// emitFlat writes a document as one line of CSV below a header.
func (p *Program) emitFlat(document any) error {
	raw, err := indented(document)
	if err != nil {
		return err
	}
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	f := &flat{decoder: decoder}
	if err := f.value(""); err != nil {
		return fmt.Errorf("write CSV: %w", err)
	}
	return writeCSV(p.Stdout, true, f.names, f.values)
}

// flat takes a JSON document apart into the paths of its values and the values.
type flat struct {
	decoder *json.Decoder
	names   []string
	values  []any
}

// value takes the next value of the document.
func (f *flat) value(path string) error {
	token, err := f.decoder.Token()
	if err != nil {
		return err
	}
	switch token {
	case json.Delim('{'):
		return f.members(path, func(int) (string, error) {
			name, err := f.decoder.Token()
			text, _ := name.(string)
			return text, err
		})
	case json.Delim('['):
		return f.members(path, func(i int) (string, error) { return strconv.Itoa(i), nil })
	case nil:
		token = ""
	}
	f.names, f.values = append(f.names, path), append(f.values, token)
	return nil
}

// members takes the members of an object or a list.
func (f *flat) members(path string, next func(int) (string, error)) error {
	for i := 0; f.decoder.More(); i++ {
		name, err := next(i)
		if err != nil {
			return err
		}
		if path != "" {
			name = path + "." + name
		}
		if err := f.value(name); err != nil {
			return err
		}
	}
	_, err := f.decoder.Token() // The end.
	return err
}

// writeCSV writes rows, the first below a header.
func writeCSV(to io.Writer, first bool, header []string, rows ...[]any) error {
	w := csv.NewWriter(to)
	var err error
	if first {
		err = w.Write(header)
	}
	for _, row := range rows {
		fields := make([]string, len(row))
		for i, v := range row {
			fields[i] = field(v)
		}
		err = errors.Join(err, w.Write(fields))
	}
	w.Flush()
	return errors.Join(err, w.Error())
}

// field writes a value with all its digits.
func field(v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case float64:
		return strconv.FormatFloat(v, 'g', -1, 64)
	case *float64:
		return Optional(v, func(x float64) string { return field(x) })
	default:
		return fmt.Sprint(v)
	}
}
