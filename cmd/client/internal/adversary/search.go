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
	searchStream = 0x73656172 // Of the generator of the starts.
	randomStream = 0x72616e64 // Of the generator of the random play.

	// The local searches start from the best of so many points for each.
	pointsPerStart = 32
	// A local search is given so many evaluations, and ends before when the
	// gain has not grown by enough for so many steps.
	evaluations = 600
	patience    = 40
	enough      = 1e-9
	// The first step of a local search in every angle.
	simplex = 0.3
)

// random is the play of one who does not look at the learner: inputs uniform
// in the box, labels −1 or 1 by a fair coin, so that it is not the size of the
// labels that the adversary is better by.
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

// search looks for the worst move of a round.
type search struct {
	starts, dimension int
	rng               *rand.Rand
	// x is the point that is looked at.
	x []float64
}

func newSearch(s Setting) *search {
	return &search{
		starts: s.Starts, dimension: s.Dimension,
		rng: rand.New(rand.NewPCG(s.Seed, searchStream)), x: make([]float64, s.Dimension),
	}
}

// point is an input that was looked at.
type point struct {
	move Move
	gain float64
}

// worst looks for the move of the largest gain. Points of the box, its
// corners and the inputs already played are looked at; from the best of them
// Nelder and Mead's search climbs. It runs over angles u with x = sin u, which
// reach the whole box and nothing else, and have its faces inside.
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

// pool is the points that a round begins with, the best first.
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

// look takes the worst label at an input.
func look(g *Game, x []float64) (point, error) {
	h, err := g.ask(x)
	if err != nil {
		return point{}, err
	}
	y, gain := h.worst()
	return point{move: Move{X: x, Y: y}, gain: gain}, nil
}

// climb searches from a point on. It ends no lower.
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
		Converger:       &optimize.FunctionConverge{Absolute: enough, Iterations: patience},
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

// at is the input of some angles.
func (s *search) at(u []float64) []float64 {
	for i, angle := range u {
		s.x[i] = math.Sin(angle)
	}
	return s.x
}
