package auto

import (
	"cmp"
	"math"
	"slices"

	"hindsight/internal/model/loops"
)

// mostSloped is the largest number of numbers that have slopes of keys: see package effects.
const mostSloped = 8

// sloped is how many of the numbers have slopes of keys.
func (o Options) sloped() int { return min(o.inputs(), mostSloped) }

// newSloped are the numbers with slopes: all of few numbers, and else none until chooseSloped.
func (o Options) newSloped() []int {
	sloped := make([]int, o.sloped())
	for i := range sloped {
		sloped[i] = i
		if o.inputs() > mostSloped {
			sloped[i] = none
		}
	}
	return sloped
}

// scaledNumbers are all scaled numbers of the row in the scratch.
func (l *Learner) scaledNumbers(s *scratch) []float64 {
	if l.screen != nil {
		return s.wide.z[:l.o.whole]
	}
	return s.columns[:l.o.Dimension]
}

// multiplied are the scaled numbers with slopes of the row in the scratch.
func (l *Learner) multiplied(s *scratch) []float64 {
	z := l.scaledNumbers(s)
	for i, j := range l.keyed.sloped {
		if s.keyed.multiplied[i] = 0; j != none {
			s.keyed.multiplied[i] = z[j]
		}
	}
	return s.keyed.multiplied
}

// chooseSloped ends the last stage: the mostSloped numbers of the largest correlations with a label over the kept rows
// get slopes.
func (l *Learner) chooseSloped() {
	if l.n != uint64(min(lastStage, l.o.last())) || l.o.inputs() <= mostSloped {
		return
	}
	scores, squares, products := make([]float64, l.o.inputs()), make([]float64, l.o.inputs()), make([]float64, l.o.inputs())
	for j := range l.mixers {
		clear(squares)
		clear(products)
		for _, r := range l.kept {
			l.present(l.scratch, r.x, r.lags, r.seen)
			z := l.scaledNumbers(l.scratch)
			y := within((r.y[j]-l.labels.Mean(j))/l.labels.scale[j], -mostScore, mostScore)
			loops.Axpy(products, z, float64(r.counts*y))
			for i, v := range z {
				squares[i] += float64(r.counts * float64(v*v))
			}
		}
		for i, square := range squares {
			if square > 0 {
				scores[i] = math.Max(scores[i], math.Abs(products[i])/math.Sqrt(square))
			}
		}
	}
	order := make([]int, len(scores))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(scores[b], scores[a]) })
	copy(l.keyed.sloped, order)
}
