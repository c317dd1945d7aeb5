// Package feature maps inputs to the feature vectors that learners work on.
package feature

// Map is a feature map: x ∈ R^d to z ∈ R^r. Goroutines may share a Map while none grows it.
type Map interface {
	// Dimension is d.
	Dimension() int
	// Size is r.
	Size() int
	// InputLimit is the largest magnitude of an input with finite sums of squares of features.
	InputLimit() float64
	Bytes() uint64
	// Map writes the features of x, d numbers, into z, r numbers. The two must not overlap.
	// It allocates nothing and panics if a length is wrong. The features are finite, and of
	// magnitude at most model.MaxMagnitude.
	Map(z, x []float64)
}

// shape has what a Map says of itself.
type shape struct {
	dimension, size int
	limit           float64
	bytes           uint64
}

// Dimension is d, the number of inputs.
func (s *shape) Dimension() int { return s.dimension }

// Size is r, the number of features.
func (s *shape) Size() int { return s.size }

// InputLimit is the largest magnitude of an input entry.
func (s *shape) InputLimit() float64 { return s.limit }

func (s *shape) Bytes() uint64 { return s.bytes }
