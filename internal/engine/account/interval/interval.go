// Package interval computes prediction intervals that keep their coverage under drift,
// around the predictions of any learner of real labels, and the account of their coverage.
// It uses predictions and labels alone.
//
// For a level 1 − a the interval is ŷ ± σρ max(z, 0). The scale σ follows the size
// of the residuals, the factor ρ what the size has to do with ŷ: see shape. The radius z is a mixture of three trackers q_k of the quantile
// 1 − a of the scores s = |y − ŷ|/(σρ), by ML-Poly on the linearised pinball loss:
//
//	z = Σ w_k q_k,  w_k ∝ max(R_k, 0)/(B' + V_k), equal if no R_k is positive
//
//	g = a − 1[s > z],  r_k = g (z − q_k)
//	R_k += r_k,  V_k += r_k²,  B' = the largest r² so far
//	q_k += c_k B (1[s > q_k] − a),  B = the largest of the 100 scores before
//
// For each tracker Σ B_t (1[s_t > q_t] − a) = (q_T − q_0)/c_k, whatever the
// residuals are. Where no label is late, no tracker's pinball loss is less than
// the mixture's by more than
//
//	sqrt((B' + V_k) Σ_j Σ_t e_{j,t}),  e_{j,t} = r²_{j,t}/(B'_{t−1} + V_{j,t−1})
//
// with B'_t + r² for the denominator while B'_{t−1} = 0: (R_k)²₊/(B' + V_k),
// summed over k, grows by at most Σ_j e_{j,t} a round, because Σ w_k r_k = 0.
// From a round on in which B' has its last value, Σ_t e_{j,t} ≤ 1 + ln(1 + T).
//
// Sources: Gaillard, Stoltz and van Erven, COLT 2014, for ML-Poly and its second
// order bound; Angelopoulos, Candès and Tibshirani, NeurIPS 2023, for the
// trackers of the quantile; Zaffran, Féron, Goude, Josse and Dieuleveut, ICML 2022
// (AgACI), for the mixture of trackers of several steps.
package interval

import (
	"fmt"
	"math"
	"math/bits"

	"hindsight/internal/model"
	"hindsight/internal/model/compensated"
	"hindsight/internal/model/exponential"
	"hindsight/internal/model/mix"
)

const (
	// The number of trackers, of different steps.
	trackers = 3
	// The number of scores before that B is the maximum of.
	scores = 100
	// The number of observations of the recent coverage.
	recent = 1000
	// The number of observations of the smallest coverage.
	window = 500
	// The number of words that hold recent bits.
	ringWords = (recent + 63) / 64
)

const (
	// The number of first residuals that are skipped: the first residuals of a learner are
	// often the labels themselves, and a plain mean would never forget them.
	skipped = 8
	// The number of further residuals before the first interval.
	needed = 8
	// The discount of the weighted mean in σ.
	decay = 0.95
	// The smallest σ, as a share of the plain mean.
	floor = 0.2
	// A larger score counts as maxScore in B and in σ, because one outlier would decide both
	// for ever. Trackers compare the score itself.
	maxScore = 16
	// A larger miss counts as maxMiss, so that no sum overflows.
	maxMiss = 1e200
	// A bound of every σ: a mean of misses, rounded.
	maxScale = 2 * maxMiss
	// A bound of every z. A tracker moves by less than 0.08·maxScore a round and never
	// reaches the bound.
	maxRadius = 1e30
)

// steps returns the c_k.
func steps() [trackers]float64 { return [trackers]float64{0.005, 0.02, 0.08} }

// State is the state of the intervals of one output, and of their account. Observe and
// Restore need exclusive access; the other methods only read and may run concurrently.
type State struct {
	levels []level
	known  uint64
	// weighted and weight are Σ 0.95^i |residual| and Σ 0.95^i, total is Σ |residual|, all
	// without the skipped residuals.
	weighted, weight, total float64
	// scored counts the observations whose interval was scored.
	scored uint64
	// ring has the newest scores: the score of observation n, from 0, at n mod scores. It is nil
	// before the first score.
	ring []float64
	// largest == max(ring)
	largest float64
	shape   shape
}

type level struct {
	// target is 1 − a, miss is a.
	target, miss float64
	q            [trackers]float64
	// mixture weighs the trackers.
	mixture *mix.Mixture
	// covered counts the observations inside their interval.
	covered uint64
	// hits has a bit for each of the newest observations, the bit of observation n at
	// n mod recent, 1 for covered. It is nil before the first.
	hits []uint64
	// recently and lately count the bits of the newest recent and the newest window
	// observations. leastCovered is the minimum of lately so far.
	recently, lately, leastCovered uint16
	width, score                   compensated.Sum
}

// New returns the state for levels 1 − a. It panics unless each is above 0 and below 1.
func New(levels []float64) *State {
	s := &State{levels: make([]level, len(levels))}
	for i, l := range levels {
		if !(l > 0 && l < 1) {
			panic(fmt.Sprintf("interval: a level is %g, want it above 0 and below 1", l))
		}
		v := &s.levels[i]
		v.target, v.miss, v.leastCovered, v.mixture = l, 1-l, window, mix.New(trackers)
		for k := range v.q {
			// The quantile if the residuals have the Laplace distribution.
			v.q[k] = -exponential.Log(v.miss)
		}
	}
	return s
}

// Known reports whether an interval is known: from the 16th residual on, unless all from the
// 9th on are 0.
func (s *State) Known() bool { return s.Scale() > 0 }

// Scale returns σ for the next prediction, in the units of the label: the larger of the
// exponentially weighted mean of the |residuals| so far and a fifth of their plain mean. It
// is 0 if no interval is known.
func (s *State) Scale() float64 {
	if s.known < skipped+needed {
		return 0
	}
	return math.Max(s.weighted/s.weight, floor*(s.total/float64(s.known-skipped)))
}

// ScaleAt is σρ of a prediction, 0 if no interval is known. It costs O(1).
func (s *State) ScaleAt(value float64) float64 {
	return math.Min(s.Scale()*s.shape.factor(value), maxScale)
}

// Radius returns z of a level, by its place in New's: the interval is
// value ± ScaleAt(value)·max(Radius, 0).
func (s *State) Radius(level int) float64 {
	v := &s.levels[level]
	var weights [trackers]float64
	v.mixture.Weights(weights[:], nil)
	return mix.Mean(weights[:], v.q[:])
}

// Round is the label y of a prediction.
type Round struct {
	Label, Served float64
	// Scale is State.ScaleAt of Served, and Radii has the Radius of every level, at the time of
	// the prediction. Scale is 0 if no interval was served.
	Scale float64
	Radii []float64
	// Possible are the possible labels: the intervals were served as
	// Possible.ProjectInterval makes them.
	Possible *model.Label
}

// Observe takes the label of a prediction. Labels may come late and in any order. A round
// with a NaN is ignored. Observe costs O(levels), moves up to 200 predictions, and at times
// passes over 100 scores. It allocates twice: with the first label and with the first scored
// interval.
func (s *State) Observe(r Round) {
	size, sigma, z := math.Min(math.Abs(r.Label-r.Served), maxMiss), r.Scale, r.Radii
	if math.IsNaN(size) {
		return
	}
	if sigma > 0 && sigma <= maxScale && len(z) == len(s.levels) && bounded(z) {
		s.scoreServed(&r, size)
	}
	if now := s.Scale(); now > 0 {
		size = math.Min(size, maxScore*now)
	}
	s.shape.see(s.known, math.Max(-math.MaxFloat64, math.Min(math.MaxFloat64, r.Served)))
	s.known++
	if s.known > skipped {
		s.weighted = float64(decay*s.weighted) + size
		s.weight = float64(decay*s.weight) + 1
		s.total += size
	}
}

func bounded(z []float64) bool {
	for _, v := range z {
		if !(math.Abs(v) <= maxRadius) {
			return false
		}
	}
	return true
}

// scoreServed scores the intervals of one prediction as they were served, and learns from them
// before their projection.
func (s *State) scoreServed(r *Round, size float64) {
	if s.ring == nil {
		s.allocate()
	}
	score := size / r.Scale // May be +Inf, which is only compared.
	// Of a late label the factor of then is not known.
	s.shape.learn(r.Served, math.Min(maxScore, score*s.shape.factor(r.Served)), score > r.Radii[0], s.levels[0].miss)
	// A step that used the score of its round would be larger for misses, and cause too few of them.
	largest := s.largest
	s.push(math.Min(score, maxScore))
	if largest == 0 {
		largest = s.largest
	}
	for i := range s.levels {
		v := &s.levels[i]
		half := float64(r.Scale * math.Max(r.Radii[i], 0))
		label, lower, upper := size, -half, half
		if r.Possible != nil {
			label = r.Label
			lower, upper = r.Possible.ProjectInterval(r.Served-half, r.Served+half)
		}
		v.account(s.scored, label, lower, upper)
		v.learn(score, largest, r.Radii[i])
	}
	s.scored++
}

func (s *State) allocate() {
	s.ring = make([]float64, scores)
	hits := make([]uint64, ringWords*len(s.levels))
	for i := range s.levels {
		s.levels[i].hits = hits[i*ringWords:][:ringWords:ringWords]
	}
}

func (s *State) push(score float64) {
	at := s.scored % scores
	old := s.ring[at]
	s.ring[at] = score
	switch {
	case score >= s.largest:
		s.largest = score
	case old == s.largest:
		s.largest = maximum(s.ring)
	}
}

func maximum(values []float64) float64 {
	largest := 0.0
	for _, v := range values {
		largest = math.Max(largest, v)
	}
	return largest
}

// learn makes the step of ML-Poly for the served interval, and the steps of the trackers.
func (v *level) learn(score, largest, z float64) {
	g := v.miss
	if score > z {
		g--
	}
	v.mixture.Update(g, z, v.q[:], nil)
	for k, c := range steps() {
		step := float64(c * largest)
		if score > v.q[k] {
			v.q[k] += float64(step * (1 - v.miss))
		} else {
			v.q[k] -= float64(step * v.miss)
		}
	}
}

// account counts the observation n, from 0, with its interval.
func (v *level) account(n uint64, label, lower, upper float64) {
	word, bit := n%recent/64, uint64(1)<<(n%recent%64)
	if v.hits[word]&bit != 0 {
		v.recently--
	}
	if n >= window && v.hit(n-window) {
		v.lately--
	}
	v.hits[word] &^= bit
	score := upper - lower
	v.width.Add(score)
	if lower <= label && label <= upper {
		v.covered++
		v.recently++
		v.lately++
		v.hits[word] |= bit
	} else {
		score += float64(2 / v.miss * math.Max(lower-label, label-upper))
	}
	v.score.Add(score)
	if n+1 >= 2*window {
		v.leastCovered = min(v.leastCovered, v.lately)
	}
}

func (v *level) hit(n uint64) bool { return v.hits[n%recent/64]>>(n%recent%64)&1 != 0 }

// Statistics describe the intervals of one level. Unknown figures are NaN.
type Statistics struct {
	// Level is 1 − a, the nominal coverage.
	Level float64
	// Scored counts the served intervals whose label has come.
	Scored uint64
	// Coverage is the share of the scored intervals that contained their label. An interval
	// contains its ends.
	Coverage float64
	// Recent is the number of intervals of RecentCoverage: the newest 1,000, or all if
	// there are fewer.
	Recent         int
	RecentCoverage float64
	// LeastCoverage is the smallest coverage of 500 consecutive intervals. The first 500
	// intervals are left out, so it is unknown before 1,000.
	LeastCoverage float64
	// MeanWidth is the mean width, in the units of the label.
	MeanWidth float64
	// MeanScore is the mean interval score: the width, plus 2/a times the distance from the
	// interval to the label. Less is better.
	//
	// Source: Gneiting and Raftery, JASA 2007, §6.2.
	MeanScore float64
}

// Statistics returns the statistics of a level, by its place in New's levels. It costs O(1) and
// allocates nothing.
func (s *State) Statistics(level int) Statistics {
	v := &s.levels[level]
	unknown := math.NaN()
	t := Statistics{
		Level: v.target, Scored: s.scored, Recent: int(min(s.scored, recent)),
		Coverage: unknown, RecentCoverage: unknown, LeastCoverage: unknown, MeanWidth: unknown, MeanScore: unknown,
	}
	if s.scored > 0 {
		n := float64(s.scored)
		t.Coverage, t.RecentCoverage = float64(v.covered)/n, float64(v.recently)/float64(t.Recent)
		t.MeanWidth, t.MeanScore = v.width.Value()/n, v.score.Value()/n
	}
	if s.scored >= 2*window {
		t.LeastCoverage = float64(v.leastCovered) / window
	}
	return t
}

// Scored returns the number of scored intervals of each level.
func (s *State) Scored() uint64 { return s.scored }

// Covered returns the number of scored intervals of a level that contained their label.
func (s *State) Covered(level int) uint64 { return s.levels[level].covered }

// Size returns the memory of the state in bytes, at a cost of O(1).
func (s *State) Size() uint64 {
	const word, fixed, each = 8, 96 + 48 + 3*knots*8, 120 + 104 // Of State, and of level and its mixture.
	n := uint64(len(s.levels))
	size := fixed + n*(each+3*trackers*word)
	size += uint64(cap(s.shape.newest)+cap(s.shape.sorted)) * word
	if s.ring != nil {
		size += scores*word + n*ringWords*word
	}
	return size
}

func ones(words []uint64) (n int) {
	for _, w := range words {
		n += bits.OnesCount64(w)
	}
	return n
}
