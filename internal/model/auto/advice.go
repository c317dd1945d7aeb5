package auto

import (
	"math"

	"hindsight/internal/model"
)

// advice is a Prediction.Advice: the number of labels before, from which the stage follows;
// the lags; and for each output the last residual of b, the predictions of the experts, of b
// and of the stacks, and the prediction.
type advice struct {
	seen    uint64
	lags    []float64
	outputs []float64
	experts int
}

// adviceSize is the length of Prediction.Advice.
func (l *Learner) adviceSize() int {
	return 1 + len(l.lags) + l.o.Outputs*outputAdvice(l.plan.experts())
}

func outputAdvice(experts int) int { return 1 + experts + finalists + 1 }

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
	return dst
}

// of is the part of an output.
func (a *advice) of(output int) (residual float64, experts, final []float64, value float64) {
	size := outputAdvice(a.experts)
	part := a.outputs[output*size:][:size]
	return part[0], part[1:][:a.experts], part[1+a.experts:][:finalists], part[size-1]
}

// stale reads advice from before the last observation. It is false for present advice and
// for numbers that are no advice of the learner.
func (l *Learner) stale(numbers []float64) (advice, bool) {
	if len(numbers) != l.adviceSize() {
		return advice{}, false
	}
	seen := numbers[0]
	if !(seen >= 0 && seen < float64(l.n)) || seen != math.Trunc(seen) {
		return advice{}, false
	}
	a := l.read(numbers)
	return a, l.possible(a)
}

func (l *Learner) read(numbers []float64) advice {
	return advice{seen: uint64(numbers[0]), lags: numbers[1:][:len(l.lags)], outputs: numbers[1+len(l.lags):], experts: l.plan.experts()}
}

// possible tells whether all advice is in the range that advice was cut to, and every mixture
// in the range of its experts.
func (l *Learner) possible(a advice) bool {
	k := uint64(l.o.Outputs)
	for i, v := range a.lags {
		if m := &l.mixers[uint64(i)%k]; !inRange(v, m.low, m.high, uint64(i)/k < a.seen) {
			return false
		}
	}
	for j := range l.mixers {
		if !l.mixers[j].possible(a, j) {
			return false
		}
	}
	return true
}

func (m *mixer) possible(a advice, output int) bool {
	residual, experts, final, value := a.of(output)
	then := stageAfter(a.seen)
	if !(math.Abs(residual) <= 2*maxReach) {
		return false
	}
	low, high := m.widest()
	for i := range len(experts) + len(final) {
		// A stack that sleeps predicts what b predicts.
		said := then.awake(i, len(experts)) || (i > len(experts) && then == starting)
		if !inRange(nth(i, experts, final), low, high, said) {
			return false
		}
	}
	switch then {
	case asleep:
		return value == 0
	case starting:
		experts = experts[:baselines]
	default:
	}
	return between(final[0], experts) && between(value, final)
}

// inRange accepts a number from low to high, or 0 from an expert that slept.
func inRange(v, low, high float64, said bool) bool {
	if said {
		return v >= low && v <= high
	}
	return v == 0
}

// between tells whether v is in the range of the numbers.
func between(v float64, of []float64) bool {
	low, high := math.Inf(1), math.Inf(-1)
	for _, f := range of {
		low, high = math.Min(low, f), math.Max(high, f)
	}
	return v >= low && v <= high
}

// ObserveAdvised is Observe of an input that was predicted before. If labels came since, the
// experts learn with the lags of the served prediction, and the mixtures and stacks learn
// from the served predictions of what they mix. The outcome stays prequential: the present
// weights, applied to the columns of the served prediction. Present advice, and numbers that
// are no advice of the learner, make ObserveAdvised an Observe.
func (l *Learner) ObserveAdvised(o *model.Outcome, x, y []float64, weight float64, numbers []float64) error {
	if err := l.Check(x, y, weight); err != nil {
		return err
	}
	if a, ok := l.stale(numbers); ok {
		l.late = true
		l.present(l.own, x, a.lags, a.seen)
		l.learn(o, row{x: x, y: y, weight: weight}, &a)
		return nil
	}
	l.learnNow(o, x, y, weight)
	return nil
}
