package account

import "math"

// Figures are the losses of some predictions and, over the same observations,
// of two predictors that ignore the inputs.
type Figures struct {
	// Loss is the loss of the predictions, RunningMean of the mean of the labels
	// before, LastLabel of the label before.
	Loss, RunningMean, LastLabel float64
}

// Skill is 1 − Loss / the smaller loss of the baselines: 1 is perfect, 0 is as
// good as the better baseline, below 0 is worse. It is NaN when a baseline has
// no loss.
func (f *Figures) Skill() float64 {
	best := math.Min(f.RunningMean, f.LastLabel)
	if !(best > 0) {
		return math.NaN()
	}
	return 1 - f.Loss/best
}

func (f *Figures) add(by Figures) {
	f.Loss += by.Loss
	f.RunningMean += by.RunningMean
	f.LastLabel += by.LastLabel
}

func (f *Figures) scale(by float64) {
	f.Loss *= by
	f.RunningMean *= by
	f.LastLabel *= by
}

// Performance is how a model did over some observations. Losses are sums.
type Performance struct {
	// Observations is their number; of discounted ones, the sum of what they
	// count.
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

func (p *Performance) scale(by float64) {
	p.Observations *= by
	p.Prequential.scale(by)
	p.Served.scale(by)
}

func (p *Performance) numbers() []*float64 {
	return []*float64{
		&p.Observations,
		&p.Prequential.Loss, &p.Prequential.RunningMean, &p.Prequential.LastLabel,
		&p.Served.Loss, &p.Served.RunningMean, &p.Served.LastLabel,
	}
}

const (
	// Recent is how many observations the recent performance covers at least, once
	// there are so many. It covers up to recentBlock more.
	Recent      = 1000
	recentBlock = 50
	// A round leaves so much of what the discounted performance was before.
	discount = 0.999
)

// window sums up the last observations, in blocks: a sum that one adds to and
// subtracts from keeps the rounding of large losses when they have left.
type window struct {
	// blocks are the newest Recent/recentBlock full ones, and the one that is
	// being filled, at next.
	blocks []Performance
	next   int
}

func (w *window) add(round Performance) {
	if len(w.blocks) == 0 {
		w.blocks = append(w.blocks, Performance{})
	}
	if w.blocks[w.next].Observations >= recentBlock {
		w.next = (w.next + 1) % (Recent/recentBlock + 1)
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
