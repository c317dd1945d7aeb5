package engine_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"hindsight/internal/engine"
)

// setAlias makes an alias name a model.
func (h *host) setAlias(t *testing.T, name, id string) engine.Alias {
	t.Helper()
	a := must(h.SetAlias(t.Context(), name, id, ""))(t)
	return a
}

// send observes by the alias "live" as a request does, and tells which model learned.
func (h *host) send(ctx context.Context, o engine.Observation) (string, engine.Answer, error) {
	return h.sendKey(ctx, "", o)
}

// sendKey is send with a key of the request.
func (h *host) sendKey(ctx context.Context, key string, o engine.Observation) (string, engine.Answer, error) {
	route, err := h.Route(ctx, "live")
	if err != nil {
		return "", engine.Answer{}, err
	}
	target, err := route.For(o.PredictionID, o.ObservationID, key)
	o.Maker = target.Maker
	var ticket *engine.Ticket
	if err == nil {
		ticket, err = target.Submit(ctx, []engine.Observation{o})
	}
	route.Done()
	if err != nil {
		return "", engine.Answer{}, err
	}
	answers, err := ticket.Wait(ctx)
	if err != nil {
		return "", engine.Answer{}, err
	}
	return target.Named(), answers[0], nil
}

func (h *host) sequence(t *testing.T, id string) uint64 {
	t.Helper()
	info := must(h.GetModel(t.Context(), id))(t)
	return info.Sequence
}

func TestAliases(t *testing.T) { onBackends(t, testAliases) }

func testAliases(t *testing.T, newDisk func() disk) {
	t.Helper()
	d, c := newDisk(), newClock()
	h := start(t, d, c)
	ctx := t.Context()
	h.create(t, "a", linear(1))
	h.create(t, "b", linear(2))
	h.setAlias(t, "live", "a")
	h.setAlias(t, "canary", "b")
	for _, rejected := range []struct {
		name, id, expected string
		want               error
	}{
		{"a", "b", "", engine.ErrModelExists},
		{"live", "none", "", engine.ErrModelNotFound},
		{"live", "canary", "", engine.ErrModelNotFound},
		{"Live", "a", "", engine.ErrInvalidID},
		{"live", "", "", engine.ErrInvalidID},
		{"live", "b", "b", engine.ErrAliasChanged},
		{"live", "b", engine.NoModel, engine.ErrAliasChanged},
		{"new", "b", "a", engine.ErrAliasChanged},
	} {
		if _, err := h.SetAlias(ctx, rejected.name, rejected.id, rejected.expected); !errors.Is(err, rejected.want) {
			t.Errorf("%+v: %v", rejected, err)
		}
	}
	c.advance(time.Second)
	set, err := h.SetAlias(ctx, "live", "b", "a")
	if want := (engine.Alias{Name: "live", Model: "b", Previous: "a", Updated: c.now()}); err != nil || set != want {
		t.Errorf("set %+v, %v; want %+v", set, err, want)
	}
	c.advance(time.Second)
	if again := h.setAlias(t, "live", "b"); again != set {
		t.Errorf("the same again: %+v, want %+v", again, set)
	}
	h.stop(t)

	h = start(t, d, c)
	all, err := h.ListAliases()
	if err != nil || len(all) != 2 || all[0].Name != "canary" || all[1] != set {
		t.Errorf("aliases %+v, %v", all, err)
	}
	info, err := h.GetModel(ctx, "live")
	if err != nil || info.ID != "b" || !slices.Equal(info.Aliases, []string{"canary", "live"}) {
		t.Errorf("the model of the alias: %+v, %v", info, err)
	}
	if err := errors.Join(h.DeleteAlias(ctx, "canary"), h.DeleteAlias(ctx, "live")); err != nil {
		t.Error(err)
	}
	if err := h.DeleteAlias(ctx, "live"); !errors.Is(err, engine.ErrAliasNotFound) {
		t.Errorf("deleted twice: %v", err)
	}
	h.stop(t)
	h = start(t, d, c)
	if _, err := h.GetModel(ctx, "live"); !errors.Is(err, engine.ErrModelNotFound) {
		t.Errorf("a deleted alias: %v", err)
	}
}

// A name is that of a model or of an alias, and a model that an alias names stays.
func TestNamesOfModelsAndAliases(t *testing.T) {
	d, c := files{newFS()}, newClock()
	h := start(t, d, c, func(o *engine.Options) { o.DeletedKept = time.Hour })
	ctx := t.Context()
	h.create(t, "a", linear(1))
	h.create(t, "deleted", linear(1))
	h.setAlias(t, "live", "a")
	exported := must(h.ExportModel(ctx, "live", engine.ExportOptions{}))(t)
	if _, err := h.CreateModel(ctx, "live", linear(1)); !errors.Is(err, engine.ErrAliasExists) {
		t.Errorf("created: %v", err)
	}
	if _, err := h.ImportModel(ctx, "live", exported); !errors.Is(err, engine.ErrAliasExists) {
		t.Errorf("imported: %v", err)
	}
	if err := h.DeleteModel(ctx, "a"); !errors.Is(err, engine.ErrAliased) {
		t.Errorf("deleted although an alias names it: %v", err)
	}
	noError(t, h.DeleteModel(ctx, "deleted"))
	if _, err := h.SetAlias(ctx, "deleted", "a", ""); !errors.Is(err, engine.ErrModelExists) {
		t.Errorf("an alias with the id of a deleted model: %v", err)
	}
	if _, err := h.SetAlias(ctx, "other", "deleted", ""); !errors.Is(err, engine.ErrModelNotFound) {
		t.Errorf("an alias of a deleted model: %v", err)
	}
	for doing, err := range map[string]error{
		"delete": h.DeleteModel(ctx, "live"),
		"undelete": func() error {
			_, err := h.UndeleteModel(ctx, "live")
			return err
		}(),
		"restore": func() error {
			_, err := h.RestoreModel(ctx, "live", 0)
			return err
		}(),
	} {
		if !errors.Is(err, engine.ErrModelNotFound) {
			t.Errorf("%s by an alias: %v", doing, err)
		}
	}
	if info, err := h.UpdateModel(ctx, "live", engine.UpdateOptions{Edit: func(m *engine.Metadata) { m.DisplayName = "x" }}); err != nil || info.ID != "a" {
		t.Errorf("updated by an alias: %+v, %v", info, err)
	}
}

// Of a model that is made and an alias that is set under one name at once, one is there.
func TestNameIsTakenOnce(t *testing.T) {
	h := startOn(t, newFS(), newClock())
	h.create(t, "a", linear(1))
	for n := range 50 {
		name := fmt.Sprint("n", n)
		var created, set error
		var both sync.WaitGroup
		both.Go(func() { _, created = h.CreateModel(context.Background(), name, linear(1)) })
		both.Go(func() { _, set = h.SetAlias(context.Background(), name, "a", engine.NoModel) })
		both.Wait()
		if (created == nil) == (set == nil) {
			t.Fatalf("created: %v, set: %v", created, set)
		}
		// An alias that is set to a model while that is deleted.
		if created == nil {
			other := fmt.Sprint("alias", n)
			var deleted error
			both.Go(func() { deleted = h.DeleteModel(context.Background(), name) })
			both.Go(func() { _, set = h.SetAlias(context.Background(), other, name, "") })
			both.Wait()
			if (deleted == nil) == (set == nil) {
				t.Fatalf("deleted: %v, set: %v", deleted, set)
			}
		}
	}
}

func TestAliasLimit(t *testing.T) {
	h := start(t, files{newFS()}, newClock())
	h.create(t, "a", linear(1))
	h.create(t, "b", linear(1))
	for n := range engine.AliasLimit {
		h.setAlias(t, fmt.Sprint("alias", n), "a")
	}
	if _, err := h.SetAlias(t.Context(), "more", "a", ""); !errors.Is(err, engine.ErrAliasLimit) {
		t.Errorf("one too many: %v", err)
	}
	h.setAlias(t, "alias0", "b")
}

// A label goes to the model that made the prediction, and what was learned stays where
// it was learned.
func TestObservationsByAliasAfterASwitch(t *testing.T) { onBackends(t, testAfterASwitch) }

func testAfterASwitch(t *testing.T, newDisk func() disk) {
	t.Helper()
	d, c := newDisk(), newClock()
	h := start(t, d, c)
	ctx := t.Context()
	h.create(t, "a", linear(1))
	h.create(t, "b", linear(1))
	h.setAlias(t, "live", "a")
	predicted := h.predict(t, "live", 1)
	first := engine.Observation{ObservationID: "first", Features: []float64{1}, Labels: []float64{1}, Weight: 1}
	by, learned, err := h.send(ctx, first)
	if err != nil || by != "a" || learned.Duplicate {
		t.Fatalf("learned by %q: %+v, %v", by, learned, err)
	}
	h.setAlias(t, "live", "b")
	h.stop(t)

	h = start(t, d, c)
	by, again, err := h.send(ctx, first)
	if err != nil || by != "a" || !again.Duplicate || again.Sequence != learned.Sequence {
		t.Errorf("the same again by %q: %+v, %v", by, again, err)
	}
	other := first
	other.Labels = []float64{2}
	if _, _, err := h.send(ctx, other); !errors.Is(err, engine.ErrConflict) {
		t.Errorf("another label: %v", err)
	}
	label := engine.Observation{PredictionID: predicted.ID, Labels: []float64{1}, Weight: 1}
	for _, duplicate := range []bool{false, true} {
		by, a, err := h.send(ctx, label)
		if err != nil || by != "a" || a.Duplicate != duplicate || !a.Served {
			t.Errorf("the label of a prediction by %q: %+v, %v", by, a, err)
		}
	}
	if by, a, err := h.send(ctx, engine.Observation{ObservationID: "new", Features: []float64{1}, Labels: []float64{1}, Weight: 1}); err != nil || by != "b" || a.Duplicate {
		t.Errorf("a new one by %q: %+v, %v", by, a, err)
	}
	if a, b := h.sequence(t, "a"), h.sequence(t, "b"); a != 2 || b != 1 {
		t.Errorf("a learned %d and b %d, want 2 and 1", a, b)
	}
	// The model that the alias named before may go.
	noError(t, h.DeleteModel(ctx, "a"))
	if by, _, err := h.send(ctx, first); err != nil || by != "b" {
		t.Errorf("without the model of before by %q: %v", by, err)
	}
}

// What a model learned before a crash and before the alias was set to another one is
// found there, although the model was not loaded since: its log has the id, and the store
// has not.
func TestAnAliasAfterACrash(t *testing.T) {
	fs, c := newFS(), newClock()
	h := startOn(t, fs, c)
	for _, id := range []string{"0", "a", "b"} {
		h.create(t, id, linear(1))
	}
	h.setAlias(t, "live", "a")
	o := engine.Observation{ObservationID: "x", Features: []float64{1}, Labels: []float64{1}, Weight: 1}
	if by, _, err := h.send(t.Context(), o); err != nil || by != "a" {
		t.Fatalf("learned by %q, %v", by, err)
	}
	h.setAlias(t, "live", "b")
	// There is room for the first model alone, so that no other one is loaded at the start.
	cut := startOn(t, fs.CrashClone(vfs.CrashCloneCfg{}), c, func(o *engine.Options) { o.ModelMemory = 1 })
	if by, answer, err := cut.send(t.Context(), o); err != nil || by != "a" || !answer.Duplicate {
		t.Errorf("sent again, it is learned by %q: %+v, %v", by, answer, err)
	}
	if n := cut.sequence(t, "b"); n != 0 {
		t.Errorf("the model of now has learned %d", n)
	}
}
