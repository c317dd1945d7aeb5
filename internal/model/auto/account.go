package auto

import (
	"math"

	"hindsight/internal/model/compensated"
)

// account is what is known of the losses of an output: those of the experts, of
// b and of the stacks against those of the learner.
type account struct {
	// loss is Σ w(y−ŷ)², before that of the rounds in which the baselines slept,
	// early that of those in which the other experts did.
	loss, before, early compensated.Sum
	// losses are those of each expert in the rounds in which it was awake, and
	// leads the learner's of these rounds less those: the regret.
	losses, leads []compensated.Sum
}

func newAccount(experts int) account {
	sums := make([]compensated.Sum, 2*(experts+finalists))
	return account{losses: sums[:experts+finalists], leads: sums[experts+finalists:]}
}

// add accounts for a round: the learner's loss, and the predictions of the
// experts and of the finalists.
func (a *account) add(y, weight, loss float64, advice, final []float64, stage stage) {
	a.loss.Add(loss)
	if stage == asleep {
		a.before.Add(loss)
	}
	if stage != complete {
		a.early.Add(loss)
	}
	for k := range a.losses {
		if !stage.awake(k, len(advice)) {
			continue
		}
		f := nth(k, advice, final)
		own := squared(f, y, weight)
		a.losses[k].Add(own)
		a.leads[k].Add(loss - own)
	}
}

// nth is entry k of the experts and then the finalists.
func nth(k int, advice, final []float64) float64 {
	if k < len(advice) {
		return advice[k]
	}
	return final[k-len(advice)]
}

func squared(prediction, y, weight float64) float64 {
	miss := y - prediction
	return float64(weight * float64(miss*miss))
}

// best is the expert with the largest regret. There is always one.
func (a *account) best(experts int) int {
	best := 0
	for k := 1; k < experts; k++ {
		if a.leads[k].Value() > a.leads[best].Value() {
			best = k
		}
	}
	return best
}

// tolerance is the rounding that identities are allowed, relative to the sums
// they are made of. It does not grow with the rounds: each difference of losses
// rounds by ε of their sum at most, and the sums are compensated.
const tolerance = 1e-8

// holds tells whether the sums are those of the same losses: the learner's is
// what it was while the expert slept, the expert's loss, and the regret.
func (a *account) holds(experts int) bool {
	loss := a.loss.Value()
	for k := range a.losses {
		slept := a.before.Value()
		if k >= baselines && k != experts {
			slept = a.early.Value()
		}
		own, lead := a.losses[k].Value(), a.leads[k].Value()
		if !(math.Abs(slept+own+lead-loss) <= tolerance*(loss+own)) {
			return false
		}
	}
	return true
}
