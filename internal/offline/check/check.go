// Package check checks a store that no engine has open, and repairs it on request.
package check

import (
	"context"
	"errors"
	"fmt"

	"hindsight/internal/engine/machine"
	"hindsight/internal/engine/record"
	"hindsight/internal/engine/recovery"
	"hindsight/internal/engine/storage"
	"hindsight/internal/model/catalog"
	"hindsight/internal/model/codec"
)

// Finding is a problem in a store.
type Finding struct {
	// Model is the name of the model, empty if the problem concerns no single model.
	Model string `json:"model,omitempty"`
	// Place is a file, or a sequence of the log.
	Place string `json:"place"`
	// Problem describes the problem, Meaning its consequence.
	Problem string `json:"problem"`
	Meaning string `json:"meaning"`
	// Rejected is true if the problem keeps the model, or the server, from being served.
	Rejected bool `json:"rejected"`
	// Repaired describes the repair, empty without one.
	Repaired string `json:"repaired,omitempty"`
}

// Checked counts what a check has read.
type Checked struct {
	Models       int    `json:"models"`
	Snapshots    int    `json:"snapshots"`
	Observations uint64 `json:"observations"`
	IDs          int    `json:"ids"`
	Pending      int    `json:"pending"`
	Aliases      int    `json:"aliases"`
}

// Options of a check.
type Options struct {
	// Repair removes what prevents recovery. The store must be open for writing.
	Repair bool
	// Report is called before each model with the number of models so far, in the goroutine of the check. It may be nil.
	Report func(models int)
}

type checker struct {
	Options
	findings []Finding
	checked  Checked
}

type examined struct {
	recovery.Source
	id string
	// repair is false if the disk cannot read a part of the model, which may be good.
	repair bool
}

// Store checks that this version can read all of a store, and recover every model. With
// Options.Repair, for which the store must be open for writing, it removes what prevents
// recovery: the log after its last learnable record, damaged snapshots, and ids that
// cannot be decoded.
func Store(ctx context.Context, disk storage.Store, o Options) ([]Finding, Checked, error) {
	c := &checker{Options: o}
	models := map[string]int64{}
	err := disk.Models(ctx, func(entry storage.RegistryEntry) error {
		if ctx.Err() != nil {
			return fmt.Errorf("interrupted: %w", context.Cause(ctx))
		}
		c.checked.Models++
		if c.Report != nil {
			c.Report(c.checked.Models)
		}
		from, registered, err := recovery.DecodeRegistryEntry(entry, catalog.New)
		models[entry.Name] = registered.Created
		if err != nil {
			c.add(Finding{
				Model: entry.Name, Place: "its registry entry", Problem: err.Error(), Rejected: true,
				Meaning: "the model is not served; import it from an export or a copy of a snapshot under another name",
			})
			return nil //nolint:nilerr // The error is a finding.
		}
		if entry.Rewinding != nil && c.Repair {
			c.add(Finding{
				Model: entry.Name, Place: fmt.Sprintf("a restore of sequence %d", *entry.Rewinding), Problem: "it was interrupted",
				Meaning: "the server completes it when it starts; nothing of the model is repaired before that",
			})
			return nil
		}
		return c.model(ctx, examined{from, entry.Name, c.Repair})
	})
	if err == nil {
		err = c.aliases(ctx, disk, models)
	}
	if err != nil {
		return c.findings, c.checked, fmt.Errorf("check: %w", err)
	}
	return c.findings, c.checked, nil
}

func (c *checker) add(f Finding) { c.findings = append(c.findings, f) }

func (c *checker) model(ctx context.Context, i examined) error {
	unread, err := c.snapshots(i)
	if err != nil {
		return err
	}
	i.repair = i.repair && !unread
	if err := c.log(ctx, i); err != nil {
		return err
	}
	if err := c.ids(ctx, i); err != nil {
		return err
	}
	err = i.Handle.EachPending(ctx, func(p storage.Prediction) error {
		c.checked.Pending++
		if _, err := record.DecodePending(p.Value, i.Spec.Outputs); err != nil {
			c.add(Finding{
				Model: i.id, Place: fmt.Sprintf("the pending prediction %q", p.ID), Problem: err.Error(),
				Meaning: "its label is answered with STATE_CORRUPT until it expires",
			})
		}
		return nil
	})
	if err != nil {
		c.add(Finding{Model: i.id, Place: "the pending predictions", Problem: err.Error(), Meaning: "labels for them are not found"})
	}
	return nil
}

// snapshots reads every snapshot as recovery does. It returns true if the disk could not
// read a snapshot.
func (c *checker) snapshots(i examined) (unread bool, err error) {
	kept, err := i.Handle.Snapshots()
	if err != nil {
		return false, err
	}
	for _, sequence := range kept {
		c.checked.Snapshots++
		_, err := i.Restore(sequence)
		if err == nil {
			continue
		}
		place := fmt.Sprintf("the snapshot of sequence %d", sequence)
		if file, err := i.Handle.StatSnapshot(sequence, 0); err == nil {
			place = file.Place
		}
		f := Finding{
			Model: i.id, Place: place, Problem: err.Error(),
			Meaning: "recovery passes it over: it takes an older one, and more of the log",
		}
		switch {
		case errors.Is(err, codec.ErrVersion):
			f.Meaning, f.Rejected = "another build of the server wrote it: run that one", true
		case errors.Is(err, recovery.ErrUnread):
			unread = true
			f.Meaning = "it may be good: look at the disk and check again; nothing of the model is repaired before the file can be read or is renamed to *.damaged"
		case c.Repair:
			name, err := i.Handle.SetSnapshotAside(sequence)
			if err != nil {
				return unread, err
			}
			f.Repaired = "renamed to " + name
		}
		c.add(f)
	}
	return unread, nil
}

// log replays the log, and finds its last learnable record. It writes nothing but repairs.
func (c *checker) log(ctx context.Context, i examined) error {
	last, err := i.Handle.Last()
	if err != nil {
		return err
	}
	m, err := i.RestoreNewest(recovery.EndOfLog, func(uint64, error) {})
	if err != nil {
		return nil //nolint:nilerr // The snapshot has a finding.
	}
	snapshot, good := m.Snapshot, m.Snapshot
	err = i.Handle.Replay(ctx, snapshot, func(r storage.Record) error {
		if ctx.Err() != nil {
			return fmt.Errorf("interrupted: %w", context.Cause(ctx))
		}
		if err := m.Replay(r, recovery.EndOfLog, func(*record.Record, []record.Answer) error { return nil }); err != nil {
			return err
		}
		good = r.Last
		return nil
	})
	c.checked.Observations += good
	switch {
	case ctx.Err() != nil:
		return err
	case last < snapshot:
		return c.behind(ctx, i, last, snapshot)
	case err == nil && good == last:
		return nil
	}
	if err == nil {
		err = fmt.Errorf("the log ends at sequence %d, replayed to %d: %w", last, good, machine.ErrCorrupt)
	}
	err = m.Cause(err)
	f := Finding{
		Model: i.id, Place: fmt.Sprintf("sequence %d of the log", good+1), Problem: err.Error(), Rejected: true,
		Meaning: fmt.Sprintf("the model answers STATE_CORRUPT; cut behind sequence %d it would go on without %d observations, acknowledged ones among them", good, last-min(good, last)),
	}
	if !errors.Is(recovery.StorageError(err), machine.ErrCorrupt) {
		f.Meaning, i.repair = "the model answers STORAGE_FAILED until it can be read: look at the disk and check again", false
	}
	if i.repair {
		if err := i.rewind(ctx, good, nil); err != nil {
			return err
		}
		f.Repaired = fmt.Sprintf("the log is cut behind sequence %d", good)
	}
	c.add(f)
	return nil
}

// behind finds a log that ends before a good snapshot.
func (c *checker) behind(ctx context.Context, i examined, last, snapshot uint64) error {
	f := Finding{
		Model: i.id, Place: fmt.Sprintf("the end of the log, sequence %d", last), Rejected: true,
		Problem: fmt.Sprintf("it is behind the snapshot of sequence %d", snapshot),
		Meaning: "the model answers STATE_CORRUPT, since observations acknowledged after the snapshot may be missing too; it could go on from the snapshot",
	}
	if i.repair {
		if err := i.rewind(ctx, snapshot, &storage.Record{First: snapshot, Last: snapshot}); err != nil {
			return err
		}
		f.Repaired = fmt.Sprintf("the log goes on behind the snapshot of sequence %d", snapshot)
	}
	c.add(f)
	return nil
}

// rewind cuts a model after a sequence, and removes all ids that cannot be decoded.
func (i examined) rewind(ctx context.Context, sequence uint64, last *storage.Record) error {
	return i.Handle.Rewind(ctx, storage.Rewind{Sequence: sequence, Last: last, Undone: func(value []byte) bool {
		s, err := record.DecodeSeen(value, i.Spec.Outputs)
		return err != nil || s.Answer.Sequence > sequence
	}})
}

// ids decodes the value of every remembered id.
func (c *checker) ids(ctx context.Context, i examined) error {
	unreadable := 0
	err := i.Handle.EachID(ctx, func(id storage.ID) error {
		c.checked.IDs++
		if _, err := record.DecodeSeen(id.Value, i.Spec.Outputs); err != nil {
			unreadable++
			c.add(Finding{
				Model: i.id, Place: fmt.Sprintf("the id %q", id.ID), Problem: err.Error(),
				Meaning: "an observation under it is answered with STATE_CORRUPT",
			})
		}
		return nil
	})
	if err != nil {
		c.add(Finding{Model: i.id, Place: "the remembered ids", Problem: err.Error(), Meaning: "observations under ids that cannot be looked up are rejected"})
		return nil //nolint:nilerr // The error is a finding.
	}
	if unreadable == 0 || !i.repair {
		return nil
	}
	last, err := i.Handle.Last()
	if err == nil {
		err = i.rewind(ctx, last, nil)
	}
	if err != nil {
		return err
	}
	for n := len(c.findings) - unreadable; n < len(c.findings); n++ {
		c.findings[n].Repaired = "forgotten: a retry would be learned again"
	}
	return nil
}
