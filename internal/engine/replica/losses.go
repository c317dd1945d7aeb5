package replica

import (
	"sync"

	"hindsight/internal/engine/record"
)

// lossesKept is how many losses of a leader are in memory: a replica that is further behind learns without them.
const lossesKept = 1 << 14

// Losses are the prequential losses of the newest observations of a leader, of a classifier 1 for an error. They
// are in memory alone: a replica writes down what it learns beside them.
type Losses struct {
	mu sync.Mutex
	// ring has the losses of the sequences up to end, that of sequence s at s mod lossesKept. A nil loss is
	// that of an observation that was set aside.
	ring []*float64
	end  uint64
}

// Add takes the losses of a learned record.
func (l *Losses) Add(r *record.Record, answers []record.Answer) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ring == nil {
		l.ring = make([]*float64, lossesKept)
	}
	values := make([]float64, len(answers))
	for n := range answers {
		a := &answers[n]
		if a.Sequence != l.end+1 {
			clear(l.ring) // The state was loaded or restored.
		}
		switch class := r.Observations[n].Class; {
		case class == "":
			values[n] = a.Loss
		case class != a.Class:
			values[n] = 1
		}
		l.end = a.Sequence
		l.ring[l.end%lossesKept] = &values[n]
		if a.SetAside {
			l.ring[l.end%lossesKept] = nil
		}
	}
}

// At returns the loss of a sequence, nil if it is not known.
func (l *Losses) At(sequence uint64) *float64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ring == nil || sequence > l.end || sequence+lossesKept <= l.end {
		return nil
	}
	return l.ring[sequence%lossesKept]
}

// Forget forgets all losses.
func (l *Losses) Forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ring, l.end = nil, 0
}
