package record

import (
	"fmt"
	"math"
	"slices"
	"time"

	"hindsight/internal/engine/storage"
	"hindsight/internal/model"
	"hindsight/internal/model/codec"
)

// Pending is a pending prediction.
type Pending struct {
	// ClassPrediction is the prediction. For real labels it has no classes, and its Class is model.NoClass.
	model.ClassPrediction
	// Sequence is the state that the prediction was made from.
	Sequence uint64
	// Notes are the account's notes at the time of the prediction.
	Notes    []float64
	Features []float64
	// Inputs are the bytes of a record of named inputs, nil for features.
	Inputs []byte
	// Parts are the explanation, nil unless the caller asked for one.
	Parts []model.Part
}

// Encode returns the bytes of a pending prediction, of a learner of real labels or of a
// classifier.
func (w *Pending) Encode(classifier bool) []byte {
	numbers := 2*len(w.Values) + 3 + len(w.Features) + len(w.Notes) + len(w.Advice) + 2*len(w.Probabilities) + len(w.Parametric)
	return encode(make([]byte, 0, 2+8*numbers+8*10+len(w.Inputs)), func(v *codec.Visitor) { w.visit(v, classifier, len(w.Values)) })
}

// DecodePending reads the bytes that Encode wrote for a model with these outputs. It rejects
// numbers that must not be served.
func DecodePending(data []byte, outputs int) (Pending, error) {
	return decode("pending prediction", data, func(w *Pending, v *codec.Visitor) {
		w.Class = model.NoClass
		w.visit(v, false, outputs)
	})
}

func (w *Pending) visit(v *codec.Visitor, classifier bool, outputs int) {
	named, parametric, explained := w.Inputs != nil, !classifier && len(w.Parametric) > 0, w.Parts != nil
	v.Version(versionPending)
	v.Flags(nil, nil, nil, &named, &classifier, &parametric, nil, &explained)
	if classifier {
		v.DelimitedFloats(&w.Values)
		outputs = len(w.Values)
	} else {
		if v.Reading() {
			w.Resize(outputs)
		}
		v.Floats(w.Values)
	}
	v.DelimitedFloats(&w.StandardErrors)
	v.Float(&w.Leverage, &w.Probability)
	v.Uint64(&w.Sequence)
	visitInput(v, named, &w.Features, &w.Inputs)
	visitOptional(v, &w.Notes)
	visitOptional(v, &w.Advice)
	if classifier {
		w.visitClasses(v)
	}
	if parametric {
		if v.Reading() {
			w.Parametric = make([]float64, outputs)
		}
		v.Floats(w.Parametric)
	}
	if explained {
		w.visitParts(v)
	}
	if v.Reading() && !w.servable(outputs) {
		v.Corrupt("values %v, %v of the parametric part, %d standard errors %v, leverage %g, probability %g, of classes %v",
			w.Values, w.Parametric, len(w.StandardErrors), w.StandardErrors, w.Leverage, w.Probability, w.Probabilities)
	}
}

func (w *Pending) visitClasses(v *codec.Visitor) {
	visitClass(v, &w.Class, &w.Probabilities)
	if v.Reading() {
		w.Classes = make([]string, len(w.Probabilities)) // Not nil even if empty.
	}
	for k := range w.Classes {
		v.DelimitedText(&w.Classes[k])
	}
}

func (w *Pending) visitParts(v *codec.Visitor) {
	n := len(w.Parts)
	if v.Length(&n, 4); v.Reading() { // A part takes 4 bytes at least.
		w.Parts = make([]model.Part, n)
	}
	for i := range w.Parts {
		p := &w.Parts[i]
		v.DelimitedText(&p.Family)
		visitFinite(v, &p.Weights)
		visitFinite(v, &p.Contributions)
		n := len(p.Keys)
		if v.Length(&n, 2); v.Reading() && n > 0 { // A key takes 2 bytes at least.
			p.Keys = make([]model.KeyPart, n)
		}
		for k := range p.Keys {
			v.DelimitedText(&p.Keys[k].Input)
			visitFinite(v, &p.Keys[k].Contributions)
		}
	}
}

// visitFinite visits numbers, and reads only finite ones.
func visitFinite(v *codec.Visitor, numbers *[]float64) {
	v.DelimitedFloats(numbers)
	for k := range *numbers {
		if n := (*numbers)[k]; v.Reading() && !(math.Abs(n) <= math.MaxFloat64) {
			v.Corrupt("a value of %g", n)
		}
	}
}

func (w *Pending) servable(outputs int) bool {
	for _, v := range slices.Concat(w.Values, w.Parametric) {
		if !(math.Abs(v) <= math.MaxFloat64) {
			return false
		}
	}
	for _, v := range w.StandardErrors {
		if !(v >= 0 && v <= math.MaxFloat64) {
			return false
		}
	}
	for _, v := range append([]float64{w.Probability}, w.Probabilities...) {
		if !(v >= 0 && v <= 1) {
			return false
		}
	}
	return (len(w.StandardErrors) == outputs || len(w.StandardErrors) == 0) &&
		(w.Leverage == model.NoLeverage || (w.Leverage >= 0 && w.Leverage <= 1))
}

// Carried is the part of an export beside the model's state.
type Carried struct {
	Metadata
	IDs     []storage.ID
	Pending []storage.Prediction
}

// Encode returns the bytes of c.
func (c *Carried) Encode() []byte { return encode(nil, func(v *codec.Visitor) { c.visit(v, 0) }) }

// DecodeCarried reads the bytes that Encode wrote for a model with these outputs. It decodes
// every value, and fails if one cannot be read.
func DecodeCarried(data []byte, outputs int) (Carried, error) {
	return decode("carried", data, func(c *Carried, v *codec.Visitor) { c.visit(v, outputs) })
}

// rowBytes is the minimum size of a row.
const rowBytes = 10

func (c *Carried) visit(v *codec.Visitor, outputs int) {
	v.Version(versionCarried)
	c.Metadata.visit(v)
	visitRows(v, &c.IDs, func(r *storage.ID) {
		visitRow(v, &r.ID, &r.At, &r.Value, func() error {
			_, err := DecodeSeen(r.Value, outputs)
			return err
		})
	})
	visitRows(v, &c.Pending, func(r *storage.Prediction) {
		visitRow(v, &r.ID, &r.Expiry, &r.Value, func() error {
			_, err := DecodePending(r.Value, outputs)
			return err
		})
	})
}

func visitRows[T any](v *codec.Visitor, rows *[]T, visit func(*T)) {
	n := len(*rows)
	if v.Count(&n, rowBytes); v.Reading() && n > 0 {
		*rows = make([]T, n)
	}
	for k := range *rows {
		visit(&(*rows)[k])
	}
}

// visitRow visits a value under an id and a time. It checks a value that it reads.
func visitRow(v *codec.Visitor, id *string, at *time.Time, value *[]byte, check func() error) {
	nanoseconds := at.UnixNano()
	v.DelimitedText(id)
	v.Int64(&nanoseconds)
	if v.DelimitedBytes(value); !v.Reading() {
		return
	}
	*at, *value = time.Unix(0, nanoseconds), append([]byte{}, *value...)
	if err := check(); err != nil {
		v.Fail(fmt.Errorf("carried id %q: %w", *id, err))
	}
}
