package auto

import (
	"math"
	"slices"

	"hindsight/internal/model/loops"
)

// row is an observation, kept until the last stage and the end of the opening.
type row struct {
	x, y, lags  []float64
	seen, after uint64
	weight      float64
	// counts is ω, see model.Weights.
	counts float64
	// keyed are the columns of the keys, by outputs, and vs the served v.
	keyed, vs []float64
}

const (
	firstStage = 8
	lastStage  = 128
	// The most numbers in kept: with many inputs the last stage comes earlier.
	maxKept = 1 << 20
)

// last is the number of observations of the last stage.
func (o Options) last() int {
	last := lastStage
	if o.whole > 0 {
		last = lastScreening
	}
	for last > firstStage && last*(o.inputs()+o.Outputs) > maxKept {
		last /= 2
	}
	return last
}

func (l *Learner) keep(r row, s *scratch) {
	if l.n > l.keptEnd() {
		return
	}
	all, d, k := slices.Concat(r.x, r.y, s.lags), len(r.x), len(r.y)
	kept := row{
		x: all[:d:d], y: all[d : d+k : d+k], lags: all[d+k:], seen: s.seen, weight: r.weight, counts: r.counts,
	}
	if s.keyed != nil {
		kept.after = s.keyed.after
		kept.keyed = slices.Clone(s.keyed.columns)
	}
	l.kept = append(l.kept, kept)
}

func (l *Learner) isStage() bool {
	return l.n >= firstStage && l.n <= uint64(min(lastStage, l.o.last())) && l.n&(l.n-1) == 0
}

// advance builds new experts after 8, 16, 32, 64 and 128 observations.
func (l *Learner) advance() {
	if !l.isStage() {
		return
	}
	if l.screen != nil {
		l.screenKept()
	}
	l.units()
	for j := range l.mixers {
		l.mixers[j].clearStacks()
	}
	l.stackRounds = 0
	l.replay()
}

func (l *Learner) replay() {
	l.experts = newExperts(l.o, l.plan, l.maps)
	n := l.n
	for i, r := range l.kept {
		l.n = uint64(i + 1)
		l.present(l.scratch, r.x, r.lags, r.seen)
		l.absorb(l.scratch, r, false)
	}
	l.n = n
}

// units sets the label scales and the bandwidths by the rows.
func (l *Learner) units() {
	for j := range l.mixers {
		l.labelUnits(j)
	}
	l.measureDistances(l.kept)
}

func (l *Learner) labelUnits(output int) {
	m := &l.mixers[output]
	m.offset, m.scale = l.labels.Mean(output), l.labels.scale[output]
	if m.signs {
		m.offset, m.scale = 0, 1
	}
	m.stackScale = m.scale
}

func (l *Learner) measureDistances(kept []row) {
	rows := make([][]float64, len(kept))
	for i, r := range kept {
		l.present(l.scratch, r.x, r.lags, r.seen)
		rows[i] = slices.Clone(l.scratch.columns)
	}
	distances := make([]float64, 0, len(rows)*(len(rows)-1)/2)
	d := l.o.Dimension
	l.bandwidths.median = medianDistance(distances, rows, func(a, b []float64) float64 {
		return squaredDistance(a[:d], b)
	})
	l.bandwidths.lagged = medianDistance(distances, rows, func(a, b []float64) float64 {
		return squaredDistance(a[:d], b) + float64(lagWeight*lagWeight)*squaredDistance(a[d:], b[d:])
	})
	for _, e := range l.experts {
		for i := range e.features.sparse {
			f := e.features.sparse[i]
			l.bandwidths.sparse[i] = medianDistance(distances, rows, func(a, b []float64) float64 {
				gap := a[f.first] - b[f.first]
				sum := float64(gap * gap)
				if f.second != f.first {
					gap = a[f.second] - b[f.second]
					sum += float64(gap * gap)
				}
				return sum
			})
		}
	}
}

// leastDistance is the least bandwidth: closer rows count as equal.
const leastDistance = 1e-9

// medianDistance is the median of the roots of the squares between the rows, 1 below
// leastDistance. The room is scratch.
func medianDistance(room []float64, rows [][]float64, square func(a, b []float64) float64) float64 {
	room = room[:0]
	for i, a := range rows {
		for _, b := range rows[:i] {
			room = append(room, square(a, b))
		}
	}
	if m := math.Sqrt(loops.Smallest(room, len(room)/2)); m > leastDistance {
		return m
	}
	return 1
}

func squaredDistance(a, b []float64) float64 {
	sum := 0.0
	for j, v := range a {
		gap := v - b[j]
		sum += float64(gap * gap)
	}
	return sum
}
