package hosted

import (
	"container/heap"
	"slices"
	"sync"
)

// residents are the models in memory, the one that was not used for the longest first. A use of a model costs the
// residents nothing: leastUsed brings the order up to date.
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

// resident is a *Model. The files of the package point one way, and the model uses its Env, which has the
// residents.
type resident interface {
	// Resident reports whether the state is in memory.
	Resident() bool
	// lastUsed is when the model was last asked for something, in nanoseconds since 1970.
	lastUsed() int64
	inOrder() *inOrder
	// leave lets the model leave memory. It returns the bytes that the model gives back after its batch.
	leave() int64
}

// update brings a model into the order, or takes it out of the order if it is not resident.
func (r *residents) update(m resident) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch at := m.inOrder(); {
	case m.Resident() && at.place == 0:
		at.used = m.lastUsed()
		heap.Push(&r.order, m)
	case !m.Resident() && at.place > 0:
		heap.Remove(&r.order, at.place-1)
	}
}

// leastUsed takes the model that was not used for the longest out of the order. It is nil if the order is empty.
func (r *residents) leastUsed() resident {
	r.mu.Lock()
	defer r.mu.Unlock()
	for len(r.order) > 0 {
		m := r.order[0]
		at, used := m.inOrder(), m.lastUsed()
		if at.used == used {
			heap.Remove(&r.order, 0)
			return m
		}
		at.used = used
		heap.Fix(&r.order, 0)
	}
	return nil
}

// byUse is a heap of models by inOrder.used.
type byUse []resident

func (b *byUse) Len() int { return len(*b) }

func (b *byUse) Less(i, j int) bool { return (*b)[i].inOrder().used < (*b)[j].inOrder().used }

func (b *byUse) Swap(i, j int) {
	order := *b
	order[i], order[j] = order[j], order[i]
	order[i].inOrder().place, order[j].inOrder().place = i+1, j+1
}

// Push implements heap.Interface.
func (b *byUse) Push(x any) {
	m := x.(resident) //nolint:forcetypeassert // Only models are pushed.
	*b = append(*b, m)
	m.inOrder().place = len(*b)
}

// Pop implements heap.Interface.
func (b *byUse) Pop() any {
	last := len(*b) - 1
	m := (*b)[last]
	*b = slices.Delete(*b, last, last+1)
	m.inOrder().place = 0
	return m
}
