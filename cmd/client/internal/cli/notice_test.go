package cli_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
)

// Every command that infers the inputs of a file says what is left out, and which cell made a column
// no number, unless the column is ignored. It says so once.
func TestNoticeOfOddCells(t *testing.T) {
	t.Setenv(actAsServer, "yes")
	var b strings.Builder
	b.WriteString("x,id,price,sold\n")
	for i := range 300 {
		x := fmt.Sprintf("%d.5", i)
		if i == 7 {
			x = "about 7"
		}
		price := "2.5"
		if i%2 == 0 {
			price = strconv.Itoa(i % 40)
		}
		if i == 9 {
			price = "-9-"
		}
		fmt.Fprintf(&b, "%s,n%d,%s,%d\n", x, i, price, i)
	}
	path := written(t, "sales.csv", b.String())
	says := []string{
		`x is left out: most cells do not repeat another: it names the row; 299 of 300 cells are numbers, and "about 7" in line 9 is none`,
		"id is left out: most cells do not repeat another: it names the row",
		`price is a category: texts, 22 categories; 299 of 300 cells are numbers, and "-9-" in line 11 is none; no cell is empty`,
	}
	serving(t)
	local := []string{"--local", "--server", program(t)}
	for name, args := range map[string][]string{
		"compare": {"compare", "--csv", path, "--learners", "auto"},
		"predict": append([]string{"predict", "--train", path, "--inputs", `{"price": "2.5"}`}, local...),
		"replay":  append([]string{"replay", "--csv", path}, local...),
	} {
		r := run(t, args...)
		for _, text := range says {
			if r.code != 0 || strings.Count(r.errors, text) != 1 {
				t.Errorf("%s: %+v, want it to say once %s", name, r, text)
			}
		}
	}
	r := run(t, "compare", "--csv", path, "--learners", "auto", "--ignore", "id")
	if r.code != 0 || strings.Contains(r.errors, "id is left out") || !strings.Contains(r.errors, says[0]) {
		t.Errorf("--ignore id: %+v", r)
	}
}
