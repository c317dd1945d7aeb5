package engine_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	commands "hindsight/internal/cluster/command"
	"hindsight/internal/cluster/replicated"
	"hindsight/internal/cluster/replicated/logtest"
	"hindsight/internal/engine"
	"hindsight/internal/engine/recovery"
	"hindsight/internal/engine/storage"
)

// pending checks how many predictions every server counts.
func (s *servers) pending(want uint64) {
	s.t.Helper()
	s.awaitAll()
	for _, v := range s.all {
		if got := v.host.stats(s.t, "m").Pending; got != want {
			s.t.Errorf("server %d has %d pending, want %d", v.place, got, want)
		}
	}
}

// answered returns three servers whose model m has learned the label of a prediction, and the owner.
func answered(t *testing.T, options ...option) (s *servers, label engine.Observation) {
	t.Helper()
	s = startServers(t, 3, options...)
	owner := s.move(0)
	owner.host.create(t, "m", linear(2))
	label = engine.Observation{PredictionID: owner.host.predict(t, "m", 1, 2).ID, Labels: []float64{3}, Weight: 1}
	s.pending(1)
	owner.host.observe(t, "m", label)
	s.awaitAll()
	return s, label
}

// The owner is killed after a label and before its next commit, and all servers start again. No server has the
// prediction any more, and the label is a duplicate at each owner.
func TestAnsweredBeforeTheOwnerDies(t *testing.T) {
	s, label := answered(t)
	for _, v := range s.all {
		v.restart(true)
	}
	s.move(1)
	s.pending(0)
	s.equal()
	for place := range s.all {
		a := s.move(place).host.observe(t, "m", label)
		assert.True(t, a[0].Duplicate && a[0].Sequence == 1, "the label again at owner %d: %+v, want a duplicate at 1", place, a[0])
	}
	s.pending(0)
}

// A server that applies its log again brings no answered prediction back, and learns its label no second time once its
// id is forgotten.
func TestAnsweredStaysAnswered(t *testing.T) {
	s, label := answered(t, func(o *engine.Options) { o.IDWindow, o.IDWindowMin, o.LabelTTL = time.Minute, 0, 24*time.Hour })
	follower := s.all[2]
	require.NoError(t, follower.host.Await(t.Context(), "m", 1))
	must(follower.host.SnapshotModel(t.Context(), "m"))(t)
	next := s.move(1)
	follower.restart(true)
	s.pending(0)
	for range 2 { // The log has the id of the label.
		next.host.observe(t, "m", engine.Observation{Features: []float64{1, 2}, Labels: []float64{3}})
	}
	s.clock.advance(10 * time.Minute)
	for _, v := range s.all {
		v.host.Sweep()
	}
	s.awaitAll()
	for _, place := range []int{1, 2} {
		a, err := s.move(place).host.Observe(t.Context(), "m", []engine.Observation{label})
		assert.ErrorIs(t, err, engine.ErrPredictionNotFound, "%v %v", place, a)
		assert.EqualValues(t, 3, s.all[place].host.stats(t, "m").Sequence, place)
	}
}

// A follower whose clock is ahead expires nothing. As the owner it decides what expires, and the time in the log never
// goes back: the next owner, whose clock is right, stays as far ahead.
func TestClockAhead(t *testing.T) {
	s := startServers(t, 3, func(o *engine.Options) {
		o.IDWindow, o.IDWindowMin, o.LabelTTL = 24*time.Hour, 0, 24*time.Hour
	})
	ahead := s.all[1]
	ahead.clock = newClock()
	ahead.restart(false)
	ahead.clock.advance(25 * time.Hour)
	sweep := func() {
		for _, v := range s.all {
			v.host.Sweep()
		}
	}
	owner := s.move(0)
	owner.host.create(t, "m", linear(2))
	seen := engine.Observation{Features: []float64{1, 2}, Labels: []float64{3}, ObservationID: "seen"}
	owner.host.observe(t, "m", seen)
	owner.host.predict(t, "m", 1, 2)
	s.pending(1)
	sweep()
	s.pending(1)
	assert.True(t, owner.host.observe(t, "m", seen)[0].Duplicate, "a follower whose clock is ahead forgot an id")

	s.move(1)
	sweep()
	s.pending(0)

	owner = s.move(0)
	owner.host.predict(t, "m", 1, 2)
	s.move(1)
	sweep()
	s.pending(1) // Its time is that of the log.

	s.move(0)
	s.clock.advance(24 * time.Hour)
	sweep()
	s.pending(0)
	s.times()
}

// times checks that the times in the log do not go back.
func (s *servers) times() {
	s.t.Helper()
	var newest time.Time
	found := 0
	for _, c := range s.commands() {
		if c.Kind != commands.Expire || c.Expired.IsZero() {
			continue // Forget has only the time before which ids are old.
		}
		found++
		if c.Expired.Before(newest) {
			s.t.Errorf("the time in the log goes back from %v to %v", newest, c.Expired)
		}
		newest = c.Expired
	}
	if found < 2 {
		s.t.Errorf("the log has %d decisions to expire predictions, want at least 2", found)
	}
}

// A prediction under an id of its caller waits for its commit. Predictions under other ids do not wait for it, and a
// prediction under the same id takes its answer.
func TestChosenIDsWaitForTheirOwnAlone(t *testing.T) {
	h, f := startFaulty(t, files{newFS()}, newClock())
	h.create(t, "m", linear(2))
	f.putting = make(chan []storage.Prediction, 3)
	predict := func(id string) <-chan engine.Prediction {
		answer := make(chan engine.Prediction, 1)
		go func() {
			defer close(answer)
			p, err := h.Predict(t.Context(), "m", vectors([]float64{1, 2}), engine.PredictOptions{Remember: true, IDs: []string{id}})
			if err != nil {
				t.Error(err)
				return
			}
			answer <- p[0]
		}()
		return answer
	}
	put := func(id string) {
		t.Helper()
		rows := <-f.putting
		assert.True(t, len(rows) == 1 && rows[0].ID == id, "%+v is stored, want prediction %q", rows, id)
	}
	a := predict("a")
	put("a")
	again := predict("a")
	b := predict("b")
	put("b")
	close(f.goOn)
	for id, answer := range map[string]<-chan engine.Prediction{"a": a, "b": b} {
		p := <-answer
		assert.Equal(t, id, p.ID, "prediction has the id")
	}
	p := <-again
	assert.Equal(t, "a", p.ID, "prediction a again has the id")
	assert.Equal(t, 0, len(f.putting), "more predictions are stored")
}

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
