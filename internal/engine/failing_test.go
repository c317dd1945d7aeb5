package engine_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"hindsight/internal/engine"
	"hindsight/internal/engine/storage"
)

// asked is a store whose expiries end as the test says, one after the other.
type asked struct {
	storage.Store
	ends <-chan error
}

// Expire implements storage.Store.
func (a asked) Expire(ctx context.Context, _ time.Time, _ func(storage.Model)) error {
	select {
	case err := <-a.ends:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Sweeps that fail for one cause, one after the other, make one line of the log.
func TestFailedSweepIsToldOnce(t *testing.T) {
	core, lines := observer.New(zap.ErrorLevel)
	ends := make(chan error)
	d := wrapped{files{newFS()}, func(s storage.Store) storage.Store { return asked{s, ends} }}
	h := start(t, d, newClock(), func(o *engine.Options) { o.Log, o.Sweep = zap.New(core), time.Millisecond })
	full, gone := errors.New("no space left"), errors.New("input/output error")
	for _, err := range []error{full, full, full, nil, full, gone, gone, nil} {
		ends <- err
	}
	h.stop(t)
	var told []string
	for _, l := range lines.All() {
		told = append(told, fmt.Sprint(l.ContextMap()["error"]))
	}
	assert.True(t, len(told) == 3 && strings.Contains(told[0], full.Error()) && strings.Contains(told[1], full.Error()) && strings.Contains(told[2], gone.Error()), "the log has %q", told)
}

// The last snapshots of many models fail for one cause, which is told once.
func TestFailedLastSnapshotsAreToldOnce(t *testing.T) {
	h, f := startFaulty(t, files{newFS()}, newClock())
	const models = 20
	for n := range models {
		id := fmt.Sprintf("m%02d", n)
		h.create(t, id, linear(1))
		h.observe(t, id, engine.Observation{Features: []float64{1}, Labels: []float64{0.5}})
	}
	f.failing.Store(true)
	err := h.Close()
	h.abandon()
	assert.True(t, err != nil && !strings.Contains(err.Error(), "\n") && strings.Contains(err.Error(), fmt.Sprint(models-1, " more models")), "Close: %v", err)
}
