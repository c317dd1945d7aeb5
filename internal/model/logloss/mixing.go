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
	// curves are the features of the logistic regressions: the standardized numbers z, (z² − 1)/√2, and 1.
	curves []float64
	// odds are a of the logistic regressions.
	odds []float64
	// logs are log p_i(k): by experts, by classes.
	logs        [][]float64
	each, gains []float64
	shares      []float64 // The logarithms of the shares of the classes.
	points      []calibration.Point
	keys        *keyedScratch
	// counts and features are the nonzero numbers of the experts of many numbers.
	counts, features []entry
	texts            textScratch
	traits           traits
}

// NewScratch is for the rows of a level.
func (l *Level) NewScratch() *Scratch {
	d := len(l.numbers)
	s := &Scratch{
		raw: make([]float64, d), z: make([]float64, d+1), curves: make([]float64, d+1+len(l.squares)), product: make([]float64, d+1+len(l.squares)), inverse: make([]float64, d),
		logs: make([][]float64, len(l.weights)), gains: make([]float64, len(l.weights)),
		traits: traits{last: make([]float64, l.o.lasts()), keys: make([]uint64, l.o.traitKeys())},
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
	s.shares = make([]float64, classes)
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
	for k, n := range counts {
		s.shares[k] = exponential.Log(max(leastShare, n/total))
	}
	for i, k := range l.kinds {
		logs := s.logs[i]
		switch k {
		case calibrated:
			logarithms(logs, s.each, p)
		case logistic:
			l.regress(s, logs)
		case ofKeys:
			l.keys.say(s.keys, logs, s.odds[0])
		case ofClasses:
			l.centers.logs(logs, s.each, s.inverse, s.raw, s.shares)
		case ofCounts:
			l.counts.logs(logs, s.each, s.counts, s.shares)
		case ofMany:
			l.many.logs(logs, s.each, s.features)
		case ofWords:
			l.texts.bayes(logs, s.logs[i+1], s.each, &s.texts, s.shares)
		case ofShares: // Behind ofWords, with which it is computed.
		case ofWordOdds, ofPairOdds:
			l.texts.odds(logs, &s.texts, k == ofPairOdds)
			normalize(logs, s.each)
		}
	}
	l.stack(s, counts, total)
	l.answer(p, s)
}

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

func (l *Level) standardize(s *Scratch, x []float64) {
	const largest = 8
	for i, j := range l.numbers {
		s.raw[i], s.z[i] = l.scale.Cut(i, x[j]), 0
		if deviation := l.scale.Deviation(i); deviation > 0 {
			s.z[i] = math.Max(-largest, math.Min(largest, (s.raw[i]-l.scale.Mean(i))/deviation))
		}
	}
	s.z[len(l.numbers)] = 1
	copy(s.curves, s.z[:len(l.numbers)])
	for i, j := range l.squares {
		s.curves[len(l.numbers)+i] = math.Min(largest, float64(float64(s.z[j]*s.z[j])-1)/math.Sqrt2)
	}
	s.curves[len(s.curves)-1] = 1
	if l.counts != nil {
		s.counts = l.counts.counted(s.counts[:0], l.numbers, x)
		s.features = l.counts.features(s.features[:0], s.counts, s.z)
	}
	if l.texts != nil {
		if l.o.Traits {
			l.present(&s.traits, x)
		}
		l.find(s, x)
	}
	if l.keys != nil {
		for i := range s.keys.values {
			s.keys.values[i] = x[l.o.Keys[i]]
		}
	}
}

func (l *Level) find(s *Scratch, x []float64) {
	s.traits.describe()
	l.texts.find(&s.texts, &s.traits, s.z, x[l.o.Dimension:])
}

// logarithms writes log p of probabilities that are at least leastProbability and sum to 1. Each,
// of the length of p, is scratch that may be p.
func logarithms(dst, each, p []float64) {
	for k, v := range p {
		each[k] = max(leastProbability, v)
	}
	mix.Normalize(each)
	for k, v := range each {
		dst[k] = exponential.Log(v)
	}
}

// normalize writes the logarithms of the probabilities that are proportional to the exponentials, which it
// raises as logarithms does. It takes two logarithms for all classes.
func normalize(logs, each []float64) {
	copy(each, logs)
	mix.Exponential(each)
	all, raised, largest := 0.0, 0.0, math.Inf(-1)
	for k, v := range each {
		all += v
		largest = max(largest, logs[k])
	}
	least := leastProbability * all
	for _, v := range each {
		raised += max(least, v)
	}
	all, raised = largest+exponential.Log(all), exponential.Log(raised/all)
	for k, v := range logs {
		logs[k] = max(v-all, logLeast) - raised
	}
}

func pair(logs []float64, odds float64) {
	one := probability(odds)
	logs[0], logs[1] = exponential.Log(1-one), exponential.Log(one)
}

func (l *Level) regress(s *Scratch, logs []float64) {
	if l.o.MaxClasses == 2 {
		odds, spread := l.logits[0].predict(s.curves)
		s.odds[0] = odds
		pair(logs, moderated(odds, spread))
		return
	}
	for k := range logs {
		odds, spread := l.logits[k].predict(s.curves)
		s.odds[k], logs[k] = odds, exponential.Log(probability(moderated(odds, spread)))
	}
	normalize(logs, s.each)
}

func (l *Level) stack(s *Scratch, counts []float64, total float64) {
	base, shares := len(l.kinds), s.logs[len(s.logs)-1]
	all := exponential.Log(total + float64(0.5*float64(len(counts))))
	for k := range s.points {
		shares[k] = exponential.Log(counts[k]+0.5) - all
		for i := range base {
			s.points[k][i] = s.logs[i][k]
		}
		s.points[k][base] = s.shares[k]
	}
	for i := range l.stacks {
		logs := s.logs[base+i]
		l.stacks[i].Logits(logs, s.points)
		normalize(logs, s.each)
	}
}

// Append appends what Learn needs to know of a prediction of Mix: the logarithms of the kinds, the
// log-odds of the logistic regression and of the variants if there are keys; the classes that came before; the number
// of rows before, and the number of classes. Mix has predicted nothing with fewer than two classes.
func (l *Level) Append(dst []float64, s *Scratch, classes int) []float64 {
	if classes < 2 {
		return append(dst, float64(l.rows), float64(classes))
	}
	for i := range l.kinds {
		dst = append(dst, s.logs[i]...)
	}
	if l.keys != nil {
		dst = append(append(dst, s.odds[0]), s.keys.odds...)
	}
	dst = append(dst, s.traits.last...)
	return append(dst, float64(l.rows), float64(classes))
}

// Split splits advice into the learner's and Append's, nil if of the present state or of none.
func (l *Level) Split(advice []float64) (rest, served []float64) {
	if len(advice) < 2 {
		return nil, nil
	}
	rows, classes := advice[len(advice)-2], advice[len(advice)-1]
	if !(classes >= 0 && classes <= float64(l.o.MaxClasses)) || classes != math.Trunc(classes) {
		return nil, nil
	}
	size := 2
	if classes >= 2 {
		size += l.remembered(int(classes))
	}
	if size > len(advice) {
		return nil, nil
	}
	rest, served = advice[:len(advice)-size], advice[len(advice)-size:]
	if classes < 2 || !(rows < float64(l.rows)) || !l.possible(served) {
		served = nil
	}
	return rest, served
}

// remembered is how many numbers Append appends for so many classes, before the last two.
func (l *Level) remembered(classes int) int {
	n := len(l.kinds)*classes + l.o.lasts()
	if l.keys != nil {
		n += 1 + len(l.keys.weights)
	}
	return n
}

// lastClasses are the classes in traits.last when a row was served.
func (l *Level) lastClasses(served []float64) []float64 {
	end := len(served) - 2
	return served[end-l.o.lasts() : end]
}

// possible reports whether Append could have written the served numbers: logarithms of probabilities, log-odds, classes.
func (l *Level) possible(served []float64) bool {
	classes := served[len(served)-1]
	for _, v := range l.lastClasses(served) {
		if !(v >= 0 && v <= classes) || v != math.Trunc(v) {
			return false
		}
	}
	logs := len(l.kinds) * int(classes)
	for i, v := range served[:len(served)-2] {
		if i < logs && !(v >= leastLog && v <= 0) || !(math.Abs(v) <= maxLogit) {
			return false
		}
	}
	return true
}

// recall writes what was served. It is false if the class was not known then.
func (l *Level) recall(s *Scratch, x, served, counts []float64, total float64, class int) bool {
	classes := int(served[len(served)-1])
	if class >= classes || classes > len(counts) {
		return false
	}
	for i := range l.kinds {
		for k := range s.logs[i] {
			s.logs[i][k] = leastLog
		}
		copy(s.logs[i], served[i*classes:][:classes])
	}
	if l.keys != nil {
		rest := served[len(l.kinds)*classes:]
		s.odds[0] = rest[0]
		copy(s.keys.odds, rest[1:])
	}
	if l.o.Traits {
		copy(s.traits.last, l.lastClasses(served))
		l.find(s, x)
	}
	l.stack(s, counts, total)
	return true
}
