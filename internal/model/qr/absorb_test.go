package qr_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"

	"hindsight/internal/model/qr"
)

// absorb solves for the features of a row, and takes it in.
func absorb(f *qr.Factor, row []float64) qr.Rotation {
	v := clone(row[:f.Order()])
	f.Solve(v, make([]float64, f.Columns()))
	return f.Absorb(row, v, make([]float64, qr.AbsorbRoom(len(v))))
}

// Absorb is Rotate to rounding: the factor, ε, the leverage and γ. That
// is so on streams that are badly conditioned too.
func TestAbsorbIsRotate(t *testing.T) {
	for r := range 30 {
		if r == 0 {
			continue
		}
		for name, stream := range streams(r) {
			t.Run(fmt.Sprint(name, " ", r), func(t *testing.T) {
				rng := rand.New(rand.NewPCG(61, uint64(r)))
				k := 1 + r%3
				a, b := qr.New(r, k, stream.lambda), qr.New(r, k, stream.lambda)
				row, p := make([]float64, r+k), make([]float64, k)
				for i := range 60 {
					stream.next(rng, i, row[:r])
					for j := r; j < r+k; j++ {
						row[j] = rng.NormFloat64()
					}
					same := clone(row)
					want, got := b.Rotate(row, p), absorb(a, same)
					near(t, "leverage", got.Leverage, want.Leverage, stream.tolerance)
					near(t, "gamma", got.Gamma, want.Gamma, stream.tolerance)
					for j := r; j < r+k; j++ {
						near(t, "residual", same[j], row[j], stream.tolerance)
					}
					packed := b.Packed()
					for j, v := range a.Packed() {
						near(t, "entry", v, packed[j], stream.tolerance*10)
					}
				}
				near(t, "log det", a.LogDet(stream.lambda), b.LogDet(stream.lambda), stream.tolerance)
				restored, err := qr.FromPacked(r, k, a.Packed(), 1e-9, 1e9)
				assert.True(t, err == nil && sameBits(restored.Right(), a.Right()), "the copies of diagonal and labels are others: %v", err)
			})
		}
	}
}

// absorbed is Absorb a row at a time, as its formula is written.
func absorbed(f *qr.Factor, packed, row, v []float64) qr.Rotation {
	r, at, total, square := f.Order(), 0, 0.0, 1.0
	for i, p := range v {
		total += float64(p * p)
		c := math.Sqrt(square / (1 + total))
		g := p / square * c
		for j, x := range row[i:] {
			a := packed[at]
			if turned := float64(c*a) + float64(g*x); j > 0 || turned > a {
				packed[at] = turned
			}
			row[i+j] = x - float64(p*a)
			at++
		}
		square = 1 + total
	}
	root := math.Sqrt(square)
	for j := r; j < len(row); j++ {
		row[j] /= root
	}
	return qr.Rotation{Gamma: 1 / root, Leverage: total / square}
}

// Panels, and what the processor has, give the bits of the rows one after the other: the
// factor, its copies, ε and the rotation. Zeros in the row are nothing special.
func TestAbsorbHasTheBitsOfRowsInTurn(t *testing.T) {
	rng := rand.New(rand.NewPCG(67, 68))
	for trial := range 400 {
		r, k := trial%70, 1+rng.IntN(5)
		f := qr.New(r, k, math.Exp(3*rng.NormFloat64()))
		packed := f.Packed()
		for range 5 {
			row := rowOf(rng, r, k)
			naive, v := clone(row), clone(row[:r])
			f.Solve(v, make([]float64, k))
			want := absorbed(f, packed, naive, clone(v))
			got := f.Absorb(row, v, make([]float64, qr.AbsorbRoom(r)))
			if got != want || !sameBits(f.Packed(), packed) || !sameBits(row[r:], naive[r:]) {
				t.Fatalf("r = %d, k = %d: %+v, row %g, factor %g; want %+v, %g, %g", r, k, got, row[r:], f.Packed(), want, naive[r:], packed)
			}
			again, err := qr.FromPacked(r, k, packed, 1e-300, math.MaxFloat64)
			if err != nil || !sameBits(again.Right(), f.Right()) || math.Float64bits(again.LogDet(1)) != math.Float64bits(f.LogDet(1)) {
				t.Fatalf("r = %d, k = %d: the copies of diagonal and labels are others: %v", r, k, err)
			}
			packed = clone(packed)
		}
	}
}

// Rounds that bring nothing take nothing from the factor.
func TestAbsorbNeverLosesWhatIsKnown(t *testing.T) {
	const r = 9
	f, rng := qr.New(r, 1, 1), rand.New(rand.NewPCG(69, 70))
	for range 20 {
		absorb(f, append(normalsOf(rng, r), 1))
	}
	before := f.Packed()
	for range 10_000 {
		row := normalsOf(rng, r+1)
		for i := range row {
			row[i] *= 1e-12
		}
		absorb(f, row)
	}
	for i, v := range f.Packed() {
		near(t, "entry", v, before[i], 1e-13)
	}
	then, err := qr.FromPacked(r, 1, before, 1e-9, 1e9)
	if err != nil || f.LogDet(1) < then.LogDet(1) {
		t.Errorf("log det has become %g: %v", f.LogDet(1), err)
	}
}

func normalsOf(rng *rand.Rand, n int) []float64 {
	v := make([]float64, n)
	for i := range v {
		v[i] = rng.NormFloat64()
	}
	return v
}
