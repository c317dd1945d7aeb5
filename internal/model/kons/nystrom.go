package kons

import (
	"fmt"

	"hindsight/internal/model"
	"hindsight/internal/model/codec"
	"hindsight/internal/model/feature"
)

// NystromOptions say what a learner over a Nyström dictionary is.
type NystromOptions struct {
	// Options are those of the steps.
	Options
	// Dictionary is what KORS samples, or the dictionary that is given. With a given
	// one the space is fixed.
	Dictionary feature.SampledOptions
	// Restart forgets all that was learned at every new centre. Otherwise a new
	// feature joins what was learned.
	Restart bool
}

// Nystrom takes online Newton steps over a Nyström dictionary that KORS grows. A point
// that is kept is added before its round. In the new feature w is 0: what Predict says
// from the dictionary as it stands is what Observe judges. With Restart, the way of the
// paper, it judges 0 in such a round.
//
// Source: PROS-N-KONS (Calandriello, Lazaric and Valko, NeurIPS 2017), Algorithm 1,
// which restarts.
type Nystrom struct {
	core       *Newton
	dictionary *feature.Sampled
	o          NystromOptions
}

// NewNystrom is a learner that has seen nothing. It panics where New and the feature
// package would.
func NewNystrom(o NystromOptions) *Nystrom {
	return overDictionary(o, feature.NewSampled(o.Dictionary))
}

func overDictionary(o NystromOptions, dictionary *feature.Sampled) *Nystrom {
	n := &Nystrom{o: o, dictionary: dictionary, core: New(dictionary, o.Options)}
	n.core.fixed = dictionary.Fixed() || !o.Restart
	return n
}

// NystromCost is the cost of a learner with a full dictionary.
func NystromCost(o NystromOptions) model.Cost {
	m, d := uint64(o.Dictionary.Capacity), uint64(o.Dictionary.Dimension)
	if given := len(o.Dictionary.Given); given > 0 {
		m = uint64(given)
	}
	c := Cost(int(m), o.Options, 8*(m*d+m*(m+1)/2))
	c.StateBytes += 8 * (m*(m+1)/2 + 2*m)
	c.PredictFlops += m*d + m*m/2
	c.ObserveFlops += 2*m*d + m*m
	return c
}

// Check tells whether Observe would accept the observation.
func (n *Nystrom) Check(x, y []float64, weight float64) error { return n.core.Check(x, y, weight) }

// LossOf is the loss of a prediction under a label, without its weight.
func (n *Nystrom) LossOf(prediction, label float64) float64 { return n.core.LossOf(prediction, label) }

// Predict answers with the dictionary as it stands.
func (n *Nystrom) Predict(p *model.Prediction, x []float64) error { return n.core.Predict(p, x) }

// Observe draws for x, grows when it is kept, and takes the step. A round costs that of
// Newton and two forward solves in the dictionary; a growing one moves the factor once.
func (n *Nystrom) Observe(o *model.Outcome, x, y []float64, weight float64) error {
	if err := n.Check(x, y, weight); err != nil {
		return err
	}
	if n.dictionary.Consider(x) {
		n.core.grow(n.o.Restart)
	}
	n.core.learn(o, x, y, weight)
	return nil
}

// Stats tells how the learner is doing. Without a restart the past of a new feature is 0,
// so that the features of all rounds are those of one fixed space: there is a bound.
func (n *Nystrom) Stats() model.Stats {
	s := n.core.Stats()
	s.Dictionary, s.StateBytes = n.dictionary.Size(), n.Size()
	return s
}

// Size is the memory that the state takes.
func (n *Nystrom) Size() uint64 { return n.core.Size() + n.dictionary.SamplerBytes() }

// Report adds to Stats what Newton.Report does, in the span of the dictionary.
func (n *Nystrom) Report(o model.ReportOptions) model.Report { return n.core.Report(o) }

// AppendBinary appends the dictionary, the steps' state and the generator. Factors of
// the dictionary follow from it.
func (n *Nystrom) AppendBinary(dst []byte) ([]byte, error) {
	size := codec.Counting()
	n.visit(&size)
	v := codec.Growing(dst, size.Size())
	n.visit(&v)
	return v.Appended()
}

// Restore replaces the state by one that AppendBinary wrote for the same spec. It
// refuses numbers that no stream of observations leads to.
func (n *Nystrom) Restore(state []byte) error {
	fresh := NewNystrom(n.o)
	if err := codec.Read(state, fresh.visit); err != nil {
		return fmt.Errorf("kons: restore pros_n_kons: %w", err)
	}
	n.core, n.dictionary = fresh.core, fresh.dictionary
	return nil
}

func (n *Nystrom) visit(v *codec.Visitor) {
	if n.dictionary.VisitCentres(v); v.Reading() {
		*n = *overDictionary(n.o, n.dictionary)
	}
	n.core.visit(v)
	n.dictionary.VisitGenerator(v)
}
