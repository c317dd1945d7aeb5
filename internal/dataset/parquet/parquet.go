// Package parquet reads the rows of Parquet files as the texts that a CSV file would have. Of the library parquet-go
// it takes the description of files and the encodings: the library's reader of rows takes longer to compile than
// the rest of the client. The package is apart from dataset because the server reads no Parquet.
package parquet

import (
	"encoding/binary"
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

	"github.com/parquet-go/parquet-go/deprecated"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"

	"hindsight/internal/dataset"
)

// rows reads the rows of a Parquet file as texts, as a CSV file would have them.
type rows struct {
	file    File
	columns []column
	groups  []format.RowGroup // not begun yet
	left    int64             // rows of the current group, not read yet
	pages   []pages           // of the current group, one a column
	record  []string
	codecs  codecs
}

// column is a leaf of the schema.
type column struct {
	name                         string
	kind                         format.Type
	size                         int                     // of a FIXED_LEN_BYTE_ARRAY
	maxRepetition, maxDefinition int                     // levels
	logical                      format.LogicalTypeValue // nil if the physical type says all
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

func open(file File) (r *rows, err error) {
	defer recoverDamage(&err)
	meta, err := description(file)
	if err != nil {
		return nil, err
	}
	r = &rows{file: file, groups: meta.RowGroups}
	if rest := r.addColumns(meta.Schema[1:], int(meta.Schema[0].NumChildren.V), nil, 0, 0); len(rest) > 0 {
		return nil, fmt.Errorf("the schema of the Parquet file has %d elements too many", len(rest))
	}
	r.record, r.pages = make([]string, len(r.columns)), make([]pages, len(r.columns))
	for _, group := range r.groups {
		if len(group.Columns) != len(r.columns) {
			return nil, fmt.Errorf("a row group of the Parquet file has %d columns, want %d", len(group.Columns), len(r.columns))
		}
		for i := range group.Columns {
			chunk, name := &group.Columns[i], r.columns[i].name
			if chunk.CryptoMetadata.Value != nil {
				return nil, fmt.Errorf("column %s of the Parquet file is encrypted", name)
			}
			if chunk.FilePath != "" {
				return nil, fmt.Errorf("column %s of the Parquet file is in another file, %s", name, chunk.FilePath)
			}
			if codec := chunk.MetaData.Codec; !decompresses(codec) {
				return nil, fmt.Errorf("column %s of the Parquet file is compressed with %s, want ZSTD, SNAPPY, GZIP or no compression", name, codec)
			}
		}
	}
	for _, leaf := range meta.Schema {
		if unknown := unknownType(&leaf); leaf.Type.Valid && unknown != "" {
			return nil, fmt.Errorf("column %s of the Parquet file has the type %s, want BOOLEAN, INT, FLOAT, DOUBLE, DECIMAL, DATE, TIME, TIMESTAMP, STRING, ENUM, JSON or UUID",
				leaf.Name, unknown)
		}
	}
	return r, nil
}

// description decodes the end of the file: the description, its length in four bytes, and the magic.
func description(file File) (*format.FileMetaData, error) {
	size, err := file.Seek(0, io.SeekEnd)
	if err != nil {
		return nil, err //nolint:wrapcheck // It names the file.
	}
	const magic = int64(len(dataset.ParquetMagic))
	end := make([]byte, 4+magic)
	if _, err := file.ReadAt(end, size-4-magic); err != nil || string(end[4:]) != dataset.ParquetMagic {
		return nil, errors.New("the Parquet file is cut off: it does not end as it begins")
	}
	length := int64(binary.LittleEndian.Uint32(end))
	if length > size-4-2*magic {
		return nil, errors.New("the Parquet file is damaged: its description is longer than the file")
	}
	encoded := make([]byte, length)
	if _, err := file.ReadAt(encoded, size-4-magic-length); err != nil {
		return nil, err //nolint:wrapcheck // It names the file.
	}
	meta := &format.FileMetaData{}
	if err := thrift.Unmarshal(&thrift.CompactProtocol{}, encoded, meta); err != nil {
		return nil, fmt.Errorf("read the description of the Parquet file: %w", err)
	}
	return meta, nil
}

// addColumns adds the leaves below the next n elements of a schema, which lists a tree depth first, and returns
// the elements behind them. Path and levels are of the parent.
func (r *rows) addColumns(elements []format.SchemaElement, n int, path []string, repetition, definition int) []format.SchemaElement {
	for range n {
		e := &elements[0]
		elements = elements[1:]
		path, repetition, definition := append(slices.Clip(path), e.Name), repetition, definition
		if e.RepetitionType.V == format.Repeated {
			repetition++
		}
		if e.RepetitionType.V != format.Required {
			definition++
		}
		if !e.Type.Valid {
			elements = r.addColumns(elements, int(e.NumChildren.V), path, repetition, definition)
			continue
		}
		r.columns = append(r.columns, column{
			name: columnName(path), kind: e.Type.V, size: int(e.TypeLength.V),
			maxRepetition: repetition, maxDefinition: definition, logical: logicalType(e),
		})
	}
	return elements
}

// logicalType is the logical type of a leaf. Older writers have the converted type alone.
func logicalType(leaf *format.SchemaElement) format.LogicalTypeValue {
	switch t := leaf.ConvertedType.V; {
	case leaf.LogicalType.Value != nil:
		return leaf.LogicalType.Value
	case !leaf.ConvertedType.Valid:
		return nil
	case t == deprecated.Decimal:
		return &format.DecimalType{Scale: leaf.Scale.V}
	case t == deprecated.Date:
		return &format.DateType{}
	case t == deprecated.TimestampMillis:
		return &format.TimestampType{Unit: format.TimeUnit{Value: &format.MilliSeconds{}}}
	case t == deprecated.TimestampMicros:
		return &format.TimestampType{Unit: format.TimeUnit{Value: &format.MicroSeconds{}}}
	case t >= deprecated.Uint8 && t <= deprecated.Uint64:
		return &format.IntType{}
	default:
		return nil
	}
}

// unknownType is the logical type of a leaf if column cannot write values of the type as
// text, and empty otherwise.
func unknownType(leaf *format.SchemaElement) string {
	if t, ok := logicalType(leaf).(*format.DecimalType); ok && uint32(t.Scale) > 1000 {
		return fmt.Sprintf("DECIMAL of scale %d", t.Scale)
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
	for r.left == 0 {
		if len(r.groups) == 0 {
			return nil, io.EOF
		}
		group := r.groups[0]
		r.groups, r.left = r.groups[1:], group.NumRows
		for i := range r.columns {
			if r.pages[i], err = newPages(r.file, &r.columns[i], &group.Columns[i].MetaData, &r.codecs); err != nil {
				return nil, err
			}
		}
	}
	r.left--
	for i := range r.pages {
		if r.record[i], err = r.pages[i].row(); err != nil {
			return nil, fmt.Errorf("column %s of the Parquet file %w", r.columns[i].name, err)
		}
	}
	return r.record, nil
}

// maxExact bounds the integers that a float64 has all of.
const maxExact = 1 << 53

// float writes a number of 32 or 64 bits. An integer is written as its digits: 1000185 and not
// 1.000185e+06, which would be another category. A number that is not finite is a missing value.
func (c *column) float(v float64, bits int) string {
	switch {
	case c.maxRepetition == 0 && (math.IsNaN(v) || math.IsInf(v, 0)):
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
