package drive

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"google.golang.org/protobuf/proto"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
	"hindsight/client"
)

// Bounds of a batch. A slow learner gets small batches, so that a call ends well before
// its timeout and the progress is seen.
const (
	firstBatch    = 16
	maxBatch      = 512
	maxBatchBytes = 1 << 20
	batchTime     = 250 * time.Millisecond
)

// batches observes the rounds in batches and asks for no prediction. The server learns
// the rows of a batch in order. The outcome of a row has its prequential prediction,
// which is what Predict would have answered just before the row was learned.
//
// The server learns a batch whole or not at all. A rejected batch is sent again in halves, so
// that the rows before a wrong row are learned and the error names the round of the wrong row.
func (d *driver) batches(ctx context.Context, m *client.Model) error {
	calling := context.WithoutCancel(ctx)
	size, limit := firstBatch, maxBatch
	var rows []*flight // They have begun and are not acknowledged.
	for {
		if rows = d.fill(ctx, rows, size); len(rows) == 0 {
			break
		}
		if rows[0].round.Unlabelled {
			if err := d.predict(calling, m, rows[0]); err != nil {
				return err
			}
			rows = rows[1:]
			continue
		}
		batch := rows[:labelled(rows, size)]
		observations := make([]*hindsightv1.ObserveRequest, len(batch))
		for i, f := range batch {
			observations[i] = f.observation()
		}
		start := time.Now()
		outcomes, err := m.ObserveBatch(calling, observations)
		took := time.Since(start)
		var rejected *client.Error
		switch several := len(batch) > 1; {
		case several && errors.As(err, &rejected) && rejected.Reason != "":
			limit = len(batch) / 2
			size = limit
			continue
		case several && err != nil:
			return fmt.Errorf("rounds %d to %d: observe: %w", batch[0].t, batch[len(batch)-1].t, err)
		case err != nil:
			return fmt.Errorf("round %d: observe: %w", batch[0].t, err)
		}
		d.result.Batches++
		for i, f := range batch {
			if err := d.acknowledge(f, outcomes[i]); err != nil {
				return err
			}
		}
		rows = rows[len(batch):]
		switch {
		case took > batchTime:
			size = max(size/2, 1)
		case took < batchTime/2:
			size = min(2*size, limit)
		}
	}
	return d.ended()
}

// labelled counts the rows before the first without a label, up to limit.
func labelled(rows []*flight, limit int) int {
	for n, f := range rows[:min(limit, len(rows))] {
		if f.round.Unlabelled {
			return n
		}
	}
	return min(limit, len(rows))
}

// fill reads rounds behind rows, until there are size or enough bytes. No round begins
// after the end of ctx.
func (d *driver) fill(ctx context.Context, rows []*flight, size int) []*flight {
	for bytes := 0; len(rows) < size && bytes < maxBatchBytes; {
		if ctx.Err() != nil && d.stop == nil {
			d.stop = &interruption{ctx.Err()}
		}
		f := d.read()
		if f == nil {
			break
		}
		d.upcoming = nil
		d.next++
		d.result.Rounds++
		f.known = !f.round.Unlabelled
		rows = append(rows, f)
		bytes += 8*len(f.round.Features) + proto.Size(f.round.Inputs)
	}
	return rows
}

func (d *driver) ended() error {
	if errors.Is(d.stop, io.EOF) {
		return nil
	}
	return d.stop
}
