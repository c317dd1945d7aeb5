// Package stream yields labelled rounds: of the environment of the demo, and of files.
package stream

import "google.golang.org/protobuf/types/known/structpb"

// Round is one round of a stream: an input, and its labels or its class. The receiver owns the
// input.
type Round struct {
	Features   []float64
	Inputs     *structpb.Struct // The input by names, in place of Features.
	Labels     []float64
	Class      string // Empty where there are labels.
	Unlabelled bool   // There is neither a label nor a class.
}
