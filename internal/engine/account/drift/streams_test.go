package drift_test

import (
	"math"
	"math/rand/v2"
)

// source makes the losses of one stream: loss t, from 0, where the mean is so many
// times what it was.
type source func(t int, factor float64) float64

// sources are streams of losses by their name, made from a seed.
type sources struct {
	name string
	make func(r *rand.Rand) source
}

// independent are losses of one distribution each.
func independent() []sources {
	each := func(draw func(r *rand.Rand) float64) func(r *rand.Rand) source {
		return func(r *rand.Rand) source { return func(_ int, factor float64) float64 { return factor * draw(r) } }
	}
	// Some losses are not 0, and there are so many times more of them.
	some := func(p float64, draw func(r *rand.Rand) float64) func(r *rand.Rand) source {
		return func(r *rand.Rand) source {
			return func(_ int, factor float64) float64 {
				if r.Float64() < p*factor {
					return draw(r)
				}
				return 0
			}
		}
	}
	return []sources{
		{"squared Gaussian", each(func(r *rand.Rand) float64 { return square(r.NormFloat64()) })},
		{"exponential", each((*rand.Rand).ExpFloat64)},
		{"log-normal, σ = 2", each(func(r *rand.Rand) float64 { return math.Exp(2 * r.NormFloat64()) })},
		{"Pareto 1.5", each(func(r *rand.Rand) float64 { return math.Pow(1-r.Float64(), -1/1.5) })},
		{"Pareto 0.8", each(func(r *rand.Rand) float64 { return math.Pow(1-r.Float64(), -1/0.8) })},
		{"squared Student t3", each(func(r *rand.Rand) float64 {
			chi := square(r.NormFloat64()) + square(r.NormFloat64()) + square(r.NormFloat64())
			return square(r.NormFloat64()) / chi * 3
		})},
		{"squared Cauchy", each(func(r *rand.Rand) float64 { return square(math.Tan(math.Pi * (r.Float64() - 0.5))) })},
		{"0 or 1, of 20 %", some(0.2, func(*rand.Rand) float64 { return 1 })},
		{"exponential, 90 % zeros", some(0.1, (*rand.Rand).ExpFloat64)},
	}
}

// dependent are stationary or periodic losses that are not independent.
func dependent() []sources {
	// A squared autoregression.
	squares := func(rho float64) func(r *rand.Rand) source {
		return func(r *rand.Rand) source {
			z := r.NormFloat64()
			return func(_ int, factor float64) float64 {
				z = rho*z + math.Sqrt(1-rho*rho)*r.NormFloat64()
				return factor * z * z
			}
		}
	}
	// Squared Gaussians whose log variance is an autoregression.
	volatility := func(rho float64) func(r *rand.Rand) source {
		return func(r *rand.Rand) source {
			h := r.NormFloat64()
			return func(_ int, factor float64) float64 {
				h = rho*h + math.Sqrt(1-rho*rho)*r.NormFloat64()
				return factor * square(r.NormFloat64()) * math.Exp(h)
			}
		}
	}
	cycle := func(period, amplitude float64) func(r *rand.Rand) source {
		return func(r *rand.Rand) source {
			return func(t int, factor float64) float64 {
				return factor * r.ExpFloat64() * (1 + amplitude*math.Sin(2*math.Pi*float64(t)/period))
			}
		}
	}
	return []sources{
		{"autoregression 0.5", squares(0.5)},
		{"autoregression 0.9", squares(0.9)},
		{"volatility 0.9", volatility(0.9)},
		{"volatility 0.98", volatility(0.98)},
		{"cycle of 24, ± 90 %", cycle(24, 0.9)},
		{"cycle of 144, ± 90 %", cycle(144, 0.9)},
	}
}

// drifting grows tenfold in 50,000 rounds.
func drifting(r *rand.Rand) source {
	return func(t int, factor float64) float64 { return factor * r.ExpFloat64() * math.Pow(10, float64(t)/50_000) }
}

func square(v float64) float64 { return v * v }
