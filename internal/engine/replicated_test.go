package engine_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	commands "hindsight/internal/cluster/command"
	"hindsight/internal/engine"
	"hindsight/internal/engine/storage"
)

// A server that is not the owner follows all changes of the owner, and rejects calls that change the store.
func TestReplicatedStore(t *testing.T) {
	s := startServers(t, 2)
	a, b := s.all[0], s.all[1]
	a.host.create(t, "m", taylor(2, 2))
	p := a.host.predict(t, "m", 1, 2)
	a.host.observe(t, "m", engine.Observation{PredictionID: p.ID, Labels: []float64{1}})
	for n := range 50 {
		a.host.observe(t, "m", one(fmt.Sprint("o", n), float64(n%7), 1)...)
	}
	got := s.equal()["m"]
	assert.True(t, got.Sequence == 51 && got.Pending == 0, "%+v", got)
	rejected := func() map[string]error {
		ctx, out := t.Context(), map[string]error{}
		_, out["create"] = b.host.CreateModel(ctx, "other", linear(1))
		_, out["import"] = b.host.ImportModel(ctx, "other", mustExport(t, b.host, "m"))
		_, out["update"] = b.host.UpdateModel(ctx, "m", engine.UpdateOptions{Edit: func(*engine.Metadata) {}})
		out["delete"] = b.host.DeleteModel(ctx, "m")
		_, out["undelete"] = b.host.UndeleteModel(ctx, "m")
		_, out["alias"] = b.host.SetAlias(ctx, "live", "m", "")
		out["delete alias"] = b.host.DeleteAlias(ctx, "live")
		_, out["restore"] = b.host.RestoreModel(ctx, "m", 10)
		_, out["observe"] = b.host.Observe(ctx, "m", one("o", 1, 1))
		_, out["route"] = b.host.Route(ctx, "m")
		_, out["remember"] = b.host.Predict(ctx, "m", vectors([]float64{1, 1}), engine.PredictOptions{Remember: true})
		_, out["compare"] = b.host.CompareModels(ctx, "m")
		return out
	}
	for name, err := range rejected() {
		assert.ErrorIs(t, err, engine.ErrNotOwner, name)
	}
	ctx := t.Context()
	_, err := b.host.Engine.CreateModel(ctx, "other", linear(1), engine.CreateOptions{ValidateOnly: true})
	_, other := b.host.Predict(ctx, "m", vectors([]float64{1, 1}), engine.PredictOptions{})
	err = errors.Join(err, other)
	assert.NoError(t, err)
	s.equal()
	s.move(1)
	a, b = b, a
	for n := range 50 {
		got := a.host.observe(t, "m", one(fmt.Sprint("o", n), float64(n%7), 1)...)[0]
		require.True(t, got.Duplicate && got.Sequence == uint64(n+2), "observation %d again: %+v", n, got)
	}
	s.equal()
}

func mustExport(t *testing.T, h *host, id string) []byte {
	t.Helper()
	return must(h.ExportModel(t.Context(), id, engine.ExportOptions{}))(t)
}

// A caller that knows a sequence waits until a server has learned the sequence.
func TestAwait(t *testing.T) {
	s := startServers(t, 2)
	a, b := s.all[0], s.all[1]
	a.host.create(t, "m", linear(1))
	s.awaitAll()
	b.pause(true)
	a.host.observe(t, "m", one("a", 1)...)
	late, leave := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer leave()
	assert.ErrorIs(t, b.host.Await(late, "m", 1), context.DeadlineExceeded)
	assert.NoError(t, a.host.Await(t.Context(), "m", 1))
	waited := make(chan error)
	go func() { waited <- b.host.Await(t.Context(), "m", 2) }()
	a.host.observe(t, "m", one("b", 1)...)
	b.host.Hibernate("m")
	b.pause(false)
	assert.NoError(t, <-waited)
	go func() { waited <- b.host.Await(t.Context(), "m", 3) }()
	require.NoError(t, a.host.DeleteModel(t.Context(), "m"))
	assert.ErrorIs(t, <-waited, engine.ErrModelNotFound)
}

// Every change of unknown outcome fails with ErrUnknown, and can be repeated. The repeated call succeeds, or is
// rejected because the first call was made.
func TestChangesOfUnknownOutcome(t *testing.T) {
	for _, fate := range []int{commandNotDone, commandLate} {
		s := startServers(t, 2)
		var exported []byte
		for _, c := range []struct {
			what string
			do   func(*host) error
			// made rejects a repeated call whose first one was made. Nil: the repeated call succeeds.
			made error
		}{
			{"create", func(h *host) error { _, err := h.CreateModel(t.Context(), "m", linear(1)); return err }, nil},
			{"update", func(h *host) error {
				return errOf(h.UpdateModel(t.Context(), "m", engine.UpdateOptions{Edit: func(m *engine.Metadata) { m.DisplayName = "M" }}))
			}, nil},
			{"set alias", func(h *host) error { _, err := h.SetAlias(t.Context(), "live", "m", ""); return err }, nil},
			{"delete alias", func(h *host) error { return h.DeleteAlias(t.Context(), "live") }, engine.ErrAliasNotFound},
			{"restore", func(h *host) error { _, err := h.RestoreModel(t.Context(), "m", 0); return err }, nil},
			{"delete", func(h *host) error { return h.DeleteModel(t.Context(), "m") }, engine.ErrModelNotFound},
			{"import", func(h *host) error { _, err := h.ImportModel(t.Context(), "m", exported); return err }, engine.ErrModelExists},
		} {
			owner := s.move(s.owner().place)
			if c.what == "delete" {
				var err error
				exported, err = owner.host.ExportModel(t.Context(), "m", engine.ExportOptions{})
				require.NoError(t, err)
			}
			s.awaitAll() // A digest would meet the fate in place of the change.
			s.fate(fate)
			err := c.do(owner.host)
			answered := err == nil && fate == commandLate // The server applied the change before it lost the connection.
			assert.True(t, (answered || errors.Is(err, engine.ErrUnknown)) && !errors.Is(err, engine.ErrStorage), "%d: %s: %v", fate, c.what, err)
			want := c.made
			if fate == commandNotDone {
				want = nil
			}
			owner = s.move(s.owner().place)
			assert.ErrorIs(t, c.do(owner.host), want, "%v %v", fate, c.what)
		}
		s.equal()
	}
}

// A call that creates a model again, before the outcome of the first call is known, finds the model.
func TestCreatedMeanwhile(t *testing.T) {
	s := startServers(t, 1)
	a := s.all[0]
	a.pause(true)
	ctx, leave := context.WithCancel(t.Context())
	create := func(ctx context.Context) <-chan error {
		created := make(chan error, 1)
		go func() {
			_, err := a.host.CreateModel(ctx, "m", linear(1))
			created <- err
		}()
		return created
	}
	first := create(ctx)
	waitFor(t, a.host, func() bool { return len(s.commands()) == 1 })
	leave()
	require.Error(t, <-first, "created")
	again := create(t.Context())
	time.Sleep(10 * time.Millisecond) // Most often it proposes now.
	a.pause(false)
	assert.NoError(t, <-again)
}

// A new owner whose model is far behind its log learns all of it before an observation, and knows all ids.
func TestNewOwnerBehindItsLog(t *testing.T) {
	s := startServers(t, 2)
	a, b := s.all[0], s.all[1]
	a.host.create(t, "m", linear(1))
	a.host.create(t, "next", linear(1))
	must(a.host.SetAlias(t.Context(), "live", "m", ""))(t)
	s.equal()
	release := b.host.Hold("m")
	for n := range 3 {
		rows := make([]engine.Observation, 1000)
		for k := range rows {
			rows[k] = one(fmt.Sprint(n, "-", k), 1)[0]
		}
		a.host.observe(t, "m", rows...)
	}
	must(a.host.SetAlias(t.Context(), "live", "next", ""))(t)
	s.move(1)
	found := make(chan string)
	go func() {
		route, err := b.host.Route(t.Context(), "live")
		if err != nil {
			found <- err.Error()
			return
		}
		defer route.Done()
		target, err := route.For("", "2-999")
		found <- fmt.Sprint(target.ID(), " ", err)
	}()
	ticket := must(b.host.Submit(t.Context(), "m", one("new", 1)))(t)
	release()
	if a, err := ticket.Wait(t.Context()); err != nil || a[0].Sequence != 3001 {
		t.Errorf("%+v, %v", a, err)
	}
	assert.Equal(t, "m <nil>", <-found)
	all := s.commands()
	c := all[len(all)-1]
	assert.True(t, c.Kind == commands.Append && len(c.IDs) == 1000, "%d ids came with the commit, want those of the record before", len(c.IDs))
	s.equal()
}

// A model that is not in memory is loaded once its replay has become long.
func TestLongLogOfAnIdleModel(t *testing.T) {
	s := startServers(t, 2, after(50))
	a, b := s.all[0], s.all[1]
	a.host.create(t, "m", linear(1))
	s.awaitAll()
	b.host.hibernate(t)
	for n := range 49 {
		a.host.observe(t, "m", one(strconv.Itoa(n), 1)...)
	}
	s.settle()
	assert.Equal(t, 0, b.host.loaded(t))
	a.host.observe(t, "m", one("50", 1)...)
	s.settle()
	waitFor(t, b.host, func() bool { return b.host.loaded(t) == 1 })
	s.equal()
}

// A watcher at a server that is not the owner receives the same updates as a watcher at the owner.
func TestWatchOfAnotherServer(t *testing.T) {
	s := startServers(t, 2)
	a, b := s.all[0], s.all[1]
	a.host.create(t, "m", linear(1))
	s.awaitAll()
	w := must(b.host.Watch(t.Context(), "m", 100))(t)
	defer w.Close()
	var told []uint64
	read := func(through uint64) {
		t.Helper()
		waitFor(t, b.host, func() bool {
			for l, ok := w.Next(); ok; l, ok = w.Next() {
				told = append(told, l.Sequence)
			}
			return len(told) > 0 && told[len(told)-1] == through
		})
	}
	for n := range 4 {
		a.host.observe(t, "m", one(strconv.Itoa(n), 1)...)
	}
	s.settle()
	read(4)
	must(a.host.RestoreModel(t.Context(), "m", 2))(t)
	s.awaitAll()
	a.host.observe(t, "m", one("again", 1)...)
	s.settle()
	read(3)
	assert.Equal(t, []uint64{1, 2, 3, 4, 3}, told)
	s.equal()
}

// A follower that has learned more of its leader's log than the leader at a new owner goes on to follow.
func TestFollowerAheadOfItsLeader(t *testing.T) {
	s := startServers(t, 2)
	a, b := s.all[0], s.all[1]
	a.host.create(t, "leader", linear(1))
	must(a.host.Engine.CreateModel(t.Context(), "follower", linear(1), engine.CreateOptions{Follows: "leader"}))(t)
	s.equal()
	release := b.host.Hold("leader")
	for n := range 10 {
		a.host.observe(t, "leader", one(strconv.Itoa(n), 1)...)
	}
	waitFor(t, a.host, func() bool { return a.host.Behind("follower") == 0 })
	s.settle()
	s.move(1)
	require.NoError(t, b.host.Await(t.Context(), "follower", 10))
	assert.EqualValues(t, 0, b.host.Behind("follower"))
	release()
	b.host.observe(t, "leader", one("more", 1)...)
	waitFor(t, b.host, func() bool { return b.host.Behind("follower") == 0 })
	got := s.equal()["follower"]
	assert.True(t, got.Follows == "leader" && got.Sequence == 11, "%+v", got)
}

// A server that does not own proposes nothing by itself: its followers rest, and it purges nothing.
func TestServerThatDoesNotOwnRests(t *testing.T) {
	s := startServers(t, 2, func(o *engine.Options) { o.DeletedKept = time.Hour })
	a, b := s.all[0], s.all[1]
	a.host.create(t, "leader", linear(1))
	a.host.create(t, "old", linear(1))
	must(a.host.Engine.CreateModel(t.Context(), "follower", linear(1), engine.CreateOptions{Follows: "leader"}))(t)
	require.NoError(t, a.host.DeleteModel(t.Context(), "old"))
	s.equal()
	release := a.host.Hold("follower")
	a.host.observe(t, "leader", one("a", 1)...)
	s.settle()
	require.NoError(t, b.host.Await(t.Context(), "leader", 1))
	s.clock.advance(2 * time.Hour)
	b.host.Sweep()
	if behind := b.host.Behind("follower"); behind != 1 || len(b.list()) != 3 {
		t.Errorf("behind by %d, models %v", behind, b.list())
	}
	release()
	s.move(1)
	b.host.Sweep()
	waitFor(t, b.host, func() bool { return b.host.Behind("follower") == 0 })
	if s.equal(); len(a.list()) != 2 {
		t.Errorf("models %v", a.list())
	}
}

// A server does not use a snapshot that it writes while the owner restores the model, whether it writes the snapshot
// before or after the engine receives the restore.
func TestSnapshotDuringRestore(t *testing.T) {
	for _, told := range []bool{true, false} {
		s := startServers(t, 2)
		a, b := s.all[0], s.all[1]
		a.host.create(t, "m", linear(1))
		for n := range 10 {
			a.host.observe(t, "m", one(strconv.Itoa(n), float64(n))...)
		}
		s.equal()
		tell := make(chan struct{})
		b.local.snapshotWaits.Store(true)
		b.tell = func(c storage.Change) {
			if c.Kind == storage.Rewound {
				<-tell
			}
			b.host.Changed(c)
		}
		written := make(chan engine.Snapshot)
		go func() {
			w, err := b.host.SnapshotModel(t.Context(), "m")
			assert.NoError(t, err)
			written <- w
		}()
		<-b.local.writing
		must(a.host.RestoreModel(t.Context(), "m", 5))(t)
		if told {
			close(tell)
			s.settle()
			close(b.local.goOn)
			w := <-written
			assert.EqualValues(t, 5, w.Sequence)
		} else {
			waitFor(t, b.host, func() bool { last, err := b.last("m"); return err == nil && last == 5 })
			close(b.local.goOn)
			<-written
			close(tell)
		}
		for n := range 10 {
			a.host.observe(t, "m", one(fmt.Sprint("again", n), float64(n))...)
		}
		s.equal()
		b.host.hibernate(t)
		s.equal()
	}
}

// A server that crashed in the middle of a restore rejects the model until the log has completed the restore.
func TestInterruptedRestore(t *testing.T) {
	s := startServers(t, 2)
	a, b := s.all[0], s.all[1]
	a.host.create(t, "m", linear(1))
	for n := range 10 {
		a.host.observe(t, "m", one(strconv.Itoa(n), float64(n))...)
	}
	s.equal()
	b.pause(true)
	must(a.host.RestoreModel(t.Context(), "m", 5))(t)
	a.host.observe(t, "m", one("again", 1)...)
	require.NoError(t, b.local.Sync(t.Context()))
	b.rewinding = ptr(uint64(5))
	b.restart(true)
	assert.ErrorIs(t, errOf(b.view("m")), engine.ErrOverloaded)
	b.pause(false)
	s.equal()
}

// cutBehind returns two servers with a model of 10 observations. Only server 0 can restore earlier states by itself: the
// log of server 1 is cut.
func cutBehind(t *testing.T) (s *servers, a, b *server) {
	t.Helper()
	s = startServers(t, 2)
	a, b = s.all[0], s.all[1]
	b.options = append(b.options, func(o *engine.Options) { o.SnapshotsKept = 1 })
	b.restart(false)
	a.host.create(t, "m", linear(1))
	for n := range 10 {
		a.host.observe(t, "m", one(strconv.Itoa(n), float64(n))...)
	}
	s.equal()
	must(b.host.SnapshotModel(t.Context(), "m"))(t)
	return s, a, b
}

// A server whose log begins behind the sequence of a restore follows the restore, also after a crash.
func TestRestoreBeforeTheLog(t *testing.T) {
	s, a, b := cutBehind(t)
	must(a.host.RestoreModel(t.Context(), "m", 5))(t)
	s.equal()
	a.host.observe(t, "m", one("again", 1)...)
	s.equal()
	b.restart(true)
	s.equal()
	for _, v := range s.all {
		h := s.move(v.place).host
		for sequence, row := range map[uint64][]engine.Observation{5: one("4", 4), 6: one("again", 1)} {
			got := h.observe(t, "m", row...)[0]
			assert.True(t, got.Sequence == sequence && got.Duplicate, "server %d answers observation %q: %+v", v.place, row[0].ObservationID, got)
		}
	}
}

// A server that cannot follow a restore, because the snapshot of the restore is lost, reports the error, and rejects all
// calls of the model.
func TestRestoreThatCannotBeFollowed(t *testing.T) {
	s, a, b := cutBehind(t)
	b.tell = func(c storage.Change) {
		if c.Kind == storage.Rewound {
			assert.NoError(t, c.Model.RemoveSnapshot(5))
		}
		b.host.Changed(c)
	}
	must(a.host.RestoreModel(t.Context(), "m", 5))(t)
	s.awaitAll()
	require.NoError(t, b.host.Turn("m"))
	_, err := b.view("m")
	assert.True(t, errors.Is(err, engine.ErrCorrupt) && slices.Equal(b.lost, []string{"m"}), "reported: %v, %v", b.lost, err)
}
