package adversary

import (
	"fmt"
	"math"

	"hindsight/internal/model"
	"hindsight/internal/model/catalog"
)

// Game is one learner, the comparator, and the rounds so far.
//
// The comparator is exact Kernel-AWV with the same moves. Let c and s² come from
// a forward solve in the Cholesky factor of K + λI, and p = c·v. When (x, y) is
// learned, the penalized loss of the best function grows by λ(y−p)²/s². Predict
// answers both factors: the leverage h with 1 − h = λ/s², and ŷ = (1−h)p.
type Game struct {
	learner, comparator model.Learner
	// loss is the loss of the answers of Predict, accounted that of Observe.
	loss, accounted float64
	rounds          []Round
	// Reused by every call of ask.
	told, best model.Prediction
	outcome    model.Outcome
}

// NewGame returns a game against a new learner.
func NewGame(spec model.Spec) (*Game, error) {
	bandwidth, ridge := sigma, lambda
	learner, err := catalog.New(spec)
	if err != nil {
		return nil, fmt.Errorf("adversary: %w", err)
	}
	comparator, err := catalog.New(model.Spec{Dimension: spec.Dimension, Scaling: model.Unscaled(), KernelAWV: &model.KernelAWV{
		Kernel: &model.Kernel{Kind: "gaussian", Sigma: &bandwidth}, Lambda: &ridge,
	}})
	if err != nil {
		return nil, fmt.Errorf("adversary: %w", err)
	}
	return &Game{learner: learner, comparator: comparator}, nil
}

// hypothesis is what is known of a round with a given input, for any label.
type hypothesis struct {
	// told is ŷ, prior is p of the comparator, share is 1 − h = λ/s².
	told, prior, share float64
}

// ask evaluates an input. It does not change the game.
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

// growth is the growth of L* for the label y: λ(y−p)²/s².
func (h hypothesis) growth(y float64) float64 { return h.share * (y - h.prior) * (y - h.prior) }

// gain is the growth of the regret for the label y.
func (h hypothesis) gain(y float64) float64 { return (y-h.told)*(y-h.told) - h.growth(y) }

// indifference is the largest difference of gains that counts as rounding.
const indifference = 1e-12

// worst returns the label in [−1,1] with the largest gain, and that gain.
//
// The label is −1 or 1. The prediction does not depend on the label, so the gain
//
//	(y−ŷ)² − λ(y−p)²/s²
//
// is a quadratic polynomial in y. Its second coefficient is 1 − λ/s² = h, the
// leverage, and h ≥ 0 because s² = λ + k(x,x) − ‖c‖² ≥ λ. The gain is convex and
// therefore largest at an end of the interval. The gains at the ends differ by
// −4(ŷ − (1−h)p). For Kernel-AWV they are equal, because ŷ = (1−h)p. Of two equal
// ends the one with the other sign than the prediction is returned.
func (h hypothesis) worst() (y, gain float64) {
	up, down := h.gain(1), h.gain(-1)
	switch {
	case math.Abs(up-down) <= indifference && h.told > 0, up-down < -indifference:
		return -1, down
	default:
		return 1, up
	}
}

// Growth returns the growth of the comparator's L* if (x, y) were played.
func (g *Game) Growth(x []float64, y float64) (float64, error) {
	h, err := g.ask(x)
	return h.growth(y), err
}

// Gain returns the growth of the regret if (x, y) were played.
func (g *Game) Gain(x []float64, y float64) (float64, error) {
	h, err := g.ask(x)
	return h.gain(y), err
}

// Play plays a move and returns the round.
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
