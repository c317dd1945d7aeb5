package main

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"go.uber.org/zap"

	"hindsight/cmd/server/internal/offsite"
	"hindsight/internal/engine/salvage"
	"hindsight/internal/store"
)

// registryEvery is how often the registry is looked at, and copied if it has changed. A
// look reads the entries of all models.
const registryEvery = time.Minute

// registryCopier copies the registry beside the snapshots, so that metadata and aliases
// are not lost with the disk.
type registryCopier struct {
	disk   *store.Store
	copier *offsite.Copier
	log    *zap.Logger
	// copied is the digest of what was copied last.
	copied [sha256.Size]byte
}

// start copies at once and from then on. The function that it gives ends that, after a
// last copy.
func (r *registryCopier) start(ctx context.Context, every time.Duration) (end func(context.Context)) {
	ctx, cancel := context.WithCancel(ctx)
	var work sync.WaitGroup
	work.Go(func() {
		ticker := time.NewTicker(every)
		defer ticker.Stop()
		for {
			if err := r.copyChanged(ctx); err != nil && ctx.Err() == nil {
				r.log.Warn("the registry is not copied", zap.Error(err))
			}
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
		}
	})
	return func(last context.Context) {
		cancel()
		work.Wait()
		if err := r.copyChanged(last); err != nil {
			r.log.Error("the registry is not copied", zap.Error(err))
		}
	}
}

func (r *registryCopier) copyChanged(ctx context.Context) error {
	now := time.Now()
	registry, err := salvage.Read(ctx, r.disk)
	if err != nil {
		return err
	}
	data, err := json.Marshal(registry)
	if err != nil {
		return fmt.Errorf("encode the registry: %w", err)
	}
	digest := sha256.Sum256(data)
	if digest == r.copied {
		return nil
	}
	registry.Written = now.UTC()
	if data, err = json.Marshal(registry); err != nil {
		return fmt.Errorf("encode the registry: %w", err)
	}
	if err := r.copier.PutRegistry(ctx, data); err != nil {
		return err
	}
	r.copied = digest
	return nil
}
