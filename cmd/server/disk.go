package main

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"go.uber.org/zap"

	"hindsight/internal/rpc"
	"hindsight/internal/store"
)

const (
	// A disk that was full has room with diskRoom bytes free: two tables in memory and
	// their logs.
	diskRoom = 64 << 20
	// A full disk is looked at every diskInterval.
	diskInterval = time.Second
)

// errRoom ends a server whose disk was full and has room again. What starts it again lets
// it go on.
var errRoom = errors.New("the disk was full and has room again: start the server again")

// watchDisk waits for a write that the disk refuses. From then on nothing is acknowledged,
// and health and readiness say so. If the disk is full, it is looked at until it has room:
// that ends the server. After any other failure the server stays as it is, because an
// operator has to look at the disk.
func watchDisk(ctx context.Context, disk *store.Store, server *rpc.Server, open *front, log *zap.Logger) error {
	select {
	case <-disk.Refused():
	case <-ctx.Done():
		return nil
	}
	open.ready.Store(false)
	server.StopServing()
	if free, err := disk.Available(); err != nil || free >= diskRoom || !errors.Is(disk.Failed(), syscall.ENOSPC) {
		log.Error("the disk refuses writes and is not full: look at it, and start the server again",
			zap.Uint64("free_bytes", free), zap.NamedError("space", err), zap.Error(disk.Failed()))
		return nil
	}
	log.Error("the disk is full: the server ends, to be started again, when there is room", zap.Uint64("wanted_bytes", diskRoom))
	again := time.NewTicker(diskInterval)
	defer again.Stop()
	for {
		select {
		case <-again.C:
		case <-ctx.Done():
			return nil
		}
		if free, err := disk.Available(); err == nil && free >= diskRoom {
			return fmt.Errorf("%w (%d MiB free)", errRoom, free>>20)
		}
	}
}
