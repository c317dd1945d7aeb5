package regret

import "hindsight/internal/model/losses"

// Least are the bounds of min Σ ωℓ(w·z, y) + λ‖w‖², |w·z| <= limit.
func Least(loss losses.Loss, lambda, limit float64, rows [][]float64, labels, weights []float64) (lower, upper float64) {
	p := problem{loss: loss, lambda: lambda, limit: limit, rows: rows, labels: labels, weights: weights, pause: func() {}}
	b := p.least()
	return b.lower, b.upper
}
