// Package interval gives predictions intervals that hold their coverage under
// drift, around the predictions of any learner of real labels, and keeps the
// account of what they covered. It knows residuals alone.
//
// For a level 1 − a the interval is ŷ ± σ max(z, 0). The scale σ follows the size
// of the residuals. The radius z is a mixture of three trackers q_k of the quantile
// 1 − a of the scores s = |y − ŷ|/σ, by ML-Poly on the linearised pinball loss:
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

	"hindsight/internal/model/compensated"
	"hindsight/internal/model/exponential"
	"hindsight/internal/model/mix"
)

const (
	// How many trackers of different steps are mixed.
	trackers = 3
	// How many scores B looks back.
	scores = 100
	// How many observations the recent coverage is of.
	recent = 1000
	// How many observations the least coverage is over.
	window = 500
	// How many words hold recent bits.
	ringWords = (recent + 63) / 64
)

const (
	// How many residuals count for nothing: the first ones are those
	// of a learner that knows nothing, often the labels themselves, and a plain
	// mean would never forget them.
	skipped = 8
	// How many residuals have to count before there is an interval.
	needed = 8
	// The factor by which m_0.95 forgets.
	decay = 0.95
	// The factor by which the discounted coverage forgets.
	fading = 0.999
	// The part of the plain mean that σ does not fall below.
	floor = 0.2
	// What a larger score counts as, in B and in σ. One
	// outlier would else decide both for ever. What a tracker compares is the
	// score itself.
	maxScore = 16
	// What a larger miss counts as, so that no sum overflows.
	maxMiss = 1e200
	// A bound of every σ: a mean of misses, rounded.
	maxScale = 2 * maxMiss
	// A bound of every z. A tracker moves by less than 0.08·maxScore a
	// round, so that none gets there.
	maxRadius = 1e30
)

// steps are the c_k.
func steps() [trackers]float64 { return [trackers]float64{0.005, 0.02, 0.08} }

// State is what the intervals of one output and its account are computed from.
// It is not safe for concurrent use, except that methods which only read may
// run concurrently.
type State struct {
	levels []level
	// known counts the residuals.
	known uint64
	// weighted and weight are Σ 0.95^i |residual| and Σ 0.95^i, total is
	// Σ |residual|, of those that count.
	weighted, weight, total float64
	// judged counts the observations whose interval was judged.
	judged uint64
	// ring holds the last scores; nil before the first. The score of the
	// observation n, from 0, is at n mod scores.
	ring []float64
	// largest is the largest in ring.
	largest float64
}

// level is the state of one level.
type level struct {
	// target is 1 − a, miss is a.
	target, miss float64
	q            [trackers]float64
	// mixture weighs the trackers.
	mixture *mix.Mixture
	// covered counts the observations that their interval covered, faded is the
	// same where a round leaves fading of what was before.
	covered uint64
	faded   float64
	// hits are bits: that of the observation n is n mod recent, 1 for covered.
	// It is nil before the first.
	hits []uint64
	// recently and lately count the bits of the last recent and the last window
	// observations; least is the least lately so far.
	recently, lately, least uint16
	width, score            compensated.Sum
}

// New makes the state for levels 1 − a, each above 0 and below 1. It panics on
// any other.
func New(levels []float64) *State {
	s := &State{levels: make([]level, len(levels))}
	for i, l := range levels {
		if !(l > 0 && l < 1) {
			panic(fmt.Sprintf("interval: a level is %g, want it above 0 and below 1", l))
		}
		v := &s.levels[i]
		v.target, v.miss, v.least, v.mixture = l, 1-l, window, mix.New(trackers)
		for k := range v.q {
			// Where the residuals have the Laplace distribution this is it.
			v.q[k] = -exponential.Log(v.miss)
		}
	}
	return s
}

// Known tells whether there is an interval now: from the 16th residual on, if
// not all from the 9th on are 0.
func (s *State) Known() bool { return s.Scale() > 0 }

// Scale is σ for the next prediction, in the units of the label: the larger of
// the exponentially weighted mean of the |residuals| known now and a fifth of
// their plain mean. It is 0 if no interval is known.
func (s *State) Scale() float64 {
	if s.known < skipped+needed {
		return 0
	}
	return math.Max(s.weighted/s.weight, floor*(s.total/float64(s.known-skipped)))
}

// Radius is z of a level, by its place in New's: the interval is
// value ± Scale()·max(Radius, 0).
func (s *State) Radius(level int) float64 {
	v := &s.levels[level]
	var weights [trackers]float64
	v.mixture.Weights(weights[:], nil)
	return mix.Mean(weights[:], v.q[:])
}

// Observe takes the label of a prediction: miss is y less the value that was
// served. Sigma is Scale and z are the Radius of all levels, as they were when it was
// served. If no interval was served, sigma is 0. The labels may come late and in
// any order. A miss that is not a number is ignored. It costs O(levels), and at
// times a look at 100 scores. It allocates once: when the first interval is
// judged.
func (s *State) Observe(miss, sigma float64, z []float64) {
	size := math.Min(math.Abs(miss), maxMiss)
	if math.IsNaN(size) {
		return
	}
	if sigma > 0 && sigma <= maxScale && len(z) == len(s.levels) && bounded(z) {
		s.judge(size, sigma, z)
	}
	if now := s.Scale(); now > 0 {
		size = math.Min(size, maxScore*now)
	}
	s.known++
	if s.known > skipped {
		s.weighted = float64(decay*s.weighted) + size
		s.weight = float64(decay*s.weight) + 1
		s.total += size
	}
}

// bounded tells whether all z are numbers that a state can have served.
func bounded(z []float64) bool {
	for _, v := range z {
		if !(math.Abs(v) <= maxRadius) {
			return false
		}
	}
	return true
}

// judge judges the intervals of one prediction and learns from them.
func (s *State) judge(size, sigma float64, z []float64) {
	if s.ring == nil {
		s.allocate()
	}
	score := size / sigma // May be +Inf: it is only compared.
	// A step that knew of its own score would be larger when it is a miss: the
	// misses would then be too few.
	largest := s.largest
	s.push(math.Min(score, maxScore))
	if largest == 0 {
		largest = s.largest
	}
	for i := range s.levels {
		v := &s.levels[i]
		half := float64(sigma * math.Max(z[i], 0))
		v.account(s.judged, size, half)
		v.learn(score, largest, z[i])
	}
	s.judged++
}

// allocate makes the rings.
func (s *State) allocate() {
	s.ring = make([]float64, scores)
	hits := make([]uint64, ringWords*len(s.levels))
	for i := range s.levels {
		s.levels[i].hits = hits[i*ringWords:][:ringWords:ringWords]
	}
}

// push replaces the oldest score.
func (s *State) push(score float64) {
	at := s.judged % scores
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

// learn is ML-Poly's step for what was served, and the step of the trackers.
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

// account counts the observation n, from 0, whose interval had the half width.
func (v *level) account(n uint64, size, half float64) {
	word, bit := n%recent/64, uint64(1)<<(n%recent%64)
	if v.hits[word]&bit != 0 {
		v.recently--
	}
	if n >= window && v.hit(n-window) {
		v.lately--
	}
	v.hits[word] &^= bit
	v.faded *= fading
	score := 2 * half
	v.width.Add(score)
	if size <= half {
		v.covered++
		v.faded++
		v.recently++
		v.lately++
		v.hits[word] |= bit
	} else {
		score += float64(2 / v.miss * (size - half))
	}
	v.score.Add(score)
	if n+1 >= 2*window {
		v.least = min(v.least, v.lately)
	}
}

// hit tells whether the observation n, one of the last, was covered.
func (v *level) hit(n uint64) bool { return v.hits[n%recent/64]>>(n%recent%64)&1 != 0 }

// Statistics tell what the intervals of one level were worth. What is not known
// is NaN.
type Statistics struct {
	// Level is 1 − a, what part of the labels the intervals are to cover.
	Level float64
	// Judged counts the intervals that were served and whose label has come.
	Judged uint64
	// Coverage is what part of them held their label. Its ends belong to an
	// interval.
	Coverage float64
	// Recent is how many intervals RecentCoverage is of: the last 1,000, or all
	// while there are fewer.
	Recent int
	// RecentCoverage is what part of the last ones held their label.
	RecentCoverage float64
	// DiscountedCoverage is what part held their label, where the interval before
	// counts 0.999 times as much.
	DiscountedCoverage float64
	// LeastCoverage is the least part that held their label of any 500
	// intervals one after the other. The first 500 are left out, so that it is
	// not known before 1,000.
	LeastCoverage float64
	// MeanWidth is the mean width, in the units of the label.
	MeanWidth float64
	// MeanScore is the mean interval score: the width, and 2/a times what the
	// interval missed its label by. Less is better.
	//
	// Source: Gneiting and Raftery, JASA 2007, §6.2.
	MeanScore float64
}

// Statistics are those of a level, by its place in New's. It costs O(1) and
// allocates nothing.
func (s *State) Statistics(level int) Statistics {
	v := &s.levels[level]
	unknown := math.NaN()
	t := Statistics{
		Level: v.target, Judged: s.judged, Recent: int(min(s.judged, recent)),
		Coverage: unknown, RecentCoverage: unknown, DiscountedCoverage: unknown, LeastCoverage: unknown, MeanWidth: unknown, MeanScore: unknown,
	}
	if s.judged > 0 {
		n := float64(s.judged)
		t.Coverage, t.RecentCoverage = float64(v.covered)/n, float64(v.recently)/float64(t.Recent)
		t.DiscountedCoverage = v.faded * (1 - fading) / -math.Expm1(n*math.Log(fading))
		t.MeanWidth, t.MeanScore = v.width.Value()/n, v.score.Value()/n
	}
	if s.judged >= 2*window {
		t.LeastCoverage = float64(v.least) / window
	}
	return t
}

// Judged is how many intervals of each level were served and had their label come.
func (s *State) Judged() uint64 { return s.judged }

// Covered is how many of the judged intervals of a level held their label.
func (s *State) Covered(level int) uint64 { return s.levels[level].covered }

// Size is the memory of the state in bytes, at a cost of O(1).
func (s *State) Size() uint64 {
	const word, fixed, each = 8, 96, 128 + 104 // Of State, and of level and its mixture.
	n := uint64(len(s.levels))
	size := fixed + n*(each+3*trackers*word)
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
