package ledger_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"hindsight/internal/model"
	"hindsight/internal/model/ledger"
)

// filled is an account of two rounds whose competitor loses 3 of 10, and explains 17 of 20.
func filled() *ledger.Account {
	var a ledger.Account
	a.Add(4, 12, 3)
	a.Add(6, 8, 2)
	a.Hindsight.Add(3)
	a.Regret.Add(7)
	return &a
}

func TestReconciles(t *testing.T) {
	for name, spoil := range map[string]func(a *ledger.Account){
		"loss": func(a *ledger.Account) { a.Loss.Add(1e-3) }, "energy": func(a *ledger.Account) { a.Energy.Add(1e-3) },
		"hindsight": func(a *ledger.Account) { a.Hindsight.Add(1e-3) }, "regret": func(a *ledger.Account) { a.Regret.Add(1e-3) },
		"no number": func(a *ledger.Account) { a.Regret.Add(math.NaN()) },
	} {
		a := filled()
		require.True(t, a.Reconciles(17, ledger.Tolerance(2)), "the identities do not hold")
		spoil(a)
		assert.False(t, a.Reconciles(17, ledger.Tolerance(2)), "%s: the identities hold of spoilt sums", name)
	}
	a := filled()
	a.Raise(1)
	assert.True(t, a.Reconciles(16, 1e-12), "a raised account does not reconcile")
	a.Discount(0.5)
	assert.True(t, a.Reconciles(8, 1e-12), "a discounted account does not reconcile")
}

func TestPlausible(t *testing.T) {
	assert.True(t, filled().Plausible(), "an account is not plausible")
	for _, by := range []float64{-100, math.NaN(), math.Inf(1)} {
		loss, energy := filled(), filled()
		loss.Loss.Add(by)
		energy.Energy.Add(by)
		assert.True(t, !loss.Plausible() && !energy.Plausible(), "sums with %g are plausible", by)
	}
}

func TestSum(t *testing.T) {
	total := model.Stats{Certified: true}
	for range 2 {
		s := filled().Stats()
		s.Certified, s.Certificate, s.RegretBound, s.LogDeterminant = true, 8, 7, 0.5
		ledger.Sum(&total, s)
	}
	want := model.Stats{
		Observations: 2, Loss: 20, HindsightLoss: 6, Regret: 14, Certified: true, Certificate: 16, RegretBound: 16,
		LogDeterminant: 1, LabelBound: math.Hypot(3, 3),
	}
	assert.True(t, total == want, "%+v, want %+v", total, want)
	ledger.Sum(&total, filled().Stats())
	assert.False(t, total.Certified, "a sum with an output that is not certified is")
}
