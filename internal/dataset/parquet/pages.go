package parquet

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math/bits"
	"strconv"
	"strings"
	"time"

	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/parquet-go/parquet-go/encoding"
	"github.com/parquet-go/parquet-go/encoding/bytestreamsplit"
	"github.com/parquet-go/parquet-go/encoding/delta"
	"github.com/parquet-go/parquet-go/encoding/plain"
	"github.com/parquet-go/parquet-go/encoding/rle"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"
)

// plainDictionary is what older writers call RLE_DICTIONARY.
const plainDictionary format.Encoding = 2

// errShort: the pages of a row group end before its rows.
var errShort = errors.New("has fewer values than rows")

// pages reads the values of one column in one row group. It holds one page at a time.
type pages struct {
	column     *column
	in         *bufio.Reader
	size       int64 // bytes of all pages
	unread     int64 // levels in the pages that are not loaded yet
	codec      format.CompressionCodec
	codecs     *codecs
	dictionary []string

	// The current page. A level is a value or a missing one: next <= levels, value <= next.
	repetition, definition []byte // nil if the column has no such levels
	levels, next, value    int
	text                   func(value int) string
}

func newPages(file io.ReaderAt, c *column, chunk *format.ColumnMetaData, codecs *codecs) (pages, error) {
	start := chunk.DataPageOffset
	if d := chunk.DictionaryPageOffset; d > 0 {
		start = min(start, d)
	}
	if start < 0 || chunk.TotalCompressedSize < 0 {
		return pages{}, fmt.Errorf("column %s of the Parquet file has pages at %d, of %d bytes", c.name, start, chunk.TotalCompressedSize)
	}
	return pages{
		column: c, in: bufio.NewReader(io.NewSectionReader(file, start, chunk.TotalCompressedSize)),
		size: chunk.TotalCompressedSize, unread: chunk.NumValues, codec: chunk.Codec, codecs: codecs,
	}, nil
}

// row returns the values of the next row as text: empty if none is there, several with spaces and brackets.
func (p *pages) row() (string, error) {
	if more, err := p.fill(); err != nil || !more {
		return "", cmp.Or(err, errShort)
	}
	text, present := p.take()
	if p.column.maxRepetition == 0 {
		return text, nil
	}
	texts, missing := []string{text}, !present
	for {
		more, err := p.fill()
		if err != nil {
			return "", err
		}
		if !more || p.repetition[p.next] == 0 {
			break
		}
		text, present := p.take()
		texts, missing = append(texts, text), missing || !present
	}
	switch {
	case missing && len(texts) > 1:
		return "", errors.New("has a list with a null among its values, want values only")
	case missing:
		return "", nil
	default:
		return "[" + strings.Join(texts, " ") + "]", nil
	}
}

// fill loads pages until one has a level that take has not returned, or reports that none has.
func (p *pages) fill() (more bool, err error) {
	for err == nil && p.next == p.levels && p.unread > 0 {
		err = p.load()
	}
	return p.next < p.levels, err
}

// take returns the next value, if it is not missing.
func (p *pages) take() (text string, present bool) {
	if present = p.definition == nil || int(p.definition[p.next]) == p.column.maxDefinition; present {
		text = p.text(p.value)
		p.value++
	}
	p.next++
	return text, present
}

// load reads the next page: the dictionary, or values.
func (p *pages) load() error {
	var h format.PageHeader
	if err := thrift.NewDecoder((&thrift.CompactProtocol{}).NewReader(p.in)).Decode(&h); err != nil {
		return fmt.Errorf("has a damaged header of a page: %w", err)
	}
	if h.CompressedPageSize < 0 || h.UncompressedPageSize < 0 || int64(h.CompressedPageSize) > p.size {
		return fmt.Errorf("has a page of %d bytes in a chunk of %d bytes", h.CompressedPageSize, p.size)
	}
	data := make([]byte, h.CompressedPageSize)
	if _, err := io.ReadFull(p.in, data); err != nil {
		return fmt.Errorf("is cut off: %w", err)
	}
	if sum := crc32.ChecksumIEEE(data); h.CRC != 0 && sum != uint32(h.CRC) {
		return fmt.Errorf("has a page with the checksum %08x, want %08x", sum, uint32(h.CRC))
	}
	err := errors.ErrUnsupported
	switch size := int(h.UncompressedPageSize); h.Type {
	case format.DictionaryPage:
		err = p.loadDictionary(data, size, int(h.DictionaryPageHeader.V.NumValues))
	case format.DataPage:
		err = p.loadValues(data, size, &h.DataPageHeader.V)
	case format.DataPageV2:
		err = p.loadValuesV2(data, size, &h.DataPageHeaderV2.V)
	case format.IndexPage:
		return nil
	}
	if err != nil {
		return fmt.Errorf("has a page that cannot be read: %w", err)
	}
	return nil
}

func (p *pages) loadDictionary(data []byte, size, n int) error {
	data, err := p.codecs.decompress(p.codec, data, size)
	if err != nil {
		return err
	}
	text, have, err := p.column.decode(format.Plain, data)
	if err := enough(have, n, err); err != nil {
		return err
	}
	p.dictionary = make([]string, n)
	for i := range p.dictionary {
		p.dictionary[i] = text(i)
	}
	return nil
}

// loadValues loads a page whose levels are compressed with the values, each behind its length.
func (p *pages) loadValues(data []byte, size int, h *format.DataPageHeader) error {
	data, err := p.codecs.decompress(p.codec, data, size)
	if err != nil {
		return err
	}
	levels := func(largest int, e format.Encoding) (out []byte) {
		if largest > 0 && err == nil {
			if e != format.RLE {
				err = fmt.Errorf("levels in the encoding %s, want RLE", e)
				return nil
			}
			length := binary.LittleEndian.Uint32(data)
			out, data = data[4:4+length], data[4+length:]
		}
		return out
	}
	repetition := levels(p.column.maxRepetition, h.RepetitionLevelEncoding)
	definition := levels(p.column.maxDefinition, h.DefinitionLevelEncoding)
	if err != nil {
		return err
	}
	return p.set(int(h.NumValues), repetition, definition, h.Encoding, data)
}

// loadValuesV2 loads a page whose values alone are compressed, behind the levels.
func (p *pages) loadValuesV2(data []byte, size int, h *format.DataPageHeaderV2) error {
	r, d := h.RepetitionLevelsByteLength, h.DefinitionLevelsByteLength
	repetition, definition, values := data[:r], data[r:r+d], data[r+d:]
	if compressed := h.IsCompressed; compressed.V || !compressed.Valid {
		var err error
		if values, err = p.codecs.decompress(p.codec, values, size-int(r+d)); err != nil {
			return err
		}
	}
	return p.set(int(h.NumValues), repetition, definition, h.Encoding, values)
}

// set makes a page of n levels the current one.
func (p *pages) set(n int, repetition, definition []byte, e format.Encoding, values []byte) (err error) {
	if n < 0 || int64(n) > p.unread {
		return fmt.Errorf("%d values, want at most %d", n, p.unread)
	}
	if p.repetition, err = levels(p.column.maxRepetition, repetition, n); err != nil {
		return err
	}
	if p.definition, err = levels(p.column.maxDefinition, definition, n); err != nil {
		return err
	}
	want := n
	if p.definition != nil {
		want = bytes.Count(p.definition, []byte{byte(p.column.maxDefinition)})
	}
	decode := p.column.decode
	switch {
	case e == format.RLE && len(values) > 4: // Of BOOLEAN, behind their length.
		err = runs(values[4:], 1, want)
	case (e == plainDictionary || e == format.RLEDictionary) && len(values) > 0:
		decode = p.indices
		err = runs(values[1:], int(values[0]), want)
	}
	if err != nil {
		return err
	}
	var have int
	p.text, have, err = decode(e, values)
	p.levels, p.next, p.value = n, 0, 0
	p.unread -= int64(n)
	return enough(have, want, err)
}

// enough returns err, or an error if have < want: a page says before its values how many it has.
func enough(have, want int, err error) error {
	if err == nil && have < want {
		return fmt.Errorf("%d values, want %d", have, want)
	}
	return err
}

// levels decodes n levels from 0 to largest, nil if largest is 0.
func levels(largest int, data []byte, n int) ([]byte, error) {
	if largest == 0 {
		return nil, nil
	}
	width := bits.Len(uint(largest))
	if err := runs(data, width, n); err != nil {
		return nil, err
	}
	out, err := (&rle.Encoding{BitWidth: width}).DecodeLevels(nil, data)
	if err := enough(len(out), n, err); err != nil {
		return nil, err
	}
	return out[:n], nil
}

// runs rejects runs of more than n values, filled up to bytes: five bytes can claim a run of 8 GiB, which the library
// would allocate. Packed values are as long as they claim.
func runs(data []byte, width, n int) error {
	for claimed := uint64(0); len(data) > 0; {
		u, size := binary.Uvarint(data)
		switch count := u >> 1; {
		case size <= 0:
			return errors.New("a damaged run")
		case u&1 == 1 && width > 0:
			size += int(count) * width
		case count > 0:
			size += (width + 7) / 8
			if claimed += count; claimed > uint64(n)+7 {
				return fmt.Errorf("runs of %d values, want at most %d", claimed, n)
			}
		}
		data = data[min(size, len(data)):]
	}
	return nil
}

// indices decodes values that are indices of the dictionary, behind a byte with their width.
func (p *pages) indices(_ format.Encoding, data []byte) (text func(int) string, n int, err error) {
	if len(data) == 0 {
		return nil, 0, nil
	}
	indices, err := (&rle.Encoding{BitWidth: int(data[0])}).DecodeInt32(nil, data[1:])
	return func(i int) string { return p.dictionary[indices[i]] }, len(indices), err //nolint:wrapcheck // load wraps it.
}

// decode returns the texts of n values of a page.
func (c *column) decode(e format.Encoding, data []byte) (text func(int) string, n int, err error) {
	var from encoding.Encoding
	switch e {
	case format.Plain:
		from = &plain.Encoding{}
	case format.RLE:
		from = &rle.Encoding{BitWidth: 1} // Of BOOLEAN.
	case format.DeltaBinaryPacked:
		from = &delta.BinaryPackedEncoding{}
	case format.DeltaLengthByteArray:
		from = &delta.LengthByteArrayEncoding{}
	case format.DeltaByteArray:
		from = &delta.ByteArrayEncoding{}
	case format.ByteStreamSplit:
		from = &bytestreamsplit.Encoding{}
	default:
		return nil, 0, fmt.Errorf("the encoding %d is unknown", e)
	}
	switch c.kind {
	case format.Boolean:
		v, err := from.DecodeBoolean(nil, data)
		return func(i int) string { return strconv.FormatBool(v[i/8]>>(i%8)&1 == 1) }, 8 * len(v), err
	case format.Int32:
		v, err := from.DecodeInt32(nil, data)
		return func(i int) string { return c.integer(int64(v[i]), uint64(uint32(v[i]))) }, len(v), err
	case format.Int64:
		v, err := from.DecodeInt64(nil, data)
		return func(i int) string { return c.integer(v[i], uint64(v[i])) }, len(v), err
	case format.Int96:
		v, err := from.DecodeInt96(nil, data)
		return func(i int) string {
			// The time of the day in nanoseconds, and the Julian day.
			nanos := int64(uint64(v[i][1])<<32 | uint64(v[i][0]))
			const epoch = 2440588
			return moment(time.Unix((int64(v[i][2])-epoch)*int64((24*time.Hour)/time.Second), nanos))
		}, len(v), err
	case format.Float:
		v, err := from.DecodeFloat(nil, data)
		return func(i int) string { return c.float(float64(v[i]), 32) }, len(v), err
	case format.Double:
		v, err := from.DecodeDouble(nil, data)
		return func(i int) string { return c.float(v[i], 64) }, len(v), err
	case format.ByteArray:
		v, offsets, err := from.DecodeByteArray(nil, data, nil)
		return func(i int) string { return c.bytes(v[offsets[i]:offsets[i+1]]) }, len(offsets) - 1, err
	case format.FixedLenByteArray:
		v, err := from.DecodeFixedLenByteArray(nil, data, c.size)
		return func(i int) string { return c.bytes(v[i*c.size : (i+1)*c.size]) }, len(v) / max(c.size, 1), err
	default:
		return nil, 0, fmt.Errorf("the type %d is unknown", c.kind)
	}
}

// decompresses reports whether decompress knows a codec.
func decompresses(codec format.CompressionCodec) bool {
	return codec <= format.Gzip || codec == format.Zstd
}

// codecs holds what decompresses the pages of a file.
type codecs struct{ zstd *zstd.Decoder }

// decompress returns the size bytes of a page.
func (c *codecs) decompress(codec format.CompressionCodec, data []byte, size int) (out []byte, err error) {
	switch {
	case size == 0: // Some writers compress no values to no bytes.
		return nil, nil
	case codec == format.Snappy:
		var n int
		if n, err = snappy.DecodedLen(data); err == nil && n == size {
			out, err = snappy.Decode(nil, data)
		}
	case codec == format.Gzip:
		var from *gzip.Reader
		if from, err = gzip.NewReader(bytes.NewReader(data)); err == nil {
			out, err = io.ReadAll(io.LimitReader(from, int64(size)+1))
		}
	case codec == format.Zstd:
		if c.zstd == nil {
			c.zstd, err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecodeAllCapLimit(true))
		}
		if err == nil {
			out, err = c.zstd.DecodeAll(data, make([]byte, 0, size))
		}
	default:
		out = data
	}
	if err == nil && len(out) != size {
		err = fmt.Errorf("%d bytes, want %d", len(out), size)
	}
	return out, err
}
