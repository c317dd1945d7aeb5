package auto_test

import (
	"fmt"
	"math"
	"os"
	"sort"
	"strconv"
	"testing"
	"time"

	"hindsight/internal/model"
	"hindsight/internal/model/auto"
	"hindsight/internal/model/modeltest"
)

func seed() uint64 { n, _ := strconv.Atoi(os.Getenv("SEED")); return uint64(n) }

func TestX(t *testing.T) {
	n, _ := strconv.Atoi(os.Getenv("ROWS"))
	if n == 0 {
		n = -1
	}
	for _, name := range []string{"air", "energy_adaraker", "air_raw", "energy", "energy_appliances", "bike", "casp", "elec2", "ijcnn1", "movement"} {
		if w := os.Getenv("ONLY"); w != "" && w != name {
			continue
		}
		samples := modeltest.Stream(t, name+".csv.gz", n)
		if name == "air_raw" {
			var k []modeltest.Sample
			for _, s := range samples {
				if s.Y != -200 {
					k = append(k, s)
				}
			}
			samples = k
		}
		signs := math.Abs(samples[0].Y) == 1
		if name != "air" && name != "energy_adaraker" && name != "movement" {
			modeltest.Scale(samples)
			if !signs {
				low, high := math.Inf(1), math.Inf(-1)
				for _, s := range samples {
					low, high = min(low, s.Y), max(high, s.Y)
				}
				for i := range samples {
					samples[i].Y = (samples[i].Y - low) / (high - low)
				}
			}
		}
		l := auto.New(auto.Options{Dimension: len(samples[0].X), Outputs: 1, Lags: 2, Frequencies: 50, Microseconds: 500, Seed: seed()})
		var o model.Outcome
		errors := 0
		start := time.Now()
		for _, s := range samples {
			if err := l.Observe(&o, s.X, []float64{s.Y}, 1); err != nil {
				t.Fatal(err)
			}
			i := l.Stats0()
			if os.Getenv("T") != "" && (i == 64 || i == 128 || i == 256 || i == 512 || i == 1024 || i == 2048 || i == 4096 || i == 8192 || i == 16384) {
				_, _, ls, nm := l.Losses()
				loss, _, _, _ := l.Losses()
				k := len(nm)
				fmt.Printf("%d: auto %.4f b %.4f stacks %.4f %.4f %.4f last %.4f\n", i, loss, ls[k], ls[k+1], ls[k+2], ls[k+3], ls[1])
			}
			if o.Predictions[0]*s.Y <= 0 {
				errors++
			}
		}
		took := time.Since(start)
		loss, _, losses, names := l.Losses()
		c := float64(len(samples))
		k := len(names)
		idx := make([]int, k)
		for i := range idx {
			idx[i] = i
		}
		sort.Slice(idx, func(a, b int) bool { return losses[idx[a]] < losses[idx[b]] })
		fmt.Printf("%-18s auto %.3e  best %.3e (%s)  b %.3e  stacks %.3e %.3e %.3e last %.3e err %.2f%%  %.0f µs\n", name, loss/c, losses[idx[0]]/c, names[idx[0]], losses[k]/c, losses[k+1]/c, losses[k+2]/c, losses[k+3]/c, losses[1]/c, 100*float64(errors)/c, took.Seconds()*1e6/c)
		if os.Getenv("V") != "" {
			for _, i := range idx {
				fmt.Printf("   %.4e %s\n", losses[i]/c, names[i])
			}
		}
	}
}
