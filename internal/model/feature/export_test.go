package feature

// Probabilities are those with which the points were kept.
func (s *Sampled) Probabilities() []float64 { return s.sampler.Kept() }
