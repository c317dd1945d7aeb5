package cli_test

import (
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// The model of predict --local --csv learns as late as the last row of --csv is asked for, and learns every row.
func TestPredictTrainsWithDelay(t *testing.T) {
	t.Setenv(actAsServer, "yes")
	t.Setenv("HINDSIGHT_ADDRESS", nowhere(t))
	const rows = 40
	var train strings.Builder
	train.WriteString("x,y\n")
	sum := 0.0
	for n := range rows {
		train.WriteString(strconv.Itoa(n%7) + "." + strconv.Itoa(n) + "," + strconv.Itoa(n) + "\n")
		sum += float64(n)
	}
	path := written(t, "train.csv", train.String())
	for _, asked := range []int{1, 5, 30} {
		r := run(t, "predict", "--local", "--server", program(t), "--train", path, "--csv", written(t, "asked.csv", "x\n"+strings.Repeat("1.5\n", asked)))
		assert.Equal(t, 0, r.code, "%d rows: %+v", asked, r)
		assert.True(t, strings.Contains(r.errors, "learned 40 rows"), "%d rows: %q", asked, r.errors)
		for n, line := range strings.Split(strings.TrimSpace(r.out), "\n")[1:] {
			assert.Equal(t, strconv.Itoa(n+1)+","+strconv.FormatFloat(sum/rows, 'g', -1, 64), line, "%d rows, want the mean of all labels", asked)
		}
	}
	r := run(t, "predict", "--local", "--server", program(t), "--train", path, "--csv", written(t, "cut.csv", "x,a,b\n1.5,1,1\n2\n"))
	note := "the table ends with line 2: what follows is left out"
	assert.True(t, r.code == 0 && strings.Count(r.out, "\n") == 2 && strings.Count(r.errors, note) == 1, "want one row and %q: %+v", note, r)
	for text, says := range map[string]string{"x\nz\n": "wrong.csv: line 2", "x\n": "wrong.csv: there is no row below the header"} {
		r := run(t, "predict", "--local", "--server", program(t), "--train", path, "--csv", written(t, "wrong.csv", text))
		assert.True(t, r.code == 2 && strings.Contains(r.errors, says) && !strings.Contains(r.errors, "learned"), "want --csv rejected before the training: %+v", r)
	}
}
