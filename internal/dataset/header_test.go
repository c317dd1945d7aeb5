package dataset_test

import (
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"hindsight/internal/dataset"
)

// A table is read out of what surrounds it: the lines of loggers and clients, a header that repeats, and long names.
func TestSurroundedTables(t *testing.T) {
	long := strings.Repeat("ö", 40)
	for name, tt := range map[string]struct{ text, columns, rows, notes string }{
		"a header that repeats": {"a,b,\n1,2,\na,b,\n3,4,\na,b,\n", "a|b|column 3", "1|2| 3|4|", "line 3, and each later line that repeats the names of the columns, is left out"},
		"a row like its name":   {"a\na\n1\n", "a", "a 1", ""},
		"two columns of psql":   {" a | b \n---+---\n 1 | 2 \n(1 row)\n", "a|b", " 1 | 2 ", "the table ends with line 3: what follows is left out"},
		"rows of a data logger": {"TOA5,x,y,z,1\na,b,c\n1,2,3\n4,5,6\n", "a|b|c", "1|2|3 4|5|6", "the first line of the table is line 2: what precedes it is left out"},
		"long names":            {long + "," + long + "\n1,2\n", strings.Repeat("ö", 32) + "|" + strings.Repeat("ö", 29) + ".1", "1|2", `names of columns of more than 64 bytes are cut, such as "` + strings.Repeat("ö", 32) + `"`},
		"a name of two lines":   {"\"a\nb\",c\x01d\n1,2\n", "a b|c d", "1|2", ""},
		"quotes inside cells":   {"a\tb\n1\t5'11\"\n", "a|b", `1|5'11"`, ""},
	} {
		table, err := dataset.NewTable(strings.NewReader(tt.text), "a.csv", 0)
		require.NoError(t, err, name)
		assert.Equal(t, tt.columns, strings.Join(table.Columns(), "|"), name)
		_, err = table.Column(long)
		assert.Equal(t, strings.HasPrefix(name, "long"), err == nil, name)
		var rows []string
		for {
			record, err := table.Read()
			if errors.Is(err, io.EOF) {
				break
			}
			require.NoError(t, err, name)
			rows = append(rows, strings.Join(record, "|"))
		}
		assert.Equal(t, tt.rows, strings.Join(rows, " "), name)
		assert.Equal(t, tt.notes, strings.Join(table.Notes(), ";"), name)
	}
	table, err := dataset.NewTable(strings.NewReader("a,b\n1,2\n3\n"), "a.csv", 0)
	require.NoError(t, err)
	_, _ = table.Read()
	_, err = table.Read()
	assert.ErrorContains(t, err, "line 3, column 2: 1 fields where the header has 2")
}
