package record

import (
	"bytes"
	"fmt"
	"math"
	"slices"

	"hindsight/internal/model/codec"
)

// SameInput reports whether two inputs, features or the bytes of records, are equal
// bit for bit.
func SameInput(a []float64, inputs []byte, b []float64, others []byte) bool {
	same := slices.EqualFunc(a, b, func(v, w float64) bool { return math.Float64bits(v) == math.Float64bits(w) })
	return same && bytes.Equal(inputs, others)
}

func encode(dst []byte, visit func(*codec.Visitor)) []byte {
	v := codec.Appending(dst)
	visit(&v)
	out, _ := v.Appended() // Appending numbers does not fail.
	return out
}

func decode[T any](what string, data []byte, visit func(*T, *codec.Visitor)) (T, error) {
	var out, none T
	if err := codec.Read(data, func(v *codec.Visitor) { visit(&out, v) }); err != nil {
		return none, fmt.Errorf("record: %s: %w", what, err)
	}
	return out, nil
}

// visitInput visits the bytes of a record of named inputs, at least one, or features.
func visitInput(v *codec.Visitor, named bool, features *[]float64, inputs *[]byte) {
	if !named {
		v.DelimitedFloats(features)
		return
	}
	if v.DelimitedBytes(inputs); v.Reading() {
		if *inputs = bytes.Clone(*inputs); len(*inputs) == 0 {
			v.Corrupt("named inputs without bytes")
		}
	}
}

// visitClass visits the number of a class plus 1, and the probabilities of all classes.
func visitClass(v *codec.Visitor, class *int, probabilities *[]float64) {
	next := uint64(*class + 1)
	v.Uvarint(&next)
	visitOptional(v, probabilities)
	if v.Reading() {
		if next > uint64(len(*probabilities)) {
			v.Corrupt("class %d of %d", next-1, len(*probabilities))
			return
		}
		*class = int(next) - 1
	}
}

// visitOptional visits numbers. It reads nil instead of an empty list.
func visitOptional(v *codec.Visitor, numbers *[]float64) {
	if v.DelimitedFloats(numbers); v.Reading() && len(*numbers) == 0 {
		*numbers = nil
	}
}
