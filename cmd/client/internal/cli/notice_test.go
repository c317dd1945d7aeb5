package cli_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// Every command that infers the inputs of a file says what is left out, and which cell is taken for a
// missing value, unless the column is ignored. It says so once.
func TestNoticeOfOddCells(t *testing.T) {
	t.Setenv(actAsServer, "yes")
	var b strings.Builder
	b.WriteString("x,id,price,sold\n")
	for i := range 300 {
		x := fmt.Sprintf("%d.5", i)
		if i == 7 {
			x = "ask 7"
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
		`x is a number: numbers from 0.5 to 299.5; "ask 7" in line 9 is no number, and is taken for a missing value`,
		"id is left out: most cells do not repeat another: it names the row",
		`price is a number: numbers from 0 to 38; "-9-" in line 11 is no number, and is taken for a missing value`,
	}
	serving(t)
	local := []string{"--local", "--server", program(t)}
	for name, args := range map[string][]string{
		"compare": {"compare", "--csv", path, "--learners", "auto"},
		"predict": append([]string{"predict", "--train", path, "--inputs", `{"x": 3, "price": 2.5}`}, local...),
		"replay":  append([]string{"replay", "--csv", path}, local...),
	} {
		r := run(t, args...)
		for _, text := range says {
			assert.True(t, r.code == 0 && strings.Count(r.errors, text) == 1, "%s: %+v, want it to say once %s", name, r, text)
		}
	}
	r := run(t, "compare", "--csv", path, "--learners", "auto", "--ignore", "id")
	assert.True(t, r.code == 0 && !strings.Contains(r.errors, "id is left out") && strings.Contains(r.errors, says[0]), "--ignore id: %+v", r)
}
