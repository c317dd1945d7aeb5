package neighbors_test

import (
	"math"
	"math/rand/v2"
	"sort"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"hindsight/internal/model/neighbors"
	"hindsight/internal/model/window"
)

// example is a row of a stream.
type example struct {
	columns   []float64
	y, served float64
}

func examples(rng *rand.Rand, n, inputs int) []example {
	rows := make([]example, n)
	for i := range rows {
		x := make([]float64, window.Layout{Inputs: inputs}.Columns())
		for j := range x {
			x[j] = rng.NormFloat64()
		}
		rows[i] = example{x, 1000 + math.Sin(2*x[0]) + x[inputs-1] + 0.1*rng.NormFloat64(), 1000 + x[inputs-1]}
	}
	return rows
}

func begin(inputs, capacity int) (*window.Window, []float64) {
	w, units, scales := window.New(capacity, window.Layout{Inputs: inputs}), make([]float64, inputs+1), make([]float64, inputs)
	for j := range units {
		units[j] = 1 + float64(j)/7
	}
	for j := range scales {
		scales[j] = 1 + float64(j%3)
	}
	w.Begin(make([]float64, inputs+1), units)
	return w, scales
}

// naive is the experts straight from the package comment, in double precision but for the
// rounding of the window. The rows are oldest first.
func naive(w *window.Window, rows []example, x, scales []float64, v float64) (predictions [neighbors.Experts]float64) {
	d := len(scales)
	stored := func(x []float64, j int) float64 { return float64(float32(x[j] / w.Unit(j))) }
	u := func(r example, j int) float64 { return w.Unit(j) / scales[j] * (stored(r.columns, j) - stored(x, j)) }
	type neighbour struct {
		example
		distance float64
		age      int
	}
	var all []neighbour
	for i, r := range rows {
		square := 0.0
		for j := range d {
			square += u(r, j) * u(r, j)
		}
		all = append(all, neighbour{r, square, len(rows) - 1 - i})
	}
	sort.Slice(all, func(a, b int) bool {
		if all[a].distance != all[b].distance {
			return all[a].distance < all[b].distance
		}
		return all[a].age < all[b].age
	})
	weight := func(i, k int) float64 {
		if all[k].distance == 0 {
			return 1 + 1e-6
		}
		part := 1 - all[i].distance/all[k].distance
		return part*part + 1e-6
	}
	affine := func(target func(r example) float64) float64 {
		a, b := mat.NewSymDense(d+1, nil), mat.NewVecDense(d+1, nil)
		low, high := math.Inf(1), math.Inf(-1)
		for i := range 64 {
			z := mat.NewVecDense(d+1, nil)
			for j := range d {
				z.SetVec(j, u(all[i].example, j))
			}
			z.SetVec(d, 1)
			a.SymRankOne(a, weight(i, 64), z)
			b.AddScaledVec(b, weight(i, 64)*target(all[i].example), z)
			low, high = math.Min(low, target(all[i].example)), math.Max(high, target(all[i].example))
		}
		trace := 0.0
		for j := range d {
			trace += a.At(j, j)
		}
		if trace == 0 {
			return b.AtVec(d) / a.At(d, d)
		}
		for j := range d {
			a.SetSym(j, j, a.At(j, j)+0.1*trace/float64(d))
		}
		var c mat.Cholesky
		c.Factorize(a)
		var solution mat.VecDense
		if err := c.SolveVecTo(&solution, b); err != nil {
			panic(err)
		}
		return math.Max(low, math.Min(high, solution.AtVec(d)))
	}
	residual := func(r example) float64 { return r.y - r.served }
	sum, total := 0.0, 0.0
	for i := range 32 {
		sum += weight(i, 32) * residual(all[i].example)
		total += weight(i, 32)
	}
	return [neighbors.Experts]float64{affine(func(r example) float64 { return r.y }), v + affine(residual), v + sum/total}
}

func predict(w *window.Window, s *neighbors.Scratch, x, scales []float64, v float64) (predictions [neighbors.Experts]float64) {
	row := make([]float32, w.Columns())
	w.Fill(row, x, w.Count(), 0, v)
	var parts [neighbors.Experts]float64
	s.Parts(parts[:], w, row, scales)
	neighbors.Say(predictions[:], parts[:], v)
	return predictions
}

// The experts are those of the package comment, before and after the ring turns.
func TestNaive(t *testing.T) {
	for _, inputs := range []int{1, 5, 8, 12, 32} {
		const capacity = 150
		rng := rand.New(rand.NewPCG(uint64(inputs), 2))
		w, scales := begin(inputs, capacity)
		s, rows := neighbors.NewScratch(inputs, w.Slots()), examples(rng, 1000, inputs)
		for n, r := range rows {
			if n >= neighbors.MinRows && n%7 == 0 {
				got := predict(w, s, r.columns, scales, r.served)
				want := naive(w, rows[max(0, n-capacity):n], r.columns, scales, r.served)
				for k := range got {
					require.False(t, math.Abs(got[k]-want[k]) > 1e-4, "%d inputs, round %d: %g, want %g", inputs, n, got, want)
				}
			}
			w.Add(r.columns, w.Count(), 0, r.y, r.served, 1)
		}
	}
}

// Of equal rows the newer count, and a query among equal rows has their mean.
func TestTiesGoToTheNewer(t *testing.T) {
	w, scales := begin(3, 400)
	s, x := neighbors.NewScratch(3, w.Slots()), make([]float64, w.Columns())
	for n := range 1000 {
		label := 1.0
		if n >= 1000-64 {
			label = 2
		}
		w.Add(x, w.Count(), 0, label, 0, 1)
	}
	got := predict(w, s, x, scales, 10)
	assert.False(t, got[0] != 2 || math.Abs(got[1]-12) > 1e-9 || math.Abs(got[2]-12) > 1e-9, "predictions %g", got)
}

// Extreme rows, scales and labels keep every prediction finite.
func TestExtremes(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	wide := func() float64 { return rng.NormFloat64() * math.Pow(10, 160*(rng.Float64()-0.5)) }
	for range 50 {
		w, scales := begin(4, 100)
		s, x := neighbors.NewScratch(4, w.Slots()), make([]float64, w.Columns())
		for j := range scales {
			scales[j] = math.Abs(wide())
		}
		for n := range 150 {
			for j := range x {
				x[j] = wide()
			}
			if w.Add(x, w.Count(), 0, wide(), wide(), 1); n < neighbors.MinRows {
				continue
			}
			for _, f := range predict(w, s, x, scales, 0) {
				require.False(t, math.IsNaN(f) || math.IsInf(f, 0), "predicted %g", f)
			}
		}
	}
}

func TestAllocatesNothing(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	w, scales := begin(5, 300)
	for _, r := range examples(rng, 400, 5) {
		w.Add(r.columns, w.Count(), 0, r.y, r.served, 1)
	}
	s, row, dst := neighbors.NewScratch(5, w.Slots()), make([]float32, w.Columns()), make([]float64, neighbors.Experts)
	assert.EqualValues(t, 0, testing.AllocsPerRun(100, func() { s.Parts(dst, w, row, scales) }), "allocations")
}
