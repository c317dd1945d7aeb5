package logloss

import (
	"math"

	"hindsight/internal/model/exponential"
)

// Learn learns the class of a row, given the counts of the classes and their total before it. If
// two classes were known before, Mix has predicted the row with this scratch and state. Served is
// what Split returned of an earlier prediction, or nil.
func (l *Level) Learn(s *Scratch, x, counts []float64, total float64, class int, weight float64, served []float64) {
	weight = math.Min(weight, maxWeight)
	l.rows++
	classes := len(counts)
	if classes < 2 {
		s.resize(classes)
		l.standardize(s, x)
	}
	now := 0.0 // a of the logistic regression.
	if classes > 1 {
		now = s.odds[0]
		if class < classes && (served == nil || l.recall(s, x, served, counts, total, class)) {
			l.learnMixture(s, class, weight)
		}
	}
	l.centers.learn(s.raw, class, weight)
	switch {
	case l.o.logits() == 0:
	case l.o.MaxClasses > 2:
		l.learnEach(s, class, total, weight)
	case class == 1 || classes == 2:
		l.learnPair(s, now, class, classes, total, weight)
	}
	for i, j := range l.numbers {
		s.raw[i] = x[j]
	}
	if l.counts != nil {
		l.learnMany(s, class, classes, weight)
	}
	if l.texts != nil {
		l.texts.learn(&s.texts, class, max(classes, class+1), weight)
		l.follow(&s.traits, class, weight)
	}
	l.scale.Add(s.raw, math.Min(1, weight))
	l.centers.change(l.scale.Changes())
}

func (l *Level) learnMany(s *Scratch, class, classes int, weight float64) {
	p := s.each
	if class == classes {
		p = make([]float64, classes+1)
	}
	l.many.learn(p, s.features, class, weight)
	l.counts.learn(s.raw, class, weight)
}

func (l *Level) learnMixture(s *Scratch, class int, weight float64) {
	l.rounds++
	counts, answer := math.Min(1, weight), 0.0
	for i, w := range l.weights {
		log := s.logs[i][class]
		answer += float64(w * exponential.Of(log))
		s.gains[i] = float64(counts * log)
		l.losses[i].Add(-s.gains[i])
	}
	l.losses[len(l.weights)].Add(-float64(counts * exponential.Log(answer)))
	share(l.weights, s.gains, l.rounds)
	for i := range l.stacks {
		exponential.Exp(s.each, s.logs[len(l.kinds)+i])
		l.stacks[i].Learn(s.each, s.points, class, weight)
	}
}

func (l *Level) learnEach(s *Scratch, class int, total, weight float64) {
	if class == len(l.logits) {
		l.logits = append(l.logits, newNewton(len(s.curves), startOdds(total, weight)))
	}
	for k := range l.logits {
		truth := 0.0
		if k == class {
			truth = 1
		}
		odds, _ := l.logits[k].predict(s.curves)
		l.logits[k].learn(s.product, s.curves, odds, truth, weight)
	}
}

// learnPair learns the row in the logistic regression of class 1 and in its effects. The
// regression begins with the first row of class 1.
func (l *Level) learnPair(s *Scratch, now float64, class, classes int, total, weight float64) {
	if len(l.logits) == 0 {
		l.logits = append(l.logits, newNewton(len(s.curves), startOdds(total, weight)))
	}
	if classes < 2 {
		s.resize(2)
		l.regress(s, s.logs[0])
		now = s.odds[0]
		if l.keys != nil {
			l.keys.say(s.keys, s.logs[0], now)
		}
	}
	if l.keys != nil {
		l.keys.learn(s.keys, s.odds[0], float64(class), weight)
	}
	l.logits[0].learn(s.product, s.curves, now, float64(class), weight)
}

// startOdds are the log-odds of a class that weighs so much after rows that weigh total.
func startOdds(total, weight float64) float64 {
	return math.Max(-maxOdds, exponential.Log(weight/(total+weight)))
}
