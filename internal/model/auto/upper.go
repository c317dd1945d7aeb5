package auto

import (
	"math"

	"hindsight/internal/model/codec"
	"hindsight/internal/model/compensated"
	"hindsight/internal/model/ledger"
	"hindsight/internal/model/mix"
)

// secondFinalists is what the final mixture of level 2 mixes: v, b and the stacks.
const secondFinalists = 2 + stacks

// upper is level 2 of an output. Its experts are v, the prediction of level 1; the K experts
// of level 1; and the F experts of the lineup. Their ML-Poly mixture is b, the stacks
// forecast the residual of b, and the prediction is the ML-Poly mixture of v, b and the
// stacks.
type upper struct {
	stacked
	final       *mix.Mixture
	calibration calibration
	account     upperAccount
	// passed are the losses of v and of the lineup on the rows that a gate did not admit, nil
	// without a gate.
	passed []compensated.Sum
}

// upperAccount is the loss account of level 2.
type upperAccount struct {
	// loss is the learner's, before is its part before level 2 woke.
	loss, before compensated.Sum
	// compared compare the learner with v, with each expert of the lineup, with b and with
	// each stack, since level 2 woke.
	compared []ledger.Comparison
}

func newUpper(o Options, l lineup) *upper {
	u := &upper{
		stacked: newStacked(o.secondExperts(l)), final: mix.New(secondFinalists), calibration: newCalibration(),
		account: upperAccount{compared: make([]ledger.Comparison, l.experts()+secondFinalists)},
	}
	if o.Gated {
		u.passed = make([]compensated.Sum, 1+l.experts())
	}
	return u
}

// sleep accounts for a round in which the prediction is v.
func (a *upperAccount) sleep(loss float64) {
	a.loss.Add(loss)
	a.before.Add(loss)
}

// pass adds the losses of v and of the lineup on a row that a gate did not admit. A lineup
// that sleeps says v.
func (u *upper) pass(y, weight, v float64, lineup []float64) {
	own := squared(v, y, weight)
	u.passed[0].Add(own)
	for k := range u.passed[1:] {
		if lineup != nil {
			own = squared(lineup[k], y, weight)
		}
		u.passed[1+k].Add(own)
	}
}

// add accounts for a round: the learner's loss, and the predictions of the lineup and of the
// finalists.
func (a *upperAccount) add(y, weight, loss float64, lineup, final []float64) {
	a.loss.Add(loss)
	one := func(c *ledger.Comparison, prediction float64) {
		own := squared(prediction, y, weight)
		c.Hindsight.Add(own)
		c.Regret.Add(loss - own)
	}
	one(&a.compared[0], final[0])
	for k, f := range lineup {
		one(&a.compared[1+k], f)
	}
	for k, f := range final[1:] {
		one(&a.compared[1+len(lineup)+k], f)
	}
}

// regretOf is the regret against expert e of level 2, of which level 1 has K: against an
// expert of level 1 the sum of the regrets against v and of v.
func (u *upper) regretOf(m *mixer, e, k int) float64 {
	beyond := u.account.compared[0].Regret.Value()
	switch {
	case e == 0:
		return beyond
	case e <= k:
		return beyond + m.account.experts[e-1].Regret.Value()
	default:
		return u.account.compared[e-k].Regret.Value()
	}
}

// best is the expert of level 2 with the largest regret.
func (u *upper) best(m *mixer, k int) int {
	best, most := 0, u.regretOf(m, 0, k)
	consider := func(e int) {
		if r := u.regretOf(m, e, k); r > most {
			best, most = e, r
		}
	}
	consider(1 + m.account.best(k))
	for e := 1 + k; e < u.base.Experts(); e++ {
		consider(e)
	}
	return best
}

// promise is the certificate and the bound of the regret against expert e: of the final
// mixture against v, and of v; or of the final mixture against b, and of b.
func (u *upper) promise(m *mixer, e, k int) (certificate, bound float64) {
	potential := u.final.Potential()
	if e <= k {
		certificate, bound = u.final.Certificate(potential, 0), u.final.Bound(0)
		if e > 0 {
			c, b := m.promise(e - 1)
			certificate, bound = certificate+c, bound+b
		}
		return certificate, bound
	}
	certificate = u.final.Certificate(potential, 1) + u.base.Certificate(u.base.Potential(), e)
	return certificate, u.final.Bound(1) + u.base.Bound(e)
}

// holds tells whether the losses reconcile and regret <= certificate <= bound, if certified.
func (u *upper) holds(m *mixer, k int, certified bool) bool {
	loss, before := u.account.loss.Value(), u.account.before.Value()
	for i := range u.account.compared {
		own, regret := u.account.compared[i].Hindsight.Value(), u.account.compared[i].Regret.Value()
		if !(math.Abs(before+own+regret-loss) <= tolerance*(loss+own)) {
			return false
		}
	}
	if !certified {
		return true
	}
	e := u.best(m, k)
	regret := u.regretOf(m, e, k)
	certificate, bound := u.promise(m, e, k)
	slack := tolerance * (2*loss + math.Abs(regret) + bound)
	return certificate <= bound+slack && regret <= certificate+slack
}

func (u *upper) visit(v *codec.Visitor) {
	u.base.Visit(v)
	u.final.Visit(v)
	for _, f := range u.stacks {
		visitFactor(v, f, stackRidge)
	}
	v.Within(2*maxReach, &u.residual)
	u.calibration.visit(v)
	visitSum(v, &u.account.loss)
	visitSum(v, &u.account.before)
	for k := range u.account.compared {
		visitSum(v, &u.account.compared[k].Hindsight)
		visitSum(v, &u.account.compared[k].Regret)
	}
	for k := range u.passed {
		visitSum(v, &u.passed[k])
	}
}
