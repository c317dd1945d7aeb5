package cli_test

import (
	"strconv"
	"strings"
	"testing"
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
	for asked, says := range map[int]string{
		1:  "",
		5:  "each row is learned 4 rows late, as the last of 5 rows is asked for",
		11: "each row is learned 10 rows late, as the last of 11 rows is asked for",
		30: "each row is learned 10 rows late, a quarter of --train: the last of 30 rows is asked for still later",
	} {
		r := run(t, "predict", "--local", "--server", program(t), "--train", path, "--csv", written(t, "asked.csv", "x\n"+strings.Repeat("1.5\n", asked)))
		if r.code != 0 || strings.Contains(r.errors, "late") != (says != "") || !strings.Contains(r.errors, says) {
			t.Errorf("%d rows: want %q: %+v", asked, says, r)
		}
		if !strings.Contains(r.errors, "learned 40 rows") {
			t.Errorf("%d rows: %q", asked, r.errors)
		}
		for n, line := range strings.Split(strings.TrimSpace(r.out), "\n")[1:] {
			if line != strconv.Itoa(n+1)+","+strconv.FormatFloat(sum/rows, 'g', -1, 64) {
				t.Errorf("%d rows: %q, want the mean of all labels", asked, line)
			}
		}
	}
	for text, says := range map[string]string{"x\nz\n": "wrong.csv: line 2", "x\n": "wrong.csv: there is no row below the header"} {
		r := run(t, "predict", "--local", "--server", program(t), "--train", path, "--csv", written(t, "wrong.csv", text))
		if r.code != 2 || !strings.Contains(r.errors, says) || strings.Contains(r.errors, "learned") {
			t.Errorf("want --csv rejected before the training: %+v", r)
		}
	}
}
