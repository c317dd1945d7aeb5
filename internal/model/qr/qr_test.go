package qr_test

import (
	"math"
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"hindsight/internal/model/qr"
)

// dense is the same sums kept naively: A and b, solved by gonum's Cholesky
// whenever something is asked.
type dense struct {
	a      *mat.SymDense
	b      *mat.Dense
	energy []float64
}

func newDense(r, k int, lambda float64) *dense {
	d := &dense{a: mat.NewSymDense(r, nil), b: mat.NewDense(r, k, nil), energy: make([]float64, k)}
	for i := range r {
		d.a.SetSym(i, i, lambda)
	}
	return d
}

func (d *dense) add(z, y []float64) {
	d.a.SymRankOne(d.a, 1, mat.NewVecDense(len(z), z))
	for c, v := range y {
		for i := range z {
			d.b.Set(i, c, d.b.At(i, c)+v*z[i])
		}
		d.energy[c] += v * v
	}
}

func (d *dense) cholesky(t *testing.T) *mat.Cholesky {
	t.Helper()
	var c mat.Cholesky
	require.True(t, c.Factorize(d.a), "the oracle's matrix is not positive definite")
	return &c
}

// solve gives zᵀA⁻¹z and zᵀA⁻¹b.
func (d *dense) solve(t *testing.T, z []float64) (q float64, p []float64) {
	t.Helper()
	var w mat.VecDense
	v := mat.NewVecDense(len(z), z)
	if err := d.cholesky(t).SolveVecTo(&w, v); err != nil {
		t.Logf("oracle: %v", err) // A condition warning; the result stands.
	}
	p = make([]float64, len(d.energy))
	for c := range p {
		p[c] = mat.Dot(&w, d.b.ColView(c))
	}
	return mat.Dot(&w, v), p
}

// hindsight gives min over w of Σ(y−w·z)² + λ‖w‖² for a column.
func (d *dense) hindsight(t *testing.T, c int) float64 {
	t.Helper()
	var w mat.VecDense
	if err := d.cholesky(t).SolveVecTo(&w, d.b.ColView(c)); err != nil {
		t.Logf("oracle: %v", err)
	}
	return d.energy[c] - mat.Dot(&w, d.b.ColView(c))
}

func near(t *testing.T, what string, got, want, tolerance float64) {
	t.Helper()
	require.True(t, !math.IsNaN(got) && math.Abs(got-want) <= tolerance*(1+math.Abs(want)), "%s: got %.17g, want %.17g", what, got, want)
}

// streams are the kinds of input the factor is checked on, with the relative
// accuracy that a dense Cholesky of A itself can vouch for.
func streams(r int) map[string]struct {
	next      func(rng *rand.Rand, i int, z []float64)
	lambda    float64
	tolerance float64
} {
	type stream = struct {
		next      func(rng *rand.Rand, i int, z []float64)
		lambda    float64
		tolerance float64
	}
	normal := func(rng *rand.Rand, _ int, z []float64) {
		for j := range z {
			z[j] = rng.NormFloat64()
		}
	}
	return map[string]stream{
		"random": {normal, 1, 1e-11},
		"ill-conditioned": {func(rng *rand.Rand, i int, z []float64) {
			normal(rng, i, z)
			for j := range z {
				z[j] *= math.Pow(10, -3*float64(j)/float64(r))
			}
		}, 1e-4, 1e-8},
		"collinear": {func(rng *rand.Rand, _ int, z []float64) {
			v := rng.NormFloat64()
			for j := range z {
				z[j] = v * float64(j+1)
			}
		}, 1e-2, 1e-8},
		"repeated": {func(_ *rand.Rand, _ int, z []float64) {
			for j := range z {
				z[j] = 1 / float64(j+1)
			}
		}, 1, 1e-11},
		"sparse": {func(rng *rand.Rand, i int, z []float64) {
			clear(z)
			z[i%len(z)] = rng.NormFloat64()
		}, 1, 1e-12},
	}
}

func TestRotateAgreesWithDenseCholesky(t *testing.T) {
	const r, k, rounds = 13, 2, 60
	for name, stream := range streams(r) {
		t.Run(name, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(1, 2))
			f, d := qr.New(r, k, stream.lambda), newDense(r, k, stream.lambda)
			loss := make([]float64, k)
			logDet := 0.0
			for i := range rounds {
				row := make([]float64, r+k)
				stream.next(rng, i, row[:r])
				for c := range k {
					row[r+c] = rng.NormFloat64()
				}
				z, y := append([]float64(nil), row[:r]...), append([]float64(nil), row[r:]...)
				q, p := d.solve(t, z)

				solved, predictions := append([]float64(nil), z...), make([]float64, k)
				gotQ := f.Solve(solved, predictions)
				near(t, "q", gotQ, q, stream.tolerance)

				prior := make([]float64, k)
				rotation := f.Rotate(row, prior)
				near(t, "gamma", rotation.Gamma, 1/math.Sqrt(1+q), stream.tolerance)
				near(t, "leverage", rotation.Leverage, q/(1+q), stream.tolerance)
				near(t, "logdet of a round", rotation.LogDet(), math.Log1p(q), stream.tolerance)
				logDet += rotation.LogDet()
				d.add(z, y)
				for c := range k {
					near(t, "p by Solve", predictions[c], p[c], stream.tolerance)
					residual := row[r+c]
					near(t, "p by Rotate", prior[c], p[c], stream.tolerance)
					near(t, "residual", residual, rotation.Gamma*(y[c]-p[c]), stream.tolerance)
					loss[c] += residual * residual
					near(t, "loss in hindsight", loss[c], d.hindsight(t, c), stream.tolerance)
				}
				near(t, "logdet", f.LogDet(stream.lambda), logDet, stream.tolerance)
			}
			checkSolutions(t, f, d, stream.lambda, stream.tolerance)
		})
	}
}

// checkSolutions compares weights, determinant and inverse trace.
func checkSolutions(t *testing.T, f *qr.Factor, d *dense, lambda, tolerance float64) {
	t.Helper()
	r := f.Order()
	chol := d.cholesky(t)
	near(t, "logdet against Cholesky", f.LogDet(lambda), chol.LogDet()-float64(r)*math.Log(lambda), tolerance)
	var inverse mat.SymDense
	if err := chol.InverseTo(&inverse); err != nil {
		t.Logf("oracle: %v", err)
	}
	near(t, "trace of the inverse", f.InverseNorm2(nil), mat.Trace(&inverse), tolerance)
	for c := range f.Columns() {
		got := make([]float64, r)
		f.Weights(got, c)
		var want mat.VecDense
		if err := chol.SolveVecTo(&want, d.b.ColView(c)); err != nil {
			t.Logf("oracle: %v", err)
		}
		for i := range got {
			near(t, "weight", got[i], want.AtVec(i), tolerance*100)
		}
	}
}

// A grown factor equals one that had every feature from the start.
func TestAppendEqualsHavingHadTheFeature(t *testing.T) {
	const r, k, rounds, lambda = 9, 2, 40, 0.3
	rng := rand.New(rand.NewPCG(3, 4))
	rows := make([][]float64, rounds)
	for i := range rows {
		rows[i] = make([]float64, r+k)
		for j := range rows[i] {
			rows[i][j] = rng.NormFloat64()
		}
	}
	start := 4
	grown := qr.New(start, k, lambda)
	loss := make([]float64, k)
	for _, row := range rows {
		short := append(append([]float64(nil), row[:start]...), row[r:]...)
		grown.Rotate(short, make([]float64, k))
		for c := range k {
			loss[c] += short[start+c] * short[start+c]
		}
	}
	for n := start; n < r; n++ {
		a, b, corner := make([]float64, n), make([]float64, k), lambda
		for _, row := range rows {
			psi := row[n]
			for j := range a {
				a[j] += row[j] * psi
			}
			for c := range b {
				b[c] += psi * row[r+c]
			}
			corner += psi * psi
		}
		grown.Append(a, corner, b, lambda)
		for c := range k {
			loss[c] -= b[c] * b[c]
		}
	}
	whole, d := qr.New(r, k, lambda), newDense(r, k, lambda)
	for _, row := range rows {
		d.add(row[:r], row[r:])
		whole.Rotate(append([]float64(nil), row...), make([]float64, k))
	}
	packed := grown.Packed()
	for i, v := range whole.Packed() {
		near(t, "packed entry", math.Abs(packed[i]), math.Abs(v), 1e-10)
	}
	for c := range k {
		near(t, "loss in hindsight", loss[c], d.hindsight(t, c), 1e-10)
	}
	checkSolutions(t, grown, d, lambda, 1e-9)

	// A copy of a feature adds nothing but its ridge: the corner left is λ(2−…),
	// never below the floor.
	a, b, corner := make([]float64, r), make([]float64, k), lambda
	for _, row := range rows {
		for j := range a {
			a[j] += row[j] * row[0]
		}
		for c := range b {
			b[c] += row[0] * row[r+c]
		}
		corner += row[0] * row[0]
	}
	grown.Append(a, corner, b, lambda)
	last := grown.Packed()[len(grown.Packed())-1-k]
	assert.True(t, last*last >= lambda*(1-1e-12), "the corner left is %g, want at least %g", last*last, lambda)
}

// A grown lower factor solves as gonum's Cholesky does, and a solution grown a
// coordinate at a time is the same bit for bit.
func TestLower(t *testing.T) {
	const m = 23
	rng := rand.New(rand.NewPCG(5, 5))
	k := mat.NewSymDense(m, nil)
	for range 3 * m {
		v := make([]float64, m)
		for j := range v {
			v[j] = rng.NormFloat64()
		}
		k.SymRankOne(k, 1, mat.NewVecDense(m, v))
	}
	var l qr.Lower
	for i := range m {
		row := make([]float64, i)
		for j := range row {
			row[j] = k.At(i, j)
		}
		square := l.Solve(row)
		l.Append(row, math.Sqrt(k.At(i, i)-square))
	}
	var chol mat.Cholesky
	require.True(t, chol.Factorize(k), "not positive definite")
	b := make([]float64, m)
	for j := range b {
		b[j] = rng.NormFloat64()
	}
	var want mat.VecDense
	require.NoError(t, chol.SolveVecTo(&want, mat.NewVecDense(m, append([]float64(nil), b...))))
	solved := append([]float64(nil), b...)
	square := l.Solve(solved)
	near(t, "b K⁻¹ b", square, mat.Dot(&want, mat.NewVecDense(m, b)), 1e-12)
	var grown []float64
	for i := range m {
		grown = append(grown, qr.Next(l.Row(i), grown, b[i]))
		require.True(t, grown[i] == solved[i], "coordinate %d: %.17g grown, %.17g solved", i, grown[i], solved[i])
	}
	l.SolveTransposed(solved)
	for i := range m {
		near(t, "solution", solved[i], want.AtVec(i), 1e-11)
	}
	var inverse mat.SymDense
	require.NoError(t, chol.InverseTo(&inverse))
	near(t, "trace of the inverse", l.InverseNorm2(nil), mat.Trace(&inverse), 1e-12)
	_, err := qr.LowerFromPacked(m, clone(l.Packed()), 1e-9, 1e9)
	assert.NoError(t, err)
	for _, bad := range []float64{0, -1, 1e-10, 1e10, math.NaN(), math.Inf(1)} {
		packed := clone(l.Packed())
		packed[2] = bad
		_, err := qr.LowerFromPacked(m, packed, 1e-9, 1e9)
		assert.Error(t, err, bad)
	}
}

// Extreme magnitudes neither overflow nor give NaN.
func TestExtremes(t *testing.T) {
	for _, scale := range []float64{1e-300, 1e-150, 1e-20, 1e20, 1e100} {
		for _, lambda := range []float64{1e-30, 1, 1e30} {
			f := qr.New(3, 1, lambda)
			rng := rand.New(rand.NewPCG(5, 6))
			for range 50 {
				row := []float64{scale * rng.NormFloat64(), scale, 0, scale * rng.NormFloat64()}
				prior := make([]float64, 1)
				rotation := f.Rotate(row, prior)
				for _, v := range append([]float64{prior[0], rotation.Gamma, rotation.Leverage, rotation.LogDet(), row[3]}, f.Packed()...) {
					require.False(t, math.IsNaN(v) || math.IsInf(v, 0), "scale %g, lambda %g: %v in %+v", scale, lambda, v, rotation)
				}
				require.False(t, rotation.Leverage < 0 || rotation.Leverage > 1, "leverage %g", rotation.Leverage)
			}
		}
	}
}

// A huge label costs the prediction before it no digits.
func TestPriorDoesNotMeetTheLabel(t *testing.T) {
	f, g := qr.New(2, 1, 1), qr.New(2, 1, 1)
	z := []float64{0.3, -0.7}
	for _, factor := range []*qr.Factor{f, g} {
		factor.Rotate([]float64{1, 0.5, 2}, make([]float64, 1))
	}
	small, large, solved := make([]float64, 1), make([]float64, 1), make([]float64, 1)
	f.Rotate([]float64{z[0], z[1], 0}, small)
	g.Solve(append([]float64(nil), z...), solved)
	g.Rotate([]float64{z[0], z[1], 1e100}, large)
	assert.Equal(t, large[0], small[0])
	near(t, "p", small[0], solved[0], 1e-15)
}

func TestFromPacked(t *testing.T) {
	f := qr.New(4, 1, 2)
	f.Rotate([]float64{1, 2, 3, 4, 5}, make([]float64, 1))
	same, err := qr.FromPacked(4, 1, f.Packed(), 1, 100)
	require.NoError(t, err)
	near(t, "logdet", same.LogDet(2), f.LogDet(2), 0)
	_, err = qr.FromPacked(5, 1, f.Packed(), 1, 100)
	assert.Error(t, err, "a wrong length was taken")
	for _, bad := range []float64{0, -1, 0.9, 101, math.NaN(), math.Inf(1)} {
		packed := f.Packed()
		packed[0] = bad
		_, err := qr.FromPacked(4, 1, packed, 1, 100)
		assert.Error(t, err, bad)
	}
	for at := range f.Packed() {
		packed := f.Packed()
		for _, bad := range []float64{-101, math.NaN(), math.Inf(-1)} {
			packed[at] = bad
			_, err := qr.FromPacked(4, 1, packed, 1, 100)
			assert.Error(t, err, "%v %v", bad, at)
		}
	}
}

func TestWrongLengthsPanic(t *testing.T) {
	f := qr.New(2, 1, 1)
	for name, call := range map[string]func(){
		"New":             func() { qr.New(1, 1, 0) },
		"Rotate":          func() { f.Rotate(make([]float64, 2), make([]float64, 1)) },
		"Solve":           func() { f.Solve(make([]float64, 3), make([]float64, 1)) },
		"Weights":         func() { f.Weights(make([]float64, 2), 1) },
		"FromPacked":      func() { _, _ = qr.FromPacked(0, 1, nil, 0, 1) },
		"LowerFromPacked": func() { _, _ = qr.LowerFromPacked(0, nil, math.NaN(), 1) },
		"Append":          func() { f.Append(make([]float64, 1), 1, make([]float64, 1), 1) },
	} {
		t.Run(name, func(t *testing.T) {
			defer func() { assert.NotNil(t, recover(), "no panic") }()
			call()
		})
	}
}

// FuzzRotate: whatever the observation, within the documented magnitudes, the
// factor stays a factor.
func FuzzRotate(f *testing.F) {
	f.Add(1.0, 2.0, 3.0, 1.0)
	f.Add(1e150, -1e-150, 0.0, 1e-30)
	f.Fuzz(func(t *testing.T, a, b, y, lambda float64) {
		for _, v := range []float64{a, b, y} {
			if math.IsNaN(v) || math.Abs(v) > 1e150 {
				t.Skip()
			}
		}
		if !(lambda >= 1e-30 && lambda <= 1e30) {
			t.Skip()
		}
		factor := qr.New(2, 1, lambda)
		for range 3 {
			factor.Rotate([]float64{a, b, y}, make([]float64, 1))
		}
		_, err := qr.FromPacked(2, 1, factor.Packed(), math.Sqrt(lambda)/2, 1e155)
		require.NoError(t, err)
	})
}

// What LogDet and Right read is what the packed rows hold, whatever was done
// to the factor.
func TestDiagonalAndRightAreThoseOfTheRows(t *testing.T) {
	const lambda = 0.5
	rng := rand.New(rand.NewPCG(31, 32))
	for k := 1; k <= 3; k++ {
		f := qr.New(2, k, lambda)
		check := func(what string, f *qr.Factor) {
			t.Helper()
			at, logDet := 0, 0.0
			for i := range f.Order() {
				logDet += 2 * math.Log(f.Packed()[at]/math.Sqrt(lambda))
				at += f.Order() - i
				got, want := f.Right()[i*k:(i+1)*k], f.Packed()[at:at+k]
				require.True(t, sameBits(got, want), "%s: row %d of u is %g, want %g", what, i, got, want)
				at += k
			}
			if got := f.LogDet(lambda); got != logDet || len(f.Right()) != f.Order()*k {
				t.Fatalf("%s: log det %g, want %g; u of %d", what, got, logDet, len(f.Right()))
			}
		}
		check("new", f)
		for n := range 40 {
			row := make([]float64, f.Order()+k)
			for i := range row {
				if rng.IntN(3) > 0 { // A zero turns nothing.
					row[i] = rng.NormFloat64()
				}
			}
			f.RotateDiscounted(row, make([]float64, k), 1-0.1*float64(n%2))
			check("rotated", f)
			if n%8 == 7 {
				f.Append(make([]float64, f.Order()), 2, make([]float64, k), lambda)
				check("appended", f)
			}
		}
		again, err := qr.FromPacked(f.Order(), k, f.Packed(), 1e-9, 1e9)
		require.NoError(t, err)
		check("from packed", again)
	}
}

// BytesOfAll is what factors take of the heap, but for the size classes of their copies.
func TestBytesAreThoseOfTheHeap(t *testing.T) {
	for _, r := range []int{100, 190, 276, 500} {
		for _, k := range []int{1, 2, 4} {
			lowest := uint64(math.MaxUint64)
			for range 4 {
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				qr.NewAll([]int{r, 3, r}, k, 1)
				runtime.ReadMemStats(&after)
				lowest = min(lowest, after.TotalAlloc-before.TotalAlloc)
			}
			got := qr.BytesOfAll([]int{r, 3, r}, k)
			assert.True(t, got <= lowest && lowest-got <= lowest/64, "order %d, %d columns: %d bytes, the heap says %d", r, k, got, lowest)
		}
	}
}

// The factor, the labels and the trace are those of gonum's dense routines, for orders
// about the sizes of the panels, and pause is called.
func TestCholesky(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, r := range []int{0, 1, 2, 7, 8, 9, 16, 63, 64, 65, 192, 257, 450} {
		a, gram := mat.NewSymDense(max(r, 1), nil), make([]float64, 0, r*(r+1)/2)
		if r > 0 {
			x := mat.NewDense(r, r+3, nil)
			for i := range x.RawMatrix().Data {
				x.RawMatrix().Data[i] = rng.NormFloat64()
			}
			a.SymOuterK(1, x)
		} else {
			a.SetSym(0, 0, 1)
		}
		for i := range r {
			for j := i; j < r; j++ {
				gram = append(gram, a.At(i, j))
			}
		}
		var want mat.Cholesky
		require.True(t, want.Factorize(a), "order %d is not positive definite", r)
		var inverse mat.SymDense
		require.NoError(t, want.InverseTo(&inverse))
		var upper mat.TriDense
		want.UTo(&upper)
		pauses := 0
		pause := func() { pauses++ }
		f, err := qr.Cholesky(r, 2, gram, pause)
		require.NoError(t, err)
		labels := mat.NewVecDense(max(r, 1), nil)
		for i := range r {
			labels.SetVec(i, rng.NormFloat64())
		}
		square := f.SetLabels(mat.Col(nil, 0, labels)[:r], 1)
		at, packed := 0, f.Packed()
		for i := range r {
			for j := i; j < r; j++ {
				got, want := packed[at+j-i], upper.At(i, j)
				require.False(t, math.Abs(got-want) > 1e-9*(1+math.Abs(want)), "order %d: R[%d,%d] = %g, want %g", r, i, j, got, want)
			}
			at += r - i + 2
		}
		if r == 0 {
			continue
		}
		assert.GreaterOrEqual(t, pauses, r/64, "order %d: %d pauses", r, pauses)
		var solved mat.VecDense
		require.NoError(t, want.SolveVecTo(&solved, labels))
		weights := make([]float64, r)
		f.Weights(weights, 1)
		for i, w := range weights {
			require.InDelta(t, solved.AtVec(i), w, 1e-6*(1+mat.Norm(&solved, 2)), "%v %v", r, i)
		}
		dot := mat.Dot(&solved, labels)
		assert.InDelta(t, dot, square, 1e-6*(1+dot), "order %d: ‖u‖² = %g, want %g", r, square, dot)
		f.Weights(weights, 0)
		assert.EqualValues(t, 0, mat.Norm(mat.NewVecDense(r, weights), 2), "order %d: weights of the other column %g", r, weights)
		pauses = 0
		trace, exact := f.InverseNorm2(pause), inverse.Trace()
		assert.False(t, math.Abs(trace-exact) > 1e-6*exact || pauses != r, "order %d: Tr A⁻¹ = %g after %d pauses, want %g", r, trace, pauses, exact)
	}
	for _, bad := range []float64{-1, 0, math.NaN()} {
		indefinite := make([]float64, 0, 5050)
		for i := range 100 {
			row := make([]float64, 100-i)
			if row[0] = 1; i == 70 {
				row[0] = bad
			}
			indefinite = append(indefinite, row...)
		}
		_, err := qr.Cholesky(100, 1, indefinite, nil)
		assert.Error(t, err, bad)
	}
}
