package feature

// Probabilities are those with which the points were sampled.
func (s *Sampled) Probabilities() []float64 { return s.sampler.Probabilities() }
