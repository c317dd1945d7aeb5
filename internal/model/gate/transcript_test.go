package gate_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"github.com/stretchr/testify/assert"

	"hindsight/internal/model"
)

// The labels of testdata/labels get what stands below them. To write the file anew, run go test -run TestTranscripts
// -rewrite. With rows=N the gate receives N rows, which take the labels of the input in turn. After "new" a new gate receives them.
func TestTranscripts(t *testing.T) {
	l, _ := recorded(1, 1)
	row := 0
	datadriven.RunTest(t, "testdata/labels", func(t *testing.T, d *datadriven.TestData) string {
		t.Helper()
		if d.HasArg("new") {
			l, _ = recorded(1, 1)
			row = 0
		}
		var rows int
		d.ScanArgs(t, "rows", &rows)
		labels := strings.Fields(d.Input)
		var out strings.Builder
		var o model.Outcome
		for n := range rows {
			var y float64
			_, err := fmt.Sscan(labels[n%len(labels)], &y)
			assert.NoError(t, err)
			before := l.Stats().Gate.Starts
			assert.NoError(t, l.Observe(&o, []float64{0}, []float64{y}, 1))
			if row++; o.SetAside {
				fmt.Fprintf(&out, "row %d: %g is set aside\n", row, y)
			}
			if l.Stats().Gate.Starts > before {
				fmt.Fprintf(&out, "row %d: the learner starts again\n", row)
			}
		}
		s := l.Stats()
		return out.String() + fmt.Sprintf("%d rows, %d set aside\n", s.Observations, s.Gate.SetAside)
	})
}
