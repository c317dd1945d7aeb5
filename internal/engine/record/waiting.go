package record

import (
	"encoding/binary"
	"fmt"
	"math"
	"time"

	"hindsight/internal/engine/storage"
	"hindsight/internal/model"
	"hindsight/internal/model/codec"
)

// Waiting is a pending prediction.
type Waiting struct {
	// ClassPrediction is the prediction. That of a learner of real labels has no classes, and
	// its Class is model.NoClass.
	model.ClassPrediction
	// Sequence is the state that the prediction was made from.
	Sequence uint64
	// Notes are the account's notes at the time of the prediction.
	Notes    []float64
	Features []float64
	// Inputs are the bytes of a record of named inputs, nil for features.
	Inputs []byte
	// Parts are the explanation, nil unless it was asked for.
	Parts []model.Part
}

// Encode returns the bytes of a pending prediction, of a learner of real labels or of a
// classifier.
func (w *Waiting) Encode(classifier bool) []byte {
	numbers := 2*len(w.Values) + 3 + len(w.Features) + len(w.Notes) + len(w.Advice) + 2*len(w.Probabilities) + len(w.Parametric)
	out := make([]byte, 0, 2+8*numbers+8*10+len(w.Inputs))
	var flags byte
	if w.Inputs != nil {
		flags |= flagNamed
	}
	if classifier {
		flags |= flagClass
	} else if len(w.Parametric) > 0 {
		flags |= flagParametric
	}
	if w.Parts != nil {
		flags |= flagExplained
	}
	out = append(out, versionWaiting, flags)
	if classifier {
		out = appendNumbers(out, w.Values)
	} else {
		out = codec.AppendFloats(out, w.Values...)
	}
	out = appendNumbers(out, w.StandardErrors)
	out = codec.AppendFloats(out, w.Leverage, w.Probability)
	out = codec.AppendUint64(out, w.Sequence)
	out = appendInput(out, w.Features, w.Inputs)
	out = appendNumbers(appendNumbers(out, w.Notes), w.Advice)
	if classifier {
		out = appendNumbers(binary.AppendUvarint(out, uint64(w.Class+1)), w.Probabilities)
		for _, name := range w.Classes {
			out = appendString(out, name)
		}
	}
	if flags&flagParametric != 0 {
		out = codec.AppendFloats(out, w.Parametric...)
	}
	if flags&flagExplained != 0 {
		out = appendParts(out, w.Parts)
	}
	return out
}

// appendParts appends an explanation.
func appendParts(dst []byte, parts []model.Part) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(parts)))
	for _, p := range parts {
		dst = appendNumbers(appendNumbers(appendString(dst, p.Family), p.Weights), p.Contributions)
		dst = binary.AppendUvarint(dst, uint64(len(p.Keys)))
		for _, k := range p.Keys {
			dst = appendNumbers(appendString(dst, k.Input), k.Contributions)
		}
	}
	return dst
}

// parts reads an explanation.
func (d *decoder) parts() []model.Part {
	parts := make([]model.Part, d.count(4)) // A part takes 4 bytes at least.
	for i := range parts {
		p := &parts[i]
		p.Family, p.Weights, p.Contributions = d.text(), d.numbers(), d.numbers()
		d.within(p.Weights)
		d.within(p.Contributions)
		for range d.count(2) { // A key takes 2 bytes at least.
			k := model.KeyPart{Input: d.text(), Contributions: d.numbers()}
			d.within(k.Contributions)
			p.Keys = append(p.Keys, k)
		}
	}
	return parts
}

// DecodeWaiting reads the bytes that Encode wrote for a model with these outputs. It rejects
// numbers that must not be served.
func DecodeWaiting(data []byte, outputs int) (Waiting, error) {
	d := newDecoder(data, versionWaiting)
	flags := d.octet()
	w := Waiting{ClassPrediction: model.ClassPrediction{Class: model.NoClass}}
	if flags&flagClass != 0 {
		w.Values = d.numbers()
		outputs = len(w.Values)
		d.within(w.Values)
	} else {
		w.Resize(outputs)
		d.FloatsWithin(math.MaxFloat64, w.Values)
	}
	w.StandardErrors = d.numbers()
	w.Leverage, w.Probability = d.Float(), d.Float()
	w.Sequence = d.Uint64()
	if flags&flagNamed != 0 {
		w.Inputs = d.blob()
	} else {
		w.Features = d.numbers()
	}
	w.Notes, w.Advice = d.optional(), d.optional()
	if flags&flagClass != 0 {
		d.classes(&w)
	}
	if flags&flagParametric != 0 {
		w.Parametric = make([]float64, outputs)
		d.FloatsWithin(math.MaxFloat64, w.Parametric)
	}
	if flags&flagExplained != 0 {
		w.Parts = d.parts()
	}
	err := d.End()
	if err == nil && flags&^(flagNamed|flagClass|flagParametric|flagExplained) != 0 {
		err = fmt.Errorf("flags %#x: %w", flags, ErrUnreadable)
	}
	if err == nil && !w.servable(outputs) {
		err = fmt.Errorf("%d standard errors %v, leverage %g, probability %g: %w",
			len(w.StandardErrors), w.StandardErrors, w.Leverage, w.Probability, ErrUnreadable)
	}
	if err != nil {
		return Waiting{}, fmt.Errorf("record: waiting prediction: %w", err)
	}
	return w, nil
}

// classes reads the prediction of a classifier, with the names of the classes.
func (d *decoder) classes(w *Waiting) {
	w.Class, w.Probabilities = d.class()
	w.Classes = make([]string, 0, len(w.Probabilities)) // Not nil even if empty.
	for _, v := range w.Probabilities {
		if !(v >= 0 && v <= 1) {
			d.reject(fmt.Sprintf("a probability of %g", v))
		}
		w.Classes = append(w.Classes, d.text())
	}
}

// within rejects numbers that are not finite.
func (d *decoder) within(numbers []float64) {
	for _, v := range numbers {
		if !(math.Abs(v) <= math.MaxFloat64) {
			d.reject(fmt.Sprintf("a value of %g", v))
		}
	}
}

// servable reports whether all but the values may be served.
func (w *Waiting) servable(outputs int) bool {
	for _, v := range w.StandardErrors {
		if !(v >= 0 && v <= math.MaxFloat64) {
			return false
		}
	}
	return (len(w.StandardErrors) == outputs || len(w.StandardErrors) == 0) &&
		(w.Leverage == model.NoLeverage || (w.Leverage >= 0 && w.Leverage <= 1)) &&
		w.Probability >= 0 && w.Probability <= 1
}

// Carried is the part of an export beside the model's state.
type Carried struct {
	Metadata
	IDs     []storage.ID
	Waiting []storage.Prediction
}

// Encode returns the bytes of c.
func (c *Carried) Encode() []byte {
	out := c.append([]byte{versionCarried})
	out = codec.AppendUint64(out, uint64(len(c.IDs)))
	for _, id := range c.IDs {
		out = appendRow(out, id.ID, id.At, id.Value)
	}
	out = codec.AppendUint64(out, uint64(len(c.Waiting)))
	for _, p := range c.Waiting {
		out = appendRow(out, p.ID, p.Expiry, p.Value)
	}
	return out
}

func appendRow(dst []byte, id string, at time.Time, value []byte) []byte {
	dst = appendString(dst, id)
	dst = codec.AppendUint64(dst, uint64(at.UnixNano()))
	return appendString(dst, string(value))
}

// rowBytes is the least size of a row.
const rowBytes = 10

// DecodeCarried reads the bytes that Encode wrote for a model with these outputs. It decodes
// every value, and fails if one cannot be read.
func DecodeCarried(data []byte, outputs int) (Carried, error) {
	d := newDecoder(data, versionCarried)
	c := Carried{Metadata: d.metadata()}
	for range d.rows() {
		row := storage.ID{ID: d.text(), At: time.Unix(0, int64(d.Uint64())), Value: []byte(d.text())}
		if d.Err() != nil {
			break
		}
		if _, err := DecodeSeen(row.Value, outputs); err != nil {
			return Carried{}, fmt.Errorf("record: carried id %q: %w", row.ID, err)
		}
		c.IDs = append(c.IDs, row)
	}
	for range d.rows() {
		row := storage.Prediction{ID: d.text(), Expiry: time.Unix(0, int64(d.Uint64())), Value: []byte(d.text())}
		if d.Err() != nil {
			break
		}
		if _, err := DecodeWaiting(row.Value, outputs); err != nil {
			return Carried{}, fmt.Errorf("record: carried prediction %q: %w", row.ID, err)
		}
		c.Waiting = append(c.Waiting, row)
	}
	if err := d.End(); err != nil {
		return Carried{}, fmt.Errorf("record: carried: %w", err)
	}
	return c, nil
}

// rows reads a count of rows, and rejects a count that the rest of the data cannot hold.
func (d *decoder) rows() int {
	n := d.Uint64()
	if d.Err() == nil && n > uint64(d.Len()/rowBytes) {
		d.err = fmt.Errorf("%d rows in %d bytes: %w", n, d.Len(), ErrUnreadable)
	}
	if d.Err() != nil {
		return 0
	}
	return int(n)
}
