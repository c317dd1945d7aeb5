package replicated

import "time"

// Queued counts the commands that wait for an entry.
func (s *Store) Queued() int {
	s.batcher.mu.Lock()
	defer s.batcher.mu.Unlock()
	return len(s.batcher.mu.queue)
}

// Idle reports whether no entry is in flight.
func (s *Store) Idle() bool {
	s.batcher.mu.Lock()
	defer s.batcher.mu.Unlock()
	return len(s.batcher.mu.flights) == 0
}

// Pace is pace, over a link that takes the usual time for an entry, and time for its bytes.
type Pace struct{ pace }

func NewPace() *Pace { return &Pace{pace{size: minPart}} }

// Send sends the next part, and returns its size and how long it took.
func (p *Pace) Send(usual time.Duration, rate int) (size int, took time.Duration) {
	size = p.next()
	took = usual + time.Duration(size)*time.Second/time.Duration(rate)
	p.took(size, took)
	return size, took
}
