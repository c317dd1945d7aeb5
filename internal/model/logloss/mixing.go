package logloss

import (
	"math"

	"hindsight/internal/model/calibration"
	"hindsight/internal/model/exponential"
	"hindsight/internal/model/mix"
)

// Scratch is what a prediction needs, for one row at a time.
type Scratch struct {
	// raw are the numbers, strange values cut; z are the standardized numbers, then 1.
	raw, z, product, inverse []float64
	// odds are a of the logistic regressions.
	odds []float64
	// logs are log p_i(k): by experts, by classes.
	logs        [][]float64
	each, gains []float64
	points      []calibration.Point
	keys        *keyedScratch
}

// NewScratch is for the rows of a level.
func (l *Level) NewScratch() *Scratch {
	d := len(l.numbers)
	s := &Scratch{
		raw: make([]float64, d), z: make([]float64, d+1), product: make([]float64, d+1), inverse: make([]float64, d),
		logs: make([][]float64, len(l.weights)), gains: make([]float64, len(l.weights)),
	}
	if l.keys != nil {
		s.keys = newKeyedScratch(l.keys.o)
	}
	return s
}

func (s *Scratch) resize(classes int) {
	if len(s.each) == classes {
		return
	}
	s.each, s.points, s.odds = make([]float64, classes), make([]calibration.Point, classes), make([]float64, classes)
	for i := range s.logs {
		s.logs[i] = make([]float64, classes)
	}
}

// Mix replaces the calibrated probabilities of two classes or more by the answer, given the
// counts of the classes and their total. It only reads the level.
func (l *Level) Mix(s *Scratch, p, x, counts []float64, total float64) {
	s.resize(len(p))
	l.standardize(s, x)
	for i, k := range l.kinds {
		logs := s.logs[i]
		switch k {
		case calibrated:
			logarithms(logs, p)
		case logistic:
			l.regress(s, logs)
		case ofKeys:
			l.keys.say(s.keys, logs, s.odds[0])
		case ofClasses:
			l.centers.logs(logs, s.each, s.inverse, s.raw, counts, total)
		}
	}
	l.stack(s, counts, total)
	l.answer(p, s)
}

// answer writes P.
func (l *Level) answer(p []float64, s *Scratch) {
	clear(p)
	for i, w := range l.weights {
		exponential.Exp(s.each, s.logs[i])
		for k, v := range s.each {
			p[k] += float64(w * v)
		}
	}
	mix.Normalize(p)
}

// standardize writes the numbers and the keys.
func (l *Level) standardize(s *Scratch, x []float64) {
	const largest = 8
	for i, j := range l.numbers {
		s.raw[i], s.z[i] = l.scale.Cut(i, x[j]), 0
		if deviation := l.scale.Deviation(i); deviation > 0 {
			s.z[i] = math.Max(-largest, math.Min(largest, (s.raw[i]-l.scale.Mean(i))/deviation))
		}
	}
	s.z[len(l.numbers)] = 1
	if l.keys != nil {
		for i := range s.keys.values {
			s.keys.values[i] = x[l.o.Keys[i]]
		}
	}
}

// logarithm is log p, at least logLeast.
func logarithm(p float64) float64 { return math.Max(logLeast, exponential.Log(p)) }

func logarithms(dst, p []float64) {
	for k, v := range p {
		dst[k] = logarithm(v)
	}
}

// normalize makes the exponentials of the logarithms sum to 1, to what logLeast adds.
func normalize(logs, each []float64) {
	largest := math.Inf(-1)
	for _, v := range logs {
		largest = math.Max(largest, v)
	}
	for k, v := range logs {
		each[k] = math.Max(logLeast, v-largest)
	}
	exponential.Exp(each, each)
	mix.Normalize(each)
	logarithms(logs, each)
}

// regress writes what the logistic regressions say.
func (l *Level) regress(s *Scratch, logs []float64) {
	if l.o.MaxClasses == 2 {
		odds, spread := l.logits[0].predict(s.z)
		one := probability(moderated(odds, spread))
		s.odds[0], logs[0], logs[1] = odds, logarithm(1-one), logarithm(one)
		return
	}
	for k := range logs {
		odds, spread := l.logits[k].predict(s.z)
		s.odds[k], logs[k] = odds, logarithm(probability(moderated(odds, spread)))
	}
	normalize(logs, s.each)
}

// stack writes what the stacks say of the kinds.
func (l *Level) stack(s *Scratch, counts []float64, total float64) {
	base := len(l.kinds)
	for k := range s.points {
		for i := range base {
			s.points[k][i] = s.logs[i][k]
		}
		s.points[k][base] = exponential.Log(math.Max(leastShare, counts[k]/total))
	}
	for i := range l.stacks {
		logs := s.logs[base+i]
		l.stacks[i].Probabilities(logs, s.points)
		logarithms(logs, logs)
	}
}

// Append appends what Learn needs to know of a prediction of Mix: the logarithms of the kinds, the
// log-odds of the logistic regression and of the variants if there are keys, and the number of
// classes. With fewer than two classes Mix has predicted nothing, and the number is all.
func (l *Level) Append(dst []float64, s *Scratch, classes int) []float64 {
	if classes < 2 {
		return append(dst, float64(classes))
	}
	for i := range l.kinds {
		dst = append(dst, s.logs[i]...)
	}
	if l.keys != nil {
		dst = append(append(dst, s.odds[0]), s.keys.odds...)
	}
	return append(dst, float64(classes))
}

// Split splits advice that ends with what Append appended. Served is nil if it does not.
func (l *Level) Split(advice []float64) (rest, served []float64) {
	if len(advice) == 0 {
		return nil, nil
	}
	classes := advice[len(advice)-1]
	if classes == 0 || classes == 1 {
		return advice[:len(advice)-1], nil
	}
	if !(classes >= 2 && classes <= float64(l.o.MaxClasses)) || classes != math.Trunc(classes) {
		return nil, nil
	}
	size := len(l.kinds)*int(classes) + 1
	if l.keys != nil {
		size += 1 + len(l.keys.weights)
	}
	if size > len(advice) {
		return nil, nil
	}
	rest, served = advice[:len(advice)-size], advice[len(advice)-size:]
	for _, v := range served[:len(l.kinds)*int(classes)] {
		if !(v >= logLeast && v <= 1e-9) {
			return nil, nil
		}
	}
	for _, v := range served[len(l.kinds)*int(classes) : size-1] {
		if !(math.Abs(v) <= maxLogit) {
			return nil, nil
		}
	}
	return rest, served
}

// recall writes what was served. It is false if the class was not known then.
func (l *Level) recall(s *Scratch, served, counts []float64, total float64, class int) bool {
	classes := int(served[len(served)-1])
	if class >= classes || classes > len(counts) {
		return false
	}
	for i := range l.kinds {
		for k := range s.logs[i] {
			s.logs[i][k] = logLeast
		}
		copy(s.logs[i], served[i*classes:][:classes])
	}
	if l.keys != nil {
		rest := served[len(l.kinds)*classes:]
		s.odds[0] = rest[0]
		copy(s.keys.odds, rest[1:])
	}
	l.stack(s, counts, total)
	return true
}
