// Package offsite copies snapshots to an object store, so that a lost disk does
// not lose the models. It never slows or stops learning. A snapshot that cannot be
// copied is logged and counted, and the next one of its model is tried.
package offsite

import (
	"context"
	"crypto/md5" //nolint:gosec // Object stores compare it; nothing is protected by it.
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"gocloud.dev/blob"

	"hindsight/cmd/server/internal/bucket"
)

// Limits of the copying.
const (
	// At most maxWaiting snapshots wait in memory, one of each model, and at most
	// maxWaitingBytes of them, unless one alone is larger. There is room for a
	// burst of small models, for instance at a shutdown, because a snapshot that is
	// dropped is not copied before its model learns again.
	maxWaiting      = 4096
	maxWaitingBytes = 64 << 20
	uploadTimeout   = 2 * time.Minute
	attempts        = 5
	firstBackoff    = time.Second
	// An unreachable bucket fails at every snapshot of every model. At most logged
	// lines of one message are logged in loggedEvery. All failures are counted.
	logged      = 10
	loggedEvery = time.Minute
)

// Options of a copier.
type Options struct {
	// Keep is how many copies stay of a model.
	Keep int
	Log  *zap.Logger
	// Backoff is the mean wait before the first retry; 0 is a second. Each further
	// retry doubles it.
	Backoff time.Duration
}

// Stats are a copier's figures.
type Stats struct {
	// A snapshot that a newer one of its model replaced is neither copied nor failed.
	Copied       int64     `metric:"hindsight_snapshot_copies_total" help:"Snapshots copied to the bucket."`
	CopiedBytes  int64     `metric:"hindsight_snapshot_copied_bytes_total" help:"Bytes of the snapshots copied to the bucket."`
	Failed       int64     `metric:"hindsight_snapshot_copy_failures_total" help:"Snapshots that could not be copied to the bucket."`
	Waiting      int       `metric:"hindsight_snapshot_copies_waiting" help:"Snapshots that wait to be copied to the bucket."`
	WaitingBytes int       `metric:"hindsight_snapshot_copies_waiting_bytes" help:"Bytes of the snapshots that wait to be copied to the bucket."`
	LastSuccess  time.Time `metric:"hindsight_snapshot_copy_last_success_timestamp_seconds" help:"When the newest snapshot was copied to the bucket; absent before the first."`
}

// Copier copies snapshots one at a time, in a goroutine of its own. Of each model it
// copies the newest snapshot that it was given.
type Copier struct {
	bucket *blob.Bucket
	o      Options
	mu     struct {
		sync.Mutex
		// waiting holds the newest snapshot of each model. order holds the models in
		// the order in which they will be copied.
		waiting map[string]snapshot
		order   []string
		// bytes is the size of all snapshots in waiting.
		bytes  int
		closed bool
	}
	wake           chan struct{}
	done           chan struct{}
	stop           context.CancelFunc
	copied, failed atomic.Int64
	bytes          atomic.Int64 // of those copied
	last           atomic.Int64
}

type snapshot struct {
	created  time.Time
	sequence uint64
	data     []byte
}

// Open opens a bucket by its URL, for instance s3://bucket?prefix=hindsight/ or
// file:///var/backups, and starts the copier. Close ends it.
func Open(ctx context.Context, bucketURL string, o Options) (*Copier, error) {
	b, err := bucket.Open(ctx, bucketURL)
	if err != nil {
		return nil, fmt.Errorf("offsite: %w", err)
	}
	return start(b, o), nil //nolint:contextcheck // It lives until Close.
}

func start(b *blob.Bucket, o Options) *Copier {
	if o.Backoff == 0 {
		o.Backoff = firstBackoff
	}
	o.Log = o.Log.WithOptions(zap.WrapCore(func(core zapcore.Core) zapcore.Core {
		return zapcore.NewSamplerWithOptions(core, loggedEvery, logged, 0)
	}))
	c := &Copier{bucket: b, o: o, wake: make(chan struct{}, 1), done: make(chan struct{})}
	c.mu.waiting = map[string]snapshot{}
	ctx, stop := context.WithCancel(context.Background())
	c.stop = stop
	go c.work(ctx)
	return c
}

// Copy queues a snapshot to be copied. It replaces an older one of the same model
// that waits. It does not block: when too much waits, the snapshots that wait for
// the longest are dropped. The data must not change any more.
func (c *Copier) Copy(model string, created time.Time, sequence uint64, data []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.closed {
		return
	}
	older, there := c.mu.waiting[model]
	if !there {
		c.mu.order = append(c.mu.order, model)
	}
	c.mu.bytes += len(data) - len(older.data)
	c.mu.waiting[model] = snapshot{created, sequence, data}
	for len(c.mu.order) > maxWaiting || c.mu.bytes > maxWaitingBytes && len(c.mu.order) > 1 {
		// The new snapshot itself stays.
		at := 0
		if c.mu.order[0] == model {
			at = 1
		}
		dropped := c.mu.order[at]
		c.take(at)
		c.failed.Add(1)
		c.o.Log.Warn("snapshot not copied: others were waiting too", zap.String("model", dropped))
	}
	c.signal()
}

// take removes the snapshot at a place of the order. The caller holds the lock.
func (c *Copier) take(at int) snapshot {
	model := c.mu.order[at]
	c.mu.order = slices.Delete(c.mu.order, at, at+1)
	s := c.mu.waiting[model]
	delete(c.mu.waiting, model)
	c.mu.bytes -= len(s.data)
	return s
}

func (c *Copier) signal() {
	select {
	case c.wake <- struct{}{}:
	default: // It will wake already.
	}
}

// next removes the snapshot that waits for the longest.
func (c *Copier) next() (model string, s snapshot, ok, closed bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.mu.order) == 0 {
		return "", snapshot{}, false, c.mu.closed
	}
	model = c.mu.order[0]
	return model, c.take(0), true, c.mu.closed
}

// newest is the snapshot to retry with after s could not be copied: a newer one of
// the model if one waits, else s.
func (c *Copier) newest(model string, s snapshot) snapshot {
	c.mu.Lock()
	defer c.mu.Unlock()
	if at := slices.Index(c.mu.order, model); at >= 0 {
		return c.take(at)
	}
	return s
}

func (c *Copier) work(ctx context.Context) {
	defer close(c.done)
	for {
		model, s, ok, closed := c.next()
		switch {
		case ok:
			c.copyWithRetries(ctx, model, s)
		case closed || ctx.Err() != nil:
			return
		default:
			select {
			case <-c.wake:
			case <-ctx.Done():
			}
		}
	}
}

// copyWithRetries copies one snapshot, in at most five attempts.
func (c *Copier) copyWithRetries(ctx context.Context, model string, s snapshot) {
	err := c.upload(ctx, model, s)
	for retry := 0; err != nil && retry < attempts-1 && c.pause(ctx, retry); retry++ {
		s = c.newest(model, s)
		err = c.upload(ctx, model, s)
	}
	if err != nil {
		c.failed.Add(1)
		c.o.Log.Error("snapshot not copied", zap.String("model", model), zap.Uint64("sequence", s.sequence), zap.Error(err))
		return
	}
	c.last.Store(time.Now().UnixNano())
	c.copied.Add(1)
	c.bytes.Add(int64(len(s.data)))
	if err := c.retire(ctx, model, s); err != nil {
		c.o.Log.Warn("old copies not removed", zap.String("model", model), zap.Error(err))
	}
}

// pause waits before a retry; the first is 0. The wait is between half and one and a
// half of the backoff, so that many servers do not return to one bucket at the same
// moment. It is false if the context ended.
func (c *Copier) pause(ctx context.Context, retry int) bool {
	backoff := c.o.Backoff << retry
	timer := time.NewTimer(backoff/2 + rand.N(backoff+1))
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// prefix is where the copies of a model are. It has the time of creation, because a
// model may be deleted and created again under its id.
func prefix(model string, created time.Time) string {
	return fmt.Sprintf("%s/%d/", model, created.UnixNano())
}

// key is the key of a copy. Keys of one prefix sort by sequence.
func key(model string, s snapshot) string {
	return fmt.Sprintf("%s%020d.hs", prefix(model, s.created), s.sequence)
}

func (c *Copier) upload(ctx context.Context, model string, s snapshot) (err error) {
	defer bucket.Contain(&err)
	ctx, cancel := context.WithTimeout(ctx, uploadTimeout)
	defer cancel()
	sum := md5.Sum(s.data) //nolint:gosec // See the import.
	key := key(model, s)
	err = c.bucket.WriteAll(ctx, key, s.data, &blob.WriterOptions{ContentType: "application/octet-stream", ContentMD5: sum[:]})
	if err != nil {
		return fmt.Errorf("offsite: write %s: %w", key, err)
	}
	return nil
}

// retire removes copies of a model, but for the newest Keep up to the one just made.
// Copies beyond that one stay until the model has learned past them: a RestoreModel
// has undone what they hold, or the data directory came from an older backup and
// nothing else holds it.
func (c *Copier) retire(ctx context.Context, model string, s snapshot) (err error) {
	defer bucket.Contain(&err)
	ctx, cancel := context.WithTimeout(ctx, uploadTimeout)
	defer cancel()
	prefix, newest := prefix(model, s.created), key(model, s)
	var keys []string
	list := c.bucket.List(&blob.ListOptions{Prefix: prefix})
	for {
		object, err := list.Next(ctx)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("offsite: list %s: %w", prefix, err)
		}
		if strings.HasSuffix(object.Key, ".hs") && object.Key <= newest {
			keys = append(keys, object.Key)
		}
	}
	slices.Sort(keys)
	for _, key := range keys[:max(0, len(keys)-c.o.Keep)] {
		if err := c.bucket.Delete(ctx, key); err != nil {
			return fmt.Errorf("offsite: delete %s: %w", key, err)
		}
	}
	return nil
}

// Stats are the figures of this moment.
func (c *Copier) Stats() Stats {
	s := Stats{Copied: c.copied.Load(), Failed: c.failed.Load(), CopiedBytes: c.bytes.Load()}
	c.mu.Lock()
	s.Waiting, s.WaitingBytes = len(c.mu.order), c.mu.bytes
	c.mu.Unlock()
	if last := c.last.Load(); last != 0 {
		s.LastSuccess = time.Unix(0, last)
	}
	return s
}

// Close copies the snapshots that wait, until the context ends, and then ends the
// copier. Its error says how many were not copied.
func (c *Copier) Close(ctx context.Context) error {
	c.mu.Lock()
	c.mu.closed = true
	c.mu.Unlock()
	before := c.failed.Load()
	c.signal()
	defer c.stop()
	select {
	case <-c.done:
	case <-ctx.Done():
		c.stop()
		<-c.done
	}
	var err error
	if failed := c.failed.Load() - before; failed > 0 {
		err = fmt.Errorf("offsite: %d snapshots were not copied before the end", failed)
	}
	if closeErr := c.bucket.Close(); closeErr != nil {
		err = errors.Join(err, fmt.Errorf("offsite: close: %w", closeErr))
	}
	return err
}
