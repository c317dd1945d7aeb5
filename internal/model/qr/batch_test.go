package qr_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"hindsight/internal/model/modeltest"
	"hindsight/internal/model/qr"
)

// Many observations of one state, without touching its factor: with V = R⁻ᵀZ,
// S = VᵀV and e = Vᵀu of the rows Z, for i = 1..k in turn
//
//	q_i = S_ii, p_i = e_i, ŷ_i = e_i/(1+S_ii), and then for all a, b > i
//	S_ab −= S_ai S_ib/(1+S_ii), e_a += S_ai (y_i − e_i)/(1+S_ii)
//
// are what one Rotate after the other yields: prediction, leverage, growth of
// L* (y_i−p_i)²/(1+q_i) and of log det.
func TestBatchRecursionIsOneByOne(t *testing.T) {
	for seed := range uint64(40) {
		rng := rand.New(rand.NewPCG(seed, 13))
		r, columns, rows := 1+rng.IntN(12), 1+rng.IntN(3), 1+rng.IntN(20)
		f := qr.New(r, columns, math.Exp(2*rng.NormFloat64()))
		draw := func() (z, y []float64) {
			z, y = make([]float64, r), make([]float64, columns)
			for i := range z {
				if rng.IntN(4) > 0 { // Some are exactly 0.
					z[i] = rng.NormFloat64()
				}
			}
			for j := range y {
				y[j] = rng.NormFloat64()
			}
			return z, y
		}
		p := make([]float64, columns)
		for range rng.IntN(30) {
			z, y := draw()
			f.Rotate(append(z, y...), p)
		}
		var v, z, y, e [][]float64
		for n := range rows {
			zn, yn := draw()
			if n > 0 && rng.IntN(4) == 0 {
				zn = append([]float64(nil), z[rng.IntN(n)]...) // Seen before.
			}
			vn, en := append([]float64(nil), zn...), make([]float64, columns)
			f.Solve(vn, en)
			z, y, v, e = append(z, zn), append(y, yn), append(v, vn), append(e, en)
		}
		s := make([][]float64, rows)
		for a := range s {
			s[a] = make([]float64, rows)
			for b := range s[a] {
				for i, w := range v[a] {
					s[a][b] += w * v[b][i]
				}
			}
		}
		for i := range rows {
			q := s[i][i]
			rotation := f.Rotate(append(append([]float64(nil), z[i]...), y[i]...), p)
			agree(t, seed, i, "leverage", rotation.Leverage, q/(1+q))
			agree(t, seed, i, "log det", rotation.LogDet(), math.Log1p(q))
			for j, prior := range p {
				agree(t, seed, i, "prediction", rotation.Gamma*rotation.Gamma*prior, e[i][j]/(1+q))
			}
			column, priors := make([]float64, rows), append([]float64(nil), e[i]...)
			for a := range rows {
				column[a] = s[a][i]
			}
			for a := i + 1; a < rows; a++ {
				for j := range priors {
					e[a][j] += column[a] * (y[i][j] - priors[j]) / (1 + q)
				}
				for b := i + 1; b < rows; b++ {
					s[a][b] -= column[a] * column[b] / (1 + q)
				}
			}
		}
	}
}

func agree(t *testing.T, seed uint64, row int, what string, got, want float64) {
	t.Helper()
	require.True(t, math.Abs(got-want) <= 1e-10*(1+math.Abs(want)), "seed %d, row %d: %s %.17g, want %.17g", seed, row, what, got, want)
}

// Observations that are solved abreast have the predictions and squares of one by one, bit for bit,
// also where entries are 0.
func TestAbreastIsOneByOne(t *testing.T) {
	rng := rand.New(rand.NewPCG(43, 44))
	for trial := range 200 {
		r, k := rng.IntN(130), 1+rng.IntN(4)
		f, priors := qr.New(r, k, math.Exp(3*rng.NormFloat64())), make([]float64, k)
		for range rng.IntN(20) {
			f.Rotate(rowOf(rng, r, k), priors)
		}
		z, together := make([]float64, r*qr.Abreast), make([]float64, k*qr.Abreast)
		var rows [qr.Abreast][]float64
		for n := range rows {
			rows[n] = rowOf(rng, r, 0)
			for i, v := range rows[n] {
				z[i*qr.Abreast+n] = v
			}
		}
		var squares [qr.Abreast]float64
		f.SolveAbreast(z, together, &squares)
		for n, row := range rows {
			square, own := f.Solve(row, priors), make([]float64, k)
			for c := range own {
				own[c] = together[c*qr.Abreast+n]
			}
			if math.Float64bits(square) != math.Float64bits(squares[n]) || !sameBits(own, priors) {
				t.Fatalf("trial %d, r = %d, k = %d, observation %d: %g, %g abreast, %g, %g alone", trial, r, k, n, squares[n], own, square, priors)
			}
		}
	}
}

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
	rng, registers := rand.New(rand.NewPCG(67, 68)), modeltest.Registers(t)
	for trial := range 400 {
		registers(trial + trial/70)
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
	assert.True(t, err == nil && f.LogDet(1) >= then.LogDet(1), "log det has become %g: %v", f.LogDet(1), err)
}

func normalsOf(rng *rand.Rand, n int) []float64 {
	v := make([]float64, n)
	for i := range v {
		v[i] = rng.NormFloat64()
	}
	return v
}

// columned is a factor under test and what its passes yielded.
type columned struct {
	factor      *qr.Factor
	row, priors []float64
}

func newColumned(r, k int) *columned { return &columned{factor: qr.New(r, k, 0.3)} }

// turn prepares the turn of an observation whose class has a label of y; all others have 0.
func (c *columned) turn(z []float64, class int, y, root float64) qr.Turn {
	k := c.factor.Columns()
	c.row = append(append(c.row[:0], z...), make([]float64, k)...)
	c.row[len(z)+class] = y
	c.priors = make([]float64, k)
	return qr.Turn{Factor: c.factor, Row: c.row, Priors: c.priors, Root: root}
}

// same fails unless every number of a is that of b in every bit, and what b has
// beyond a is +0.
func same(t *testing.T, what string, a, b []float64) {
	t.Helper()
	for i, v := range b {
		want := 0.0
		if i < len(a) {
			want = a[i]
		}
		require.Equal(t, math.Float64bits(want), math.Float64bits(v), "%v %v %v %v", what, i, v, want)
	}
}

// sameFactor compares a factor that grew with one that has all its columns.
func sameFactor(t *testing.T, grown, all *qr.Factor) {
	t.Helper()
	r, k, limit := grown.Order(), grown.Columns(), all.Columns()
	a, b := grown.Packed(), all.Packed()
	require.Equal(t, r*(r+1)/2+r*k, len(a))
	for i := range r {
		same(t, fmt.Sprint("row ", i), a[:r-i+k], b[:r-i+limit])
		same(t, fmt.Sprint("right ", i), grown.Right()[i*k:(i+1)*k], all.Right()[i*limit:(i+1)*limit])
		a, b = a[r-i+k:], b[r-i+limit:]
	}
	require.Equal(t, all.LogDet(0.3), grown.LogDet(0.3), "the determinants differ")
}

// A column that comes late is the one that was there from the start, bit for bit,
// whatever rotates, discounts, solves and grows the factor, together with others
// or alone; and no other bit knows of it.
func TestALateColumnIsOneFromTheStart(t *testing.T) {
	const columns = 11
	for _, r := range []int{1, 2, 3, 7, 8, 33} {
		t.Run(fmt.Sprint(r, " features"), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(uint64(r), 5))
			grown := []*columned{newColumned(r, 1), newColumned(r, 1)}
			all := []*columned{newColumned(r, columns), newColumned(r, columns)}
			for round := range 150 {
				k := min(1+round/12, columns)
				for _, c := range grown {
					if c.factor.Columns() < k {
						c.factor.AddColumn()
					}
				}
				if round%40 == 39 {
					appendFeature(rng, append(slices.Clone(grown), all...))
				}
				z := sparse(rng, grown[0].factor.Order())
				solveBoth(t, z, grown[0].factor, all[0].factor)
				class, y := rng.IntN(k), rng.NormFloat64()
				turns := [2][]qr.Turn{}
				for n := range grown {
					root := []float64{1, 0.97}[n]
					turns[0] = append(turns[0], grown[n].turn(z, class, y, root))
					turns[1] = append(turns[1], all[n].turn(z, class, y, root))
				}
				qr.RotateTogether(turns[0])
				qr.RotateTogether(turns[1])
				for n := range grown {
					require.True(t, turns[0][n].Rotation == turns[1][n].Rotation, "round %d: %+v and %+v", round, turns[0][n].Rotation, turns[1][n].Rotation)
					same(t, "priors", grown[n].priors, all[n].priors)
					same(t, "rotated row", grown[n].row, all[n].row)
					sameFactor(t, grown[n].factor, all[n].factor)
				}
			}
			weights(t, grown[0].factor, all[0].factor)
		})
	}
}

// sparse are features some of which are 0.
func sparse(rng *rand.Rand, r int) []float64 {
	z := make([]float64, r)
	for i := range z {
		if rng.IntN(4) > 0 {
			z[i] = rng.NormFloat64()
		}
	}
	return z
}

func appendFeature(rng *rand.Rand, all []*columned) {
	a := sparse(rng, all[0].factor.Order())
	b := rng.NormFloat64()
	for _, c := range all {
		right := make([]float64, c.factor.Columns())
		right[0] = b
		c.factor.Append(slices.Clone(a), 50, right, 0.3)
	}
}

func solveBoth(t *testing.T, z []float64, grown, all *qr.Factor) {
	t.Helper()
	a, b := slices.Clone(z), slices.Clone(z)
	p, q := make([]float64, grown.Columns()), make([]float64, all.Columns())
	require.Equal(t, all.Solve(b, q), grown.Solve(a, p), "the squares differ")
	same(t, "solution", a, b)
	same(t, "predictions", p, q)
}

func weights(t *testing.T, grown, all *qr.Factor) {
	t.Helper()
	a, b := make([]float64, grown.Order()), make([]float64, all.Order())
	for column := range all.Columns() {
		grown.Weights(a, column)
		all.Weights(b, column)
		same(t, "weights", a, b)
	}
}

// A factor of no features has columns too.
func TestAddColumnWithoutFeatures(t *testing.T) {
	f := qr.New(0, 1, 1)
	f.AddColumn()
	require.True(t, f.Columns() == 2 && f.Order() == 0 && len(f.Packed()) == 0, "%d columns, order %d", f.Columns(), f.Order())
	f.Append(nil, 1, []float64{0.5, 0.25}, 1)
	assert.Equal(t, []float64{1, 0.5, 0.25}, f.Packed())
}
