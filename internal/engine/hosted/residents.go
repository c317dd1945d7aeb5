package hosted

import (
	"container/heap"
	"slices"
	"sync"
)

// residents are the models in memory, the one that was not used for the longest first. A use of a model costs the
// residents nothing: leastRecentlyUsed brings the order up to date.
//
// Lock order: no lock is taken while mu is held.
type residents struct {
	mu    sync.Mutex
	order byUse
}

// inOrder is the place of a model in the order of residents. Only residents read and change it.
type inOrder struct {
	// used <= usage.used of the model, unless the clock was set back.
	used int64
	// The model is order[place-1], or not in the order if place is 0.
	place int
}

// update brings a model into the order, or takes it out of the order if it is not resident.
func (r *residents) update(m *Model) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch at := &m.usage.order; {
	case m.Resident() && at.place == 0:
		at.used = m.usage.used.Load()
		heap.Push(&r.order, m)
	case !m.Resident() && at.place > 0:
		heap.Remove(&r.order, at.place-1)
	}
}

// leastRecentlyUsed takes the model that was not used for the longest out of the order. It is nil if the order is empty.
func (r *residents) leastRecentlyUsed() *Model {
	r.mu.Lock()
	defer r.mu.Unlock()
	for len(r.order) > 0 {
		m := r.order[0]
		at, used := &m.usage.order, m.usage.used.Load()
		if at.used == used {
			heap.Remove(&r.order, 0)
			return m
		}
		at.used = used
		heap.Fix(&r.order, 0)
	}
	return nil
}

type byUse []*Model

func (b *byUse) Len() int { return len(*b) }

func (b *byUse) Less(i, j int) bool { return (*b)[i].usage.order.used < (*b)[j].usage.order.used }

func (b *byUse) Swap(i, j int) {
	order := *b
	order[i], order[j] = order[j], order[i]
	order[i].usage.order.place, order[j].usage.order.place = i+1, j+1
}

func (b *byUse) Push(x any) {
	m := x.(*Model) //nolint:forcetypeassert // Only models are pushed.
	*b = append(*b, m)
	m.usage.order.place = len(*b)
}

func (b *byUse) Pop() any {
	last := len(*b) - 1
	m := (*b)[last]
	*b = slices.Delete(*b, last, last+1)
	m.usage.order.place = 0
	return m
}
