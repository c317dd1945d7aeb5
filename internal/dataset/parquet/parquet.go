// Package parquet reads the rows of Parquet files as the texts that a CSV file would have. It is apart from
// dataset because the library is large, and the server reads no Parquet.
package parquet

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/deprecated"
	"github.com/parquet-go/parquet-go/format"

	"hindsight/internal/dataset"
)

// rowsAtOnce is how many rows are decoded together.
const rowsAtOnce = 64

// rows reads the rows of a Parquet file as texts, as a CSV file would have them. It reads
// one page of each column at a time.
type rows struct {
	columns []column
	groups  []parquet.RowGroup // not read yet
	current parquet.Rows       // of the current group, nil before the first
	buffer  []parquet.Row
	decoded []parquet.Row // of the buffer, not returned yet
	record  []string
}

type column struct {
	name     string
	repeated bool
	logical  format.LogicalTypeValue // nil if the physical type says all
}

// File is what a Parquet file is read from: its description is at its end.
type File interface {
	io.ReadSeeker
	io.ReaderAt
}

// NewTable reads the description of a Parquet file from its first byte on, or the header of a CSV file:
// see dataset.NewTable. Errors call the file name.
func NewTable(file File, name string, delimiter rune) (*dataset.Table, error) {
	magic := make([]byte, len(dataset.ParquetMagic))
	if _, err := file.ReadAt(magic, 0); err != nil || string(magic) != dataset.ParquetMagic {
		return dataset.NewTable(file, name, delimiter)
	}
	r, err := open(file)
	if err != nil {
		return nil, &dataset.Error{File: name, Err: err}
	}
	return dataset.NewRowTable(name, r.names(), r.next, func() (*dataset.Table, error) { return NewTable(file, name, delimiter) })
}

func open(from File) (r *rows, err error) {
	size, err := from.Seek(0, io.SeekEnd)
	if err != nil {
		return nil, err
	}
	defer recoverDamage(&err)
	file, err := parquet.OpenFile(from, size, parquet.SkipBloomFilters(true), parquet.SkipPageIndex(true))
	if err != nil {
		return nil, err
	}
	if err := checkColumns(file.Metadata()); err != nil {
		return nil, err
	}
	r = &rows{groups: slices.Clone(file.RowGroups()), buffer: make([]parquet.Row, rowsAtOnce)}
	for _, path := range file.Schema().Columns() {
		leaf, _ := file.Schema().Lookup(path...)
		c := column{name: columnName(path), repeated: leaf.MaxRepetitionLevel > 0}
		if t := leaf.Node.Type().LogicalType(); t != nil {
			c.logical = t.Value
		}
		r.columns = append(r.columns, c)
	}
	return r, nil
}

// checkColumns rejects a column whose values would be read wrong. The library returns wrong values
// for the pages of LZ4_RAW, without an error. Of types that it does not implement it returns the
// bytes, and no logical type: checkColumns reads the types from the description of the file.
func checkColumns(file *format.FileMetaData) error {
	leaves := slices.DeleteFunc(slices.Clone(file.Schema), func(e format.SchemaElement) bool { return !e.Type.Valid })
	for _, group := range file.RowGroups {
		for i, c := range group.Columns {
			name := columnName(c.MetaData.PathInSchema)
			if c.FilePath != "" {
				return fmt.Errorf("column %s of the Parquet file is in another file, %s", name, c.FilePath)
			}
			if c.MetaData.Codec == format.Lz4Raw {
				return fmt.Errorf("column %s of the Parquet file is compressed with LZ4_RAW, want ZSTD, SNAPPY, GZIP, BROTLI or no compression", name)
			}
			if unknown := unknownType(&leaves[i]); unknown != "" {
				return fmt.Errorf("column %s of the Parquet file has the type %s, want BOOLEAN, INT, FLOAT, DOUBLE, DECIMAL, DATE, TIME, TIMESTAMP, STRING, ENUM, JSON or UUID",
					name, unknown)
			}
		}
	}
	return nil
}

// maxScale bounds how many digits a number is written with.
const maxScale = 1000

// unknownType is the logical type of a leaf if column cannot write values of the type as
// text, and empty otherwise.
func unknownType(leaf *format.SchemaElement) string {
	decimal, _ := leaf.LogicalType.Value.(*format.DecimalType)
	if decimal != nil && uint32(decimal.Scale) > maxScale {
		return fmt.Sprintf("DECIMAL of scale %d", decimal.Scale)
	}
	switch t := leaf.LogicalType.Value.(type) {
	case nil:
	case *format.StringType, *format.EnumType, *format.DecimalType, *format.DateType, *format.TimeType, *format.TimestampType,
		*format.IntType, *format.NullType, *format.JsonType, *format.UUIDType:
		return ""
	default:
		return t.String()
	}
	// Older writers have the converted type alone.
	switch t := leaf.ConvertedType.V; {
	case !leaf.ConvertedType.Valid:
		return ""
	case t == deprecated.Decimal && (!leaf.Scale.Valid || !leaf.Precision.Valid):
		return "DECIMAL without its scale and precision"
	case t == deprecated.Decimal && uint32(leaf.Scale.V) > maxScale:
		return fmt.Sprintf("DECIMAL of scale %d", leaf.Scale.V)
	case t == deprecated.Bson:
		return "BSON"
	case t == deprecated.Interval:
		return "INTERVAL"
	case t > deprecated.Interval:
		return fmt.Sprintf("%d, which this version does not know", t)
	default:
		return ""
	}
}

// recoverDamage makes an error of a panic: the library panics at some damaged files.
func recoverDamage(err *error) {
	if r := recover(); r != nil {
		*err = fmt.Errorf("the Parquet file is damaged: %v", r)
	}
}

// columnName joins the names of a leaf and its parents. The names that only say that a column is
// a list are left out.
func columnName(path []string) string {
	if n := len(path); n > 2 && (path[n-2] == "list" || path[n-2] == "bag") {
		path = path[:n-2]
	}
	return strings.Join(path, ".")
}

func (r *rows) names() []string {
	out := make([]string, len(r.columns))
	for i, c := range r.columns {
		out[i] = c.name
	}
	return out
}

// next returns the fields of the next row, which are valid until the next call, or io.EOF.
func (r *rows) next() (record []string, err error) {
	defer recoverDamage(&err)
	for len(r.decoded) == 0 {
		if r.current == nil {
			if len(r.groups) == 0 {
				return nil, io.EOF
			}
			r.current, r.groups = r.groups[0].Rows(), r.groups[1:]
		}
		n, err := r.current.ReadRows(r.buffer)
		if r.decoded = r.buffer[:n]; err == nil {
			continue
		}
		if !errors.Is(err, io.EOF) {
			return nil, err
		}
		if err := r.current.Close(); err != nil {
			return nil, err
		}
		r.current = nil
	}
	r.record = r.record[:0]
	for range r.columns {
		r.record = append(r.record, "")
	}
	r.decoded[0].Range(func(column int, values []parquet.Value) bool {
		c := &r.columns[column]
		if len(values) > 1 && slices.ContainsFunc(values, func(v parquet.Value) bool { return v.IsNull() }) {
			err = fmt.Errorf("column %s of the Parquet file has a list with a null among its values, want values only", c.name)
			return false
		}
		r.record[column] = c.text(values)
		return true
	})
	if err != nil {
		return nil, err
	}
	r.decoded = r.decoded[1:]
	return r.record, nil
}

// text writes the values of a row: none for a missing value, several with spaces and brackets.
func (c *column) text(values []parquet.Value) string {
	var texts []string
	for _, v := range values {
		if !v.IsNull() {
			texts = append(texts, c.value(v))
		}
	}
	if c.repeated && len(texts) > 0 {
		return "[" + strings.Join(texts, " ") + "]"
	}
	return strings.Join(texts, " ")
}

// value writes a value as a CSV file would have it.
func (c *column) value(v parquet.Value) string {
	switch v.Kind() {
	case parquet.Boolean:
		return strconv.FormatBool(v.Boolean())
	case parquet.Float:
		return c.float(float64(v.Float()), 32)
	case parquet.Double:
		return c.float(v.Double(), 64)
	case parquet.Int32:
		return c.integer(int64(v.Int32()), uint64(v.Uint32()))
	case parquet.Int64:
		return c.integer(v.Int64(), v.Uint64())
	case parquet.Int96:
		// The time of the day in nanoseconds, and the Julian day.
		t := v.Int96()
		nanos := int64(uint64(t[1])<<32 | uint64(t[0]))
		const epoch = 2440588
		return moment(time.Unix((int64(t[2])-epoch)*int64((24*time.Hour)/time.Second), nanos))
	case parquet.ByteArray, parquet.FixedLenByteArray:
		return c.bytes(v.ByteArray())
	default:
		return v.String()
	}
}

// maxExact bounds the integers that a float64 has all of.
const maxExact = 1 << 53

// float writes a number of 32 or 64 bits. An integer is written as its digits: 1000185 and not
// 1.000185e+06, which would be another category. A number that is not finite is a missing value.
func (c *column) float(v float64, bits int) string {
	switch {
	case !c.repeated && (math.IsNaN(v) || math.IsInf(v, 0)):
		return ""
	case v == 0:
		return "0" // Of either sign.
	case v == math.Trunc(v) && math.Abs(v) < maxExact:
		return strconv.FormatFloat(v, 'f', -1, bits)
	default:
		return strconv.FormatFloat(v, 'g', -1, bits)
	}
}

func (c *column) integer(signed int64, unsigned uint64) string {
	switch t := c.logical.(type) {
	case *format.IntType:
		if !t.IsSigned {
			return strconv.FormatUint(unsigned, 10)
		}
	case *format.DateType:
		return time.Unix(signed*int64((24*time.Hour)/time.Second), 0).UTC().Format(time.DateOnly)
	case *format.TimestampType:
		unit := int64(t.Unit.Value.Duration())
		second := int64(time.Second) / unit
		return moment(time.Unix(signed/second, signed%second*unit))
	case *format.DecimalType:
		return decimal(big.NewInt(signed), int(t.Scale))
	}
	return strconv.FormatInt(signed, 10)
}

func (c *column) bytes(b []byte) string {
	switch t := c.logical.(type) {
	case *format.DecimalType:
		v := new(big.Int).SetBytes(b)
		if len(b) > 0 && b[0] >= 0x80 { // Two's complement.
			v.Sub(v, new(big.Int).Lsh(big.NewInt(1), uint(8*len(b))))
		}
		return decimal(v, int(t.Scale))
	case *format.UUIDType:
		return hex.EncodeToString(b)
	default:
		return string(b)
	}
}

func moment(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

func decimal(v *big.Int, scale int) string {
	power := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(scale)), nil)
	return new(big.Rat).SetFrac(v, power).FloatString(scale)
}
