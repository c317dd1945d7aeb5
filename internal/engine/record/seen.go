package record

import (
	"crypto/sha256"
	"fmt"
	"math"

	"hindsight/internal/model/codec"
)

// Answer is what came of one observation.
type Answer struct {
	// Sequence is the place of the observation in the model's history.
	Sequence uint64
	// Predictions are the prequential predictions, one per output.
	Predictions []float64
	// Loss is their loss, Regret the model's regret after the observation, NaN
	// when it is not known a round.
	Loss, Regret float64
	// Served says that there had been a prediction, ServedPredictions what
	// the client was told and ServedLoss its loss.
	Served            bool
	ServedPredictions []float64
	ServedLoss        float64
	// Class and ServedClass are the classes that were predicted, prequentially and
	// to the client, empty for none.
	Class, ServedClass string
	// RecentLoss is the mean loss of the last observations, this one included, and
	// RecentSkill its skill: of what the client was told, or of the prequential
	// predictions where it was told nothing. They are NaN when they are not known.
	RecentLoss, RecentSkill float64
	// Duplicate says that the observation had been learned before; the rest
	// is its first answer.
	Duplicate bool
}

// Seen is what is remembered of a learned observation under its id.
type Seen struct {
	// Labels and Features are digests of the content, apart: a retry by
	// prediction id brings no features.
	Labels, Features Digest
	Answer           Answer
}

// Digest is the first half of a SHA-256.
type Digest [16]byte

// Digester digests lists of numbers. It reuses its memory, so that it serves
// one goroutine at a time.
type Digester struct{ content []byte }

// Labels digests the labels of an observation and its weight.
func (d *Digester) Labels(labels []float64, weight float64) Digest {
	d.content = codec.AppendFloats(d.content[:0], labels...)
	d.content = codec.AppendFloats(d.content, weight)
	return truncated(d.content)
}

// Features digests the features of an observation.
func (d *Digester) Features(x []float64) Digest {
	d.content = codec.AppendFloats(d.content[:0], x...)
	return truncated(d.content)
}

func truncated(data []byte) Digest {
	full := sha256.Sum256(data)
	return Digest(full[:len(Digest{})])
}

// Append appends the bytes of what is remembered to dst.
func (s *Seen) Append(dst []byte) []byte {
	dst = append(dst, versionSeen)
	dst = append(dst, s.Labels[:]...)
	dst = append(dst, s.Features[:]...)
	a := &s.Answer
	dst = codec.AppendUint64(dst, a.Sequence)
	dst = codec.AppendFloats(dst, a.Predictions...)
	dst = codec.AppendFloats(dst, a.Loss, a.Regret, a.RecentLoss, a.RecentSkill)
	if a.Served {
		dst = codec.AppendFloats(dst, a.ServedPredictions...)
		dst = codec.AppendFloats(dst, a.ServedLoss)
	}
	return dst
}

// DecodeSeen reads what a model of so many outputs remembers.
func DecodeSeen(data []byte, outputs int) (Seen, error) {
	d := newDecoder(data, versionSeen)
	var s Seen
	copy(s.Labels[:], d.Bytes(len(s.Labels)))
	copy(s.Features[:], d.Bytes(len(s.Features)))
	s.Answer = Answer{Sequence: d.Uint64(), Predictions: make([]float64, outputs)}
	d.Floats(s.Answer.Predictions)
	s.Answer.Loss, s.Answer.Regret = d.Float(), d.Float()
	s.Answer.RecentLoss, s.Answer.RecentSkill = math.NaN(), math.NaN()
	if d.version >= versionSeen {
		s.Answer.RecentLoss, s.Answer.RecentSkill = d.Float(), d.Float()
	}
	if d.Len() > 0 {
		s.Answer.Served, s.Answer.ServedPredictions = true, make([]float64, outputs)
		d.Floats(s.Answer.ServedPredictions)
		s.Answer.ServedLoss = d.Float()
	}
	if err := d.End(); err != nil {
		return Seen{}, fmt.Errorf("record: remembered observation: %w", err)
	}
	return s, nil
}
