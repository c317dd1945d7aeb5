package parquet_test

import (
	"bytes"
	"encoding/binary"
	"io"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/deprecated"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"hindsight/internal/dataset"
	parquetfile "hindsight/internal/dataset/parquet"
)

// parquetRow has one column of each kind.
type parquetRow struct {
	City    *string          `parquet:"city,optional"`
	Temp    float64          `parquet:"temp"`
	Short   float32          `parquet:"short"`
	Rain    bool             `parquet:"rain"`
	Count   uint64           `parquet:"count"`
	Day     int32            `parquet:"day,date"`
	At      time.Time        `parquet:"at,timestamp(microsecond)"`
	Old     deprecated.Int96 `parquet:"old"`
	Price   int64            `parquet:"price,decimal(2:18)"`
	Vector  []float64        `parquet:"vector,list"`
	Y       int32            `parquet:"y"`
	Unknown *float64         `parquet:"unknown,optional"`
}

func written[T any](t *testing.T, rows []T, options ...parquet.WriterOption) []byte {
	t.Helper()
	var file bytes.Buffer
	require.NoError(t, parquet.Write(&file, rows, options...))
	return file.Bytes()
}

// A Parquet file has the fields that a CSV file would have.
func TestParquet(t *testing.T) {
	oslo := "Oslo"
	at := time.Date(2026, 11, 21, 18, 0, 0, 250_000_000, time.UTC)
	row := parquetRow{
		City: &oslo, Temp: -1.5, Short: 0.1, Rain: true, Count: 1<<64 - 1, Day: int32(at.Unix() / 86400), At: at,
		// 12 hours after the beginning of Julian day 2440589, which is 1970-01-02.
		Old: deprecated.Int96{0x92318000 & 0xffffffff, 0x2748, 2440589}, Price: -1234, Vector: []float64{1, 2.5}, Y: -3,
	}
	want := map[string]string{
		"city": "Oslo", "temp": "-1.5", "short": "0.1", "rain": "true", "count": "18446744073709551615", "day": "2026-11-21",
		"at": "2026-11-21T18:00:00.25Z", "price": "-12.34", "vector": "[1 2.5]", "y": "-3", "unknown": "",
	}
	rows := []parquetRow{row, {Y: 7}}
	plain := written(t, rows)
	for name, in := range map[string]parquetfile.File{
		"a file":         bytes.NewReader(plain),
		"several groups": bytes.NewReader(written(t, rows, parquet.MaxRowsPerRowGroup(1))),
		"snappy":         bytes.NewReader(written(t, rows, parquet.Compression(&parquet.Snappy))),
		"zstd":           bytes.NewReader(written(t, rows, parquet.Compression(&parquet.Zstd))),
	} {
		table, err := parquetfile.NewTable(in, "a.parquet", 0)
		require.NoError(t, err, name)
		record, err := table.Read()
		require.NoError(t, err, name)
		for column, text := range want {
			i := slices.Index(table.Columns(), column)
			assert.True(t, i >= 0 && record[i] == text, "%s: column %s of %q: %q, want %q", name, column, table.Columns(), record, text)
		}
		i := slices.Index(table.Columns(), "old")
		assert.True(t, strings.HasPrefix(record[i], "1970-01-02T1"), "%s: old time %s", name, record[i])
		record, err = table.Read()
		assert.True(t, err == nil && record[slices.Index(table.Columns(), "y")] == "7", "%s: second row %q, %v", name, record, err)
		_, err = table.Read()
		assert.ErrorIs(t, err, io.EOF, "%s: after the last row", name)
	}
}

// A float is the text that a CSV file would have of the number: an integer is its digits.
func TestParquetFloats(t *testing.T) {
	type row struct {
		X float64   `parquet:"x"`
		F float32   `parquet:"f"`
		V []float64 `parquet:"v,list"`
	}
	values := map[float64]string{
		1000185: "1000185", -1e15: "-1000000000000000", 1<<53 - 1: "9007199254740991", 1 << 53: "9.007199254740992e+15", 0.1: "0.1",
		math.Copysign(0, -1): "0", math.NaN(): "", math.Inf(1): "", math.Inf(-1): "",
	}
	for v, want := range values {
		table, err := parquetfile.NewTable(bytes.NewReader(written(t, []row{{v, 1000185, []float64{1, v}}})), "a.parquet", 0)
		require.NoError(t, err)
		record, err := table.Read()
		assert.True(t, err == nil && record[0] == want && record[1] == "1000185", "%v is %q, %v, want %q", v, record, err, want)
		// A list keeps its places.
		assert.Len(t, strings.Fields(record[2]), 2, "%v %v", v, record[2])
	}
}

// An error names the row and the column. A damaged file is an error too.
func TestParquetErrors(t *testing.T) {
	type row struct {
		X string  `parquet:"x"`
		Y float64 `parquet:"y"`
	}
	file := written(t, []row{{"1", 1}, {"two", 2}})
	table, err := parquetfile.NewTable(bytes.NewReader(file), "a.parquet", 0)
	require.NoError(t, err)
	_, err = dataset.NewReader(table, dataset.Selection{Target: "z"})
	assert.True(t, err != nil && strings.Contains(err.Error(), `no target column "z" among x, y`), "no target: %v", err)
	r, err := dataset.NewReader(table, dataset.Selection{Target: "y"})
	require.NoError(t, err)
	var y [1]float64
	x, err := r.Read(nil, y[:])
	require.True(t, err == nil && x[0] == 1, "%v %v", x, err)
	_, err = r.Read(nil, y[:])
	assert.True(t, err != nil && err.Error() == `a.parquet: row 2, column 1 (x): "two" is not a number`, "a text: %v", err)
	for cut := 4; cut < len(file); cut++ {
		_, err := parquetfile.NewTable(bytes.NewReader(file[:cut]), "a.parquet", 0)
		require.Error(t, err, "%v %v", cut, len(file))
	}
}

// The reader rejects a file whose values it would read wrong, and names the column.
func TestParquetRejected(t *testing.T) {
	type list struct {
		X []*float64 `parquet:"x,list"`
	}
	type fixed struct {
		X [12]byte `parquet:"x"`
	}
	float16, err := os.ReadFile("testdata/float16.parquet")
	require.NoError(t, err)
	lz4, err := os.ReadFile("testdata/lz4.parquet")
	require.NoError(t, err)
	bytesOf := written(t, []fixed{{}, {}})
	one, three := 1.0, 3.0
	for name, tt := range map[string]struct {
		file []byte
		want string
	}{
		"LZ4_RAW":        {lz4, "column x of the Parquet file is compressed with LZ4_RAW"},
		"null in a list": {written(t, []list{{[]*float64{&one, nil, &three}}}), "column x of the Parquet file has a list with a null"},
		"FLOAT16":        {float16, "column half of the Parquet file has the type FLOAT16, want BOOLEAN,"},
		"INTERVAL": {described(t, bytesOf, func(m *format.FileMetaData) {
			m.Schema[1].ConvertedType = thrift.New(deprecated.Interval)
		}), "column x of the Parquet file has the type INTERVAL"},
		"an old DECIMAL without a scale": {described(t, bytesOf, func(m *format.FileMetaData) {
			m.Schema[1].ConvertedType = thrift.New(deprecated.Decimal)
		}), "column x of the Parquet file has the type DECIMAL without"},
		"a DECIMAL of many digits": {described(t, bytesOf, func(m *format.FileMetaData) {
			m.Schema[1].LogicalType.Value = &format.DecimalType{Scale: 1 << 28}
		}), "column x of the Parquet file has the type DECIMAL of scale 268435456"},
		"an old DECIMAL of many digits": {described(t, bytesOf, func(m *format.FileMetaData) {
			m.Schema[1].ConvertedType = thrift.New(deprecated.Decimal)
			m.Schema[1].Scale, m.Schema[1].Precision = thrift.New[int32](-1), thrift.New[int32](9)
		}), "column x of the Parquet file has the type DECIMAL of scale -1"},
		"a file of the description alone": {described(t, bytesOf, func(m *format.FileMetaData) {
			m.RowGroups[0].Columns[0].FilePath = "part.0.parquet"
		}), "column x of the Parquet file is in another file, part.0.parquet"},
		"VARIANT": {described(t, bytesOf, func(m *format.FileMetaData) {
			m.Schema[1].LogicalType.Value = &format.VariantType{}
		}), "column x of the Parquet file has the type VARIANT"},
		"BSON": {described(t, bytesOf, func(m *format.FileMetaData) {
			m.Schema[1].LogicalType.Value = &format.BsonType{}
		}), "column x of the Parquet file has the type BSON"},
	} {
		t.Run(name, func(t *testing.T) {
			table, err := parquetfile.NewTable(bytes.NewReader(tt.file), "a.parquet", 0)
			for err == nil {
				_, err = table.Read()
			}
			assert.Contains(t, err.Error(), tt.want, err)
		})
	}
}

// described changes the description of a Parquet file, which ends with it, its length in four bytes, and a magic: the
// writer knows fewer types than the format.
func described(t *testing.T, file []byte, change func(*format.FileMetaData)) []byte {
	t.Helper()
	end := len(file) - 8
	start := end - int(binary.LittleEndian.Uint32(file[end:]))
	var meta format.FileMetaData
	require.NoError(t, thrift.Unmarshal(new(thrift.CompactProtocol), file[start:end], &meta))
	change(&meta)
	changed, err := thrift.Marshal(new(thrift.CompactProtocol), &meta)
	require.NoError(t, err)
	out := append(slices.Clone(file[:start]), changed...)
	return append(binary.LittleEndian.AppendUint32(out, uint32(len(changed))), "PAR1"...)
}
