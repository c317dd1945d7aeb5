package compensated_test

import (
	"math/big"
	"math/rand/v2"
	"testing"

	"hindsight/internal/model/compensated"
)

func TestSumKeepsItsDigits(t *testing.T) {
	var s compensated.Sum
	for _, v := range []float64{1, 1e100, 1, -1e100} {
		s.Add(v)
	}
	if s.Value() != 2 {
		t.Errorf("1 + 1e100 + 1 − 1e100 = %g", s.Value())
	}
	rng := rand.New(rand.NewPCG(1, 1))
	var long compensated.Sum
	exact := new(big.Float).SetPrec(300)
	for range 100_000 {
		v := rng.NormFloat64() * 1e6
		long.Add(v)
		exact.Add(exact, big.NewFloat(v))
	}
	if want, _ := exact.Float64(); long.Value() != want {
		t.Errorf("%.17g, want %.17g", long.Value(), want)
	}
}
