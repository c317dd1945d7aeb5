package qr_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"hindsight/internal/model/qr"
)

// BenchmarkTogether is three factors of one order with two label columns, which
// differ in what they forget, rotated and solved together and apart, in turns of
// 16 rounds: medians, so that what else a machine does meanwhile falls on all
// alike.
func BenchmarkTogether(b *testing.B) {
	const k, rounds = 2, 4
	for _, r := range []int{20, 45, 64, 115, 125, 250} {
		b.Run(fmt.Sprint("r=", r), func(b *testing.B) {
			turns, solutions := make([]qr.Turn, 3), make([]qr.Solution, 3)
			source, z, p := normals(r+k), make([]float64, r+k), make([]float64, k)
			for i, root := range []float64{1, 0.9995, 0.995} {
				f := qr.New(r, k, 1)
				turns[i] = qr.Turn{Factor: f, Row: make([]float64, r+k), Priors: make([]float64, k), Root: root}
				solutions[i] = qr.Solution{Factor: f, Z: make([]float64, r), Priors: make([]float64, k)}
			}
			ways := []struct {
				name string
				run  func()
			}{
				{"rotate-together", func() {
					for i := range turns {
						copy(turns[i].Row, source)
					}
					qr.RotateTogether(turns)
				}},
				{"rotate-apart", func() {
					for i := range turns {
						copy(z, source)
						turns[i].Factor.RotateDiscounted(z, p, turns[i].Root)
					}
				}},
				{"solve-together", func() {
					for i := range solutions {
						copy(solutions[i].Z, source)
					}
					qr.SolveTogether(solutions)
				}},
				{"solve-apart", func() {
					for i := range solutions {
						copy(z, source)
						solutions[i].Factor.Solve(z[:r], p)
					}
				}},
			}
			times := make([][]float64, len(ways))
			b.ReportAllocs()
			for b.Loop() {
				for i, way := range ways {
					start := time.Now()
					for range rounds {
						way.run()
					}
					times[i] = append(times[i], float64(time.Since(start).Nanoseconds())/rounds)
				}
			}
			for i, way := range ways {
				slices.Sort(times[i])
				b.ReportMetric(times[i][len(times[i])/50], way.name+"-ns")
			}
		})
	}
}
