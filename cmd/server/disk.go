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
	// The free space that a restart after a full disk needs: two tables in memory
	// and their logs.
	diskRoom     = 64 << 20
	diskInterval = time.Second
)

// errRoom ends a server whose disk was full and has room again. Its supervisor starts it
// again.
var errRoom = errors.New("the disk was full and has room again: start the server again")

// watchDisk waits until the disk rejects a write. After that the store acknowledges nothing,
// and health and readiness are false. A full disk is polled until it has room, which ends the
// server. After another failure the server stays as it is for an operator.
func (s *server) watchDisk(ctx context.Context, disk *store.Store, server *rpc.Server) error {
	select {
	case <-disk.Rejected():
	case <-ctx.Done():
		return nil
	}
	fault := "the disk rejects writes"
	if number := syscall.Errno(0); errors.As(disk.Failed(), &number) {
		fault += ": " + number.Error() // Without the path: everybody may ask.
	}
	s.fault.Store(&fault)
	s.ready.Store(false)
	server.StopServing()
	if free, err := disk.Available(); err != nil || free >= diskRoom || !errors.Is(disk.Failed(), syscall.ENOSPC) {
		s.log.Error("the disk rejects writes and is not full: look at it, and start the server again",
			zap.Uint64("free_bytes", free), zap.NamedError("space", err), zap.Error(disk.Failed()))
		return nil
	}
	s.log.Error("the disk is full: the server ends, to be started again, when it has room", zap.Uint64("wanted_bytes", diskRoom))
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
