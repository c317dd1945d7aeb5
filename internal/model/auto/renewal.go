package auto

import (
	"math"

	"hindsight/internal/model/exponential"
	"hindsight/internal/model/qr"
)

// renewal renews the ridge of a forecaster that forgets, as package awv does: with f < 1 the
// ridge Λ_ii of coordinate i falls by f each round, until its turn raises Λ_ii to λ. Turns
// are as rare as Λ_ii >= λ/1000 allows. The last turn of a coordinate follows from the number
// of rounds: a renewal has no state.
type renewal struct {
	forgetting float64
	// Each period of rounds renews the next batch of coordinates.
	period, batch uint64
}

const ridgeFloor = 1e-3

// newRenewal is the schedule for r coordinates: r/batch periods <= log(floor)/log f rounds.
func newRenewal(r int, forgetting float64) renewal {
	n := renewal{forgetting: forgetting, period: 1, batch: 1}
	if forgetting == unforgetting {
		return n
	}
	rounds := math.Floor(exponential.Log(ridgeFloor) / exponential.Log(forgetting))
	if whole := uint64(rounds); whole >= uint64(r) {
		n.period = whole / uint64(r)
	} else {
		n.batch = min(uint64(r), (uint64(r)+whole-1)/max(whole, 1))
	}
	return n
}

// perRound is how many coordinates are renewed a round, on average.
func (n renewal) perRound() float64 { return float64(n.batch) / float64(n.period) }

// renew ends a round of a factor, from 1. The row and priors are scratch.
func (n renewal) renew(f *qr.Factor, lambda float64, round uint64, row, priors []float64) {
	if n.forgetting == unforgetting || round%n.period != 0 {
		return
	}
	r := uint64(f.Order())
	for i := range n.batch {
		turn := (round/n.period-1)*n.batch + i
		last := uint64(0) // The round of the last renewal, or 0.
		if turn >= r {
			last = ((turn-r)/n.batch + 1) * n.period
		}
		left := power(n.forgetting, round-last)
		clear(row)
		row[turn%r] = math.Sqrt(float64(lambda * (1 - left)))
		f.Rotate(row, priors)
	}
}

// power is fᵗ, by squaring.
func power(f float64, t uint64) float64 {
	result := 1.0
	for ; t > 0; t >>= 1 {
		if t&1 == 1 {
			result *= f
		}
		f *= f
	}
	return result
}
