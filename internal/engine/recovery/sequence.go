package recovery

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"hindsight/internal/engine/record"
	"hindsight/internal/engine/storage"
)

// ErrBefore says that the time is before the log of the model.
var ErrBefore = errors.New("the log does not reach back to the time")

// SequenceAt returns the sequence of a model at a time: the end of the last record that was
// committed at or before the time. It fails with ErrBefore for a time before the model was
// created, or before the first record of the log unless that is the model's first record.
// It reads the whole log in the worst case.
func (s Source) SequenceAt(ctx context.Context, created, at time.Time) (uint64, error) {
	if at.Before(created) {
		return 0, fmt.Errorf("%w: the model was created at %s", ErrBefore, utc(created))
	}
	first, err := s.Handle.First()
	if err != nil || first == 0 {
		return 0, err
	}
	sequence := first - 1
	err = s.Handle.Replay(ctx, sequence, func(logged storage.Record) error {
		if len(logged.Data) == 0 { // The beginning of an imported model.
			sequence = logged.Last
			return nil
		}
		committed, err := record.Time(logged.Data)
		switch {
		case err != nil:
			return err
		case !time.Unix(0, committed).After(at): // A far time does not fit in nanoseconds.
			sequence = logged.Last
			return nil
		case logged.First == first && first > 1:
			return fmt.Errorf("%w: the log begins at %s", ErrBefore, utc(time.Unix(0, committed)))
		}
		return storage.ErrReached
	})
	return sequence, err
}

func utc(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

// endingAt returns the record around a sequence, shortened to end with the sequence; nil if no record has the sequence.
func (s Source) endingAt(ctx context.Context, sequence uint64) (last *storage.Record, err error) {
	if sequence == 0 {
		return nil, nil
	}
	err = s.Handle.Replay(ctx, sequence-1, func(logged storage.Record) error {
		switch {
		case logged.First > sequence:
			return storage.ErrReached
		case logged.Last == sequence: // The beginning of an imported model has no data to decode.
			last = &storage.Record{First: logged.First, Last: sequence, Data: bytes.Clone(logged.Data)}
			return storage.ErrReached
		}
		r, err := record.Decode(logged.Data)
		if err != nil {
			return err
		}
		r.Observations = r.Observations[:sequence-logged.First+1]
		last = &storage.Record{First: logged.First, Last: sequence, Data: r.Append(nil)}
		return storage.ErrReached
	})
	if errors.Is(err, storage.ErrCorrupt) {
		return last, nil // A snapshot of the sequence stands for a damaged record.
	}
	return last, err
}
