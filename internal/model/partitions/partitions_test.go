package partitions_test

import (
	"bytes"
	"math"
	"math/rand/v2"
	"testing"

	"hindsight/internal/model/codec"
	"hindsight/internal/model/modeltest"
	"hindsight/internal/model/partitions"
)

// naive is an expert in floating point, over maps of cells by their numbers.
type naive struct{ cells map[[2]int]float64 }

func (n *naive) predict(found []int) float64 {
	sum := 0.0
	for g, c := range found {
		sum += n.cells[[2]int{g, c}]
	}
	return sum
}

func (n *naive) learn(found []int, y, weight float64) {
	r := y - n.predict(found)
	for g, c := range found {
		n.cells[[2]int{g, c}] += min(0.5*weight, 1) * r / float64(len(found))
	}
}

// cellsOf are the cells of an expert, of those that Find found.
func cellsOf(found []uint16, expert int) []int {
	m := len(found) / 4
	var own []int
	for g := range m {
		at := 2 * (expert/3*m + g)
		if expert%3 == 2 {
			at++
		}
		own = append(own, int(found[at]))
	}
	return own
}

func seeded(tb testing.TB) *rand.Rand {
	tb.Helper()
	seed := rand.Uint64()
	tb.Logf("seed %d", seed)
	return rand.New(rand.NewPCG(seed, 1))
}

func point(rng *rand.Rand, n int) []float64 {
	z := make([]float64, n)
	for j := range z {
		z[j] = rng.NormFloat64()
	}
	return z
}

// Every expert is gradient descent over the indicators of its cells, to the rounding of
// integer cells: half a unit of 2⁻²⁰ a step and grid.
func TestNaive(t *testing.T) {
	rng := seeded(t)
	p := partitions.New(partitions.Options{Seed: 3, Inputs: 4, Lags: 2})
	var oracle [partitions.Experts]naive
	for e := range oracle {
		oracle[e].cells = map[[2]int]float64{}
	}
	found, out := make([]uint16, partitions.Found), make([]float64, partitions.Experts)
	const rounds = 400
	for range rounds {
		z := point(rng, 6)
		y, residual, weight := math.Sin(3*z[0])+z[1], 0.1*rng.NormFloat64(), 3*rng.Float64()
		p.Find(found, z)
		p.Predict(out, found)
		for e := range oracle {
			own := cellsOf(found, e)
			if want := oracle[e].predict(own); math.Abs(out[e]-want) > float64(rounds*len(own))*0x1p-20 {
				t.Fatalf("expert %d: %g, want %g", e, out[e], want)
			}
			if partitions.Residual(e) {
				oracle[e].learn(own, residual, weight)
			} else {
				oracle[e].learn(own, y, weight)
			}
		}
		p.Learn(found, y, residual, weight)
	}
}

// Σr² ≤ 2Σ(y − u·φ)² + 4‖u‖² for every u over the indicators: the bound of the package
// comment, here for the u that another stream learned, and for 0.
func TestBound(t *testing.T) {
	rng := seeded(t)
	p := partitions.New(partitions.Options{Seed: 5, Inputs: 3})
	target := naive{map[[2]int]float64{}}
	found, out := make([]uint16, partitions.Found), make([]float64, partitions.Experts)
	for range 300 {
		z := point(rng, 3)
		p.Find(found, z)
		target.learn(cellsOf(found, 0), z[0]*z[1], 1)
	}
	squares := 0.0
	for _, u := range target.cells {
		squares += u * u
	}
	m := float64(len(cellsOf(found, 0)))
	var own, theirs, labels float64
	for range 2000 {
		z := point(rng, 3)
		p.Find(found, z)
		p.Predict(out, found)
		y := z[0]*z[1] + 0.1*rng.NormFloat64()
		own += (y - out[0]) * (y - out[0])
		gap := y - target.predict(cellsOf(found, 0))
		theirs += gap * gap
		labels += y * y
		p.Learn(found, y, 0, 1)
		// Σ u_i over m cells is u·φ for φ of norm 1 with weights √m u_i.
		if bound := 2*theirs + 4*m*squares; own > bound+1e-3 || own > 2*labels+1e-3 {
			t.Fatalf("lost %g, bounds %g and %g", own, bound, 2*labels)
		}
	}
}

// The cells are shared by neighbours and by the width: near points share more cells than far
// ones, and the wide grids more than the narrow.
func TestCellsAreLocal(t *testing.T) {
	p := partitions.New(partitions.Options{Seed: 1, Inputs: 2})
	shared := func(distance float64, expert int) (count int) {
		rng := rand.New(rand.NewPCG(1, 1))
		a, b := make([]uint16, partitions.Found), make([]uint16, partitions.Found)
		for range 200 {
			z := point(rng, 2)
			p.Find(a, z)
			p.Find(b, []float64{z[0] + distance, z[1]})
			ca, cb := cellsOf(a, expert), cellsOf(b, expert)
			for g := range ca {
				if ca[g] == cb[g] {
					count++
				}
			}
		}
		return count
	}
	if near, far := shared(0.1, 0), shared(2, 0); near <= 2*far {
		t.Errorf("%d cells shared at a distance of 0.1, %d at 2", near, far)
	}
	if narrow, wide := shared(1, 0), shared(1, 3); wide <= narrow {
		t.Errorf("%d cells shared by narrow grids, %d by wide ones", narrow, wide)
	}
}

// Labels and inputs of any size leave finite predictions.
func TestExtremes(t *testing.T) {
	p := partitions.New(partitions.Options{Seed: 1, Inputs: 2, Lags: 1})
	found, out := make([]uint16, partitions.Found), make([]float64, partitions.Experts)
	for n := range 3000 {
		v := [...]float64{0, 1e6, -1e6, 1e-300, 1e100, -1e100}
		p.Find(found, []float64{max(-1e6, min(1e6, v[n%6])), max(-1e6, min(1e6, v[n%5])), 0})
		p.Predict(out, found)
		for _, f := range out {
			if !(math.Abs(f) <= 1<<17) {
				t.Fatal(out)
			}
		}
		p.Learn(found, v[n%6], v[n%4], 1e9)
	}
}

func state(tb testing.TB, p *partitions.Partitions) []byte {
	tb.Helper()
	v := codec.Appending(nil)
	p.Visit(&v)
	out, err := v.Appended()
	if err != nil {
		tb.Fatal(err)
	}
	return out
}

func TestStateContinues(t *testing.T) {
	rng := seeded(t)
	o := partitions.Options{Seed: 9, Inputs: 3, Lags: 2}
	p := partitions.New(o)
	found := make([]uint16, partitions.Found)
	learn := func(z []float64, each ...*partitions.Partitions) {
		for _, p := range each {
			p.Find(found, z)
			p.Learn(found, z[0], z[1], 1)
		}
	}
	for range 50 {
		learn(point(rng, 5), p)
	}
	again := partitions.New(o)
	if err := codec.Read(state(t, p), again.Visit); err != nil {
		t.Fatal(err)
	}
	for range 50 {
		learn(point(rng, 5), p, again)
	}
	if !bytes.Equal(state(t, p), state(t, again)) {
		t.Error("a restored state continues otherwise")
	}
	bad := state(t, p)
	copy(bad, []byte{0, 0, 0, 0x80})
	if err := codec.Read(bad, partitions.New(o).Visit); err == nil {
		t.Error("a cell of −2³¹ is taken")
	}
}

func FuzzVisit(f *testing.F) {
	o := partitions.Options{Seed: 9, Inputs: 1}
	f.Add(state(f, partitions.New(o)))
	f.Fuzz(func(t *testing.T, data []byte) {
		p := partitions.New(o)
		if codec.Read(data, p.Visit) == nil && !bytes.Equal(state(t, p), data) {
			t.Error("another state was read")
		}
	})
}

func TestNothingAllocates(t *testing.T) {
	p := partitions.New(partitions.Options{Seed: 1, Inputs: 4, Lags: 2})
	found, out, z := make([]uint16, partitions.Found), make([]float64, partitions.Experts), make([]float64, 6)
	if n := testing.AllocsPerRun(100, func() {
		p.Find(found, z)
		p.Predict(out, found)
		p.Learn(found, 1, 2, 1)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// TestStreams measures the experts on published streams, with the last label as residual
// base: the page of the design has the same of its prototype.
func TestStreams(t *testing.T) {
	for _, name := range []string{"bike", "casp"} {
		samples := modeltest.Stream(t, name+".csv.gz", 8000)
		modeltest.Scale(samples)
		low, high := math.Inf(1), math.Inf(-1)
		for _, s := range samples {
			low, high = min(low, s.Y), max(high, s.Y)
		}
		d := len(samples[0].X)
		p := partitions.New(partitions.Options{Seed: 1, Inputs: d})
		found, out := make([]uint16, partitions.Found), make([]float64, partitions.Experts)
		var losses [partitions.Experts]float64
		mean, squares, z := 0.0, 0.0, make([]float64, d)
		for n, s := range samples {
			y := (s.Y - low) / (high - low)
			for j, x := range s.X {
				z[j] = 4 * (x - 0.5) // About standard units of columns in [0, 1].
			}
			p.Find(found, z)
			p.Predict(out, found)
			for e := range out {
				losses[e] += (out[e] - (y - 0.5)) * (out[e] - (y - 0.5))
			}
			squares += (mean - y) * (mean - y)
			mean += (y - mean) / float64(n+1)
			p.Learn(found, y-0.5, y-0.5, 1)
		}
		t.Logf("%s: losses over the running mean's: %.3f and %.3f", name, losses[0]/squares, losses[3]/squares)
		if best := min(losses[0], losses[3]); !(best < 0.85*squares) {
			t.Errorf("%s: lost %g, the running mean %g", name, best, squares)
		}
	}
}

func BenchmarkPredict(b *testing.B) {
	for _, d := range []int{4, 12, 27} {
		b.Run(map[int]string{4: "d=4", 12: "d=12", 27: "d=27"}[d], func(b *testing.B) {
			p := partitions.New(partitions.Options{Seed: 1, Inputs: d, Lags: 2})
			found, out, z := make([]uint16, partitions.Found), make([]float64, partitions.Experts), point(rand.New(rand.NewPCG(1, 1)), d+2)
			b.ReportAllocs()
			for b.Loop() {
				p.Find(found, z)
				p.Predict(out, found)
			}
		})
	}
}

func BenchmarkLearn(b *testing.B) {
	p := partitions.New(partitions.Options{Seed: 1, Inputs: 12, Lags: 2})
	found := make([]uint16, partitions.Found)
	p.Find(found, point(rand.New(rand.NewPCG(1, 1)), 14))
	b.ReportAllocs()
	for b.Loop() {
		p.Learn(found, 0.5, 0.25, 1)
	}
}
