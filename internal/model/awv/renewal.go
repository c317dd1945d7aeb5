package awv

import (
	"math"

	"hindsight/internal/model/codec"
	"hindsight/internal/model/compensated"
	"hindsight/internal/model/exponential"
	"hindsight/internal/model/ledger"
)

// renewal is the ridge of a forecaster that forgets. With a forgetting factor f < 1,
//
//	A_t = Λ_t + Σ f^(t−s) z_s z_sᵀ,  b_t = Σ f^(t−s) y_s z_s
//
// A ridge that is only discounted, Λ_t = f^t λ, vanishes with the past, and A becomes
// singular in a direction that no input excites. After a round the next few coordinates are
// therefore raised to λ, in turn. Each takes a row √(λ−Λ_ii) e_i of label 0 in a rotation
// pass from row i on. Invariant: Λ_ii in [λ/1000, λ]. All identities hold with Λ_t for λ.
type renewal struct {
	// ridge is the diagonal of Λ_t, next the coordinate to renew next.
	ridge []float64
	next  int
	// loss is the undiscounted sum of all losses.
	loss compensated.Sum
}

func newRenewal(r int, o Options) *renewal {
	n := &renewal{ridge: make([]float64, r)}
	for i := range n.ridge {
		n.ridge[i] = o.Lambda
	}
	return n
}

// ridgeFloor is the smallest Λ_ii/λ.
const ridgeFloor = 1e-3

// renewedPerRound is the number n of coordinates renewed per round: until its turn a ridge
// falls by f^(r/n) ≥ ridgeFloor.
func renewedPerRound(r int, forgetting float64) int {
	n := math.Ceil(float64(r) * exponential.Log(forgetting) / exponential.Log(ridgeFloor))
	return min(r, max(1, int(n)))
}

// renew ends a round, at half a rotation pass a coordinate on average.
func (f *Forecaster) renew() {
	n := f.renewal
	r := len(n.ridge)
	for i := range n.ridge {
		n.ridge[i] *= f.o.Forgetting
	}
	for range min(r, renewedPerRound(r, f.o.Forgetting)) {
		i := n.next % r
		n.next = i + 1
		clear(f.row)
		f.row[i] = math.Sqrt(math.Max(f.o.Lambda-n.ridge[i], 0))
		n.ridge[i] = f.o.Lambda
		f.factor.Rotate(f.row, f.priors)
		for j := range f.columns {
			residual := f.row[r+j]
			f.columns[j].Raise(float64(residual * residual))
		}
	}
}

func (n *renewal) visit(v *codec.Visitor, lambda float64) {
	v.FloatsWithin(lambda, n.ridge)
	v.Int(len(n.ridge), &n.next)
	v.Within(ledger.MaxSum, &n.loss.High, &n.loss.Low)
	for i, ridge := range n.ridge {
		if v.Reading() && !(ridge > 0) {
			v.Corrupt("ridge %d is %g", i, ridge)
		}
	}
}
