package logloss

import (
	"math"

	"hindsight/internal/model/codec"
	"hindsight/internal/model/effects"
	"hindsight/internal/model/exponential"
	"hindsight/internal/model/mix"
)

// keyed are effects of keys on the log-odds of the logistic regression. With the log-odds a that
// the expert said, p = 1/(1+exp(−a)) and h = p(1−p), the effects learn the working response
// a + (y − p)/h of weight ωh: the Newton step of log loss at a. The expert mixes the variants of
// the effects as the level mixes its experts.
//
// Sources: Graepel, Candela, Borchert and Herbrich, Web-Scale Bayesian Click-Through Rate
// Prediction (ICML 2010); McCullagh and Nelder, Generalized Linear Models (1989), §2.5, for the
// working response.
type keyed struct {
	o       effects.Options
	effects *effects.Effects
	weights []float64
	// rounds are the rows that the effects have learned.
	rounds uint64
}

func newKeyed(o effects.Options) *keyed {
	return &keyed{o: o, effects: effects.New(o), weights: uniform(o.Experts())}
}

type keyedScratch struct {
	values []float64
	row    *effects.Row
	// odds are the log-odds of the variants.
	odds, gains    []float64
	response, base [1]float64
}

func newKeyedScratch(o effects.Options) *keyedScratch {
	return &keyedScratch{
		values: make([]float64, o.Inputs), row: effects.NewRow(o),
		odds: make([]float64, o.Experts()), gains: make([]float64, o.Experts()),
	}
}

// say writes what the mixture of the variants says beside the log-odds of the numbers.
func (k *keyed) say(s *keyedScratch, logs []float64, odds float64) {
	k.effects.Find(s.row, s.values, nil)
	k.effects.Say(s.odds, s.row, 0)
	for i := range s.odds {
		s.odds[i] = math.Max(-maxOdds, math.Min(maxOdds, s.odds[i]+odds))
	}
	one := k.mixed(s)
	logs[0], logs[1] = exponential.Log(1-one), exponential.Log(one)
}

// mixed is the probability of class 1 that the mixture of the variants says.
func (k *keyed) mixed(s *keyedScratch) (one float64) {
	for i, w := range k.weights {
		one += float64(w * probability(s.odds[i]))
	}
	return one
}

// learn learns a row whose variants said the log-odds s.odds beside the log-odds of the numbers.
func (k *keyed) learn(s *keyedScratch, odds, truth, weight float64) {
	p := k.mixed(s)
	h := float64(p * (1 - p))
	response := exponential.Log(p/(1-p)) + (truth-p)/h
	for i, a := range s.odds {
		if truth == 0 {
			a = -a
		}
		s.gains[i] = float64(min(1, weight) * exponential.Log(probability(a)))
	}
	s.response[0], s.base[0] = response, odds
	k.effects.Learn(s.row, k.rounds, float64(weight*h), s.response[:], s.base[:], s.odds, nil)
	k.rounds++
	share(k.weights, s.gains, k.rounds)
}

// share moves weights by the gains of their experts, 1/(rounds+1) of them to all alike.
func share(weights, gains []float64, rounds uint64) {
	mix.Exponential(gains)
	for i := range gains {
		gains[i] *= weights[i]
	}
	mix.Normalize(gains)
	alpha := 1 / float64(rounds+1)
	for i, v := range gains {
		weights[i] = float64((1-alpha)*v) + alpha/float64(len(gains))
	}
}

func (k *keyed) visit(v *codec.Visitor, rows uint64) {
	if v.Uint64(&k.rounds); v.Reading() && k.rounds > rows {
		v.Corrupt("effects of %d rows of %d", k.rounds, rows)
	}
	k.effects.Visit(v, k.rounds)
	visitWeights(v, k.weights)
}

func visitWeights(v *codec.Visitor, weights []float64) {
	if v.FloatsWithin(1, weights); !v.Reading() {
		return
	}
	sum := 0.0
	for i, w := range weights {
		if sum += w; !(w > 0) {
			v.Corrupt("expert %d has the weight %g", i, w)
		}
	}
	if !(math.Abs(sum-1) <= 1e-9) {
		v.Corrupt("weights of sum %g", sum)
	}
}
