package capacity_test

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"hindsight/cmd/research/capacity"
)

// committed are the rows that were committed.
func committed(t *testing.T) []*capacity.Row {
	t.Helper()
	raw, err := os.ReadFile(filepath.FromSlash("../results/" + capacity.TableName))
	if err != nil {
		t.Fatal(err)
	}
	rows, err := capacity.ReadTable(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	if len(rows) == 0 {
		t.Fatal("no rows are committed")
	}
	return rows
}

// The committed table is the same after it was read and written.
func TestCommittedTable(t *testing.T) {
	rows := committed(t)
	var again bytes.Buffer
	if err := capacity.WriteTable(&again, rows); err != nil {
		t.Fatal(err)
	}
	twice, err := capacity.ReadTable(&again)
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range twice {
		if !reflect.DeepEqual(r, rows[i]) {
			t.Errorf("%+v is %+v when it is written and read", rows[i], r)
		}
	}
}

// What package sizing answers is within the factors that research/sizing/README.md states, of all that
// was measured.
func TestAnswersNearMeasurements(t *testing.T) {
	unseen := 0
	for _, r := range committed(t) {
		if r.Unseen {
			unseen++
		}
		figures, err := r.Figures()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range figures {
			low, high, ok := capacity.Stated(f.Name)
			if !ok {
				t.Errorf("nothing is stated of %q", f.Name)
			}
			if ratio := f.Ratio(); ratio < low || ratio > high {
				t.Errorf("%s, %s: measured %g, the answer %g is %.2f of it, stated are %g to %g", r.Name, f.Name, f.Measured, f.Answered, ratio, low, high)
			}
		}
	}
	if unseen < 2 {
		t.Errorf("%d unseen cases, want two", unseen)
	}
}

// A table that was damaged is rejected.
func TestReadTable(t *testing.T) {
	row := &capacity.Row{Case: capacity.Case{Name: "n", Models: 2}, Validated: `{"features": "3"}`, Measured: 7}
	var table bytes.Buffer
	if err := capacity.WriteTable(&table, []*capacity.Row{row}); err != nil {
		t.Fatal(err)
	}
	for _, spoil := range [][2]string{{",7,", ",seven,"}, {",2,", ",two,"}, {"features", "feature"}, {",false,", ","}} {
		spoilt := strings.Replace(table.String(), spoil[0], spoil[1], 1)
		if spoilt == table.String() {
			t.Fatalf("%q is not in %q", spoil[0], spoilt)
		}
		rows, err := capacity.ReadTable(strings.NewReader(spoilt))
		if err == nil {
			_, err = rows[0].Figures()
		}
		if err == nil {
			t.Errorf("%q in place of %q is accepted", spoil[1], spoil[0])
		}
	}
	if err := capacity.Save(filepath.Join(t.TempDir(), "a", "b"), []*capacity.Row{row}); err != nil {
		t.Error(err)
	}
	file := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := capacity.Save(file, nil); err == nil || errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file as the directory: %v", err)
	}
}
