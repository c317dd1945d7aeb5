package auto

import (
	"math"

	"hindsight/internal/model/compensated"
	"hindsight/internal/model/ledger"
)

// account is the loss account of a level of an output.
type account struct {
	// loss is the level's Σ w(y−ŷ)², before its part in the rounds in which all slept, early
	// its part in the rounds in which only the baselines were awake, or none.
	loss, before, early compensated.Sum
	// experts compare the level with each expert and with each finalist, over the rounds in
	// which that one was awake.
	experts []ledger.Comparison
}

func newAccount(compared int) account {
	return account{experts: make([]ledger.Comparison, compared)}
}

// sleep accounts for a round in which all slept.
func (a *account) sleep(loss float64) {
	a.loss.Add(loss)
	a.before.Add(loss)
	a.early.Add(loss)
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
	for k := range a.experts {
		if !stage.awake(k, len(advice)) {
			continue
		}
		hindsight := squared(nth(k, advice, final), y, weight)
		a.experts[k].Hindsight.Add(hindsight)
		a.experts[k].Regret.Add(loss - hindsight)
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

// best is the expert with the largest regret.
func (a *account) best(experts int) int {
	best := 0
	for k := 1; k < experts; k++ {
		if a.experts[k].Regret.Value() > a.experts[best].Regret.Value() {
			best = k
		}
	}
	return best
}

// tolerance is the rounding that identities are allowed, relative to the sums
// they are made of. It does not grow with the rounds: each difference of losses
// rounds by ε of their sum at most, and the sums are compensated.
const tolerance = 1e-8

// reconciles reports whether the learner's loss is, for each expert, what it was while the
// expert slept, the expert's loss, and the regret.
func (a *account) reconciles(experts int) bool {
	loss := a.loss.Value()
	for k := range a.experts {
		slept := a.before.Value()
		if k >= baselines && k != experts {
			slept = a.early.Value()
		}
		hindsight, regret := a.experts[k].Hindsight.Value(), a.experts[k].Regret.Value()
		if !(math.Abs(slept+hindsight+regret-loss) <= tolerance*(loss+hindsight)) {
			return false
		}
	}
	return true
}
