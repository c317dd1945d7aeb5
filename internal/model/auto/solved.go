package auto

import (
	"math"
	"slices"

	"hindsight/internal/model/qr"
)

// solved are the features of an input and their solutions. Predict leaves them to an Observe of the input
// that follows, which would have the same bits.
type solved struct {
	// seen is the number of labels before, x is the input. x is empty if the solutions are of another input.
	seen uint64
	x    []float64
	maps []solvedMap
}

// solvedMap are the features of a map and R⁻ᵀz of its factors.
type solvedMap struct {
	z       []float64
	factors []qr.Solution
}

func newSolved(o Options, p Plan) *solved {
	s := &solved{x: make([]float64, 0, o.inputs())}
	for _, kind := range p.maps() {
		m := solvedMap{z: make([]float64, o.size(kind))}
		if slices.Contains(p.factors, kind) {
			for range p.forgettings {
				m.factors = append(m.factors, qr.Solution{Z: qr.NewRow(len(m.z)), Priors: make([]float64, 2*o.Outputs)})
			}
		}
		s.maps = append(s.maps, m)
	}
	return s
}

func (o Options) solvedNumbers(p Plan) int {
	numbers := o.inputs()
	for _, kind := range p.maps() {
		numbers += o.size(kind)
	}
	for _, kind := range p.factors {
		numbers += len(p.forgettings) * (o.size(kind) + 2*o.Outputs)
	}
	return numbers
}

// leave leaves the solutions of a prediction to the next Observe.
func (l *Learner) leave(s *scratch, x []float64) {
	s.solved.seen, s.solved.x = l.n, append(s.solved.x[:0], x...)
	if s.solved = l.newest.Swap(s.solved); s.solved == nil {
		s.solved = newSolved(l.o, l.plan)
	}
}

// take takes the solutions of the newest prediction for observation l.n, if the prediction was of the input and no
// label came between.
func (l *Learner) take(s *scratch, x []float64) (taken bool) {
	newest := l.newest.Load()
	if newest == nil {
		return false
	}
	if taken = newest.seen == l.n-1 && slices.EqualFunc(newest.x, x, sameBits); taken {
		s.solved, newest = newest, s.solved
	}
	newest.x = newest.x[:0]
	l.newest.Store(newest)
	return taken
}

// sameBits distinguishes 0 from −0, whose features differ.
func sameBits(a, b float64) bool { return math.Float64bits(a) == math.Float64bits(b) }

// solveMap writes the features of map i and the solutions of its factors.
func (l *Learner) solveMap(s *scratch, i int) {
	e, m := &l.experts[i], &s.solved.maps[i]
	e.features.fill(m.z, s, &l.bandwidths)
	for f, factor := range e.factors {
		m.factors[f].Factor = factor
		copy(m.factors[f].Z, m.z)
	}
	qr.SolveTogether(m.factors)
}

// adviseFactors writes the advice of the forecasters of map i, given its solutions.
func (l *Learner) adviseFactors(s *scratch, i int) {
	for f, t := range s.solved.maps[i].factors {
		l.advise(s, l.experts[i].at+2*f, t.Priors, t.Square/l.plan.forgettings[f])
	}
}
