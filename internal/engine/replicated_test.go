package engine_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"hindsight/internal/engine"
	"hindsight/internal/engine/storage"
	"hindsight/internal/model"
)

// view is what a server shows of a model.
type view struct {
	Sequence, Pending uint64
	Digest            string
	ETag, Follows     string
	Metadata          engine.Metadata
	Values            []float64
	Loss              float64
}

// view reads a model at a server.
func (v *server) view(id string) (out view, err error) {
	ctx := context.Background()
	info, err := v.host.GetModel(ctx, id)
	if err != nil {
		return out, err
	}
	x := make([]float64, info.Spec.Dimension)
	for n := range x {
		x[n] = 0.3 * float64(n+1)
	}
	p, err := v.host.Predict(ctx, id, vectors(x), engine.PredictOptions{})
	if err != nil {
		return out, err
	}
	s, err := v.host.ModelStats(ctx, id, engine.StatsOptions{})
	out = view{
		Sequence: s.Sequence, Pending: s.Pending, Digest: fmt.Sprintf("%x", s.Digest), ETag: info.ETag,
		Follows: info.Follows, Metadata: info.Metadata, Values: p[0].Values, Loss: s.Summary.Whole.Served.Loss,
	}
	return out, err
}

// list lists the models of a server, deleted ones too.
func (v *server) list() (out []string) {
	page, err := v.host.Engine.ListModels(context.Background(), engine.ListOptions{Limit: 1000, Deleted: true})
	if err != nil {
		return []string{err.Error()}
	}
	for _, m := range page.Models {
		out = append(out, fmt.Sprint(m.ID, " ", m.Created.UnixNano(), " ", m.Deleted.IsZero(), " ", m.ETag))
	}
	return out
}

// equal compares what all servers show, once they have learned all.
func (s *servers) equal() map[string]view {
	s.t.Helper()
	s.awaitAll()
	owner := s.owner()
	want, aliases, all := map[string]view{}, owner.aliases(), owner.list()
	for _, v := range s.all {
		if got := v.list(); !slices.Equal(got, all) {
			s.t.Fatalf("server %d has\n%s\nthe owner\n%s", v.place, strings.Join(got, "\n"), strings.Join(all, "\n"))
		}
		if got := v.aliases(); !reflect.DeepEqual(got, aliases) {
			s.t.Fatalf("server %d has the aliases %+v, the owner %+v", v.place, got, aliases)
		}
		for _, line := range all {
			var id string
			var created int64
			var live bool
			if _, err := fmt.Sscan(line, &id, &created, &live); err != nil || !live {
				continue
			}
			end, err := s.all[0].last(id)
			if err == nil {
				err = v.host.Await(s.t.Context(), id, end)
			}
			var got view
			if err == nil {
				got, err = v.view(id)
			}
			if err != nil {
				s.t.Fatalf("server %d, model %q: %v", v.place, id, err)
			}
			if s.restored[id] || s.log != nil {
				// A server that never learned what was undone keeps the predictions that it answered until they expire, and
				// an owner that is deposed those that it has not sent.
				got.Pending = 0
			}
			if want[id].ETag == "" {
				want[id] = got
			}
			if !reflect.DeepEqual(got, want[id]) {
				s.t.Fatalf("server %d, model %q:\n%+v\nwant\n%+v", v.place, id, got, want[id])
			}
		}
		if len(v.mismatches) > 0 {
			s.t.Fatalf("server %d: digests of sequences %v differ", v.place, v.mismatches)
		}
	}
	return want
}

// last is the end of the log of a model.
func (v *server) last(id string) (last uint64, err error) {
	err = v.local.Models(context.Background(), func(e storage.Entry) error {
		if e.Name != id {
			return nil
		}
		last, err = e.Model.Last()
		return err
	})
	return last, err
}

func (v *server) aliases() []engine.Alias {
	all, err := v.host.ListAliases()
	if err != nil {
		v.servers.t.Fatal(err)
	}
	return all
}

// Another server than the owner follows all that the owner does, and refuses what changes the store.
func TestReplicatedStore(t *testing.T) {
	s := startServers(t, 2)
	a, b := s.all[0], s.all[1]
	a.host.create(t, "m", taylor(2, 2))
	p := a.host.predict(t, "m", 1, 2)
	a.host.observe(t, "m", engine.Observation{PredictionID: p.ID, Labels: []float64{1}})
	for n := range 50 {
		a.host.observe(t, "m", one(fmt.Sprint("o", n), float64(n%7), 1)...)
	}
	if got := s.equal()["m"]; got.Sequence != 51 || got.Pending != 0 {
		t.Errorf("%+v", got)
	}
	refused := func() map[string]error {
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
	for name, err := range refused() {
		if !errors.Is(err, engine.ErrNotOwner) {
			t.Errorf("%s: %v", name, err)
		}
	}
	ctx := t.Context()
	_, err := b.host.Engine.CreateModel(ctx, "other", linear(1), engine.CreateOptions{ValidateOnly: true})
	_, other := b.host.Predict(ctx, "m", vectors([]float64{1, 1}), engine.PredictOptions{})
	if err = errors.Join(err, other); err != nil {
		t.Error(err)
	}
	s.equal()
	s.move(1)
	a, b = b, a
	for n := range 50 {
		if got := a.host.observe(t, "m", one(fmt.Sprint("o", n), float64(n%7), 1)...)[0]; !got.Duplicate || got.Sequence != uint64(n+2) {
			t.Fatalf("observation %d again: %+v", n, got)
		}
	}
	s.equal()
}

func mustExport(t *testing.T, h *host, id string) []byte {
	t.Helper()
	data, err := h.ExportModel(t.Context(), id, engine.ExportOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// A caller that knows of a sequence waits until a server has learned it.
func TestAwait(t *testing.T) {
	s := startServers(t, 2)
	a, b := s.all[0], s.all[1]
	a.host.create(t, "m", linear(1))
	s.awaitAll()
	b.pause(true)
	a.host.observe(t, "m", one("a", 1)...)
	late, leave := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer leave()
	if err := b.host.Await(late, "m", 1); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a server that does not apply: %v", err)
	}
	if err := a.host.Await(t.Context(), "m", 1); err != nil {
		t.Error(err)
	}
	waited := make(chan error)
	go func() { waited <- b.host.Await(t.Context(), "m", 2) }()
	a.host.observe(t, "m", one("b", 1)...)
	b.host.Hibernate("m")
	b.pause(false)
	if err := <-waited; err != nil {
		t.Error(err)
	}
	go func() { waited <- b.host.Await(t.Context(), "m", 3) }()
	if err := a.host.DeleteModel(t.Context(), "m"); err != nil {
		t.Fatal(err)
	}
	if err := <-waited; !errors.Is(err, engine.ErrModelNotFound) {
		t.Errorf("of a deleted model: %v", err)
	}
}

// The digests of the owner are compared with those of the others, and one that differs is reported.
func TestDigests(t *testing.T) {
	s := startServers(t, 2)
	a, b := s.all[0], s.all[1]
	a.host.create(t, "m", linear(1))
	rows := func(n int) (out []engine.Observation) {
		for range n {
			out = append(out, engine.Observation{Features: []float64{1}, Labels: []float64{2}})
		}
		return out
	}
	for range 5 {
		a.host.observe(t, "m", rows(1000)...)
	}
	s.equal()
	if len(s.mu.log) != 7 { // A creation, five records, a digest.
		t.Errorf("%d commands", len(s.mu.log))
	}
	// What the other server is told before and after it has learned the sequence.
	s.settle()
	b.host.Changed(digested(b, 5000, "another"))
	b.host.Changed(digested(b, 9000, "another"))
	for range 4 {
		a.host.observe(t, "m", rows(1000)...)
	}
	s.settle()
	if err := b.host.Await(t.Context(), "m", 9000); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(b.mismatches, []uint64{5000, 9000}) || b.host.Totals().DigestMismatches.Load() != 2 {
		t.Errorf("reported: %v", b.mismatches)
	}
	b.mismatches = nil
}

// An append of unknown outcome costs no reload: the log tells what came of it. A retry is learned once, whoever owns.
func TestUnknownOutcomes(t *testing.T) {
	for _, fate := range []int{commandDone, commandNotDone, commandLate} {
		s := startServers(t, 2)
		a := s.all[0]
		a.host.create(t, "m", linear(1))
		a.host.observe(t, "m", one("a", 1)...)
		s.fate(fate)
		if _, err := a.host.Observe(t.Context(), "m", one("b", 1)); !errors.Is(err, engine.ErrUnknown) {
			t.Errorf("%d: %v", fate, err)
		}
		s.fate(fate)
		owner := s.move(s.owner().place)
		if _, err := owner.host.CreateModel(t.Context(), "n", linear(2)); err == nil {
			t.Errorf("%d: created", fate)
		}
		owner = s.move(s.owner().place)
		for id, want := range map[string]bool{"a": true, "b": fate != commandNotDone} {
			if got := owner.host.observe(t, "m", one(id, 1)...)[0]; got.Duplicate != want {
				t.Errorf("%d: %s again: %+v", fate, id, got)
			}
		}
		if _, err := owner.host.CreateModel(t.Context(), "n", linear(2)); err != nil {
			t.Errorf("%d: created again: %v", fate, err)
		}
		if s.equal(); a.host.Totals().Reloads.Load() != 0 {
			t.Errorf("%d: the model was loaded again", fate)
		}
	}
}

// A call that creates a model again, before it is known what came of the first one, finds the model.
func TestCreatedMeanwhile(t *testing.T) {
	s := startServers(t, 1)
	a := s.all[0]
	a.pause(true)
	s.fate(commandSoon)
	if _, err := a.host.CreateModel(t.Context(), "m", linear(1)); err == nil {
		t.Fatal("created")
	}
	created := make(chan error)
	go func() {
		_, err := a.host.CreateModel(t.Context(), "m", linear(1))
		created <- err
	}()
	s.commands(2)
	a.pause(false)
	if err := <-created; err != nil {
		t.Error(err)
	}
}

// A new owner whose model is far behind its log learns all of it before an observation, and knows all ids.
func TestNewOwnerBehindItsLog(t *testing.T) {
	s := startServers(t, 2)
	a, b := s.all[0], s.all[1]
	a.host.create(t, "m", linear(1))
	a.host.create(t, "next", linear(1))
	if _, err := a.host.SetAlias(t.Context(), "live", "m", ""); err != nil {
		t.Fatal(err)
	}
	s.equal()
	release := b.host.Hold("m")
	for n := range 3 {
		rows := make([]engine.Observation, 1000)
		for k := range rows {
			rows[k] = one(fmt.Sprint(n, "-", k), 1)[0]
		}
		a.host.observe(t, "m", rows...)
	}
	if _, err := a.host.SetAlias(t.Context(), "live", "next", ""); err != nil {
		t.Fatal(err)
	}
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
	ticket, err := b.host.Submit(t.Context(), "m", one("new", 1))
	if err != nil {
		t.Fatal(err)
	}
	release()
	if a, err := ticket.Wait(t.Context()); err != nil || a[0].Sequence != 3001 {
		t.Errorf("%+v, %v", a, err)
	}
	if got := <-found; got != "m <nil>" {
		t.Errorf("what the previous model has learned goes to %s", got)
	}
	if s.ids != 1000 {
		t.Errorf("%d ids came with the commit, want those of the record before", s.ids)
	}
	s.equal()
}

// A model that is not in memory is loaded once its replay has become long.
func TestLongLogOfAnIdleModel(t *testing.T) {
	s := startServers(t, 2, after(50))
	a, b := s.all[0], s.all[1]
	a.host.create(t, "m", linear(1))
	s.awaitAll()
	waitFor(t, b.host, func() bool { return b.host.Hibernate("m") })
	for n := range 49 {
		a.host.observe(t, "m", one(fmt.Sprint(n), 1)...)
	}
	s.settle()
	if loaded := b.host.Totals().Loaded; loaded != 0 {
		t.Errorf("%d models are loaded", loaded)
	}
	a.host.observe(t, "m", one("50", 1)...)
	s.settle()
	waitFor(t, b.host, func() bool { return b.host.Totals().Loaded == 1 })
	s.equal()
}

// A watcher of a server that does not own is told what it would be told by the owner.
func TestWatchOfAnotherServer(t *testing.T) {
	s := startServers(t, 2)
	a, b := s.all[0], s.all[1]
	a.host.create(t, "m", linear(1))
	s.awaitAll()
	w, err := b.host.Watch(t.Context(), "m", 100)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	var told []uint64
	read := func(through uint64) {
		t.Helper()
		if err := b.host.Await(t.Context(), "m", through); err != nil {
			t.Fatal(err)
		}
		for l, ok := w.Next(); ok; l, ok = w.Next() {
			told = append(told, l.Sequence)
		}
	}
	for n := range 4 {
		a.host.observe(t, "m", one(fmt.Sprint(n), 1)...)
	}
	s.settle()
	read(4)
	if _, err := a.host.RestoreModel(t.Context(), "m", 2); err != nil {
		t.Fatal(err)
	}
	s.awaitAll()
	read(2)
	a.host.observe(t, "m", one("again", 1)...)
	s.settle()
	read(3)
	if want := []uint64{1, 2, 3, 4, 3}; !slices.Equal(told, want) {
		t.Errorf("told %v, want %v", told, want)
	}
	s.equal()
}

// A follower that has learned more of its leader's log than the leader at a new owner goes on to follow.
func TestFollowerAheadOfItsLeader(t *testing.T) {
	s := startServers(t, 2)
	a, b := s.all[0], s.all[1]
	a.host.create(t, "leader", linear(1))
	if _, err := a.host.Engine.CreateModel(t.Context(), "follower", linear(1), engine.CreateOptions{Follows: "leader"}); err != nil {
		t.Fatal(err)
	}
	s.equal()
	release := b.host.Hold("leader")
	for n := range 10 {
		a.host.observe(t, "leader", one(fmt.Sprint(n), 1)...)
	}
	waitFor(t, a.host, func() bool { return a.host.Behind("follower") == 0 })
	s.settle()
	s.move(1)
	if err := b.host.Await(t.Context(), "follower", 10); err != nil {
		t.Fatal(err)
	}
	if behind := b.host.Behind("follower"); behind != 0 {
		t.Errorf("behind by %d", behind)
	}
	release()
	b.host.observe(t, "leader", one("more", 1)...)
	waitFor(t, b.host, func() bool { return b.host.Behind("follower") == 0 })
	if got := s.equal()["follower"]; got.Follows != "leader" || got.Sequence != 11 {
		t.Errorf("%+v", got)
	}
}

// A server that does not own proposes nothing by itself: its followers rest, and it purges nothing.
func TestServerThatDoesNotOwnRests(t *testing.T) {
	s := startServers(t, 2, func(o *engine.Options) { o.DeletedKept = time.Hour })
	a, b := s.all[0], s.all[1]
	a.host.create(t, "leader", linear(1))
	a.host.create(t, "old", linear(1))
	if _, err := a.host.Engine.CreateModel(t.Context(), "follower", linear(1), engine.CreateOptions{Follows: "leader"}); err != nil {
		t.Fatal(err)
	}
	if err := a.host.DeleteModel(t.Context(), "old"); err != nil {
		t.Fatal(err)
	}
	s.equal()
	release := a.host.Hold("follower")
	a.host.observe(t, "leader", one("a", 1)...)
	s.settle()
	if err := b.host.Await(t.Context(), "leader", 1); err != nil {
		t.Fatal(err)
	}
	s.clock.advance(2 * time.Hour)
	b.host.Sweep()
	if behind := b.host.Behind("follower"); behind != 1 || s.refused != 0 || len(b.list()) != 3 {
		t.Errorf("behind by %d, %d commands refused, models %v", behind, s.refused, b.list())
	}
	release()
	s.move(1)
	b.host.Sweep()
	waitFor(t, b.host, func() bool { return b.host.Behind("follower") == 0 })
	if s.equal(); len(a.list()) != 2 {
		t.Errorf("models %v", a.list())
	}
}

// A snapshot that a server writes while the owner restores the model is not used: neither if it is written before the
// engine is told of the restore, nor if it is written later.
func TestSnapshotDuringRestore(t *testing.T) {
	for _, told := range []bool{true, false} {
		s := startServers(t, 2)
		a, b := s.all[0], s.all[1]
		a.host.create(t, "m", linear(1))
		for n := range 10 {
			a.host.observe(t, "m", one(fmt.Sprint(n), float64(n))...)
		}
		s.equal()
		writing, goOn, tell := make(chan struct{}), make(chan struct{}), make(chan struct{})
		var once sync.Once
		b.snapshot = func() {
			once.Do(func() { close(writing) })
			<-goOn
		}
		b.tell = func(c storage.Change) {
			if c.Kind == storage.Rewound {
				<-tell
			}
			b.host.Changed(c)
		}
		written := make(chan engine.Snapshot)
		go func() {
			w, err := b.host.SnapshotModel(t.Context(), "m")
			if err != nil {
				t.Error(err)
			}
			written <- w
		}()
		<-writing
		if _, err := a.host.RestoreModel(t.Context(), "m", 5); err != nil {
			t.Fatal(err)
		}
		if told {
			close(tell)
			s.settle()
			close(goOn)
			if w := <-written; w.Sequence != 5 {
				t.Errorf("a snapshot of sequence %d", w.Sequence)
			}
		} else {
			waitFor(t, b.host, func() bool { last, err := b.last("m"); return err == nil && last == 5 })
			close(goOn)
			<-written
			close(tell)
		}
		for n := range 10 {
			a.host.observe(t, "m", one(fmt.Sprint("again", n), float64(n))...)
		}
		s.equal()
		waitFor(t, b.host, func() bool { return b.host.Hibernate("m") })
		s.equal()
	}
}

// A server that crashed in the middle of a restore refuses the model until the log has completed the restore.
func TestInterruptedRestore(t *testing.T) {
	s := startServers(t, 2)
	a, b := s.all[0], s.all[1]
	a.host.create(t, "m", linear(1))
	for n := range 10 {
		a.host.observe(t, "m", one(fmt.Sprint(n), float64(n))...)
	}
	s.equal()
	b.pause(true)
	if _, err := a.host.RestoreModel(t.Context(), "m", 5); err != nil {
		t.Fatal(err)
	}
	a.host.observe(t, "m", one("again", 1)...)
	b.rewinding = ptr(uint64(5))
	b.restart(true)
	if _, err := b.view("m"); !errors.Is(err, engine.ErrOverloaded) {
		t.Errorf("in the middle of a restore: %v", err)
	}
	b.pause(false)
	s.equal()
}

// A server that cannot follow a restore says so, and serves nothing of the model.
func TestRestoreThatCannotBeFollowed(t *testing.T) {
	s := startServers(t, 2)
	a, b := s.all[0], s.all[1]
	b.options = append(b.options, func(o *engine.Options) { o.SnapshotsKept = 1 })
	b.restart(false)
	a.host.create(t, "m", linear(1))
	for n := range 10 {
		a.host.observe(t, "m", one(fmt.Sprint(n), float64(n))...)
	}
	s.equal()
	if _, err := b.host.SnapshotModel(t.Context(), "m"); err != nil { // The log before it is cut.
		t.Fatal(err)
	}
	if _, err := a.host.RestoreModel(t.Context(), "m", 5); err != nil {
		t.Fatal(err)
	}
	s.awaitAll()
	if err := b.host.Turn("m"); err != nil {
		t.Fatal(err)
	}
	if _, err := b.view("m"); !errors.Is(err, engine.ErrCorrupt) || !slices.Equal(b.mismatches, []uint64{5}) {
		t.Errorf("reported: %v, %v", b.mismatches, err)
	}
}

// random is the test of random calls on several servers.
type random struct {
	*servers
	rng   *rand.Rand
	trace []string
	// acked are the sequences of the acknowledged observations, by model and id; exported is a model to import.
	acked    map[string]map[string]uint64
	exported []byte
	made     int
}

// Random calls on several servers, with moves of the owner, restarts, crashes and calls of unknown outcome: all
// servers show the same, and each acknowledged observation is learned once.
func TestRandomCallsOnServers(t *testing.T) {
	seeds := []uint64{1, 2, 3, 4, 5, 6, 7, 8}
	if *metaSeed != 0 {
		seeds = []uint64{*metaSeed}
	}
	for n := range 2 * len(seeds) {
		seed, begin := seeds[n/2], startServers
		name := fmt.Sprintf("seed=%d", seed)
		if n%2 == 1 {
			name, begin = "ordered/"+name, startOrdered
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rng := rand.New(rand.NewPCG(seed, 3))
			r := &random{rng: rng, acked: map[string]map[string]uint64{}}
			r.servers = begin(t, 3, after(5+rng.IntN(40)), func(o *engine.Options) {
				o.SnapshotsKept, o.DeletedKept = 50, 1000*time.Hour
				o.IDWindowMin, o.PendingLimit = 1_000_000, 100_000
				if rng.IntN(2) == 0 {
					o.ModelMemory = int64(60_000 + rng.IntN(100_000))
				}
			})
			defer func() {
				if t.Failed() {
					t.Logf("after\n  %s", strings.Join(r.trace, "\n  "))
				}
			}()
			for n := range 400 {
				r.step(n)
				if n%40 == 39 {
					r.check()
				}
			}
			r.check()
		})
	}
}

func (r *random) step(n int) {
	ops := []struct {
		weight int
		name   string
		do     func(h *host) error
	}{
		{4, "create", r.create},
		{30, "observe", r.observe},
		{8, "answer", r.answer},
		{5, "retry", r.retry},
		{2, "update", func(h *host) error {
			_, err := h.UpdateModel(r.t.Context(), r.any(h), engine.UpdateOptions{Edit: func(m *engine.Metadata) { m.DisplayName = fmt.Sprint(n) }})
			return err
		}},
		{2, "delete", r.delete},
		{3, "undelete", func(h *host) error { _, err := h.UndeleteModel(r.t.Context(), r.deleted(h)); return err }},
		{2, "restore", r.restore},
		{2, "set alias", func(h *host) error { _, err := h.SetAlias(r.t.Context(), "live", r.any(h), ""); return err }},
		{1, "delete alias", func(h *host) error { return h.DeleteAlias(r.t.Context(), "live") }},
		{5, "observe by alias", r.observeAlias},
		{2, "follow", r.follow},
		{2, "promote", r.promote},
		{1, "export", func(h *host) (err error) {
			r.exported, err = r.anyHost().ExportModel(r.t.Context(), r.any(h), engine.ExportOptions{})
			return err
		}},
		{1, "import", r.importModel},
		{3, "hibernate", func(h *host) error { r.anyHost().Hibernate(r.any(h)); return nil }},
		{3, "snapshot", func(h *host) error { _, err := r.anyHost().SnapshotModel(r.t.Context(), r.any(h)); return err }},
		{4, "sweep", func(*host) error { r.clock.advance(time.Second); r.anyHost().Sweep(); return nil }},
		{4, "move", func(*host) error { r.move(r.rng.IntN(3)); return nil }},
		{3, "pause", func(*host) error { r.pauseAnother(); return nil }},
		{2, "restart", func(*host) error { r.restart(); return nil }},
		{4, "unknown", func(*host) error { r.fate(1 + r.rng.IntN(3)); return nil }},
	}
	total := 0
	for _, o := range ops {
		total += o.weight
	}
	at := r.rng.IntN(total)
	for _, o := range ops {
		if at -= o.weight; at >= 0 {
			continue
		}
		r.trace = append(r.trace, fmt.Sprintf("%d %s at %d:", n, o.name, r.owner().place))
		owner := r.move(r.owner().place) // After a command that was late.
		err := o.do(owner.host)
		r.trace[len(r.trace)-1] += fmt.Sprint(" ", err)
		for _, unexpected := range []error{engine.ErrCorrupt, engine.ErrConflict} {
			if errors.Is(err, unexpected) {
				r.t.Fatalf("%s: %v", o.name, err)
			}
		}
		return
	}
}

func (r *random) note(format string, args ...any) {
	r.trace[len(r.trace)-1] += " " + fmt.Sprintf(format, args...)
}

func (r *random) anyHost() *host {
	v := r.all[r.rng.IntN(len(r.all))]
	r.note("on %d", v.place)
	return v.host
}

// any is the name of a model, or of none.
func (r *random) any(h *host) string {
	models, err := h.ListModels("", "", 100)
	if err != nil || len(models) == 0 {
		return "none"
	}
	id := models[r.rng.IntN(len(models))].ID
	r.note("%s", id)
	return id
}

func (r *random) deleted(h *host) string {
	page, _ := h.Engine.ListModels(r.t.Context(), engine.ListOptions{Limit: 100, Deleted: true})
	for _, m := range page.Models {
		if !m.Deleted.IsZero() && r.rng.IntN(2) == 0 {
			r.note("%s", m.ID)
			return m.ID
		}
	}
	return "none"
}

func (r *random) create(h *host) error {
	r.made++
	id := fmt.Sprint("m", r.rng.IntN(8))
	r.note("%s", id)
	specs := []model.Spec{linear(2), taylor(2, 2), {Dimension: 2, Auto: &model.Auto{Frequencies: ptr(2), Version: ptr(1)}}}
	_, err := h.Engine.CreateModel(r.t.Context(), id, specs[r.rng.IntN(len(specs))], engine.CreateOptions{})
	return err
}

// learned notes an acknowledged observation.
func (r *random) learned(id string, o engine.Observation, a engine.Answer) {
	key := o.ObservationID + o.PredictionID
	r.note("%s=%d", key, a.Sequence)
	if r.acked[id] == nil {
		r.acked[id] = map[string]uint64{}
	}
	before, again := r.acked[id][key]
	if again && (before != a.Sequence || !a.Duplicate) {
		r.t.Fatalf("%s of %s was learned at %d, now %+v", key, id, before, a)
	}
	r.acked[id][key] = a.Sequence
}

func (r *random) observation(id string) engine.Observation {
	return engine.Observation{ObservationID: id, Features: []float64{r.rng.NormFloat64(), 1}, Labels: []float64{r.rng.NormFloat64()}, Weight: 1}
}

func (r *random) newID() string { r.made++; return fmt.Sprint("o", r.made) }

func (r *random) observe(h *host) error {
	id, rows := r.any(h), []engine.Observation{}
	for range 1 + r.rng.IntN(4) {
		rows = append(rows, r.observation(r.newID()))
	}
	return r.send(id, rows, func() ([]engine.Answer, error) { return r.owner().host.Observe(r.t.Context(), id, rows) })
}

// send observes, and sends again what is of unknown outcome.
func (r *random) send(id string, rows []engine.Observation, observe func() ([]engine.Answer, error)) error {
	for {
		answers, err := observe()
		if errors.Is(err, engine.ErrUnknown) || errors.Is(err, engine.ErrNotOwner) {
			r.note("(again)")
			r.move(r.owner().place)
			continue
		}
		for n := range answers {
			r.learned(id, rows[n], answers[n])
		}
		return err
	}
}

func (r *random) answer(h *host) error {
	id := r.any(h)
	p, err := h.Predict(r.t.Context(), id, vectors([]float64{r.rng.NormFloat64(), 1}), engine.PredictOptions{Remember: true})
	if err != nil || p[0].ID == "" {
		return err
	}
	if r.rng.IntN(2) == 0 {
		r.move(r.rng.IntN(3))
	}
	rows := []engine.Observation{{PredictionID: p[0].ID, Labels: []float64{r.rng.NormFloat64()}, Weight: 1}}
	return r.send(id, rows, func() ([]engine.Answer, error) { return r.owner().host.Observe(r.t.Context(), id, rows) })
}

// retry observes something acknowledged again, whoever owns: any label will do to find its sequence.
func (r *random) retry(h *host) error {
	id := r.any(h)
	for _, key := range slices.Sorted(maps.Keys(r.acked[id])) {
		if r.rng.IntN(4) > 0 {
			continue
		}
		sequence := r.acked[id][key]
		r.note("%s=%d", key, sequence)
		_, err := h.Observe(r.t.Context(), id, []engine.Observation{{ObservationID: key, Features: []float64{9, 9}, Labels: []float64{99}, Weight: 1}})
		if errors.Is(err, engine.ErrNotOwner) || errors.Is(err, engine.ErrModelNotFound) {
			return err // A riding command was late, or the deletion was not taken over.
		}
		if !errors.Is(err, engine.ErrConflict) && !errors.Is(err, engine.ErrFollows) {
			r.t.Fatalf("%s of %s, learned at %d, again: %v", key, id, sequence, err)
		}
	}
	return nil
}

func (r *random) delete(h *host) error {
	id, purge := r.any(h), r.rng.IntN(3) == 0
	_, err := h.Engine.DeleteModel(r.t.Context(), id, engine.DeleteOptions{Purge: purge})
	if purge {
		// Whatever came of it, the next model of the name begins anew.
		for {
			r.move(r.owner().place)
			_, again := r.owner().host.Engine.DeleteModel(r.t.Context(), id, engine.DeleteOptions{Purge: true})
			if again == nil || errors.Is(again, engine.ErrModelNotFound) {
				delete(r.acked, id)
				return err
			}
			if errors.Is(again, engine.ErrAliased) {
				return err
			}
		}
	}
	return err
}

func (r *random) restore(h *host) error {
	id := r.any(h)
	info, err := h.GetModel(r.t.Context(), id)
	if err != nil {
		return err
	}
	to := info.Sequence - min(info.Sequence, r.rng.Uint64N(12))
	r.note("to %d", to)
	_, err = h.RestoreModel(r.t.Context(), id, to)
	if err != nil && !errors.Is(err, engine.ErrStorage) {
		return err
	}
	for err != nil { // Of unknown outcome: once more.
		r.move(r.owner().place)
		if _, err = r.owner().host.RestoreModel(r.t.Context(), id, to); err != nil && !errors.Is(err, engine.ErrStorage) && !errors.Is(err, engine.ErrNotOwner) {
			r.t.Fatal(err)
		}
	}
	r.restored[id] = true
	maps.DeleteFunc(r.acked[id], func(_ string, sequence uint64) bool { return sequence > to })
	return nil
}

func (r *random) observeAlias(*host) error {
	rows := []engine.Observation{r.observation(r.newID())}
	for {
		r.move(r.owner().place)
		route, err := r.owner().host.Route(r.t.Context(), "live")
		if err != nil {
			return err
		}
		target, err := route.For("", rows[0].ObservationID)
		var answers []engine.Answer
		if err == nil {
			var ticket *engine.Ticket
			if ticket, err = target.Submit(r.t.Context(), rows); err == nil {
				route.Done()
				answers, err = ticket.Wait(r.t.Context())
			} else {
				route.Done()
			}
		} else {
			route.Done()
		}
		if errors.Is(err, engine.ErrUnknown) || errors.Is(err, engine.ErrNotOwner) {
			r.note("(again)")
			if r.rng.IntN(2) == 0 {
				_, _ = r.owner().host.SetAlias(r.t.Context(), "live", r.any(r.owner().host), "")
			}
			continue
		}
		if err == nil {
			r.learned(target.ID(), rows[0], answers[0])
		}
		return err
	}
}

func (r *random) follow(h *host) error {
	leader, id := r.any(h), fmt.Sprint("f", r.rng.IntN(3))
	r.note("%s", id)
	_, err := h.Engine.CreateModel(r.t.Context(), id, linear(2), engine.CreateOptions{Follows: leader})
	return err
}

// promote sets the alias to a model and then to a follower of it.
func (r *random) promote(h *host) error {
	id := fmt.Sprint("f", r.rng.IntN(3))
	info, err := h.GetModel(r.t.Context(), id)
	if err != nil || info.Follows == "" {
		return err
	}
	r.note("%s of %s", id, info.Follows)
	if _, err := h.SetAlias(r.t.Context(), "live", info.Follows, ""); err != nil {
		return err
	}
	_, err = h.SetAlias(r.t.Context(), "live", id, "")
	return err
}

func (r *random) importModel(h *host) error {
	if r.exported == nil {
		return nil
	}
	id := fmt.Sprint("i", r.rng.IntN(3))
	r.note("%s", id)
	_, err := h.ImportModel(r.t.Context(), id, r.exported)
	return err
}

// pauseAnother lets a server that does not own apply nothing for a while, or lets all go on.
func (r *random) pauseAnother() {
	v := r.all[r.rng.IntN(3)]
	if v == r.owner() || r.rng.IntN(3) == 0 {
		for _, v := range r.all {
			v.pause(false)
		}
		return
	}
	r.note("server %d", v.place)
	v.pause(true)
}

func (r *random) restart() {
	v := r.all[r.rng.IntN(3)]
	if v == r.owner() {
		r.move((v.place + 1) % 3)
	}
	crash := r.rng.IntN(2) == 0
	r.note("server %d, crash %v", v.place, crash)
	v.pause(false)
	v.restart(crash)
}

// check compares the servers, and sends all that was acknowledged again at each of them.
func (r *random) check() {
	r.t.Helper()
	for _, v := range r.all {
		v.pause(false)
	}
	r.fate()
	r.trace = append(r.trace, "check:")
	r.followersAtRest()
	views := r.equal()
	for place := range r.all {
		h := r.move(place).host
		for id := range r.acked {
			for key, sequence := range r.acked[id] {
				if _, live := views[id]; !live || views[id].Follows != "" {
					continue
				}
				_, err := h.Observe(r.t.Context(), id, []engine.Observation{{ObservationID: key, Features: []float64{9, 9}, Labels: []float64{99}, Weight: 1}})
				if !errors.Is(err, engine.ErrConflict) {
					r.t.Fatalf("server %d does not know %s of %s, learned at %d: %v", place, key, id, sequence, err)
				}
			}
		}
	}
	for id, v := range views {
		if math.IsNaN(v.Loss) || int(v.Sequence) < len(r.acked[id]) {
			r.t.Fatalf("%s: %+v with %d acknowledged", id, v, len(r.acked[id]))
		}
	}
}

// followersAtRest waits until the followers have learned what they can.
func (r *random) followersAtRest() {
	r.t.Helper()
	owner := r.move(r.owner().place)
	r.awaitAll()
	models, err := owner.host.ListModels("", "", 100)
	for _, m := range models {
		var last uint64
		if last, err = owner.last(m.ID); err == nil {
			err = owner.host.Await(r.t.Context(), m.ID, last)
		}
		if err != nil {
			r.t.Fatal(err)
		}
	}
	owner.host.Sweep()
	waitFor(r.t, owner.host, func() bool {
		models, err := owner.host.ListModels("", "", 100)
		return err == nil && !slices.ContainsFunc(models, func(m engine.Info) bool {
			return m.Follows != "" && owner.host.Behind(m.ID) != 0
		})
	})
	for _, m := range []string{"f0", "f1", "f2"} {
		_ = owner.host.Turn(m)
	}
}
