package capacity

import (
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
)

// TableName is the file of the measurements in the directory of the results.
const TableName = "sizing.csv"

// column is a field of a Row that the table has.
type column struct {
	name  string
	index []int
}

// columns lists the fields of a Row with a tag, in their order.
func columns() (all []column) {
	for _, f := range reflect.VisibleFields(reflect.TypeFor[Row]()) {
		if name, ok := f.Tag.Lookup("csv"); ok {
			all = append(all, column{name, f.Index})
		}
	}
	return all
}

// WriteTable writes rows as CSV.
func WriteTable(to io.Writer, rows []*Row) error {
	var header []string
	for _, c := range columns() {
		header = append(header, c.name)
	}
	table := [][]string{header}
	for _, r := range rows {
		var cells []string
		for _, c := range columns() {
			cells = append(cells, fmt.Sprint(reflect.ValueOf(r).Elem().FieldByIndex(c.index)))
		}
		table = append(table, cells)
	}
	return csv.NewWriter(to).WriteAll(table)
}

// ReadTable reads what WriteTable wrote.
func ReadTable(from io.Reader) (rows []*Row, err error) {
	r := csv.NewReader(from)
	r.FieldsPerRecord = len(columns())
	records, err := r.ReadAll()
	if err != nil {
		return nil, fmt.Errorf("read the table: %w", err)
	}
	for n, record := range records[min(1, len(records)):] {
		row := &Row{}
		for i, c := range columns() {
			field := reflect.ValueOf(row).Elem().FieldByIndex(c.index)
			if field.Kind() == reflect.String {
				field.SetString(record[i])
			} else if err := json.Unmarshal([]byte(record[i]), field.Addr().Interface()); err != nil {
				return nil, fmt.Errorf("row %d, column %s: %w", n+1, c.name, err)
			}
		}
		rows = append(rows, row)
	}
	return rows, nil
}

// Save writes the table into a directory.
func Save(dir string, rows []*Row) error {
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return err
	}
	table, err := os.Create(filepath.Join(dir, TableName)) //nolint:gosec // the user names the directory
	if err != nil {
		return err
	}
	return errors.Join(WriteTable(table, rows), table.Close())
}
