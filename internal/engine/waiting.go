package engine

import (
	"cmp"
	"fmt"
	"time"

	"hindsight/internal/engine/record"
	"hindsight/internal/engine/recovery"
	"hindsight/internal/engine/storage"
	"hindsight/internal/model"
)

// remember keeps the features of every row under its id. An id that the caller
// chose and that waits already, with the same features, is answered with the
// prediction first given under it.
func (i *instance) remember(answers []Prediction, rows []Row, o PredictOptions, now time.Time) error {
	// What is kept before the model is moved goes with it.
	i.keeping.RLock()
	defer i.keeping.RUnlock()
	if err := i.here(); err != nil {
		return err
	}
	metadata := &i.entry.Load().Metadata
	if err := i.waitingRoom(i.id, metadata.MaxPending, i.waitingLabels(), int64(len(rows))); err != nil {
		return err
	}
	expiry := now.Add(cmp.Or(o.TTL, time.Duration(metadata.LabelTTL), i.o.LabelTTL))
	if len(o.IDs) > 0 {
		// Between the look for an id and its use no other call takes it.
		i.choosing.Lock()
		defer i.choosing.Unlock()
	}
	keep := make([]storage.Prediction, 0, len(rows))
	chosen := map[string]int{}
	for n := range rows {
		x := &rows[n]
		if x.Inputs != nil {
			x.bytes = x.Inputs.Append(nil)
		}
		minted := len(o.IDs) == 0 || o.IDs[n] == ""
		if minted {
			id, err := i.o.NewID()
			if err != nil {
				return fmt.Errorf("engine: mint a prediction id: %w", err)
			}
			answers[n].ID = id
		} else {
			there, err := i.choose(answers, rows, chosen, n, o.IDs[n], now)
			if err != nil {
				return &RowError{Row: n, Err: err}
			}
			if there {
				continue
			}
		}
		w := record.Waiting{
			ClassPrediction: answers[n].ClassPrediction, Sequence: answers[n].Sequence, Notes: answers[n].Notes,
			Features: x.Features, Inputs: x.bytes,
		}
		value := w.Encode(i.Spec.Classes != nil)
		keep = append(keep, storage.Prediction{ID: answers[n].ID, Value: value, Expiry: expiry, Minted: minted})
	}
	if len(keep) == 0 {
		return nil
	}
	return i.errorf("remember predictions", recovery.StorageError(i.Kept.PutWaiting(keep)))
}

// pendingLimit is how many predictions of a model may wait. It has a limit of its own if
// own is not 0.
func (s *shared) pendingLimit(own int64) int64 {
	return min(cmp.Or(own, s.o.PendingLimit), s.o.PendingLimit)
}

// waitingRoom refuses more predictions, beside those that wait for the model,
// than may wait. The model has a limit of its own if limit is not 0.
func (s *shared) waitingRoom(id string, limit, waiting, more int64) error {
	if limit = s.pendingLimit(limit); waiting+more > limit {
		return fmt.Errorf("model %q: %w: %d wait and %d are to, the limit is %d", id, ErrPendingLimit, waiting, more, limit)
	}
	if n := s.o.Store.CountWaiting(); n+more > s.o.PendingTotalLimit {
		return fmt.Errorf("%w: %d wait over all models and %d are to, the limit is %d", ErrPendingLimit, n, more, s.o.PendingTotalLimit)
	}
	return nil
}

// choose takes an id that the caller chose for a row, and tells whether its
// prediction is there already, from before or from an earlier row of the call.
// Chosen are the places of the ids of this call.
func (i *instance) choose(
	answers []Prediction, rows []Row, chosen map[string]int, n int, id string, now time.Time,
) (there bool, err error) {
	if err := checkObservationID("prediction_id", id); err != nil {
		return false, err
	}
	if first, twice := chosen[id]; twice {
		if !record.SameInput(rows[first].Features, rows[first].bytes, rows[n].Features, rows[n].bytes) {
			return false, fmt.Errorf("prediction_id %q: %w: row %d has it with other %s", id, ErrConflict, first, i.inputField())
		}
		answers[n] = answers[first]
		return true, nil
	}
	chosen[id] = n
	learned, err := i.lookUp(id)
	if err != nil {
		return false, err
	}
	if learned != nil {
		return false, fmt.Errorf("prediction_id %q: %w: its label has been observed", id, ErrConflict)
	}
	w, err := i.waitingFor(id, now)
	if err != nil || w == nil {
		answers[n].ID = id
		return false, err
	}
	if !record.SameInput(w.Features, w.Inputs, rows[n].Features, rows[n].bytes) {
		return false, fmt.Errorf("prediction_id %q: %w: it was predicted with other %s", id, ErrConflict, i.inputField())
	}
	answers[n] = Prediction{ClassPrediction: w.ClassPrediction, ID: id, Sequence: w.Sequence, Notes: w.Notes, Levels: i.Spec.Coverage}
	return true, nil
}

// inputField is the field of a request that has the model's input.
func (i *instance) inputField() string {
	if i.schema != nil {
		return "inputs"
	}
	return "features"
}

// inputForm says what an input of the model is.
func (i *instance) inputForm() string {
	if i.schema != nil {
		return fmt.Sprintf("inputs, an object such as {%q: …}", i.schema.Name(0))
	}
	return fmt.Sprintf("features, %d numbers", i.Spec.Dimension)
}

// inputMissing refuses a row without any input.
func (i *instance) inputMissing(field, want string) error {
	err := ErrInvalidRequest
	if i.schema == nil {
		err = model.ErrDimensionMismatch
	}
	return &model.FieldError{Field: field, Err: err, Got: "nothing", Want: want}
}

// lookUp gives what is remembered under an id, nil if nothing is.
func (i *instance) lookUp(id string) ([]byte, error) {
	// In this order: an id is in the store before it is no longer recent.
	if value, ok := i.recent.lookUp(id); ok {
		return value, nil
	}
	value, _, err := i.Kept.ID(id)
	if err != nil {
		return nil, i.errorf(fmt.Sprintf("look up id %q", id), recovery.StorageError(err))
	}
	return value, nil
}

// waitingFor is the prediction that waits under an id, nil when there is none
// or it has expired.
func (i *instance) waitingFor(id string, now time.Time) (*record.Waiting, error) {
	if i.Kept.CountWaiting() == 0 {
		return nil, nil
	}
	p, ok, err := i.Kept.GetWaiting(id)
	if err != nil {
		return nil, i.errorf(fmt.Sprintf("look up prediction %q", id), recovery.StorageError(err))
	}
	if !ok || !p.Expiry.After(now) {
		return nil, nil
	}
	w, err := record.DecodeWaiting(p.Value, i.Spec.Outputs)
	if err != nil {
		return nil, i.errorf(fmt.Sprintf("read prediction %q", id), fmt.Errorf("%w: %w", ErrCorrupt, err))
	}
	return &w, nil
}

// answeredAtOnce is how many answered predictions are removed together.
const answeredAtOnce = 256

// removeAnswered removes the predictions that were answered. A crash before it
// brings them back until recovery removes them again. It runs at the model's
// turn.
func (i *instance) removeAnswered() error {
	if len(i.answered) == 0 {
		return nil
	}
	if err := i.Kept.RemoveWaiting(i.answered); err != nil {
		return i.errorf("forget answered predictions", recovery.StorageError(err))
	}
	clear(i.answered)
	i.answered = i.answered[:0]
	i.unremoved.Store(0)
	return nil
}
