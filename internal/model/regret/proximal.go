package regret

import (
	"math"

	"hindsight/internal/model/exponential"
	"hindsight/internal/model/losses"
)

// proximal is the p in [−limit, limit] with the smallest ℓ(p) + σ/2 (v−p)², and σ(1 − dp/dv), how fast
// σ(v−p) grows with v. In one dimension p is the minimum without the limit, cut to it.
func proximal(loss losses.Loss, v, y, sigma, limit float64) (p, curvature float64) {
	if loss == losses.Squared {
		p, curvature = (2*y+float64(sigma*v))/(2+sigma), 2*sigma/(2+sigma)
	} else {
		p, curvature = proximalMargin(loss, float64(y*v), sigma)
		p *= y
	}
	switch {
	case p > limit:
		return limit, sigma
	case p < -limit:
		return -limit, sigma
	}
	return p, curvature
}

// proximalMargin is proximal of a loss of classes for the label 1, without a limit.
func proximalMargin(loss losses.Loss, m, sigma float64) (p, curvature float64) {
	switch loss {
	case losses.SquaredHinge:
		if m < 1 {
			return (2 + float64(sigma*m)) / (2 + sigma), 2 * sigma / (2 + sigma)
		}
	case losses.Hinge:
		switch {
		case m < 1-1/sigma:
			return m + 1/sigma, 0
		case m < 1:
			return 1, sigma
		}
	case losses.Logistic:
		return proximalLogistic(m, sigma)
	case losses.Squared:
	}
	return m, 0
}

// proximalLogistic is the root p of p − m − s/σ, s = 1/(1+exp(p)), which is between m and m + 1/σ, by
// Newton steps that stay between the bounds.
func proximalLogistic(m, sigma float64) (p, curvature float64) {
	low, high := m, m+1/sigma
	p = m + 0.5/sigma
	for range 100 {
		s := 1 / (1 + exponential.Of(p))
		second := float64(s * (1 - s))
		curvature = float64(second*sigma) / (second + sigma)
		miss := p - m - s/sigma
		if miss > 0 {
			high = p
		} else {
			low = p
		}
		next := p - miss/(1+second/sigma)
		if !(next > low && next < high) {
			next = low + (high-low)/2
		}
		if next == p || math.Abs(next-p) <= 0x1p-52*math.Abs(p) {
			return next, curvature
		}
		p = next
	}
	return p, curvature
}
