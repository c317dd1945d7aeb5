package auto

import "math"

// The advice of a Second is that of level 1, then, once level 2 is awake, for each output the
// last residual of b, the predictions of the lineup, of v, b and the stacks, and the
// prediction.

// SecondAdviceSize is the length of Prediction.Advice.
func SecondAdviceSize(o Options) int { return AdviceSize(o) + o.Outputs*o.lineup().advice() }

// advice is the number of numbers of an output.
func (l lineup) advice() int { return 1 + l.experts() + secondFinalists + 1 }

func (l *Second) appendAdvice(dst []float64, s *secondScratch) []float64 {
	for j, u := range l.uppers {
		dst = append(dst, u.residual)
		dst = append(dst, l.lineupOf(l.expertsOf(s, j))...)
		dst = append(dst, s.final[j*secondFinalists:][:secondFinalists]...)
		dst = append(dst, s.values[j])
	}
	return dst
}

// part is the advice of an output.
func (l *Second) part(second []float64, output int) (residual float64, lineup, final []float64, value float64) {
	size, f := l.lineup.advice(), l.lineup.experts()
	own := second[output*size:][:size]
	return own[0], own[1:][:f], own[1+f:][:secondFinalists], own[size-1]
}

// servedOf writes the served predictions of an output's experts into the scratch.
func (l *Second) servedOf(s *secondScratch, output int, served *advice, second []float64) (residual float64, final []float64, value float64) {
	residual, lineup, final, value := l.part(second, output)
	experts := l.expertsOf(s, output)
	_, first, _, v := served.of(output)
	experts[0] = v
	copy(experts[1:], first)
	copy(l.lineupOf(experts), lineup)
	return residual, final, value
}

// possible tells whether the advice of level 2 can stand beside that of level 1: all in the
// range that advice was cut to, and every mixture in the range of its experts.
func (l *Second) possible(a advice, second []float64) bool {
	if a.seen < lastStage {
		return len(second) == 0
	}
	if len(second) != l.o.Outputs*l.lineup.advice() {
		return false
	}
	for j := range l.uppers {
		residual, lineup, final, value := l.part(second, j)
		if !(math.Abs(residual) <= 2*maxReach) {
			return false
		}
		low, high := l.first.mixers[j].widest()
		for i := range len(lineup) + len(final) {
			if !inRange(nth(i, lineup, final), low, high, true) {
				return false
			}
		}
		if _, _, _, v := a.of(j); final[0] != v || !between(value, final) {
			return false
		}
	}
	return true
}
