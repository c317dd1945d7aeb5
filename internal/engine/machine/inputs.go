package machine

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"hindsight/internal/model"
	"hindsight/internal/model/input"
)

// encoder makes features of records of named inputs. It is part of the machine's state.
type encoder struct {
	*input.Encoder
	// record and features are scratch of Apply, buffers of the other methods.
	record   input.Record
	features []float64
	buffers  sync.Pool
}

func newEncoder(spec model.Spec) *encoder {
	if len(spec.Inputs) == 0 {
		return nil
	}
	return &encoder{Encoder: input.NewEncoder(input.NewSchema(spec.Inputs, spec.MaxKeys(), spec.HasTokens()))}
}

// decode decodes a record and returns its features. Both stay valid until the next call, by
// Apply alone.
func (e *encoder) decode(data []byte) ([]float64, error) {
	rest, err := e.record.Decode(data)
	if err == nil && len(rest) > 0 {
		err = fmt.Errorf("%d bytes behind a record", len(rest))
	}
	if err == nil {
		err = e.Schema().Accept(&e.record)
	}
	if err != nil {
		return nil, fmt.Errorf("a logged record cannot be encoded: %w: %w", ErrCorrupt, err)
	}
	e.features = e.Encode(e.features[:0], &e.record)
	return e.features, nil
}

func (e *encoder) take() *[]float64 {
	if buffer, ok := e.buffers.Get().(*[]float64); ok {
		return buffer
	}
	return new([]float64)
}

// named replaces the place of a feature in an error by the name of the input.
func (m *Machine) named(err error) error {
	var field *model.FieldError
	if m.encoder == nil || !errors.As(err, &field) {
		return err
	}
	place, ok := strings.CutPrefix(field.Field, "features[")
	n, bad := strconv.Atoi(strings.TrimSuffix(place, "]"))
	names := m.encoder.Names()
	if !ok || bad != nil || n < 0 || n >= len(names) {
		return err
	}
	moved := *field
	moved.Field = "inputs." + names[n]
	return &moved
}

// Inputs returns the statistics of the named inputs by their places, nil without named
// inputs. It costs O(inputs).
func (m *Machine) Inputs() []input.Statistics {
	if m.encoder == nil {
		return nil
	}
	all := make([]input.Statistics, m.encoder.Schema().Len())
	for i := range all {
		all[i] = m.encoder.Statistics(i)
	}
	return all
}

// Encoder returns the encoder of the named inputs, nil without named inputs. The caller only
// reads it.
func (m *Machine) Encoder() *input.Encoder {
	if m.encoder == nil {
		return nil
	}
	return m.encoder.Encoder
}
