package classes

import "math"

// Figures are sums over the predictions of some observations and, over the same
// observations, of two predictors that ignore the inputs.
type Figures struct {
	// Errors counts the predictions of another class than was observed.
	Errors float64
	// LogLoss is Σ −log P, P being the probability of the class that was observed, or
	// 10⁻⁹ if that is larger.
	LogLoss float64
	// Brier is Σ Σ_k (P_k − e_k)², e being the indicator of the class that was
	// observed: from 0 to 2 an observation.
	//
	// Source: Brier, Monthly Weather Review 78 (1950).
	Brier float64
	// Majority counts the errors of the class that was observed most before, Last
	// those of the class of the observation before.
	Majority, Last float64
}

// Skill is 1 − Errors / the fewer errors of the baselines: 1 is perfect, 0 is as good
// as the better baseline, below 0 is worse. It is NaN when a baseline has no errors.
func (f *Figures) Skill() float64 {
	best := math.Min(f.Majority, f.Last)
	if !(best > 0) {
		return math.NaN()
	}
	return 1 - f.Errors/best
}

func (f *Figures) add(by Figures) {
	f.Errors += by.Errors
	f.LogLoss += by.LogLoss
	f.Brier += by.Brier
	f.Majority += by.Majority
	f.Last += by.Last
}

func (f *Figures) numbers() []*float64 {
	return []*float64{&f.Errors, &f.LogLoss, &f.Brier, &f.Majority, &f.Last}
}

// Performance is how a classifier did over some observations.
type Performance struct {
	// Observations is their number.
	Observations float64
	// Prequential are of the predictions made just before each observation was
	// learned.
	Prequential Figures
	// Served are of what the client was told, beside the baselines of that moment.
	// Where it was told nothing, they are the prequential ones.
	Served Figures
}

func (p *Performance) add(by Performance) {
	p.Observations += by.Observations
	p.Prequential.add(by.Prequential)
	p.Served.add(by.Served)
}

func (p *Performance) numbers() []*float64 {
	return append(append([]*float64{&p.Observations}, p.Prequential.numbers()...), p.Served.numbers()...)
}

const (
	// Recent is how many observations the recent performance covers at least, once
	// there are so many. It covers up to recentBlock more.
	Recent      = 1000
	recentBlock = 50
	maxBlocks   = Recent/recentBlock + 1
)

// window sums up the last observations, in blocks: a sum that one adds to and
// subtracts from keeps the rounding of what has left.
type window struct {
	// blocks are the newest full ones, and the one that is being filled, at next.
	blocks []Performance
	next   int
}

func (w *window) add(round Performance) {
	if len(w.blocks) == 0 {
		w.blocks = append(w.blocks, Performance{})
	}
	if w.blocks[w.next].Observations >= recentBlock {
		w.next = (w.next + 1) % maxBlocks
		if w.next == len(w.blocks) {
			w.blocks = append(w.blocks, Performance{})
		}
		w.blocks[w.next] = Performance{}
	}
	w.blocks[w.next].add(round)
}

func (w *window) total() Performance {
	var p Performance
	for n := range w.blocks {
		p.add(w.blocks[n])
	}
	return p
}
