package infer_test

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"hindsight/internal/infer"
)

// The cells of a column are read as the table of cells says, as an inferred and as a declared input, and by Values.
func TestCells(t *testing.T) {
	raw, err := os.ReadFile("testdata/cells.json")
	require.NoError(t, err)
	var cases []struct {
		Case, Kind    string
		Cells, Values []any
	}
	require.NoError(t, json.Unmarshal(raw, &cases))
	for _, c := range cases {
		var cells []string
		for _, cell := range c.Cells {
			cells = append(cells, cell.(string))
		}
		text := "c\tother\n" + strings.Join(cells, "\t0.5\n") + "\t0.5\n"
		r := read(t, text, infer.Options{})
		inferred := r.Columns[0]
		if string(inferred.Kind) != c.Kind || inferred.Notice() != "" && inferred.Kind != infer.LeftOut && !slices.Contains([]string{"beyond 1e100", "two units", "percent beside a number"}, c.Case) &&
			!strings.Contains(c.Case, "several units") {
			t.Errorf("%s: %s (%s), want %s", c.Case, inferred.Kind, inferred.Reason, c.Kind)
			continue
		}
		if c.Values != nil {
			lines, err := infer.Values(text, "a.csv", infer.Options{}, r.Spec)
			var want strings.Builder
			for _, v := range c.Values {
				row := json.NewEncoder(&want)
				row.SetEscapeHTML(false)
				_ = row.Encode([]any{v, 0.5}) // Texts, numbers and booleans.
			}
			if err != nil || lines != want.String() {
				t.Errorf("%s: the values %s, %v, want %s", c.Case, lines, err, want.String())
			}
		}
		declared, err := declaredCSV(strings.NewReader(text), r.Spec.GetInputs())
		if err != nil {
			t.Errorf("%s: %v", c.Case, err)
			continue
		}
		for i, want := range c.Values {
			for _, column := range []*infer.Column{inferred, declared.Columns["c"]} {
				got, err := column.Value(cells[i])
				assert.True(t, err == nil && got == want, "%s: %q is %v, %v, want %v", c.Case, cells[i], got, err, want)
			}
		}
	}
}
