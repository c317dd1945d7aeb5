package adversary

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/optimize"
)

const (
	searchStream = 0x73656172 // Of the generator of the starting points.
	randomStream = 0x72616e64 // Of the generator of the random play.

	// Each local search starts from the best of pointsPerStart points.
	pointsPerStart = 32
	// A local search has at most evaluations evaluations. It ends earlier when
	// the gain has grown by less than tolerance in idleSteps steps.
	evaluations = 600
	idleSteps   = 40
	tolerance   = 1e-9
	// A local search begins with a step of simplex in every angle.
	simplex = 0.3
)

// random returns moves that do not depend on the learner: uniform inputs and
// labels −1 or 1 with equal probability. The labels are as large as those of the
// adversary, so the size of the labels makes no difference.
func random(s Setting) []Move {
	rng := rand.New(rand.NewPCG(s.Seed, randomStream))
	moves := make([]Move, s.Rounds)
	for t := range moves {
		moves[t] = Move{X: uniform(rng, s.Dimension), Y: sign(rng)}
	}
	return moves
}

func uniform(rng *rand.Rand, dimension int) []float64 {
	x := make([]float64, dimension)
	for i := range x {
		x[i] = 2*rng.Float64() - 1
	}
	return x
}

func sign(rng *rand.Rand) float64 { return float64(2*rng.IntN(2) - 1) }

// search finds the move of a round that raises the regret most.
type search struct {
	starts, dimension int
	rng               *rand.Rand
	// x is reused by at.
	x []float64
}

func newSearch(s Setting) *search {
	return &search{
		starts: s.Starts, dimension: s.Dimension,
		rng: rand.New(rand.NewPCG(s.Seed, searchStream)), x: make([]float64, s.Dimension),
	}
}

// point is a move with its gain.
type point struct {
	move Move
	gain float64
}

// worst returns the move of the largest gain that it finds. It evaluates random
// points of the box, corners of the box and the inputs already played. From the
// best of these points it searches with the method of Nelder and Mead, over
// angles u with x = sin u: every u gives a point of the box, and the faces of
// the box are inside the domain.
func (s *search) worst(g *Game) (Move, error) {
	pool, err := s.pool(g)
	if err != nil {
		return Move{}, err
	}
	best := pool[0]
	for _, start := range pool[:min(s.starts, len(pool))] {
		p, err := s.climb(g, start)
		if err != nil {
			return Move{}, err
		}
		if p.gain > best.gain {
			best = p
		}
	}
	return best.move, nil
}

// pool returns the starting points of a round, the best first.
func (s *search) pool(g *Game) ([]point, error) {
	inputs := make([][]float64, 0, len(g.rounds)+s.starts*pointsPerStart)
	for _, r := range g.rounds {
		inputs = append(inputs, r.X)
	}
	for n := range s.starts * pointsPerStart {
		x := uniform(s.rng, s.dimension)
		if n%2 == 1 {
			for i := range x {
				x[i] = math.Copysign(1, x[i])
			}
		}
		inputs = append(inputs, x)
	}
	pool := make([]point, len(inputs))
	for i, x := range inputs {
		p, err := look(g, x)
		if err != nil {
			return nil, err
		}
		pool[i] = p
	}
	slices.SortStableFunc(pool, func(a, b point) int { return cmp.Compare(b.gain, a.gain) })
	return slices.CompactFunc(pool, func(a, b point) bool { return slices.Equal(a.move.X, b.move.X) }), nil
}

// look evaluates an input with its worst label.
func look(g *Game, x []float64) (point, error) {
	h, err := g.ask(x)
	if err != nil {
		return point{}, err
	}
	y, gain := h.worst()
	return point{move: Move{X: x, Y: y}, gain: gain}, nil
}

// climb searches from a point. The result has no smaller gain.
func (s *search) climb(g *Game, from point) (point, error) {
	angles := make([]float64, s.dimension)
	for i, v := range from.move.X {
		angles[i] = math.Asin(v)
	}
	var failed error
	problem := optimize.Problem{Func: func(u []float64) float64 {
		h, err := g.ask(s.at(u))
		if err != nil {
			failed = errors.Join(failed, err)
			return math.Inf(1)
		}
		_, gain := h.worst()
		return -gain
	}}
	settings := &optimize.Settings{
		FuncEvaluations: evaluations,
		Converger:       &optimize.FunctionConverge{Absolute: tolerance, Iterations: idleSteps},
	}
	result, err := optimize.Minimize(problem, angles, settings, &optimize.NelderMead{SimplexSize: simplex})
	if err = errors.Join(failed, err); err != nil {
		return point{}, fmt.Errorf("adversary: search: %w", err)
	}
	end, err := look(g, slices.Clone(s.at(result.X)))
	if err != nil || end.gain < from.gain {
		return from, err
	}
	return end, nil
}

// at returns the input of angles, in a slice that the next call overwrites.
func (s *search) at(u []float64) []float64 {
	for i, angle := range u {
		s.x[i] = math.Sin(angle)
	}
	return s.x
}
