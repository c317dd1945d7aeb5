package dataset_test

import (
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/text/encoding/charmap"

	"hindsight/internal/dataset"
)

// Every character of Windows-1252 is the one of golang.org/x/text, also if a file comes byte by byte.
func TestEveryByteOfWindows1252(t *testing.T) {
	var all []byte
	for b := 255; b >= 0; b-- {
		if !strings.ContainsRune("\r\n,\"", rune(b)) {
			all = append(all, byte(b))
		}
	}
	want, err := charmap.Windows1252.NewDecoder().Bytes(all)
	require.NoError(t, err)
	table, err := dataset.NewTable(iotest.OneByteReader(strings.NewReader("a,b\n1,"+string(all)+"\n")), "all.csv", ',')
	require.NoError(t, err)
	row, err := table.Read()
	require.NoError(t, err)
	assert.Equal(t, string(want), row[1])
}
