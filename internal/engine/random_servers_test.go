package engine_test

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"hindsight/internal/engine"
	"hindsight/internal/model"
)

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
	if !isLong() {
		seeds = seeds[:4]
	}
	if testing.Short() {
		seeds = seeds[:2]
	}
	if *metaSeed != 0 {
		seeds = []uint64{*metaSeed}
	}
	for n := range 2 * len(seeds) {
		seed, cold := seeds[n/2], n%2 == 1
		name := fmt.Sprintf("seed=%d", seed)
		if cold {
			name = "cold/" + name
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rng := rand.New(rand.NewPCG(seed, 3))
			r := &random{rng: rng, acked: map[string]map[string]uint64{}}
			r.servers = startServers(t, 3, after(5+rng.IntN(40)), func(o *engine.Options) {
				o.Cold, o.SnapshotsKept, o.DeletedKept = cold, 50, 1000*time.Hour
				if cold {
					o.SnapshotsKept = 2 // The logs are cut behind the owner's snapshots.
				}
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
			return errOf(h.UpdateModel(r.t.Context(), r.any(h), engine.UpdateOptions{Edit: func(m *engine.Metadata) { m.DisplayName = strconv.Itoa(n) }}))
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
	specs := []model.Spec{linear(2), taylor(2, 2), {Dimension: 2, Auto: &model.Auto{Frequencies: ptr(2), MaxMicroseconds: ptr(40.0)}}}
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

// send observes, and repeats calls of unknown outcome.
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

// retry repeats an acknowledged observation at the current owner. Any label finds its sequence.
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
		// After either outcome, the next model of the name begins anew.
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
	if err != nil && !errors.Is(err, engine.ErrStorage) && !errors.Is(err, engine.ErrUnknown) {
		return err
	}
	for err != nil { // Of unknown outcome: once more.
		r.move(r.owner().place)
		if _, err = r.owner().host.RestoreModel(r.t.Context(), id, to); err != nil &&
			!errors.Is(err, engine.ErrStorage) && !errors.Is(err, engine.ErrUnknown) && !errors.Is(err, engine.ErrNotOwner) {
			r.t.Fatal(err)
		}
	}
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
			if r.rng.IntN(3) == 0 {
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

// check compares the servers, and repeats all acknowledged observations at each server.
func (r *random) check() {
	r.t.Helper()
	for _, v := range r.all {
		v.pause(false)
	}
	r.fate()
	r.trace = append(r.trace, "check:")
	r.followersAtRest()
	views := r.equal()
	for id := range views {
		all := r.digests(id)
		for n, d := range all {
			if d.Rows != all[0].Rows || d.Rows == "" || d.Differs(all[0]) {
				r.t.Fatalf("server %d has the digest %+v of %q, server 0 has %+v", n, d, id, all[0])
			}
		}
	}
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

// followersAtRest waits until the followers have learned all available records.
func (r *random) followersAtRest() {
	r.t.Helper()
	owner := r.move(r.owner().place)
	r.awaitAll()
	models, err := owner.host.ListModels("", "", 100)
	if err != nil {
		r.t.Fatal(err)
	}
	for _, m := range models {
		last, err := owner.last(m.ID)
		if err == nil {
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
