package engine

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"go.uber.org/zap"

	"hindsight/internal/model/codec"
	"hindsight/internal/store"
)

// Finding is something in a store that is not as it should be.
type Finding struct {
	// Model is the name of the model; empty: it is not that of one.
	Model string `json:"model,omitempty"`
	// Place says where: a file, or a sequence of the log.
	Place string `json:"place"`
	// Problem is what is wrong there, Meaning what comes of it.
	Problem string `json:"problem"`
	Meaning string `json:"meaning"`
	// Refused says that the model, or the server, is not served with it.
	Refused bool `json:"refused"`
	// Repaired says what was done about it.
	Repaired string `json:"repaired,omitempty"`
}

// Checked is what a check went through.
type Checked struct {
	Models       int    `json:"models"`
	Snapshots    int    `json:"snapshots"`
	Observations uint64 `json:"observations"`
	IDs          int    `json:"ids"`
	Pending      int    `json:"pending"`
}

// checker goes through a store that no engine has open.
type checker struct {
	disk     *store.Store
	engine   *Engine
	repair   bool
	findings []Finding
	checked  Checked
}

// Check goes through everything that a store holds: whether it is read by this
// version, and whether every model can be recovered. With repair, for which the
// store has to be open for writing, what keeps a model from being recovered is
// cut away: the log behind the last record that can be learned, snapshots that
// cannot be read, ids that cannot be told.
func Check(ctx context.Context, disk *store.Store, repair bool) ([]Finding, Checked, error) {
	c := &checker{disk: disk, repair: repair}
	c.engine = &Engine{o: Options{Store: disk, Log: zap.NewNop(), Now: func() time.Time { return time.Time{} }}}
	err := disk.Models(func(name string, number store.Model, entry []byte) error {
		if ctx.Err() != nil {
			return fmt.Errorf("interrupted: %w", context.Cause(ctx))
		}
		c.checked.Models++
		i, err := c.engine.decodeInstance(name, number, entry)
		if err != nil {
			c.found(Finding{
				Model: name, Place: "its registry entry", Problem: err.Error(), Refused: true,
				Meaning: "the server does not start; import the model from an export or a copy of a snapshot, on another data directory",
			})
			return nil //nolint:nilerr // It is a finding.
		}
		i.derived = math.MaxUint64 // Nothing is derived again.
		return c.model(ctx, i)
	})
	if err != nil {
		return c.findings, c.checked, fmt.Errorf("engine: check: %w", err)
	}
	return c.findings, c.checked, nil
}

func (c *checker) found(f Finding) { c.findings = append(c.findings, f) }

func (c *checker) model(ctx context.Context, i *instance) error {
	if err := c.snapshots(i); err != nil {
		return err
	}
	if err := c.log(ctx, i); err != nil {
		return err
	}
	if err := c.ids(i); err != nil {
		return err
	}
	err := c.disk.EachPending(i.number, func(id string, value []byte) error {
		c.checked.Pending++
		if _, err := decodePending(id, value, i.spec.Outputs); err != nil {
			c.found(Finding{
				Model: i.id, Place: fmt.Sprintf("the prediction %q that waits", id), Problem: err.Error(),
				Meaning: "its label is answered with STATE_CORRUPT until it expires",
			})
		}
		return nil
	})
	if err != nil {
		c.found(Finding{Model: i.id, Place: "the predictions that wait", Problem: err.Error(), Meaning: "labels for them are not found"})
	}
	return nil
}

// snapshots reads every snapshot as recovery would.
func (c *checker) snapshots(i *instance) error {
	kept, err := c.disk.Snapshots(i.number)
	if err != nil {
		return err //nolint:wrapcheck // Check does.
	}
	for _, sequence := range kept {
		c.checked.Snapshots++
		_, err := i.restore(sequence)
		if err == nil {
			continue
		}
		f := Finding{
			Model: i.id, Place: c.disk.SnapshotName(i.number, sequence), Problem: err.Error(),
			Meaning: "recovery passes it over: it takes an older one, and more of the log",
		}
		if errors.Is(err, codec.ErrNewer) {
			f.Meaning, f.Refused = "a newer version of the server wrote it: run that one", true
		} else if c.repair {
			name, err := c.disk.SetSnapshotAside(i.number, sequence)
			if err != nil {
				return err //nolint:wrapcheck // Check does.
			}
			f.Repaired = "renamed to " + name
		}
		c.found(f)
	}
	return nil
}

// log recovers the model without deriving anything, and tells how far it comes.
func (c *checker) log(ctx context.Context, i *instance) error {
	last, err := c.disk.LastSequence(i.number)
	if err != nil {
		return err //nolint:wrapcheck // Check does.
	}
	s, err := i.restoreNewest(everything)
	if err != nil {
		return nil //nolint:nilerr // Told with its snapshot.
	}
	snapshot, good := s.sequence, s.sequence
	err = c.disk.Replay(i.number, snapshot, func(r store.Record) error {
		if ctx.Err() != nil {
			return fmt.Errorf("interrupted: %w", context.Cause(ctx))
		}
		if err := i.replay(&s, r, everything); err != nil {
			return err
		}
		good = r.Last
		return nil
	})
	c.checked.Observations += good
	switch {
	case ctx.Err() != nil:
		return err //nolint:wrapcheck // Check does.
	case last < snapshot:
		return c.behind(i, last, snapshot)
	case err == nil && good == last:
		return nil
	}
	if err == nil {
		err = fmt.Errorf("the log ends at sequence %d, replayed to %d: %w", last, good, ErrCorrupt)
	}
	f := Finding{
		Model: i.id, Place: fmt.Sprintf("sequence %d of the log", good+1), Problem: err.Error(), Refused: true,
		Meaning: fmt.Sprintf("the model answers STATE_CORRUPT; cut behind sequence %d it would go on without %d observations, acknowledged ones among them", good, last-min(good, last)),
	}
	if c.repair {
		if err := c.disk.RewindLog(i.number, good, nil); err != nil {
			return err //nolint:wrapcheck // Check does.
		}
		if err := c.forgetBeyond(i, good); err != nil {
			return err
		}
		f.Repaired = fmt.Sprintf("the log is cut behind sequence %d", good)
	}
	c.found(f)
	return nil
}

// behind is a log that ends before a good snapshot: the snapshot has more.
func (c *checker) behind(i *instance, last, snapshot uint64) error {
	f := Finding{
		Model: i.id, Place: fmt.Sprintf("the end of the log, sequence %d", last), Refused: true,
		Problem: fmt.Sprintf("it is behind the snapshot of sequence %d", snapshot),
		Meaning: "the model answers STATE_CORRUPT, since observations acknowledged after the snapshot may be missing too; it could go on from the snapshot",
	}
	if c.repair {
		if err := c.disk.RewindLog(i.number, snapshot, &store.Record{First: snapshot, Last: snapshot}); err != nil {
			return err //nolint:wrapcheck // Check does.
		}
		f.Repaired = fmt.Sprintf("the log goes on behind the snapshot of sequence %d", snapshot)
	}
	c.found(f)
	return nil
}

func (c *checker) forgetBeyond(i *instance, sequence uint64) error {
	//nolint:wrapcheck // Check does.
	return c.disk.ForgetWhere(i.number, func(value []byte) (bool, error) {
		s, err := decodeSeen(value, i.spec.Outputs)
		return err != nil || s.Answer.Sequence > sequence, nil //nolint:nilerr // What cannot be read is forgotten.
	})
}

// ids decodes what is remembered under every id.
func (c *checker) ids(i *instance) error {
	unreadable := 0
	err := c.disk.EachSeen(i.number, func(id string, value []byte) error {
		c.checked.IDs++
		if _, err := decodeSeen(value, i.spec.Outputs); err != nil {
			unreadable++
			c.found(Finding{
				Model: i.id, Place: fmt.Sprintf("the id %q", id), Problem: err.Error(),
				Meaning: "an observation under it is answered with STATE_CORRUPT",
			})
		}
		return nil
	})
	if err != nil {
		c.found(Finding{Model: i.id, Place: "the remembered ids", Problem: err.Error(), Meaning: "observations under ids that cannot be looked up are refused"})
		return nil //nolint:nilerr // It is a finding.
	}
	if unreadable == 0 || !c.repair {
		return nil
	}
	if err := c.forgetBeyond(i, everything); err != nil {
		return err
	}
	for n := len(c.findings) - unreadable; n < len(c.findings); n++ {
		c.findings[n].Repaired = "forgotten: a retry would be learned again"
	}
	return nil
}
