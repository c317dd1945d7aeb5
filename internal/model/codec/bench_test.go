package codec_test

import (
	"testing"

	"hindsight/internal/model/codec"
)

// The numbers of a large state: 64 MiB, more than any cache holds.
const large = 1 << 23

func BenchmarkAppendFloats(b *testing.B) {
	values := make([]float64, large)
	dst := make([]byte, 0, 8*large)
	b.SetBytes(8 * large)
	b.ReportAllocs()
	for b.Loop() {
		dst = codec.AppendFloats(dst[:0], values...)
	}
}

// BenchmarkFloats is the way back.
func BenchmarkFloats(b *testing.B) {
	values := make([]float64, large)
	state := codec.AppendFloats(nil, values...)
	b.SetBytes(8 * large)
	b.ReportAllocs()
	for b.Loop() {
		codec.NewReader(state).Floats(values)
	}
}
