package hosted

import "sync/atomic"

// signal wakes all goroutines that wait for it.
type signal struct{ waiting atomic.Pointer[chan struct{}] }

// next returns a channel that the next wake closes.
func (s *signal) next() <-chan struct{} {
	fresh := make(chan struct{})
	for {
		if waiting := s.waiting.Load(); waiting != nil {
			return *waiting
		}
		if s.waiting.CompareAndSwap(nil, &fresh) {
			return fresh
		}
	}
}

// wake closes the channels of next. Without waiting goroutines it costs one atomic load.
func (s *signal) wake() {
	if s.waiting.Load() == nil {
		return
	}
	if waiting := s.waiting.Swap(nil); waiting != nil {
		close(*waiting)
	}
}
