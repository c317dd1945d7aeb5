package engine_test

import (
	"context"
	"errors"
	"fmt"

	"hindsight/internal/cluster/replicated"
	"hindsight/internal/cluster/replicated/logtest"
	"hindsight/internal/engine/recovery"
	"hindsight/internal/engine/storage"
)

// ordered is a disk of one of three servers of a replicated log. The others apply the log while it runs.
type ordered struct {
	log   *logtest.Log
	disks []files
}

func newOrdered() ordered {
	o := ordered{log: logtest.New(3)}
	for range 3 {
		o.disks = append(o.disks, files{newFS()})
	}
	return o
}

func (o ordered) open() (storage.Store, func() error, error) {
	var ends []func() error
	var first storage.Store
	for n, d := range o.disks {
		local, end, err := d.open()
		if err != nil {
			return nil, nil, err
		}
		server := o.log.Server(n)
		s, err := replicated.New(context.Background(), replicated.Options{Local: local, Log: server, Owner: server.Owner, Undone: recovery.Undone})
		if err != nil {
			return nil, nil, fmt.Errorf("open server %d: %w", n, err)
		}
		stop := server.Follow(server.Applied(), s.Apply)
		ends = append(ends, func() error {
			s.Close()
			return errors.Join(stop(), end())
		})
		if first == nil {
			first = s
		}
	}
	return first, func() error {
		var failures []error
		for _, end := range ends {
			failures = append(failures, end())
		}
		return errors.Join(failures...)
	}, nil
}
