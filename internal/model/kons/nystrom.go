package kons

import (
	"hindsight/internal/model"
	"hindsight/internal/model/codec"
	"hindsight/internal/model/feature"
)

// NystromOptions are the options of a learner over a Nyström dictionary.
type NystromOptions struct {
	Options
	// Dictionary is sampled by KORS or given. With a given one the space is fixed.
	Dictionary feature.SampledOptions
	// Restart forgets all that was learned at every new centre.
	Restart bool
}

// Nystrom takes online Newton steps over a Nyström dictionary that KORS grows. A point
// that is sampled is added before its round. In the new feature w is 0, so that Observe scores
// the prediction from the previous dictionary. With Restart, as in the paper, Observe scores
// the prediction 0 in the round of a new point.
//
// Source: PROS-N-KONS (Calandriello, Lazaric and Valko, NeurIPS 2017), Algorithm 1,
// which restarts.
type Nystrom struct {
	*Newton

	dictionary *feature.Sampled
	o          NystromOptions
}

// NewNystrom is a learner without observations. It panics where New and package feature do.
func NewNystrom(o NystromOptions) *Nystrom {
	return overDictionary(o, feature.NewSampled(o.Dictionary))
}

func overDictionary(o NystromOptions, dictionary *feature.Sampled) *Nystrom {
	n := &Nystrom{o: o, dictionary: dictionary, Newton: New(dictionary, o.Options)}
	n.fixed = dictionary.Fixed() || !o.Restart
	return n
}

// NystromCost is the cost of a learner with a full dictionary.
func NystromCost(o NystromOptions) model.Cost {
	centres, mapBytes, beside := o.Dictionary.Cost()
	c := Cost(centres, o.Options, mapBytes)
	c.StateBytes += beside.StateBytes
	c.PredictFlops += beside.PredictFlops
	c.ObserveFlops += beside.ObserveFlops
	return c
}

// Observe draws for x, grows if x is sampled, and takes the step. A round costs a round
// of Newton and two forward solves in the dictionary; a growing one moves the factor once.
func (n *Nystrom) Observe(o *model.Outcome, x, y []float64, weight float64) error {
	if err := n.Check(x, y, weight); err != nil {
		return err
	}
	if n.dictionary.Consider(x) {
		n.grow(n.o.Restart)
	}
	n.learn(o, x, y, weight)
	return nil
}

// Stats has a bound without Restart: the past of a new feature is 0, so that the features
// of all rounds are features of one fixed space.
func (n *Nystrom) Stats() model.Stats {
	s := n.Newton.Stats()
	s.Dictionary, s.StateBytes = n.dictionary.Size(), n.Size()
	return s
}

// Size is the memory of the state.
func (n *Nystrom) Size() uint64 { return n.Newton.Size() + n.dictionary.SamplerBytes() }

// Visit visits the dictionary, the steps' state and the generator.
func (n *Nystrom) Visit(v *codec.Visitor) {
	if n.dictionary.VisitCentres(v); v.Reading() {
		*n = *overDictionary(n.o, n.dictionary)
	}
	n.Newton.Visit(v)
	n.dictionary.VisitGenerator(v)
}
