package gate_test

import (
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"hindsight/internal/model"
	"hindsight/internal/model/auto"
	"hindsight/internal/model/gate"
	"hindsight/internal/model/modeltest"
)

// gatedAuto is auto with its defaults, of so many inputs, behind a gate.
func gatedAuto(dimension, outputs int) *gate.Learner {
	o := auto.Options{Dimension: dimension, Outputs: outputs, Lags: 2, Frequencies: 50, Microseconds: 500, Gated: true}
	return gate.New(gate.Options{
		Dimension: dimension, Outputs: outputs, Advice: auto.AdviceSize(o),
		New: func() model.Learner { return auto.New(o) },
	})
}

func clean(t *testing.T, name string, rows int) []modeltest.Sample {
	if name == "sin" {
		rng := rand.New(rand.NewPCG(7, 7))
		var out []modeltest.Sample
		for range min(rows, 100000) {
			x := []float64{2*rng.Float64() - 1, 2*rng.Float64() - 1}
			out = append(out, modeltest.Sample{X: x, Y: math.Sin(3*x[0]) + x[1] + 0.1*rng.NormFloat64(), Weight: 1})
		}
		return out
	}
	var out []modeltest.Sample
	for _, s := range modeltest.Stream(t, name+".csv.gz", -1) {
		if s.Y != -200 && len(out) < rows {
			out = append(out, s)
		}
	}
	return out
}

var old = flag.Bool("old", false, "")

var tail = flag.Float64("tail", 0.02, "")

type dirt struct {
	name  string
	apply func(rng *rand.Rand, y []float64, span float64) (counted []bool)
	bar   float64
	from  int
}

func all(n int) []bool {
	c := make([]bool, n)
	for i := range c {
		c[i] = true
	}
	return c
}

func outlier(size float64) func(*rand.Rand, []float64, float64) []bool {
	return func(_ *rand.Rand, y []float64, span float64) []bool {
		c := all(len(y))
		y[1000] += size * span
		c[1000] = false
		return c
	}
}

const rows = 8000

func dirts() []dirt {
	ds := []dirt{
		{"none", func(_ *rand.Rand, y []float64, _ float64) []bool { return all(len(y)) }, 1.005, 0},
	}
	for _, s := range []float64{10, 1e2, 1e4, 1e6} {
		ds = append(ds, dirt{fmt.Sprintf("outlier %g ranges", s), outlier(s), 1.15, 1001})
	}
	ds = append(ds,
		dirt{"ten", func(rng *rand.Rand, y []float64, span float64) []bool {
			c := all(len(y))
			for range 10 {
				i := rng.IntN(len(y))
				y[i] += math.Pow(10, 1+5*rng.Float64()) * span * float64(1-2*rng.IntN(2))
				c[i] = false
			}
			return c
		}, 1.15, 0},
		dirt{"+100 ranges", func(_ *rand.Rand, y []float64, span float64) []bool {
			for i := 3000; i < len(y); i++ {
				y[i] += 100 * span
			}
			return all(len(y))
		}, 1.15, 4000},
		dirt{"unit x1000", func(_ *rand.Rand, y []float64, _ float64) []bool {
			for i := 3000; i < len(y); i++ {
				y[i] *= 1000
			}
			return all(len(y))
		}, 1.15, 4000},
		dirt{"-999 1%", func(rng *rand.Rand, y []float64, span float64) []bool {
			c := all(len(y))
			for i := range y {
				if rng.Float64() < 0.01 {
					y[i], c[i] = -999*span, false
				}
			}
			return c
		}, 1.15, 0},
		dirt{"t 1.5", func(rng *rand.Rand, y []float64, span float64) []bool {
			for i := range y {
				z := 0.0
				for range 1 {
					z = rng.NormFloat64() / math.Pow(gamma(rng, 0.75)/0.75, 0.5)
				}
				y[i] += *tail * span * z
			}
			return all(len(y))
		}, 2.2, 0},
		dirt{"20 rows of -200", func(_ *rand.Rand, y []float64, span float64) []bool {
			c := all(len(y))
			for i := 3000; i < 3020; i++ {
				y[i], c[i] = -200*span, false
			}
			return c
		}, 1.15, 4020},
		dirt{"unit /1000", func(_ *rand.Rand, y []float64, _ float64) []bool {
			for i := 3000; i < len(y); i++ {
				y[i] /= 1000
			}
			return all(len(y))
		}, 2, 4000},
	)
	return ds
}

// gamma draws from the gamma distribution of a shape, by the mean of exponentials' method
// of Marsaglia and Tsang.
func gamma(rng *rand.Rand, shape float64) float64 {
	if shape < 1 {
		return gamma(rng, shape+1) * math.Pow(rng.Float64(), 1/shape)
	}
	d := shape - 1.0/3
	c := 1 / math.Sqrt(9*d)
	for {
		x := rng.NormFloat64()
		v := math.Pow(1+c*x, 3)
		if v > 0 && math.Log(rng.Float64()) < 0.5*x*x+d-d*v+d*math.Log(v) {
			return d * v
		}
	}
}

func TestDirt(t *testing.T) {
	for _, stream := range []string{"sin", "air", "bike", "energy", "casp"} {
		samples := clean(t, stream, rows)
		low, high := math.Inf(1), math.Inf(-1)
		truth := make([]float64, len(samples))
		for i, s := range samples {
			low, high = math.Min(low, s.Y), math.Max(high, s.Y)
			truth[i] = s.Y
		}
		v1 := auto.New(auto.Options{Dimension: len(samples[0].X), Outputs: 1, Lags: 2, Frequencies: 50, Microseconds: 500})
		base := make([]float64, len(samples))
		for i, s := range samples {
			var o model.Outcome
			if err := v1.Observe(&o, s.X, []float64{s.Y}, 1); err != nil {
				t.Fatal(err)
			}
			base[i] = (o.Predictions[0] - truth[i]) * (o.Predictions[0] - truth[i])
		}
		for _, d := range dirts() {
			t.Run(stream+" "+d.name, func(t *testing.T) {
				y := append([]float64(nil), truth...)
				counted := d.apply(rand.New(rand.NewPCG(1, 2)), y, high-low)
				var l model.Learner = gatedAuto(len(samples[0].X), 1)
				if *old {
					l = auto.New(auto.Options{Dimension: len(samples[0].X), Outputs: 1, Lags: 2, Frequencies: 50, Microseconds: 500})
				}
				var o model.Outcome
				loss, want := 0.0, 0.0
				for i, s := range samples {
					if err := l.Observe(&o, s.X, y[i:i+1], 1); err != nil {
						t.Fatal(err)
					}
					if counted[i] && i >= d.from {
						target, unit := y[i], 1.0
						if d.name == "t 1.5" {
							target = truth[i]
						}
						if d.name == "unit x1000" {
							unit = 1e-3
						}
						if d.name == "unit /1000" {
							unit = 1e3
						}
						loss += (o.Predictions[0] - target) * (o.Predictions[0] - target) * unit * unit
						want += base[i]
					}
				}
				s := l.Stats()
				t.Logf("%.4f, aside %d last %d starts %d last %d, beside %.4g regret %.4g certificate %.4g bound %.4g", loss/want, s.Gate.SetAside, s.Gate.LastSetAside, s.Gate.Starts, s.Gate.LastStart, s.Gate.RegretBeside, s.Regret, s.Certificate, s.RegretBound)
				if loss/want > d.bar {
					t.Errorf("loss %g of a clean run, want at most %g", loss/want, d.bar)
				}
				if !s.Certified || !s.CertificateOK {
					t.Errorf("%+v", s)
				}
			})
		}
	}
}

func TestEvents(t *testing.T) {
	kinds := map[string]func(rng *rand.Rand, i int, x []float64) float64{
		"normal tail": func(rng *rand.Rand, _ int, x []float64) float64 {
			x[0] = rng.NormFloat64()
			return indicator(x[0] > 2.33)
		},
		"phase": func(_ *rand.Rand, i int, x []float64) float64 {
			x[0] = float64(i % 100)
			return indicator(i%100 == 40)
		},
		"noisy flag": func(rng *rand.Rand, _ int, x []float64) float64 {
			y := indicator(rng.Float64() < 0.01)
			x[0] = y + 0.15*rng.NormFloat64()
			return y
		},
		"one of 20": func(rng *rand.Rand, _ int, x []float64) float64 {
			x[0] = float64(rng.IntN(100))
			return indicator(x[0] == 57)
		},
	}
	for kind, f := range kinds {
		for seed := range uint64(4) {
			for _, name := range []string{"gate", "v1"} {
				rng := rand.New(rand.NewPCG(seed, 3))
				d := 1 + int(seed)
				var l model.Learner = gatedAuto(d, 1)
				if name == "v1" {
					l = auto.New(auto.Options{Dimension: d, Outputs: 1, Lags: 2, Frequencies: 50, Microseconds: 500})
				}
				var o model.Outcome
				loss, sum, squares := 0.0, 0.0, 0.0
				for i := range rows {
					x := make([]float64, d)
					for j := range x {
						x[j] = rng.Float64()
					}
					y := f(rng, i, x) + 0.001*rng.NormFloat64()
					if err := l.Observe(&o, x, []float64{y}, 1); err != nil {
						t.Fatal(err)
					}
					loss += o.Loss
					sum += y
					squares += y * y
				}
				mean := sum / rows
				t.Logf("%s %s d %d skill %.3f %+v", kind, name, d, 1-loss/(squares-mean*sum), l.Stats().Gate)
			}
		}
	}
}

func indicator(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

func TestGrowth(t *testing.T) {
	for name, f := range map[string]func(float64) float64{"t": func(v float64) float64 { return v }, "t3": func(v float64) float64 { return v * v * v }, "exp": func(v float64) float64 { return math.Exp(v / 200) }} {
		rng := rand.New(rand.NewPCG(7, 7))
		l := gatedAuto(1, 1)
		var o model.Outcome
		loss, last, previous := 0.0, 0.0, 0.0
		for i := range 6000 {
			y := f(float64(i)) + 0.1*rng.NormFloat64()
			if err := l.Observe(&o, []float64{rng.Float64()}, []float64{y}, 1); err != nil {
				t.Fatal(err)
			}
			loss += o.Loss
			last += (y - previous) * (y - previous)
			previous = y
		}
		t.Logf("%s skill %.5f %+v", name, 1-loss/last, l.Stats().Gate)
	}
}
