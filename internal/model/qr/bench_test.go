package qr_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"hindsight/internal/model/qr"
)

var orders = []int{55, 190, 276, 512, 2048}

func normals(n int) []float64 {
	rng := rand.New(rand.NewPCG(7, 8))
	v := make([]float64, n)
	for i := range v {
		v[i] = rng.NormFloat64()
	}
	return v
}

// BenchmarkSequence is an observation of 32, in passes of so many.
func BenchmarkSequence(b *testing.B) {
	const count = 32
	for _, r := range orders {
		f, source, turns := qr.New(r, 1, 1), normals(r+1), make([]qr.Turn, count)
		for i, row := range qr.NewRows(count, r+1) {
			turns[i] = qr.Turn{Factor: f, Row: row, Priors: make([]float64, 1), Root: 1}
		}
		for _, size := range []int{1, 4, 8, count} {
			b.Run(fmt.Sprintf("r=%d/together=%d", r, size), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					for i := range turns {
						copy(turns[i].Row, source)
					}
					for left := turns; len(left) > 0; left = left[size:] {
						qr.RotateSequence(left[:size])
					}
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*count), "ns/observation")
			})
		}
	}
}
