package record

import (
	"crypto/sha256"
	"fmt"

	"hindsight/internal/model/codec"
)

// Answer is the outcome of one observation.
type Answer struct {
	Sequence uint64
	// Predictions are the prequential predictions, one per output.
	Predictions []float64
	// Loss is the loss of Predictions. Regret is the model's regret after the observation, NaN
	// if the learner does not know it every round.
	Loss, Regret float64
	// Served is true if the client had received a prediction: ServedPredictions, with the
	// loss ServedLoss.
	Served            bool
	ServedPredictions []float64
	ServedLoss        float64
	// Class and ServedClass are the prequential and the served predicted class, empty for
	// none.
	Class, ServedClass string
	// Recent is how the model did on the newest observations, this one included.
	Recent Recent
	// SetAside is true if the label gate set the observation aside, so that the learner did not
	// learn it.
	SetAside bool
	// Duplicate is true if the observation had been learned before; the other fields are
	// its first answer.
	Duplicate bool
}

// Recent are the mean loss and the skill of the newest observations, by the served predictions, or
// by the prequential ones where nothing was served. NaN is unknown.
type Recent struct{ Loss, Skill float64 }

// Seen is the value of a remembered id.
type Seen struct {
	// Labels and Features are separate digests, because a retry by prediction id has no
	// features.
	Labels, Features Digest
	Answer           Answer
}

// Digest is the first half of a SHA-256.
type Digest [16]byte

// Digester digests lists of numbers. It reuses its memory, for one goroutine at a time.
type Digester struct{ content []byte }

// Labels digests the labels of an observation, or its class, and its weight.
func (d *Digester) Labels(labels []float64, class string, weight float64) Digest {
	d.content = codec.AppendFloats(d.content[:0], labels...)
	d.content = append(d.content, class...)
	d.content = codec.AppendFloats(d.content, weight)
	return truncated(d.content)
}

// Input digests the features of an observation, or the bytes of its named inputs.
func (d *Digester) Input(x []float64, inputs []byte) Digest {
	d.content = codec.AppendFloats(d.content[:0], x...)
	d.content = append(d.content, inputs...)
	return truncated(d.content)
}

func truncated(data []byte) Digest {
	full := sha256.Sum256(data)
	return Digest(full[:len(Digest{})])
}

// Append appends the bytes of s to dst.
func (s *Seen) Append(dst []byte) []byte {
	return encode(dst, func(v *codec.Visitor) { s.visit(v, 0) })
}

// DecodeSeen reads the bytes that Append wrote for a model with these outputs.
func DecodeSeen(data []byte, outputs int) (Seen, error) {
	return decode("remembered observation", data, func(s *Seen, v *codec.Visitor) { s.visit(v, outputs) })
}

// SeenSequence reads the sequence of a remembered observation of any model.
func SeenSequence(data []byte) (uint64, error) {
	var s Seen
	v := codec.Reading(data)
	if s.visitHead(&v); v.Err() != nil {
		return 0, fmt.Errorf("record: remembered observation: %w", v.Err())
	}
	return s.Answer.Sequence, nil
}

// visit visits the value of a model with these outputs, which count for reading alone.
func (s *Seen) visit(v *codec.Visitor, outputs int) {
	classified := s.visitHead(v)
	a := &s.Answer
	visitPrediction(v, classified, outputs, &a.Class, &a.Predictions)
	v.Float(&a.Loss, &a.Regret, &a.Recent.Loss, &a.Recent.Skill)
	if a.Served {
		visitPrediction(v, classified, outputs, &a.ServedClass, &a.ServedPredictions)
		v.Float(&a.ServedLoss)
	}
}

// visitHead visits the fields up to the sequence, and reports whether the predictions are classes.
func (s *Seen) visitHead(v *codec.Visitor) (classified bool) {
	a := &s.Answer
	classified = len(a.Predictions) == 0
	v.Version(versionSeen)
	v.Flags(&a.Served, &classified, &a.SetAside)
	v.Bytes(s.Labels[:])
	v.Bytes(s.Features[:])
	v.Uint64(&a.Sequence)
	return classified
}

// visitPrediction visits the class that a classifier predicted, or else one value for each output.
func visitPrediction(v *codec.Visitor, classified bool, outputs int, class *string, values *[]float64) {
	if classified {
		v.DelimitedText(class)
		return
	}
	if v.Reading() {
		*values = make([]float64, outputs)
	}
	v.Floats(*values)
}
