package adversary

import (
	"fmt"
	"math"

	"hindsight/internal/model"
	"hindsight/internal/model/catalog"
)

// Game is one learner, the comparator, and the rounds so far.
//
// The comparator is exact Kernel-AWV fed with the same moves. With c and s² of
// a forward solve in the Cholesky factor of K + λI, and p = c·v, the best
// function's penalized loss grows by λ(y−p)²/s² when (x, y) is learned, and
// Predict answers all that it takes: the leverage h with 1 − h = λ/s², and
// ŷ = (1−h)p.
type Game struct {
	learner, comparator model.Learner
	// loss is of what Predict answered, accounted of what Observe did.
	loss, accounted float64
	rounds          []Round
	// Reused by all hypothetical rounds.
	told, best model.Prediction
	outcome    model.Outcome
}

// NewGame is a game against a learner that has seen nothing.
func NewGame(spec model.Spec) (*Game, error) {
	bandwidth, ridge := sigma, lambda
	learner, err := catalog.New(spec)
	if err != nil {
		return nil, fmt.Errorf("adversary: %w", err)
	}
	comparator, err := catalog.New(model.Spec{Dimension: spec.Dimension, KernelAWV: &model.KernelAWV{
		Kernel: &model.Kernel{Kind: "gaussian", Sigma: &bandwidth}, Lambda: &ridge,
	}})
	if err != nil {
		return nil, fmt.Errorf("adversary: %w", err)
	}
	return &Game{learner: learner, comparator: comparator}, nil
}

// hypothesis is what a round with some input would come to.
type hypothesis struct {
	// told is ŷ, prior the comparator's p, share 1 − h = λ/s².
	told, prior, share float64
}

// ask looks at an input. It leaves the game as it was.
func (g *Game) ask(x []float64) (hypothesis, error) {
	if err := g.learner.Predict(&g.told, x); err != nil {
		return hypothesis{}, fmt.Errorf("adversary: predict: %w", err)
	}
	if err := g.comparator.Predict(&g.best, x); err != nil {
		return hypothesis{}, fmt.Errorf("adversary: comparator: %w", err)
	}
	share := 1 - g.best.Leverage
	return hypothesis{told: g.told.Values[0], prior: g.best.Values[0] / share, share: share}, nil
}

// growth is how L* would grow with the label y: λ(y−p)²/s².
func (h hypothesis) growth(y float64) float64 { return h.share * (y - h.prior) * (y - h.prior) }

// gain is how the regret would grow with the label y.
func (h hypothesis) gain(y float64) float64 { return (y-h.told)*(y-h.told) - h.growth(y) }

// indifference is a difference of gains that is rounding.
const indifference = 1e-12

// worst is the label in [−1,1] of the largest gain, and that gain.
//
// It is −1 or 1. A prediction does not depend on the label to come, so the gain
//
//	(y−ŷ)² − λ(y−p)²/s²
//
// is a quadratic in y whose second coefficient is 1 − λ/s² = h, the leverage,
// and h ≥ 0 since s² = λ + k(x,x) − ‖c‖² ≥ λ. It is convex, therefore largest
// at an end of the interval. The ends differ by −4(ŷ − (1−h)p): not at all for
// Kernel-AWV itself, where ŷ = (1−h)p. Of equal ends the one against the
// prediction is taken.
func (h hypothesis) worst() (y, gain float64) {
	up, down := h.gain(1), h.gain(-1)
	switch {
	case math.Abs(up-down) <= indifference && h.told > 0, up-down < -indifference:
		return -1, down
	default:
		return 1, up
	}
}

// Growth is how the comparator's L* would grow if (x, y) were played.
func (g *Game) Growth(x []float64, y float64) (float64, error) {
	h, err := g.ask(x)
	return h.growth(y), err
}

// Gain is how the regret would grow if (x, y) were played.
func (g *Game) Gain(x []float64, y float64) (float64, error) {
	h, err := g.ask(x)
	return h.gain(y), err
}

// Play plays a move, and says what came of it.
func (g *Game) Play(m Move) (Round, error) {
	h, err := g.ask(m.X)
	if err != nil {
		return Round{}, err
	}
	y := []float64{m.Y}
	if err := g.comparator.Observe(&g.outcome, m.X, y, 1); err != nil {
		return Round{}, fmt.Errorf("adversary: comparator: %w", err)
	}
	if err := g.learner.Observe(&g.outcome, m.X, y, 1); err != nil {
		return Round{}, fmt.Errorf("adversary: observe: %w", err)
	}
	g.loss += (m.Y - h.told) * (m.Y - h.told)
	g.accounted += g.outcome.Loss
	s := g.comparator.Stats()
	r := Round{
		Move: m, Prediction: h.told, Regret: g.loss - s.HindsightLoss, Accounted: g.accounted - s.HindsightLoss,
		Certificate: s.Certificate, Bound: s.RegretBound,
	}
	g.rounds = append(g.rounds, r)
	return r, nil
}
