package capacity

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"

	"google.golang.org/protobuf/encoding/protojson"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
)

// TableName is the file of the measurements in the directory of the results.
const TableName = "sizing.csv"

// column is a number of a row in the table.
type column struct {
	name string
	of   func(*Row) *float64
}

func columns() []column {
	return []column{
		{"calls", func(r *Row) *float64 { return &r.Measured }},
		{"predict_cpu_seconds", func(r *Row) *float64 { return &r.PredictCPU }},
		{"observe_cpu_seconds", func(r *Row) *float64 { return &r.ObserveCPU }},
		{"echo_predict_cpu_seconds", func(r *Row) *float64 { return &r.EchoPredictCPU }},
		{"echo_observe_cpu_seconds", func(r *Row) *float64 { return &r.EchoObserveCPU }},
		{"alone_cpu_seconds", func(r *Row) *float64 { return &r.AloneCPU }},
		{"echo_alone_cpu_seconds", func(r *Row) *float64 { return &r.EchoAloneCPU }},
		{"state_bytes", func(r *Row) *float64 { return &r.StateBytes }},
		{"models_bytes", func(r *Row) *float64 { return &r.ModelsBytes }},
		{"empty_resident_bytes", func(r *Row) *float64 { return &r.EmptyBytes }},
		{"resident_bytes", func(r *Row) *float64 { return &r.ResidentBytes }},
		{"log_bytes", func(r *Row) *float64 { return &r.LogBytes }},
		{"logged_observations", func(r *Row) *float64 { return &r.Logged }},
		{"ids", func(r *Row) *float64 { return &r.IDs }},
		{"pending_bytes", func(r *Row) *float64 { return &r.PendingBytes }},
		{"waiting_predictions", func(r *Row) *float64 { return &r.Waiting }},
		{"snapshot_bytes", func(r *Row) *float64 { return &r.SnapshotBytes }},
		{"start_seconds", func(r *Row) *float64 { return &r.StartSeconds }},
		{"recovery_cpu_seconds", func(r *Row) *float64 { return &r.RecoveryCPU }},
		{"replayed_observations", func(r *Row) *float64 { return &r.Replayed }},
	}
}

// texts are the columns before the numbers.
func texts() []string { return []string{"case", "models", "bulk", "unseen", "validated"} }

// WriteTable writes rows as CSV, with all that Read needs.
func WriteTable(to io.Writer, rows []*Row) error {
	w := csv.NewWriter(to)
	header := texts()
	for _, c := range columns() {
		header = append(header, c.name)
	}
	if err := w.Write(header); err != nil {
		return err
	}
	for _, r := range rows {
		validated, err := protojson.Marshal(r.Validated)
		if err != nil {
			return fmt.Errorf("write the spec: %w", err)
		}
		cells := []string{r.Name, strconv.Itoa(r.Models), strconv.Itoa(r.Bulk), strconv.FormatBool(r.Unseen), string(validated)}
		for _, c := range columns() {
			cells = append(cells, strconv.FormatFloat(*c.of(r), 'g', -1, 64))
		}
		if err := w.Write(cells); err != nil {
			return err
		}
	}
	w.Flush()
	return w.Error()
}

// ReadTable reads what WriteTable wrote.
func ReadTable(from io.Reader) ([]*Row, error) {
	r := csv.NewReader(from)
	r.FieldsPerRecord = len(texts()) + len(columns())
	records, err := r.ReadAll()
	if err != nil {
		return nil, fmt.Errorf("read the table: %w", err)
	}
	var rows []*Row
	for n, record := range records {
		if n == 0 {
			continue
		}
		row := &Row{Case: Case{Name: record[0]}, Validated: new(hindsightv1.ValidateSpecResponse)}
		row.Models, err = strconv.Atoi(record[1])
		var failed error
		row.Bulk, failed = strconv.Atoi(record[2])
		err = errors.Join(err, failed)
		row.Unseen, failed = strconv.ParseBool(record[3])
		err = errors.Join(err, failed, protojson.Unmarshal([]byte(record[4]), row.Validated))
		for i, c := range columns() {
			*c.of(row), failed = strconv.ParseFloat(record[len(texts())+i], 64)
			err = errors.Join(err, failed)
		}
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n+1, err)
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
