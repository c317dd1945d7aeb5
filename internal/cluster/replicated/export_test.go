package replicated

// Queued counts the commands that wait for an entry.
func (s *Store) Queued() int {
	s.batcher.mu.Lock()
	defer s.batcher.mu.Unlock()
	return len(s.batcher.mu.queue)
}

// Idle tells whether no entry is in flight.
func (s *Store) Idle() bool {
	s.batcher.mu.Lock()
	defer s.batcher.mu.Unlock()
	return len(s.batcher.mu.flights) == 0
}
