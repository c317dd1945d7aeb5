package record

import (
	"crypto/sha256"
	"fmt"

	"hindsight/internal/model/codec"
)

// Answer is the outcome of one observation.
type Answer struct {
	// Sequence is the sequence of the observation.
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

// Parts of a remembered observation.
const (
	seenServed = 1 << iota
	seenClass
	seenSetAside
)

// Append appends the bytes of s to dst.
func (s *Seen) Append(dst []byte) []byte {
	a := &s.Answer
	var flags byte
	if a.Served {
		flags |= seenServed
	}
	if a.SetAside {
		flags |= seenSetAside
	}
	classified := len(a.Predictions) == 0
	if classified {
		flags |= seenClass
	}
	dst = append(dst, versionSeen, flags)
	dst = append(dst, s.Labels[:]...)
	dst = append(dst, s.Features[:]...)
	dst = codec.AppendUint64(dst, a.Sequence)
	if classified {
		dst = appendString(dst, a.Class)
	} else {
		dst = codec.AppendFloats(dst, a.Predictions...)
	}
	dst = codec.AppendFloats(dst, a.Loss, a.Regret, a.Recent.Loss, a.Recent.Skill)
	switch {
	case !a.Served:
		return dst
	case classified:
		dst = appendString(dst, a.ServedClass)
	default:
		dst = codec.AppendFloats(dst, a.ServedPredictions...)
	}
	return codec.AppendFloats(dst, a.ServedLoss)
}

// DecodeSeen reads the bytes that Append wrote for a model with these outputs.
func DecodeSeen(data []byte, outputs int) (Seen, error) {
	d := newDecoder(data, versionSeen)
	var s Seen
	flags := s.readHead(d)
	a := &s.Answer
	a.Class, a.Predictions = d.prediction(flags&seenClass != 0, outputs)
	a.Loss, a.Regret = d.Float(), d.Float()
	a.Recent.Loss, a.Recent.Skill = d.Float(), d.Float()
	a.Served, a.SetAside = flags&seenServed != 0, flags&seenSetAside != 0
	if a.Served {
		a.ServedClass, a.ServedPredictions = d.prediction(flags&seenClass != 0, outputs)
		a.ServedLoss = d.Float()
	}
	if err := d.End(); err != nil {
		return Seen{}, fmt.Errorf("record: remembered observation: %w", err)
	}
	return s, nil
}

// readHead reads the fields up to the sequence, and returns the flags of the remaining fields.
func (s *Seen) readHead(d *decoder) (flags byte) {
	if flags = d.octet(); flags&^(seenServed|seenClass|seenSetAside) != 0 {
		d.reject(fmt.Sprintf("flags %#x", flags))
	}
	copy(s.Labels[:], d.Bytes(len(s.Labels)))
	copy(s.Features[:], d.Bytes(len(s.Features)))
	s.Answer.Sequence = d.Uint64()
	return flags
}

// SeenSequence reads the sequence of a remembered observation of any model.
func SeenSequence(data []byte) (uint64, error) {
	d := newDecoder(data, versionSeen)
	var s Seen
	s.readHead(d)
	if err := d.Err(); err != nil {
		return 0, fmt.Errorf("record: remembered observation: %w", err)
	}
	return s.Answer.Sequence, nil
}

// prediction reads a class, or the values of so many outputs.
func (d *decoder) prediction(class bool, outputs int) (name string, values []float64) {
	if class {
		return d.text(), nil
	}
	values = make([]float64, outputs)
	d.Floats(values)
	return "", values
}
