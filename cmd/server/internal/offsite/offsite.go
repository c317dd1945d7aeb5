// Package offsite copies snapshots to an object store, so that a lost disk does
// not lose the models. It never slows or stops learning: what cannot be copied
// is logged and counted, and the next snapshot of the model is tried again.
package offsite

import (
	"context"
	"crypto/md5" //nolint:gosec // Object stores compare it; nothing is protected by it.
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"gocloud.dev/blob"
	_ "gocloud.dev/blob/fileblob" // Of file:// URLs.
	_ "gocloud.dev/blob/s3blob"   // Of s3:// URLs.
)

// Limits of the copying.
const (
	// At most maxWaiting snapshots, of as many models, wait in memory.
	maxWaiting    = 16
	uploadTimeout = 2 * time.Minute
	attempts      = 5
	firstBackoff  = time.Second
)

// Options of a copier.
type Options struct {
	// Keep is how many copies stay of a model.
	Keep int
	Log  *zap.Logger
	// Backoff is the wait before the first retry, which doubles each time; 0
	// is a second.
	Backoff time.Duration
}

// Stats are a copier's figures.
type Stats struct {
	// Copied and Failed count snapshots, Failed also those that had to make
	// room for others.
	Copied, Failed int64
	// LastSuccess is when the newest copy was done, the zero time before one.
	LastSuccess time.Time
}

// Copier copies the newest snapshot of every model that it is given, one at a
// time, in a goroutine of its own.
type Copier struct {
	bucket *blob.Bucket
	o      Options
	mu     struct {
		sync.Mutex
		// waiting holds the newest snapshot of each model, order who is first.
		waiting map[string]snapshot
		order   []string
		closed  bool
	}
	wake           chan struct{}
	done           chan struct{}
	stop           context.CancelFunc
	copied, failed atomic.Int64
	last           atomic.Int64
}

type snapshot struct {
	created  time.Time
	sequence uint64
	data     []byte
}

// Open opens a bucket by its URL, such as s3://bucket?prefix=hindsight/ or
// file:///var/backups, and starts the copier. Close joins it.
func Open(ctx context.Context, url string, o Options) (*Copier, error) {
	bucket, err := blob.OpenBucket(ctx, url)
	if err != nil {
		return nil, fmt.Errorf("offsite: open %s: %w", url, err)
	}
	return start(bucket, o), nil //nolint:contextcheck // It lives until Close.
}

func start(bucket *blob.Bucket, o Options) *Copier {
	if o.Backoff == 0 {
		o.Backoff = firstBackoff
	}
	c := &Copier{bucket: bucket, o: o, wake: make(chan struct{}, 1), done: make(chan struct{})}
	c.mu.waiting = map[string]snapshot{}
	ctx, stop := context.WithCancel(context.Background())
	c.stop = stop
	go c.work(ctx)
	return c
}

// Copy takes a snapshot over to be copied, in place of an older one of the same
// model that waits. It does not block; of too many models that wait, the one
// that waits for the longest gives way. The data must not change any more.
func (c *Copier) Copy(model string, created time.Time, sequence uint64, data []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.closed {
		return
	}
	if _, there := c.mu.waiting[model]; !there {
		if len(c.mu.order) == maxWaiting {
			dropped := c.mu.order[0]
			c.mu.order = c.mu.order[1:]
			delete(c.mu.waiting, dropped)
			c.failed.Add(1)
			c.o.Log.Warn("snapshot not copied: others were waiting too", zap.String("model", dropped))
		}
		c.mu.order = append(c.mu.order, model)
	}
	c.mu.waiting[model] = snapshot{created, sequence, data}
	c.signal()
}

func (c *Copier) signal() {
	select {
	case c.wake <- struct{}{}:
	default: // It is awake.
	}
}

// next takes the snapshot that waits for the longest.
func (c *Copier) next() (model string, s snapshot, ok, closed bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.mu.order) == 0 {
		return "", snapshot{}, false, c.mu.closed
	}
	model = c.mu.order[0]
	c.mu.order = c.mu.order[1:]
	s = c.mu.waiting[model]
	delete(c.mu.waiting, model)
	return model, s, true, c.mu.closed
}

func (c *Copier) work(ctx context.Context) {
	defer close(c.done)
	for {
		model, s, ok, closed := c.next()
		switch {
		case ok:
			c.copyPatiently(ctx, model, s)
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

// copyPatiently tries again for a while.
func (c *Copier) copyPatiently(ctx context.Context, model string, s snapshot) {
	var err error
	for attempt := range attempts {
		if err = c.upload(ctx, model, s); err == nil {
			c.copied.Add(1)
			c.last.Store(time.Now().UnixNano())
			break
		}
		select {
		case <-ctx.Done():
		case <-time.After(c.o.Backoff << attempt):
			continue
		}
		break
	}
	if err != nil {
		c.failed.Add(1)
		c.o.Log.Error("snapshot not copied", zap.String("model", model), zap.Uint64("sequence", s.sequence), zap.Error(err))
		return
	}
	if err := c.retire(ctx, prefix(model, s.created)); err != nil {
		c.o.Log.Warn("old copies not removed", zap.String("model", model), zap.Error(err))
	}
}

// prefix is where the copies of a model are: a model that was deleted and
// created again has another.
func prefix(model string, created time.Time) string {
	return fmt.Sprintf("%s/%d/", model, created.UnixNano())
}

func (c *Copier) upload(ctx context.Context, model string, s snapshot) error {
	ctx, cancel := context.WithTimeout(ctx, uploadTimeout)
	defer cancel()
	sum := md5.Sum(s.data) //nolint:gosec // See the import.
	key := fmt.Sprintf("%s%020d.hs", prefix(model, s.created), s.sequence)
	err := c.bucket.WriteAll(ctx, key, s.data, &blob.WriterOptions{ContentType: "application/octet-stream", ContentMD5: sum[:]})
	if err != nil {
		return fmt.Errorf("offsite: write %s: %w", key, err)
	}
	return nil
}

// retire removes all but the newest copies.
func (c *Copier) retire(ctx context.Context, prefix string) error {
	ctx, cancel := context.WithTimeout(ctx, uploadTimeout)
	defer cancel()
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
		if strings.HasSuffix(object.Key, ".hs") {
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

// Stats reads the figures.
func (c *Copier) Stats() Stats {
	s := Stats{Copied: c.copied.Load(), Failed: c.failed.Load()}
	if last := c.last.Load(); last != 0 {
		s.LastSuccess = time.Unix(0, last)
	}
	return s
}

// Close copies what waits, until the context ends, and joins the copier.
func (c *Copier) Close(ctx context.Context) error {
	c.mu.Lock()
	c.mu.closed = true
	c.mu.Unlock()
	c.signal()
	defer c.stop()
	select {
	case <-c.done:
	case <-ctx.Done():
		c.stop()
		<-c.done
	}
	if err := c.bucket.Close(); err != nil {
		return fmt.Errorf("offsite: close: %w", err)
	}
	return nil
}
