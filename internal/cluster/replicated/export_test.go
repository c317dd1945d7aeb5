package replicated

// Queued counts the bytes of the commands that wait for an entry.
func (s *Store) Queued() int {
	s.batcher.mu.Lock()
	defer s.batcher.mu.Unlock()
	return s.batcher.mu.bytes
}

// Landing tells whether a call waits for the end of a flight.
func (s *Store) Landing() bool {
	s.batcher.mu.Lock()
	defer s.batcher.mu.Unlock()
	return s.batcher.mu.landed != nil
}
