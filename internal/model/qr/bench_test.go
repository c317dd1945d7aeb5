package qr_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/mat"

	"hindsight/internal/model/qr"
)

var orders = []int{55, 190, 276, 512, 2048}

func BenchmarkRotate(b *testing.B) {
	for _, r := range orders {
		b.Run(fmt.Sprint("r=", r), func(b *testing.B) {
			f, source, row, p := qr.New(r, 1, 1), normals(r+1), qr.NewRow(r+1), make([]float64, 1)
			b.ReportAllocs()
			for b.Loop() {
				copy(row, source)
				f.Rotate(row, p)
			}
		})
	}
}

func BenchmarkSolve(b *testing.B) {
	for _, r := range orders {
		b.Run(fmt.Sprint("r=", r), func(b *testing.B) {
			f, source, z, p := qr.New(r, 1, 1), normals(r+1), qr.NewRow(r), make([]float64, 1)
			f.Rotate(append([]float64(nil), source...), p)
			b.ReportAllocs()
			for b.Loop() {
				copy(z, source)
				f.Solve(z, p)
			}
		})
	}
}

func BenchmarkLowerSolve(b *testing.B) {
	for _, m := range orders {
		b.Run(fmt.Sprint("m=", m), func(b *testing.B) {
			l, source, z := &qr.Lower{}, normals(m), make([]float64, m)
			for n := range m {
				l.Append(source[:n], 2)
			}
			b.ReportAllocs()
			for b.Loop() {
				copy(z, source)
				l.Solve(z)
			}
		})
	}
}

// BenchmarkGonumSymRankOne is the peer: gonum's rank-one update of a Cholesky
// factor, which does the rotations but not the labels.
func BenchmarkGonumSymRankOne(b *testing.B) {
	for _, r := range orders {
		b.Run(fmt.Sprint("r=", r), func(b *testing.B) {
			var c mat.Cholesky
			c.Factorize(mat.NewDiagDense(r, ones(r)))
			x := mat.NewVecDense(r, normals(r))
			b.ReportAllocs()
			for b.Loop() {
				c.SymRankOne(&c, 1, x)
			}
		})
	}
}

func normals(n int) []float64 {
	rng := rand.New(rand.NewPCG(7, 8))
	v := make([]float64, n)
	for i := range v {
		v[i] = rng.NormFloat64()
	}
	return v
}

func ones(n int) []float64 {
	v := make([]float64, n)
	for i := range v {
		v[i] = 1
	}
	return v
}

// BenchmarkAbsorb measures Absorb beside Rotate and Solve.
func BenchmarkAbsorb(b *testing.B) {
	for _, r := range []int{20, 100, 400} {
		f, source, z, v, p := qr.New(r, 1, 1), normals(r+1), make([]float64, r), make([]float64, r), make([]float64, 1)
		row, room := make([]float64, r+1), make([]float64, qr.AbsorbRoom(r))
		b.Run(fmt.Sprint("Absorb/r=", r), func(b *testing.B) {
			copy(v, source)
			f.Solve(v, p)
			for b.Loop() {
				copy(row, source)
				f.Absorb(row, v, room)
			}
		})
		b.Run(fmt.Sprint("Rotate/r=", r), func(b *testing.B) {
			for b.Loop() {
				copy(row, source)
				f.Rotate(row, p)
			}
		})
		b.Run(fmt.Sprint("Solve/r=", r), func(b *testing.B) {
			for b.Loop() {
				copy(z, source)
				f.Solve(z, p)
			}
		})
	}
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
