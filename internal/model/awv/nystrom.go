package awv

import (
	"slices"

	"hindsight/internal/model"
	"hindsight/internal/model/codec"
	"hindsight/internal/model/feature"
)

// NystromOptions are the options of a Nyström forecaster.
type NystromOptions struct {
	Options
	// Lambdas are the ridges. Without them the only ridge is Options.Lambda.
	Lambdas []float64
	// Dictionary is sampled by KORS or given. With a given one the space is fixed. NewNystrom sets its Bound.
	Dictionary feature.SampledOptions
	// Window is the number of last rounds that a new feature is summed over. 0 takes its past
	// as 0; eq. (4) of the paper keeps every round.
	Window int
	// Frees frees the rounds once the dictionary is full.
	Frees bool
}

// Nystrom is PKAWV over a Nyström dictionary that KORS grows. A sampled point joins the
// dictionary first and is then learned as an ordinary round in the larger space: in eq. (4)
// H̃_t contains x_t. Observe draws; Predict only reads the dictionary.
//
// Source: PKAWV-Nyström (NeurIPS 2019), §4; Corollary 8 for a given dictionary.
type Nystrom struct {
	*Ridges

	o          NystromOptions
	dictionary *feature.Sampled
	// past is a ring of the last rounds; next is the place of the next one.
	past []pastRound
	next int
	// cut: a feature was summed over fewer rounds than were learned before it.
	cut bool
}

// pastRound is what a new feature is summed over.
type pastRound struct {
	x, y   []float64
	weight float64
	// features are the unscaled φ(x). They grow with the dictionary.
	features []float64
}

// NewNystrom is a forecaster without observations. It panics where package feature does.
func NewNystrom(o NystromOptions) *Nystrom {
	o.Options = o.completed()
	o.Lambdas = completedLambdas(o.Options, o.Lambdas)
	o.Dictionary.Bound = KernelRange * slices.Min(o.Lambdas)
	n := &Nystrom{o: o, dictionary: feature.NewSampled(o.Dictionary)}
	n.Ridges = NewRidges(n.dictionary, o.Options, o.Lambdas)
	return n
}

// NystromCost is the cost with a full dictionary and a full window, freed or not.
func NystromCost(o NystromOptions) model.Cost {
	centres, mapBytes, beside := o.Dictionary.Cost()
	c := RidgesCost(centres, o.Options, o.Lambdas, mapBytes)
	c.StateBytes += beside.StateBytes
	if len(o.Dictionary.Given) == 0 {
		c.StateBytes += uint64(o.Window) * o.roundBytes(centres)
	}
	c.PredictFlops += beside.PredictFlops + uint64(o.Dictionary.Dimension+centres) // Of k(x,x) and ‖φ(x)‖².
	c.ObserveFlops += beside.ObserveFlops
	return c
}

// roundBytes is the memory of a past round with m features: three slices and their numbers.
func (o NystromOptions) roundBytes(m int) uint64 {
	return 3*24 + 8*uint64(o.Dictionary.Dimension+max(o.Outputs, 1)+1+m)
}

// Observe draws for x, grows if x is sampled, and learns. A round costs the forecaster's Observe
// and two forward solves in the dictionary; a growing one also O(m) a round of the past.
func (n *Nystrom) Observe(o *model.Outcome, x, y []float64, weight float64) error {
	if err := n.Check(x, y, weight); err != nil {
		return err
	}
	n.consider(x)
	if n.complete() {
		n.past, n.next = nil, 0
	}
	features := n.row()
	n.dictionary.Map(features, x)
	n.keep(x, y, weight, features)
	n.addTrace(x, weight)
	n.learn(o, y, weight)
	return nil
}

// complete: the history is freed and the dictionary grows no more.
func (n *Nystrom) complete() bool { return n.o.Frees && n.dictionary.Full() }

// Together is 1: the dictionary may grow with every observation.
func (n *Nystrom) Together() int { return 1 }

// ObserveAll is Observe of each observation.
func (n *Nystrom) ObserveAll(outcomes []model.Outcome, all []model.Observation) error {
	if err := model.CheckAll(n, all); err != nil {
		return err
	}
	for k, o := range all {
		if err := n.Observe(&outcomes[k], o.X, o.Y, o.Weight); err != nil {
			return err
		}
	}
	return nil
}

func (n *Nystrom) consider(x []float64) {
	m := n.dictionary.Size()
	if !n.dictionary.Consider(x) {
		return
	}
	// a = Σφψ, corner = λ + Σψ² of each ridge, b = Σψy over the past.
	a, corners, b := make([]float64, m), slices.Clone(n.o.Lambdas), make([]float64, n.o.Outputs)
	discounts := n.discounts()
	for i := range n.past {
		r := &n.past[i]
		psi := n.dictionary.Last(r.features, r.x)
		weighted := float64(r.weight * psi)
		if discounts != nil {
			weighted *= discounts[i]
		}
		for j, phi := range r.features {
			a[j] += float64(phi * weighted)
		}
		for k := range corners {
			corners[k] += float64(psi * weighted)
		}
		for j, y := range r.y {
			b[j] += float64(weighted * y)
		}
		r.features = append(r.features, psi)
	}
	n.cut = n.cut || uint64(len(n.past)) < n.observations()
	n.grow(a, corners, b)
}

// discounts are f^(t−s) of the past, nil if the forecaster forgets nothing.
func (n *Nystrom) discounts() []float64 {
	if n.o.Forgetting == 1 || len(n.past) == 0 {
		return nil
	}
	out := make([]float64, len(n.past))
	discount := 1.0
	for age := range out {
		at := (n.next - 1 - age + 2*len(n.past)) % len(n.past)
		out[at] = discount
		discount *= n.o.Forgetting
	}
	return out
}

func (n *Nystrom) keep(x, y []float64, weight float64, features []float64) {
	switch {
	case n.o.Window == 0 || n.dictionary.Fixed() || n.complete():
		return
	case len(n.past) < n.o.Window:
		n.past = append(n.past, pastRound{})
		n.next = len(n.past) - 1
	}
	r := &n.past[n.next]
	r.x, r.y, r.weight = append(r.x[:0], x...), append(r.y[:0], y...), weight
	r.features = append(r.features[:0], features...)
	n.next = (n.next + 1) % n.o.Window
}

// Stats has the regret against the best function of the features as they are now. A feature that
// is summed over the past raises regret, certificate and guarantee by u²: see Forecaster.grow.
func (n *Nystrom) Stats() model.Stats {
	s := n.Ridges.Stats()
	s.Dictionary = n.dictionary.Size()
	s.StateBytes = n.Size()
	return s
}

// Size is the memory of the state.
func (n *Nystrom) Size() uint64 {
	return n.Ridges.Size() + n.dictionary.SamplerBytes() + uint64(len(n.past))*n.o.roundBytes(n.dictionary.Size())
}

// Report is Forecaster.Report in the span of the dictionary.
func (n *Nystrom) Report(o model.ReportOptions) model.Report {
	return n.report(n.Stats(), o, n.projected())
}

// projected: the features of every round are the features of the current dictionary.
func (n *Nystrom) projected() bool { return n.dictionary.Fixed() || (n.o.Window > 0 && !n.cut) }

// Visit visits the dictionary, the forecasters, the generator and the past. The
// factors of the dictionary follow from it.
func (n *Nystrom) Visit(v *codec.Visitor) {
	if n.dictionary.VisitCentres(v); v.Reading() {
		n.Ridges = NewRidges(n.dictionary, n.o.Options, n.o.Lambdas)
	}
	n.Ridges.Visit(v)
	n.dictionary.VisitGenerator(v)
	if n.o.Window > 0 && !n.dictionary.Fixed() {
		v.Bool(&n.cut)
	}
	n.visitPast(v)
}

// pastAfter is the number of past rounds after so many observations, and the place of the next.
func (n *Nystrom) pastAfter(observations uint64) (count, next uint64) {
	window := uint64(n.o.Window)
	if window == 0 || n.dictionary.Fixed() || n.complete() {
		return 0, 0
	}
	return min(observations, window), observations % window
}

// visitPast visits the past. A read fails unless the past fits the accounts.
func (n *Nystrom) visitPast(v *codec.Visitor) {
	count, next := len(n.past), uint64(n.next)
	v.Count(&count, 8*(n.dictionary.Dimension()+n.o.Outputs+1))
	if v.Uint64(&next); v.Reading() {
		observations := n.observations()
		wantCount, wantNext := n.pastAfter(observations)
		if uint64(count) != wantCount || next != wantNext {
			v.Corrupt("%d rounds of the past, the next at %d, after %d observations: want %d, the next at %d",
				count, next, observations, wantCount, wantNext)
			return
		}
		n.next, n.past = int(next), make([]pastRound, count)
	}
	for i := range n.past {
		n.visitRound(v, &n.past[i])
	}
}

func (n *Nystrom) visitRound(v *codec.Visitor, r *pastRound) {
	if v.Reading() {
		r.x, r.y = make([]float64, n.dictionary.Dimension()), make([]float64, n.o.Outputs)
	}
	v.Floats(r.x)
	v.Floats(r.y)
	if v.Float(&r.weight); !v.Reading() {
		return
	}
	if err := n.Check(r.x, r.y, r.weight); err != nil {
		v.Corrupt("a round of the past: %v", err)
		return
	}
	if !n.complete() {
		r.features = make([]float64, n.dictionary.Size())
		n.dictionary.Map(r.features, r.x)
	}
}
