package logloss

import (
	"fmt"
	"math"
	"strings"

	"hindsight/internal/model"
	"hindsight/internal/model/codec"
	"hindsight/internal/model/exponential"
	"hindsight/internal/model/ledger"
	"hindsight/internal/model/moments"
)

// Rows is the number of rows.
func (l *Level) Rows() uint64 { return l.rows }

// Visit visits the state beside so many known classes.
func (l *Level) Visit(v *codec.Visitor, classes int) {
	if v.Uint64(&l.rows, &l.rounds); v.Reading() && l.rounds > l.rows {
		v.Corrupt("%d rounds of %d rows", l.rounds, l.rows)
	}
	l.scale.Visit(v)
	if regressions := l.regressions(classes); v.Reading() {
		l.logits = nil
		for range regressions {
			l.logits = append(l.logits, newNewton(l.o.curves(), 0))
		}
	}
	for k := range l.logits {
		l.logits[k].visit(v)
	}
	l.centers.visit(v, classes)
	if l.counts != nil {
		l.counts.visit(v, classes)
		l.many.visit(v, classes)
	}
	if l.texts != nil {
		l.texts.visit(v, classes)
		l.visitLast(v, classes)
	}
	if l.keys != nil {
		l.keys.visit(v, l.rows)
	}
	for i := range l.stacks {
		l.stacks[i].Visit(v)
	}
	visitWeights(v, l.weights)
	for i := range l.losses {
		v.Within(ledger.MaxSum, &l.losses[i].High, &l.losses[i].Low)
	}
}

// Report is what the mixture lost. Bound is ln E + ln T.
func (l *Level) Report() *model.LogLoss {
	least := math.Inf(1)
	r := &model.LogLoss{
		Loss: l.losses[len(l.weights)].Value(), Experts: make([]model.Expert, len(l.weights)),
		Bound: exponential.Log(float64(len(l.weights))) + exponential.Log(float64(max(1, l.rounds))),
	}
	for i, w := range l.weights {
		loss := l.losses[i].Value()
		least = math.Min(least, loss)
		r.Experts[i] = model.Expert{Name: l.name(i), Loss: loss, Weight: w, Awake: true}
	}
	r.Regret = r.Loss - least
	return r
}

func (l *Level) name(expert int) string {
	if i := expert - len(l.kinds); i == len(l.stacks) {
		return "shares"
	} else if i >= 0 {
		return fmt.Sprintf("stack/forgetting_%g", decays()[i])
	}
	names := [...]string{calibrated: "calibrated", ofClasses: "conditional", ofCounts: "multinomial", ofMany: "sparse", ofWords: "words", ofShares: "word_shares", ofWordOdds: "word_odds", ofPairOdds: "pair_odds", logistic: "logistic", ofKeys: "effects"}
	name := names[l.kinds[expert]]
	if l.o.Tokens == 0 {
		name = strings.Replace(name, "word", "trait", 1)
	}
	return name
}

// regressions is the number of logistic regressions beside so many known classes.
func (l *Level) regressions(classes int) int {
	switch {
	case l.o.logits() == 0:
		return 0
	case l.o.MaxClasses > 2:
		return classes
	default:
		return max(0, classes-1)
	}
}

const (
	fixedBytes = 1024
	manyFlops  = 10 // Of a number and a class: few numbers are not 0.
	tokenFlops = 30 // Of a token and a class, if no slot is empty.
	scratches  = 2  // That a busy model keeps.
)

// Bytes is the memory of the state and its scratch.
func (l *Level) Bytes(classes int) uint64 {
	size := l.o.bytes(classes, len(l.weights))
	if l.keys != nil {
		size += l.keys.effects.Bytes()
	}
	if l.texts != nil {
		size += l.texts.bytes(classes)
	}
	return size
}

// Bytes is the memory with all classes and keys.
func (o Options) Bytes() uint64 {
	size := o.bytes(o.MaxClasses, o.experts())
	if o.keyed() > 0 {
		size += o.effects().Bytes()
	}
	if o.hasWords() {
		size += o.textBytes()
	}
	return size
}

func (o Options) bytes(classes, experts int) uint64 {
	d := uint64(o.countNumbers() + 1)
	k := uint64(max(2, classes))
	size := fixedBytes + 8*d*(moments.Numbers+4*scratches) + 8*scratches*k*uint64(experts+8)
	curves := uint64(o.curves())
	switch {
	case o.logits() == 1:
		size += 8 * curves * (curves + 1)
	case o.logits() > 1:
		size += 8 * curves * (curves + 1) * k
	}
	if o.many() {
		size += 8*d*(3*k+4*scratches) + d
	}
	return size + 8*d*(k+2)
}

// PredictFlops is the cost of a prediction with all classes, about.
func (o Options) PredictFlops() uint64 {
	d, k := uint64(o.countNumbers()+1), uint64(o.MaxClasses)
	flops := 10*d + uint64(o.experts())*60*k
	flops += 2 * uint64(o.curves()*o.curves()*o.logits())
	if o.many() {
		flops += manyFlops * d * k
	}
	keys := uint64(o.traitKeys())
	if o.Traits {
		flops += tokenFlops * k * (1 + 2*keys + keys*(keys+1)/2)
	}
	return flops + 4*d*k + tokenFlops*uint64(o.Tokens)*k
}
