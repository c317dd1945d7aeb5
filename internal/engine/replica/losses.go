package replica

import (
	"math"
	"sync"

	"hindsight/internal/engine/record"
)

// maxLosses bounds the losses of a leader in memory: a follower that is further behind learns without them.
const maxLosses = 1 << 14

// Losses are the prequential losses of the newest observations of a leader, of a classifier 1 for an error. They
// are in memory alone: a follower writes down what it learns beside them.
type Losses struct {
	mu sync.Mutex
	// ring[s mod maxLosses] is the loss of sequence s, for the newest sequences up to end. It is NaN if the
	// loss is not known, and if the label gate set the observation aside.
	ring []float64
	end  uint64
}

// Add takes the losses of a learned record.
func (l *Losses) Add(r *record.Record, answers []record.Answer) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ring == nil {
		l.ring = make([]float64, maxLosses)
	}
	for n := range answers {
		a := &answers[n]
		if a.Sequence != l.end+1 { // The state was loaded or restored.
			for s := range l.ring {
				l.ring[s] = math.NaN()
			}
		}
		loss := a.Loss
		if class := r.Observations[n].Class; class != "" {
			loss = 0
			if class != a.Class {
				loss = 1
			}
		}
		if a.SetAside {
			loss = math.NaN()
		}
		l.end = a.Sequence
		l.ring[l.end%maxLosses] = loss
	}
}

// At returns the loss of a sequence, nil if it is not known.
func (l *Losses) At(sequence uint64) *float64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ring == nil || sequence > l.end || sequence+maxLosses <= l.end {
		return nil
	}
	if loss := l.ring[sequence%maxLosses]; !math.IsNaN(loss) {
		return &loss
	}
	return nil
}

// Forget forgets all losses.
func (l *Losses) Forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ring, l.end = nil, 0
}
