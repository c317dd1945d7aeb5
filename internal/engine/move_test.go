package engine_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"hindsight/internal/engine"
)

// setMove says where model m is moved to, nil for nowhere.
func (h *host) setMove(to *engine.Move) (engine.Info, error) {
	return h.UpdateModel(context.Background(), "m", engine.UpdateOptions{Edit: func(m *engine.Metadata) { m.Move = to }})
}

func (h *host) mustMove(t *testing.T, to *engine.Move) engine.Info {
	t.Helper()
	info, err := h.setMove(to)
	if err != nil {
		t.Fatal(err)
	}
	return info
}

// wantAddress checks that an error names the other server.
func wantAddress(t *testing.T, err, sentinel error) {
	t.Helper()
	var moved *engine.MovedError
	if !errors.Is(err, sentinel) || !errors.As(err, &moved) || moved.Address != "b:1" || moved.Model != "m" {
		t.Errorf("got %v, want %v", err, sentinel)
	}
}

// A model that is moved learns nothing and keeps no predictions, also after a restart, and
// predicts on. An end of the move lets it learn again.
func TestMovedModelIsStill(t *testing.T) { onBackends(t, testMovedModelIsStill) }

func testMovedModelIsStill(t *testing.T, newDisk func() disk) {
	t.Helper()
	d, c := newDisk(), newClock()
	h := start(t, d, c)
	h.create(t, "m", linear(2))
	waiting := h.predict(t, "m", 1, 2)
	h.observe(t, "m", engine.Observation{Features: []float64{1, 0}, Labels: []float64{1}, ObservationID: "o-1"})
	before := h.mustMove(t, &engine.Move{Address: "b:1"})
	for _, sentinel := range []error{engine.ErrMoving, engine.ErrMoved} {
		digest := h.stats(t, "m").Digest
		_, err := h.Observe(context.Background(), "m", []engine.Observation{{PredictionID: waiting.ID, Labels: []float64{1}, Weight: 1}})
		wantAddress(t, err, sentinel)
		_, err = h.Predict(context.Background(), "m", vectors([]float64{1, 2}), engine.PredictOptions{Remember: true})
		wantAddress(t, err, sentinel)
		if _, err = h.Predict(context.Background(), "m", vectors([]float64{1, 2}), engine.PredictOptions{}); err != nil {
			t.Error(err)
		}
		_, err = h.RestoreModel(context.Background(), "m", 0)
		wantAddress(t, err, sentinel)
		if s := h.stats(t, "m"); s.Digest != digest || s.Sequence != 1 {
			t.Errorf("it learned: sequence %d", s.Sequence)
		}
		h.stop(t)
		h = start(t, d, c)
		if errors.Is(sentinel, engine.ErrMoving) {
			after := h.mustMove(t, &engine.Move{Address: "b:1", Complete: true})
			if after.ETag == before.ETag {
				t.Error("the etag does not change")
			}
		}
	}
	h.mustMove(t, nil)
	if a := h.observe(t, "m", engine.Observation{PredictionID: waiting.ID, Labels: []float64{1}}); a[0].Sequence != 2 {
		t.Errorf("after the move it learns %+v", a)
	}
	if _, err := h.setMove(&engine.Move{}); !errors.Is(err, engine.ErrInvalidRequest) {
		t.Errorf("a move to nowhere: %v", err)
	}
}

// A model that follows another one learns what that learns: it is not moved.
func TestFollowerIsNotMoved(t *testing.T) {
	h := startOn(t, newFS(), newClock())
	h.create(t, "leader", linear(2))
	if _, err := h.Engine.CreateModel(context.Background(), "m", linear(2), engine.CreateOptions{Follows: "leader"}); err != nil {
		t.Fatal(err)
	}
	if _, err := h.setMove(&engine.Move{Address: "b:1"}); !errors.Is(err, engine.ErrFollows) {
		t.Error(err)
	}
}

// sender sends observations and predictions to one of two servers, as a client that
// follows a moved model.
type sender struct {
	servers [2]*host
	at      int
}

// send sends an observation until it is acknowledged.
func (s *sender) send(o engine.Observation) (engine.Answer, error) {
	for {
		answers, err := s.servers[s.at].Observe(context.Background(), "m", []engine.Observation{o})
		switch {
		case err == nil:
			return answers[0], nil
		case errors.Is(err, engine.ErrMoved):
			s.at = 1
		case !errors.Is(err, engine.ErrMoving):
			return engine.Answer{}, err
		}
	}
}

// predict predicts until the prediction is remembered.
func (s *sender) predict(x []float64) (string, error) {
	for {
		p, err := s.servers[s.at].Predict(context.Background(), "m", vectors(x), engine.PredictOptions{Remember: true})
		switch {
		case err == nil:
			return p[0].ID, nil
		case errors.Is(err, engine.ErrMoved):
			s.at = 1
		case !errors.Is(err, engine.ErrMoving):
			return "", err
		}
	}
}

// Under load a model moves and back. Every observation that was acknowledged is learned
// once, by whichever server it went to, and every label of a prediction that was
// remembered finds it.
func TestMoveUnderLoad(t *testing.T) {
	const senders, each = 6, 150
	c := newClock()
	a, b := startOn(t, newFS(), c), startOn(t, newFS(), c)
	a.create(t, "m", linear(2))
	var learned atomic.Int64
	third := make(chan struct{})
	var group sync.WaitGroup
	failures := make(chan error, senders)
	for k := range senders {
		group.Go(func() {
			failures <- func() error {
				s := sender{servers: [2]*host{a, b}}
				var last string
				for n := range each {
					x := []float64{float64(n), float64(k)}
					next, err := s.predict(x)
					if err != nil {
						return err
					}
					o := engine.Observation{Features: x, Labels: []float64{1}, ObservationID: fmt.Sprint("o-", k, "-", n), Weight: 1}
					if n%2 == 1 { // The label of the prediction before the last.
						o = engine.Observation{PredictionID: last, Labels: []float64{2}, Weight: 1}
					}
					if _, err := s.send(o); err != nil {
						return fmt.Errorf("sender %d, observation %d: %w", k, n, err)
					}
					if learned.Add(1) == senders*each/3 {
						close(third)
					}
					last = next
				}
				return nil
			}()
		})
	}
	<-third
	sealed := a.mustMove(t, &engine.Move{Address: "b:1"})
	exported, err := a.ExportModel(context.Background(), "m", engine.ExportOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if after := a.stats(t, "m"); after.Sequence != sealed.Sequence {
		t.Errorf("it learned on: %d, then %d", sealed.Sequence, after.Sequence)
	}
	info, err := b.ImportModel(context.Background(), "m", exported)
	if err != nil {
		t.Fatal(err)
	}
	still := a.stats(t, "m")
	if info.Move != nil || info.Imported == nil || info.Imported.Sequence != still.Sequence || info.Imported.Digest != still.Digest {
		t.Errorf("imported %+v of sequence %d", info, still.Sequence)
	}
	a.mustMove(t, &engine.Move{Address: "b:1", Complete: true})
	group.Wait()
	for range senders {
		if err := <-failures; err != nil {
			t.Error(err)
		}
	}
	if got := b.stats(t, "m").Sequence; got != senders*each || a.stats(t, "m").Sequence != still.Sequence {
		t.Errorf("%d observations after %d", got, senders*each)
	}
	for k := range senders {
		for n := 0; n < each; n += 2 {
			o := engine.Observation{Features: []float64{float64(n), float64(k)}, Labels: []float64{1}, ObservationID: fmt.Sprint("o-", k, "-", n)}
			if again := b.observe(t, "m", o)[0]; !again.Duplicate {
				t.Fatalf("observation %d of %d is learned again", n, k)
			}
		}
	}
	if still.Sequence == 0 || still.Sequence == senders*each {
		t.Errorf("the load was on one server alone: %d", still.Sequence)
	}
}

// A power cut of either server at any write of a move leaves at most one of them that
// takes observations, and the steps that were not done lead to the end.
func TestPowerCutsDuringMove(t *testing.T) {
	calls := history(3, 6)
	// steps does the steps of a move that are not done, as the client does.
	steps := func(a, b *host) error {
		info, err := a.GetModel(context.Background(), "m")
		if err == nil && info.Move == nil {
			info, err = a.setMove(&engine.Move{Address: "b:1"})
		}
		if err != nil || info.Move.Complete {
			return err
		}
		if _, err = b.GetModel(context.Background(), "m"); errors.Is(err, engine.ErrModelNotFound) {
			var data []byte
			if data, err = a.ExportModel(context.Background(), "m", engine.ExportOptions{}); err == nil {
				_, err = b.ImportModel(context.Background(), "m", data)
			}
		}
		if err != nil {
			return err
		}
		_, err = a.setMove(&engine.Move{Address: "b:1", Complete: true})
		return err
	}
	extra := engine.Observation{Features: []float64{1, 1}, Labels: []float64{1}, ObservationID: "extra", Weight: 1}
	fsA, fsB, c := newFS(), newFS(), newClock()
	type cut struct{ a, b *vfs.MemFS }
	var cuts []cut
	var recording sync.Mutex
	armed := false
	clone := func(fs *vfs.MemFS) *vfs.MemFS {
		return fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 50, RNG: rand.New(rand.NewPCG(uint64(len(cuts)), 3))})
	}
	watch := func(fs *vfs.MemFS) vfs.FS {
		return errorfs.Wrap(fs, errorfs.InjectorFunc(func(op errorfs.Op) error {
			recording.Lock()
			defer recording.Unlock()
			if armed && op.Kind.ReadOrWrite() == errorfs.OpIsWrite {
				armed = false // Cloning makes operations of its own.
				cuts = append(cuts, cut{clone(fsA), clone(fsB)})
				armed = true
			}
			return nil
		}))
	}
	arm := func(to bool) {
		recording.Lock()
		defer recording.Unlock()
		armed = to
	}
	a, b := startOn(t, watch(fsA), c), startOn(t, watch(fsB), c)
	a.create(t, "m", linear(2))
	for _, call := range calls {
		a.observe(t, "m", call...)
	}
	want := a.stats(t, "m")
	arm(true)
	if err := steps(a, b); err != nil {
		t.Fatal(err)
	}
	arm(false)
	a.stop(t)
	b.stop(t)
	taking := map[string]int{}
	for n, cut := range cuts {
		a, b := startOn(t, cut.a, c), startOn(t, cut.b, c)
		takes := func(h *host) bool {
			info, err := h.GetModel(context.Background(), "m")
			return err == nil && info.Move == nil
		}
		switch {
		case takes(a) && takes(b):
			t.Fatalf("cut %d: both servers take observations", n)
		case takes(a):
			taking["source"]++
		case takes(b):
			taking["target"]++
		default:
			taking["none"]++
		}
		if err := steps(a, b); err != nil {
			t.Fatalf("cut %d: %v", n, err)
		}
		_, err := a.Observe(context.Background(), "m", []engine.Observation{extra})
		wantAddress(t, err, engine.ErrMoved)
		if got := b.stats(t, "m"); got.Digest != want.Digest || got.Sequence != want.Sequence {
			t.Fatalf("cut %d: it moved to sequence %d of %d", n, got.Sequence, want.Sequence)
		}
		for _, call := range calls {
			for _, answer := range b.observe(t, "m", call...) {
				if !answer.Duplicate {
					t.Fatalf("cut %d: learned again", n)
				}
			}
		}
		a.stop(t)
		b.stop(t)
	}
	if len(taking) != 3 {
		t.Errorf("who takes observations after the cuts: %v", taking)
	}
}
