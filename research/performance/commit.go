package performance

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"

	"hindsight/client"
	"hindsight/cmd/research/load"
	"hindsight/internal/engine/storage"
	"hindsight/internal/store"
)

// commits compares what the server learns in a second with what the store and the learner alone
// could do.
func (b *Bench) commits(ctx context.Context, c *client.Client) (t Table, err error) {
	t = Table{
		Title: "Rates beside the parts",
		Text: "Each figure is the rate of durable Observes beside that of durable appends to a store alone on the same file system, by as many writers, " +
			"or the rate of the rows of ObserveBatch beside that of the same learner, gate included, in one thread of this process.",
		Columns: []string{"what", "rate"},
	}
	plain, err := newStream(taylor)
	if err != nil {
		return t, err
	}
	ids, err := create(ctx, c, "commits-", plain, callers, 1)
	if err != nil {
		return t, err
	}
	mixed, err := newStream(auto)
	if err != nil {
		return t, err
	}
	whole, err := create(ctx, c, "rows-", mixed, 1, history)
	if err != nil {
		return t, err
	}
	alone, err := newLearner(auto, history*batchRows)
	if err != nil {
		return t, err
	}
	dir, err := os.MkdirTemp("", "hindsight-")
	if err != nil {
		return t, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	s, err := store.Open(dir, store.Options{}) //nolint:contextcheck // a store opens without a context
	if err != nil {
		return t, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	logs := make([]storage.Model, callers)
	for n := range logs {
		if logs[n], err = s.Create(ctx, strconv.Itoa(n), nil); err != nil {
			return t, err
		}
	}
	last := make([]uint64, callers)
	appends := func() (f figures, err error) {
		f[rate], err = appended(ctx, b.Slice, logs, last)
		return f, err
	}
	learned := func() (f figures, err error) {
		f[rate] = 1 / timed(b.Slice, alone.observe) / batchRows // It grows as the served one does.
		return f, alone.err
	}
	for _, k := range []struct {
		name           string
		server, beside func() (figures, error)
	}{
		{"Observe of one model / store", b.way(ctx, side{b.Server, c, ids[:1], plain.rows}, observe()), appends},
		{fmt.Sprintf("Observe of %d models / store", callers), b.way(ctx, side{b.Server, c, ids, plain.rows}, observe()), appends},
		{"ObserveBatch of `auto` / learner", b.way(ctx, side{b.Server, c, whole, mixed.rows}, load.Options{Call: mixed.learn, Callers: batches}), learned},
	} {
		f, err := Alternate(b.Rounds, k.server, k.beside)
		if err != nil {
			return t, fmt.Errorf("%s: %w", k.name, err)
		}
		t.Rows = append(t.Rows, Row{k.name, []Ratio{Paired(each(f[0], rate), each(f[1], rate))}})
	}
	return t, nil
}

// appended returns how many records a second are durable while one writer for each log appends
// behind its last.
func appended(ctx context.Context, slice time.Duration, logs []storage.Model, last []uint64) (float64, error) {
	const size = 120
	var writers errgroup.Group
	count, data, begin := make([]int, len(logs)), make([]byte, size), time.Now()
	for n, log := range logs {
		writers.Go(func() error {
			for ; time.Since(begin) < slice; count[n]++ {
				last[n]++
				if err := log.Append(ctx, storage.Commit{Record: storage.Record{First: last[n], Last: last[n], Data: data}}); err != nil {
					return err
				}
			}
			return nil
		})
	}
	err := writers.Wait()
	total := 0
	for _, n := range count {
		total += n
	}
	return float64(total) / time.Since(begin).Seconds(), err
}
