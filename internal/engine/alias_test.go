package engine_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"hindsight/internal/engine"
)

// setAlias makes an alias name a model.
func (h *host) setAlias(t *testing.T, name, id string) engine.Alias {
	t.Helper()
	return must(h.SetAlias(t.Context(), name, id, ""))(t)
}

// send observes by the alias "live" as a request does, and tells which model learned.
func (h *host) send(ctx context.Context, o engine.Observation) (string, engine.Answer, error) {
	route, err := h.Route(ctx, "live")
	if err != nil {
		return "", engine.Answer{}, err
	}
	target, err := route.For(o.PredictionID, o.ObservationID)
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

func TestAliases(t *testing.T) {
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
		assert.ErrorIs(t, errOf(h.SetAlias(ctx, rejected.name, rejected.id, rejected.expected)), rejected.want, rejected)
	}
	c.advance(time.Second)
	set, err := h.SetAlias(ctx, "live", "b", "a")
	want := (engine.Alias{Name: "live", Model: "b", Previous: "a", Updated: c.now()})
	assert.True(t, err == nil && set == want, "set %+v, %v; want %+v", set, err, want)
	c.advance(time.Second)
	again := h.setAlias(t, "live", "b")
	assert.True(t, again == set, "the same again: %+v, want %+v", again, set)
	h.stop(t)

	h = start(t, d, c)
	all, err := h.ListAliases()
	assert.True(t, err == nil && len(all) == 2 && all[0].Name == "canary" && all[1] == set, "aliases %+v, %v", all, err)
	info, err := h.GetModel(ctx, "live")
	assert.True(t, err == nil && info.ID == "b" && slices.Equal(info.Aliases, []string{"canary", "live"}), "the model of the alias: %+v, %v", info, err)
	assert.NoError(t, errors.Join(h.DeleteAlias(ctx, "canary"), h.DeleteAlias(ctx, "live")))
	assert.ErrorIs(t, h.DeleteAlias(ctx, "live"), engine.ErrAliasNotFound)
	h.stop(t)
	h = start(t, d, c)
	assert.ErrorIs(t, errOf(h.GetModel(ctx, "live")), engine.ErrModelNotFound, "a deleted alias")
}

// Clients send each label twice by an alias that switches all the time. Each is learned once.
func TestExactlyOnceWhileAnAliasSwitches(t *testing.T) {
	h := startOn(t, newFS(), newClock())
	h.create(t, "a", linear(1))
	h.create(t, "b", linear(1))
	h.setAlias(t, "live", "a")
	const clients, each = 4, 60
	var all sync.WaitGroup
	var changes atomic.Int64
	for client := range clients {
		all.Go(func() {
			for n := range each {
				o := one(fmt.Sprint(client, "-", n), 1)[0]
				to := "a"
				if changes.Add(1)/3%2 == 1 {
					to = "b"
				}
				assert.NoError(t, errOf(h.SetAlias(context.Background(), "live", to, ""))) // While the other clients send.
				var twice sync.WaitGroup
				for range 2 {
					twice.Go(func() {
						_, _, err := h.send(context.Background(), o)
						assert.NoError(t, err)
					})
				}
				twice.Wait()
			}
		})
	}
	all.Wait()
	a, b := h.sequence(t, "a"), h.sequence(t, "b")
	assert.True(t, a+b == clients*each && a != 0 && b != 0, "a learned %d and b %d, want %d together", a, b, clients*each)
}

// A label goes to the model that predicted or learned it before a switch of the alias, once, also after a start.
func TestLabelsOverASwitch(t *testing.T) {
	fs, c := newFS(), newClock()
	h := startOn(t, fs, c)
	h.create(t, "a", linear(1))
	h.create(t, "b", linear(1))
	h.setAlias(t, "live", "a")
	must(must(h.Resolve("live"))(t).Predict(t.Context(), vectors([]float64{1}), engine.PredictOptions{Remember: true, IDs: []string{"p"}}))(t)
	_, _, err := h.send(t.Context(), one("o", 1)[0])
	require.NoError(t, err)
	h.setAlias(t, "live", "b")
	label := engine.Observation{PredictionID: "p", Labels: []float64{1}, Weight: 1}
	for n, o := range []engine.Observation{label, label, one("o", 1)[0], one("new", 1)[0], label, one("o", 1)[0]} {
		if n == 4 {
			h = startOn(t, fs.CrashClone(vfs.CrashCloneCfg{}), c)
		}
		by, a, err := h.send(t.Context(), o)
		want := "a"
		if n == 3 {
			want = "b"
		}
		assert.True(t, err == nil && by == want && a.Duplicate == (n != 0 && n != 3), "%d: learned by %q, %+v, %v", n, by, a, err)
	}
	assert.EqualValues(t, 2, h.sequence(t, "a"))
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
	assert.ErrorIs(t, errOf(h.CreateModel(ctx, "live", linear(1))), engine.ErrAliasExists)
	assert.ErrorIs(t, errOf(h.ImportModel(ctx, "live", exported)), engine.ErrAliasExists)
	assert.ErrorIs(t, h.DeleteModel(ctx, "a"), engine.ErrAliased)
	require.NoError(t, h.DeleteModel(ctx, "deleted"))
	assert.ErrorIs(t, errOf(h.SetAlias(ctx, "deleted", "a", "")), engine.ErrModelExists)
	assert.ErrorIs(t, errOf(h.SetAlias(ctx, "other", "deleted", "")), engine.ErrModelNotFound)
	for doing, err := range map[string]error{
		"delete":   h.DeleteModel(ctx, "live"),
		"undelete": errOf(h.UndeleteModel(ctx, "live")),
		"restore":  errOf(h.RestoreModel(ctx, "live", 0)),
	} {
		assert.ErrorIs(t, err, engine.ErrModelNotFound, doing)
	}
	info, err := h.UpdateModel(ctx, "live", engine.UpdateOptions{Edit: func(m *engine.Metadata) { m.DisplayName = "x" }})
	assert.True(t, err == nil && info.ID == "a", "updated by an alias: %+v, %v", info, err)
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
		require.NotEqual(t, (set == nil), (created == nil), "%v %v", created, set)
		// An alias that is set to a model while that is deleted.
		if created == nil {
			other := fmt.Sprint("alias", n)
			var deleted error
			both.Go(func() { deleted = h.DeleteModel(context.Background(), name) })
			both.Go(func() { _, set = h.SetAlias(context.Background(), other, name, "") })
			both.Wait()
			require.NotEqual(t, (set == nil), (deleted == nil), "%v %v", deleted, set)
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
	assert.ErrorIs(t, errOf(h.SetAlias(t.Context(), "more", "a", "")), engine.ErrAliasLimit)
	h.setAlias(t, "alias0", "b")
}
