package backup

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"hindsight/cmd/server/internal/bucket"
)

// ErrHeld says that a place belongs to another store.
var ErrHeld = errors.New("the place belongs to another store")

// leaseKey is the object that says which store a place belongs to. It is created once and never replaced.
const leaseKey = "store.json"

const maxLeaseBytes = 4 << 10

type lease struct {
	// Store is the identity of the store. A cluster of one group, and each group of a cluster, has one.
	Store string    `json:"store"`
	Host  string    `json:"host"`
	Since time.Time `json:"since"`
}

// claim takes a place for a store, or returns ErrHeld if it belongs to another. Two stores that write to one place would remove
// objects of each other.
func (p *Place) claim(ctx context.Context, store string, now time.Time) error {
	host, _ := os.Hostname() // For the error message of another store.
	data, err := json.Marshal(lease{Store: store, Host: host, Since: now})
	if err != nil {
		return fmt.Errorf("claim the place: %w", err)
	}
	err = p.bucket.Create(ctx, leaseKey, bytes.NewReader(data), int64(len(data)))
	if err == nil {
		return p.bucket.Sync()
	}
	if !errors.Is(err, bucket.ErrExists) {
		return fmt.Errorf("claim the place: %w", err)
	}
	return p.checkOwner(ctx, store)
}

// checkOwner returns ErrHeld unless the place belongs to a store.
func (p *Place) checkOwner(ctx context.Context, store string) error {
	from, err := p.bucket.Read(ctx, leaseKey)
	if err != nil {
		return fmt.Errorf("read %s: %w", leaseKey, err)
	}
	data, err := io.ReadAll(io.LimitReader(from, maxLeaseBytes))
	if err := errors.Join(err, from.Close()); err != nil {
		return fmt.Errorf("read %s: %w", leaseKey, err)
	}
	var l lease
	if err := json.Unmarshal(data, &l); err != nil || l.Store == "" {
		return fmt.Errorf("%s is damaged: got %.80q: remove it from the place if no other store backs up there", leaseKey, data)
	}
	if l.Store != store {
		return fmt.Errorf("%w: %s of host %s since %s, and this store is %s: choose another place, or remove %s from the place if the other store is gone",
			ErrHeld, l.Store, l.Host, l.Since.UTC().Format(time.RFC3339), store, leaseKey)
	}
	return nil
}
