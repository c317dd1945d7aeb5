package auto

import (
	"math"
	"slices"
)

// advice is a Prediction.Advice: the number of labels before, from which the stage follows;
// the lags; for each output the last residual of b, the predictions of the experts, of b and
// of the stacks, and v. While level 2 is awake, for each output the last residual of its b,
// the predictions of the lineup, of v, b and the stacks, and of level 2 follow. While the
// opening answers, for each output the predictions of the ridges, 0 before firstFit rows, and
// of the opening come last.
type advice struct {
	seen   uint64
	lags   []float64
	level1 block
	// keyed is empty without keys.
	keyed keyedBlock
	// level2 is empty if level 2 slept.
	level2 block
	// opening is empty after the opening.
	opening []float64
}

func (a *advice) levels(output int) (value float64) {
	if len(a.level2.numbers) > 0 {
		_, _, _, value = a.level2.of(output)
	} else {
		value = a.base(output)
	}
	return value
}

// opened writes what the levels and the ridges predicted for an output, and returns the prediction
// of the opening.
func (a *advice) opened(output int, said []float64) float64 {
	said[0] = a.levels(output)
	part := a.opening[output*len(said):][:len(said)]
	copy(said[1:], part)
	return part[len(said)-1]
}

// block is the numbers of a level, by outputs: the residual, the predictions of the experts
// and of the finalists, the value, and of level 2 what the neighbors say beside v.
type block struct {
	numbers                   []float64
	experts, finalists, parts int
}

func (b block) size() int { return 1 + b.experts + b.finalists + 1 + b.parts }

func level1Block(p Plan) block { return block{experts: p.experts(), finalists: finalists} }

func level2Block(l lineup) block {
	return block{experts: l.experts(), finalists: level2Finalists, parts: l.parts()}
}

func (b block) of(output int) (residual float64, experts, final []float64, value float64) {
	part := b.numbers[output*b.size():][:b.size()]
	return part[0], part[1:][:b.experts], part[1+b.experts:][:b.finalists], part[b.size()-1-b.parts]
}

// near are what the neighbors say of an output beside v.
func (b block) near(output int) []float64 { return b.numbers[(output+1)*b.size()-b.parts:][:b.parts] }

// AdviceSizes are the lengths of Prediction.Advice: with level 1 alone and, if the learner has
// a lineup, with level 2; each without an opening and, if the learner has one, with it.
func AdviceSizes(o Options) []int {
	o = o.numeric()
	sizes := []int{1 + o.remembered()*o.Outputs + o.Outputs*(level1Block(o.plan()).size()+o.keyedBlock().size())}
	if l := o.lineup(); !l.empty() {
		sizes = append(sizes, sizes[0]+o.Outputs*level2Block(l).size())
	}
	if ridges := o.ridges(); ridges > 0 {
		for _, size := range sizes {
			sizes = append(sizes, size+o.Outputs*(ridges+1))
		}
	}
	return sizes
}

func (l *Learner) appendAdvice(dst []float64, s *scratch) []float64 {
	k := l.plan.experts()
	dst = append(dst, float64(s.seen))
	dst = append(dst, s.lags...)
	for j := range l.mixers {
		dst = append(dst, s.residuals[j])
		dst = append(dst, s.advice[j*k:][:k]...)
		dst = append(dst, s.final[j*finalists:][:finalists]...)
		dst = append(dst, s.values[j])
	}
	if s.keyed != nil {
		dst = s.keyed.appendAdvice(dst)
	}
	for j := range l.level2 {
		if !l.awake() {
			break
		}
		dst = append(dst, s.level2.residuals[j])
		dst = append(dst, l.lineupOf(l.expertsOf(s, j))...)
		dst = append(dst, s.level2.final[j*level2Finalists:][:level2Finalists]...)
		dst = append(append(dst, s.answers[j]), s.level2.nearOf(j)...)
	}
	if l.opens() {
		for j, answer := range s.opening.answers {
			dst = append(append(dst, s.opening.of(j)[1:]...), answer)
		}
	}
	return dst
}

// read reads advice of one of the lengths of AdviceSizes.
func (l *Learner) read(numbers []float64) advice {
	a := advice{seen: uint64(numbers[0]), lags: numbers[1:][:len(l.lags)], level1: l.level1Block, level2: l.level2Block}
	rest, size := numbers[1+len(l.lags):], l.o.Outputs*a.level1.size()
	a.level1.numbers, rest = rest[:size], rest[size:]
	a.keyed = l.keyedBlock
	size = l.o.Outputs * a.keyed.size()
	a.keyed.numbers, rest = rest[:size], rest[size:]
	if opening := l.o.Outputs * (l.ridges + 1); l.ridges > 0 && len(rest)%(l.o.Outputs*a.level2.size()) == opening {
		at := len(rest) - opening
		rest, a.opening = rest[:at], rest[at:]
	}
	a.level2.numbers = rest
	return a
}

// given reads advice. It is false for numbers that are no advice of the learner.
func (l *Learner) given(numbers []float64) (advice, bool) {
	if len(numbers) == 0 {
		return advice{}, false
	}
	seen := numbers[0]
	if !(seen >= 0 && seen <= float64(l.n)) || seen != math.Trunc(seen) {
		return advice{}, false
	}
	size := 1 + len(l.lags) + l.o.Outputs*(l.level1Block.size()+l.keyedBlock.size())
	if !l.lineup.empty() && seen >= lastStage {
		size += l.o.Outputs * l.level2Block.size()
	}
	if l.ridges > 0 && seen < openingRows {
		size += l.o.Outputs * (l.ridges + 1)
	}
	if len(numbers) != size {
		return advice{}, false
	}
	a := l.read(numbers)
	return a, l.possible(&a)
}

// possible reports whether all advice is in the range that advice was cut to, and every mixture
// in the range of its experts.
func (l *Learner) possible(a *advice) bool {
	k := uint64(l.o.Outputs)
	for i, v := range a.lags {
		if m := &l.mixers[uint64(i)%k]; !inRange(v, m.low, m.high, uint64(i)/k < a.seen) {
			return false
		}
	}
	for j := range l.mixers {
		if !l.mixers[j].possible(a, j) || len(a.opening) > 0 && !l.mixers[j].opened(a, j, l.ridges) {
			return false
		}
	}
	return true
}

func (m *mixer) possible(a *advice, output int) bool {
	then := stageAfter(a.seen)
	residual, experts, final, v := a.level1.of(output)
	if !m.ranged(residual, experts, final, then) {
		return false
	}
	switch then {
	case asleep:
		return v == 0
	case starting:
		experts = experts[:baselines]
	default:
	}
	if !between(final[0], experts) || !m.mixes(v, final[0], final) {
		return false
	}
	if !m.possibleKeys(a, output) {
		return false
	}
	if len(a.level2.numbers) == 0 {
		return true
	}
	for _, v := range a.level2.near(output) {
		if !(math.Abs(v) <= 2*maxReach) {
			return false
		}
	}
	residual, experts, final, value := a.level2.of(output)
	return m.ranged(residual, experts, final, complete) && final[0] == a.base(output) && m.mixes(value, final[0], final)
}

// opened reports whether the opening mixed its experts, whose advice is in the range that advice
// was cut to.
func (m *mixer) opened(a *advice, output, ridges int) bool {
	part := a.opening[output*(ridges+1):][:ridges+1]
	levels, answer := a.levels(output), part[ridges]
	if a.seen < firstFit {
		return answer == levels
	}
	for _, v := range part[:ridges] {
		if !inRange(v, m.lowest, m.highest, true) {
			return false
		}
	}
	return m.mixes(answer, levels, part[:ridges])
}

// ranged reports whether the predictions of a level are in the range that advice was cut to.
func (m *mixer) ranged(residual float64, experts, final []float64, then stage) bool {
	if !(math.Abs(residual) <= 2*maxReach) {
		return false
	}
	for i := range len(experts) + len(final) {
		// A stack that sleeps predicts what b predicts.
		said := then.awake(i, len(experts)) || (i > len(experts) && then == starting)
		if !inRange(nth(i, experts, final), m.lowest, m.highest, said) {
			return false
		}
	}
	return true
}

// inRange accepts a number from low to high, or 0 from an expert that slept.
func inRange(v, low, high float64, said bool) bool {
	if said {
		return v >= low && v <= high
	}
	return v == 0
}

// mixes reports whether v can be a mixture of predictions: v lies between them, or beyond them in the range of the labels, to
// which a mixture is cut.
func (m *mixer) mixes(v, one float64, others []float64) bool {
	low, high := one, one
	for _, f := range others {
		low, high = math.Min(low, f), math.Max(high, f)
	}
	return v >= low && v <= high || v > high && v <= m.high || v < low && v >= m.low
}

func between(v float64, of []float64) bool { return v >= slices.Min(of) && v <= slices.Max(of) }
