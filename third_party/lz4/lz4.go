// Package lz4 stands in for github.com/pierrec/lz4/v4, a download of 33 MB that parquet-go needs to compile.
// hindsight reads no Parquet file compressed with LZ4: internal/dataset rejects the file before it is decoded.
package lz4

import "errors"

var errUnsupported = errors.New("lz4 is not supported")

// CompressionLevel has the levels that parquet-go names.
type CompressionLevel uint32

// The levels that parquet-go names.
const (
	Fast CompressionLevel = iota
	Level1
	Level2
	Level3
	Level4
	Level5
	Level6
	Level7
	Level8
	Level9
)

// Compressor compresses nothing.
type Compressor struct{}

// CompressBlock returns an error.
func (*Compressor) CompressBlock(_, _ []byte) (int, error) { return 0, errUnsupported }

// CompressorHC compresses nothing.
type CompressorHC struct{ Level CompressionLevel }

// CompressBlock returns an error.
func (*CompressorHC) CompressBlock(_, _ []byte) (int, error) { return 0, errUnsupported }

// CompressBlockBound returns n.
func CompressBlockBound(n int) int { return n }

// UncompressBlock panics: parquet-go takes an error for a short buffer, and would try larger ones for ever.
func UncompressBlock(_, _ []byte) (int, error) { panic(errUnsupported) }
