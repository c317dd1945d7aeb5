// Package stream yields labelled rounds: of built-in streams, and of CSV files. A
// built-in stream is a function of its parameters and its seed.
package stream

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"

	"google.golang.org/protobuf/types/known/structpb"
)

// Round is one round of a stream: an input, and its labels or its class. The receiver owns the
// input.
type Round struct {
	Features   []float64
	Inputs     *structpb.Struct // The input by names, in place of Features.
	Class      string           // Empty where there are labels.
	Unlabelled bool             // There is neither a label nor a class.
	// When the input is known, and when its label is, of a stream that has times.
	Time, LabelTime float64

	labels  []float64
	opposed bool // The label has the opposite sign of the prediction.
}

// Given returns the round of an input with known labels.
func Given(features []float64, labels ...float64) Round {
	return Round{Features: features, labels: labels}
}

// Labels returns the labels, given the predictions that were served for the input. Only an
// adversary looks at them: its label is -1 if the first prediction is positive, else 1.
func (r Round) Labels(served []float64) []float64 {
	switch {
	case !r.opposed:
		return r.labels
	case len(served) > 0 && served[0] > 0:
		return []float64{-1}
	default:
		return []float64{1}
	}
}

// Kind names a built-in stream.
type Kind string

// The built-in streams.
const (
	// Stationary is one random function of a Gaussian kernel, plus noise.
	Stationary Kind = "stationary"
	// Switching is a growing kernel expansion whose bandwidth changes from
	// interval to interval.
	Switching Kind = "switching"
	// Drifting is a random function, part of which slowly turns into others.
	Drifting Kind = "drifting"
	// Adversarial has labels whose sign is not the sign of the prediction.
	Adversarial Kind = "adversarial"
)

// Kinds lists the built-in streams.
func Kinds() []string {
	return []string{string(Stationary), string(Switching), string(Drifting), string(Adversarial)}
}

// Errors of New.
var (
	ErrUnknown   = errors.New("unknown stream")
	ErrParameter = errors.New("stream parameter out of range")
)

// MaxDimension bounds the dimension of a stream.
const MaxDimension = 4096

// Stream yields rounds until its length is reached. It is not safe for
// concurrent use.
type Stream struct {
	rounds, done int
	next         func(t int) Round
}

// New returns the stream of the given kind, number of rounds, dimension of
// the input, and seed.
func New(kind Kind, rounds, dimension int, seed uint64) (*Stream, error) {
	if rounds < 0 {
		return nil, fmt.Errorf("%w: %d rounds", ErrParameter, rounds)
	}
	if dimension < 1 || dimension > MaxDimension {
		return nil, fmt.Errorf("%w: dimension %d is not in 1..%d", ErrParameter, dimension, MaxDimension)
	}
	rng := rand.New(rand.NewPCG(seed, 0x68696e6473696768))
	s := &Stream{rounds: rounds}
	switch kind {
	case Stationary:
		s.next = stationary(rng, dimension)
	case Switching:
		s.next = switching(rng, rounds, dimension)
	case Drifting:
		s.next = drifting(rng, dimension)
	case Adversarial:
		s.next = adversarial(rng, dimension)
	default:
		return nil, fmt.Errorf("%w %q: want one of %s", ErrUnknown, kind, strings.Join(Kinds(), ", "))
	}
	return s, nil
}

// Len returns the number of rounds of the whole stream.
func (s *Stream) Len() int { return s.rounds }

// Next returns the next round, or io.EOF after the last.
func (s *Stream) Next() (Round, error) {
	if s.done == s.rounds {
		return Round{}, io.EOF
	}
	r := s.next(s.done)
	s.done++
	return r, nil
}

// adversaryInputs is the number of inputs of the adversary.
const adversaryInputs = 4

// adversarial repeats a few inputs of [-1, 1]^d. Their labels have the opposite
// sign of the prediction.
func adversarial(rng *rand.Rand, dimension int) func(int) Round {
	inputs := make([][]float64, adversaryInputs)
	for i := range inputs {
		inputs[i] = uniform(rng, dimension)
	}
	return func(t int) Round {
		return Round{Features: slices.Clone(inputs[t%len(inputs)]), opposed: true}
	}
}

// uniform draws a point of [-1, 1]^d.
func uniform(rng *rand.Rand, dimension int) []float64 {
	x := make([]float64, dimension)
	for i := range x {
		x[i] = 2*rng.Float64() - 1
	}
	return x
}
