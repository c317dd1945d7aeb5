package recovery

import (
	"context"
	"errors"
	"fmt"
	"time"

	"hindsight/internal/engine/record"
	"hindsight/internal/engine/storage"
)

// ErrBefore is a time before what is kept of a model.
var ErrBefore = errors.New("nothing is kept of that time")

// SequenceAt is the sequence that a model had at a time: the end of the last record that
// was committed at the time or before it. It is ErrBefore for a time before the model was
// created, or before the first record that the log still has, unless that is the model's
// first. It reads the whole log in the worst case.
func (s Source) SequenceAt(ctx context.Context, created, at time.Time) (uint64, error) {
	if at.Before(created) {
		return 0, fmt.Errorf("%w: the model was created at %s", ErrBefore, utc(created))
	}
	first, err := s.Kept.First()
	if err != nil || first == 0 {
		return 0, err
	}
	sequence := first - 1
	err = s.Kept.Replay(ctx, sequence, func(logged storage.Record) error {
		if len(logged.Data) == 0 { // It stands for what an import began with.
			sequence = logged.Last
			return nil
		}
		committed, err := record.Time(logged.Data)
		switch {
		case err != nil:
			return err
		case !time.Unix(0, committed).After(at): // A far time has no nanoseconds that fit.
			sequence = logged.Last
			return nil
		case logged.First == first && first > 1:
			return fmt.Errorf("%w: the log begins at %s", ErrBefore, utc(time.Unix(0, committed)))
		}
		return ErrReached
	})
	if err != nil && !errors.Is(err, ErrReached) {
		return 0, err
	}
	return sequence, nil
}

func utc(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

// Cut is the record that a sequence is inside of, cut to end with it; nil when one ends
// there.
func (s Source) Cut(ctx context.Context, sequence uint64) (cut *storage.Record, err error) {
	err = s.Kept.Replay(ctx, sequence, func(logged storage.Record) error {
		if logged.First > sequence {
			return ErrReached
		}
		r, err := record.Decode(logged.Data)
		if err != nil {
			return err
		}
		r.Observations = r.Observations[:sequence-logged.First+1]
		cut = &storage.Record{First: logged.First, Last: sequence, Data: r.Append(nil)}
		return ErrReached
	})
	if errors.Is(err, ErrReached) || errors.Is(err, storage.ErrCorrupt) {
		return cut, nil // Beyond the sequence a record may be anything.
	}
	return cut, err
}
