// Package performance compares what calls, kernels and learners cost with what the machine could
// do at the same time. It gives ratios alone: they hold on other machines, and on a busy one.
package performance

import (
	"math"
	"slices"

	"hindsight/cmd/internal/command"
)

// Ratio is the distribution of the ratio of two costs that were measured in turns.
type Ratio struct {
	Median command.Finite `json:"median"`
	Low    command.Finite `json:"lowQuartile"`
	High   command.Finite `json:"highQuartile"`
}

// exactly is a number that was not measured over rounds.
func exactly(v float64) Ratio { return Ratio{command.Finite(v), command.Finite(v), command.Finite(v)} }

// Paired is the ratio of a[i] to b[i]. Pairs without a positive b[i] do not count. Without pairs
// the ratio is not a number.
func Paired(a, b []float64) Ratio {
	var ratios []float64
	for i, v := range a {
		if b[i] > 0 {
			ratios = append(ratios, v/b[i])
		}
	}
	if len(ratios) == 0 {
		return exactly(math.NaN())
	}
	slices.Sort(ratios)
	at := func(quarter int) command.Finite {
		place := float64(quarter*(len(ratios)-1)) / 4
		low := int(place)
		high := min(low+1, len(ratios)-1)
		return command.Finite(ratios[low] + (place-float64(low))*(ratios[high]-ratios[low]))
	}
	return Ratio{Median: at(2), Low: at(1), High: at(3)}
}

// Alternate measures every way once a round, and returns the figures of each way by round. Every
// other round goes backwards, so that a machine that slows down favors no way. One round before
// the others warms up and does not count.
func Alternate[T any](rounds int, ways ...func() (T, error)) ([][]T, error) {
	figures := make([][]T, len(ways))
	for round := range rounds + 1 {
		for n := range ways {
			if round%2 == 1 {
				n = len(ways) - 1 - n
			}
			figure, err := ways[n]()
			if err != nil {
				return nil, err
			}
			if round > 0 {
				figures[n] = append(figures[n], figure)
			}
		}
	}
	return figures, nil
}

// Exponent is the p of the least squares fit log y = p log x + c.
func Exponent(x, y []float64) float64 {
	var sx, sy, sxx, sxy float64
	for i := range x {
		u, v := math.Log(x[i]), math.Log(y[i])
		sx, sy, sxx, sxy = sx+u, sy+v, sxx+u*u, sxy+u*v
	}
	n := float64(len(x))
	return (n*sxy - sx*sy) / (n*sxx - sx*sx)
}
