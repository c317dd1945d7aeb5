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
	// SetAside says that the label gate set the observation aside: it was predicted, and
	// not learned.
	SetAside bool
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

// Append appends the bytes of what is remembered to dst.
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
	dst = codec.AppendFloats(dst, a.Loss, a.Regret, a.RecentLoss, a.RecentSkill)
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

// DecodeSeen reads what a model of so many outputs remembers.
func DecodeSeen(data []byte, outputs int) (Seen, error) {
	d := newDecoder(data, versionSeen)
	var flags byte
	if d.version >= versionSeen {
		if flags = d.octet(); flags&^(seenServed|seenClass|seenSetAside) != 0 {
			return Seen{}, fmt.Errorf("record: remembered observation: flags %#x: %w", flags, ErrUnreadable)
		}
	}
	var s Seen
	copy(s.Labels[:], d.Bytes(len(s.Labels)))
	copy(s.Features[:], d.Bytes(len(s.Features)))
	a := &s.Answer
	a.Sequence = d.Uint64()
	a.Class, a.Predictions = d.said(flags&seenClass != 0, outputs)
	a.Loss, a.Regret = d.Float(), d.Float()
	a.RecentLoss, a.RecentSkill = math.NaN(), math.NaN()
	if d.version >= versionAdvised {
		a.RecentLoss, a.RecentSkill = d.Float(), d.Float()
	}
	a.Served, a.SetAside = flags&seenServed != 0, flags&seenSetAside != 0
	if d.version < versionSeen {
		a.Served = d.Len() > 0
	}
	if a.Served {
		a.ServedClass, a.ServedPredictions = d.said(flags&seenClass != 0, outputs)
		a.ServedLoss = d.Float()
	}
	if err := d.End(); err != nil {
		return Seen{}, fmt.Errorf("record: remembered observation: %w", err)
	}
	return s, nil
}

// said reads a class, or the values of so many outputs.
func (d *decoder) said(class bool, outputs int) (name string, values []float64) {
	if class {
		return d.text(), nil
	}
	values = make([]float64, outputs)
	d.Floats(values)
	return "", values
}
