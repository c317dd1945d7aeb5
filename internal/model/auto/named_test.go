package auto_test

import (
	"testing"

	"hindsight/internal/model/auto"
	"hindsight/internal/model/modeltest"
)

func TestNamedBike(t *testing.T) {
	samples := modeltest.Stream(t, "bike.csv.gz", -1)
	categories := map[int]bool{0: true, 2: true, 3: true, 5: true, 7: true}
	seen := map[int]map[float64]int{}
	for j := range categories {
		seen[j] = map[float64]int{}
		for _, s := range samples {
			if _, ok := seen[j][s.X[j]]; !ok {
				seen[j][s.X[j]] = len(seen[j])
			}
		}
	}
	o := auto.Options{Outputs: 1, Lags: 2, Frequencies: 50, Microseconds: 500}
	var from [12]int
	for j := range 12 {
		from[j] = o.Dimension
		if categories[j] {
			o.Joint = append(o.Joint, auto.Span{From: o.Dimension, To: o.Dimension + len(seen[j])})
			o.Dimension += len(seen[j])
		} else {
			o.Dimension++
		}
	}
	low, high := samples[0].Y, samples[0].Y
	for _, s := range samples {
		low, high = min(low, s.Y), max(high, s.Y)
	}
	for i, s := range samples {
		x := make([]float64, o.Dimension)
		for j := range 12 {
			if categories[j] {
				x[from[j]+seen[j][s.X[j]]] = 1
			} else {
				x[from[j]] = s.X[j]
			}
		}
		samples[i].X, samples[i].Y = x, (s.Y-low)/(high-low)
	}
	second, _ := follow(t, auto.NewSecond(o), samples, false)
	t.Logf("d=%d: %.4g", o.Dimension, second)
}
