package engine_test

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"hindsight/internal/engine"
	"hindsight/internal/engine/storage"
	"hindsight/internal/model"
)

// Models that do not fit into memory together take turns in it, and answer the
// same: every answer and every state is that of models that stay.
func TestHibernation(t *testing.T) {
	const models, rounds = 12, 60
	run := func(h *host) (answers [models][]engine.Answer, digests [models][32]byte) {
		var group sync.WaitGroup
		for m := range models {
			h.create(t, fmt.Sprint("m-", m), taylor(2, 4))
		}
		for m := range models {
			group.Go(func() {
				rng := rand.New(rand.NewPCG(uint64(m), 5))
				id := fmt.Sprint("m-", m)
				for n := range rounds {
					x := []float64{rng.NormFloat64(), rng.NormFloat64()}
					p, err := h.Predict(context.Background(), id, vectors(x), engine.PredictOptions{Remember: n%2 == 0, IDs: []string{fmt.Sprint("p-", n)}})
					if err != nil {
						t.Error(err)
						return
					}
					o := engine.Observation{Features: x, ObservationID: fmt.Sprint("o-", n), Labels: []float64{rng.NormFloat64()}, Weight: 1}
					if n%2 == 0 {
						o.Features, o.ObservationID, o.PredictionID = nil, "", p[0].ID
					}
					for range 2 {
						a, err := h.Observe(context.Background(), id, []engine.Observation{o})
						if err != nil {
							t.Error(err)
							return
						}
						answers[m] = append(answers[m], a[0])
					}
				}
			})
		}
		group.Wait()
		for m := range models {
			digests[m] = h.stats(t, fmt.Sprint("m-", m)).Digest
		}
		return answers, digests
	}
	whole := start(t, newDisk(), newClock())
	size := whole.Totals().ResidentBytes
	wantAnswers, wantDigests := run(whole)
	size = (whole.Totals().ResidentBytes - size) / models
	for _, every := range []int{1 << 40, 7} {
		tight := start(t, newDisk(), newClock(), func(o *engine.Options) {
			o.ModelMemory = 3 * size
			after(every)(o)
		})
		answers, digests := run(tight)
		assert.True(t, digests == wantDigests, "models that hibernated learned something else")
		for m := range answers {
			for n, a := range answers[m] {
				want := wantAnswers[m][n]
				if a.Sequence != want.Sequence || a.Duplicate != want.Duplicate || a.Loss != want.Loss || a.Predictions[0] != want.Predictions[0] || a.Served != want.Served {
					t.Fatalf("model %d, answer %d: %+v, want %+v", m, n, a, want)
				}
			}
		}
		waitFor(t, tight, func() bool { return tight.Totals().ResidentBytes <= 3*size })
		totals := tight.Totals()
		t.Logf("%+v", totals)
		assert.True(t, totals.Wakes.Load() != 0 && tight.loaded(t) <= 3 && totals.Models == models, "%+v", totals)
		tight.stop(t)
	}
}

// waitFor is until.
func waitFor(t *testing.T, h *host, holds func() bool) {
	t.Helper()
	until(t, h, "it did not happen", holds)
}

// hibernate makes model m leave memory, after the start has loaded its models: the start could load m
// again. A slow machine may estimate a long replay even for a short log. Then hibernate takes a snapshot
// first, because the engine keeps a model with a long replay in memory.
func (h *host) hibernate(t *testing.T) {
	t.Helper()
	waitFor(t, h, func() bool { return h.Totals().StartDone.Load() })
	waitFor(t, h, func() bool {
		if h.Hibernate("m") {
			return true
		}
		must(h.SnapshotModel(t.Context(), "m"))(t)
		return h.Hibernate("m")
	})
}

// What is not loaded is listed, described, deleted and counted all the same.
func TestModelsThatAreNotLoaded(t *testing.T) {
	fs, c := newDisk(), newClock()
	h := start(t, fs, c)
	for _, id := range []string{"a", "b"} {
		h.create(t, id, linear(1))
		for n := range 5 {
			h.observe(t, id, engine.Observation{Features: []float64{float64(n)}, Labels: []float64{1}})
		}
		h.predict(t, id, 3)
	}
	h.stop(t)
	// Not one model fits, so that what the start loads leaves memory again.
	h = start(t, fs, c, func(o *engine.Options) { o.ModelMemory = 400 })
	totals := h.Totals()
	assert.EqualValues(t, 2, totals.Pending, totals)
	models, err := h.ListModels("", "", 10)
	assert.True(t, err == nil && len(models) == 2 && models[0].Sequence == 5 && models[0].Learner == "linear_awv", "%+v, %v", models, err)
	require.NoError(t, h.DeleteModel(context.Background(), "a"))
	assert.ErrorIs(t, errOf(h.GetModel(t.Context(), "a")), engine.ErrModelNotFound, "deleted")
	totals = h.Totals()
	assert.True(t, totals.Pending == 1 && totals.Models == 1, "%+v", totals)
	h.create(t, "a", model.Spec{Dimension: 2, Scaling: model.Unscaled(), LinearAWV: &model.LinearAWV{}})
}

func TestLimitsOfAServer(t *testing.T) {
	h := start(t, newDisk(), newClock(), func(o *engine.Options) {
		o.ModelLimit, o.ModelMemory, o.PendingLimit, o.PendingTotalLimit = 2, 100_000, 3, 4
	})
	ctx := context.Background()
	assert.ErrorIs(t, errOf(h.CreateModel(ctx, "large", taylor(10, 4))), model.ErrSpecTooLarge)
	h.create(t, "a", linear(1))
	h.create(t, "b", linear(1))
	assert.ErrorIs(t, errOf(h.CreateModel(ctx, "c", linear(1))), engine.ErrModelLimit)
	h.create(t, "a", linear(1)) // There already.
	predict := func(id string, rows int) error {
		var err error
		for range rows {
			if _, err = h.Predict(ctx, id, vectors([]float64{1}), engine.PredictOptions{Remember: true}); err != nil {
				break
			}
		}
		return err
	}
	require.NoError(t, predict("a", 3))
	assert.ErrorIs(t, predict("a", 1), engine.ErrPendingLimit)
	require.NoError(t, predict("b", 1))
	assert.ErrorIs(t, predict("b", 1), engine.ErrPendingLimit)
	require.NoError(t, h.DeleteModel(ctx, "a"))
	assert.NoError(t, predict("b", 2))
}

// A hundred thousand small models in one engine: what is used is in memory,
// the rest is not, and a start reads only the registry.
func TestManyModels(t *testing.T) {
	count := 300
	if isLong() {
		count = 2000
	}
	fs, c := newFS(), newClock()
	h := startOn(t, fs, c, func(o *engine.Options) { o.ModelMemory = 1 << 20 })
	for n := range count {
		h.create(t, fmt.Sprint("m-", n), linear(3))
	}
	// Zipf's law: few models get most.
	law := rand.NewZipf(rand.New(rand.NewPCG(1, 2)), 1.2, 1, uint64(count-1))
	learned := map[uint64]uint64{}
	for range 5 * count {
		m := law.Uint64()
		learned[m]++
		h.observe(t, fmt.Sprint("m-", m), engine.Observation{Features: []float64{1, 2, float64(learned[m])}, Labels: []float64{1}})
	}
	h = startOn(t, fs.CrashClone(vfs.CrashCloneCfg{}), c, func(o *engine.Options) { o.ModelMemory = 1 << 20 })
	totals := h.Totals()
	assert.Equal(t, count, totals.Models, totals)
	for m, n := range learned {
		assert.Equal(t, n, h.stats(t, fmt.Sprint("m-", m)).Observations, m)
	}
	waitFor(t, h, func() bool { return h.Totals().ResidentBytes <= 1<<20 })
	n := h.loaded(t)
	assert.True(t, n != 0 && (n <= count/2 || count <= 600), "%d models are loaded", n)
}

// A model that leaves memory leaves the ids of its last record in the store: a
// look-up beside it finds them.
func TestHibernationKeepsTheLastIDs(t *testing.T) {
	h := start(t, newDisk(), newClock())
	h.create(t, "m", linear(1))
	h.observe(t, "m", one("a", 1)...)
	h.hibernate(t)
	err := h.store.Models(t.Context(), func(e storage.RegistryEntry) error {
		_, there, err := e.Model.ID("a")
		assert.True(t, there, "the id is not in the store")
		return err
	})
	require.NoError(t, err)
}

// The models that were not used for the longest leave memory: those that stay are always the last ones used.
func TestTheLeastUsedModelsLeave(t *testing.T) {
	const models, uses = 8, 100
	c := newClock()
	whole := start(t, files{newFS()}, c)
	whole.create(t, "m-0", linear(1))
	size := whole.Totals().ResidentBytes
	h := start(t, files{newFS()}, c, func(o *engine.Options) { o.ModelMemory = models*size + size/2 })
	var order []string // The one used last is the last one.
	use := func(id string, with func(id string)) {
		c.advance(time.Second)
		with(id)
		order = append(slices.DeleteFunc(order, func(other string) bool { return other == id }), id)
	}
	for m := range models {
		use(fmt.Sprint("m-", m), func(id string) { h.create(t, id, linear(1)) })
	}
	rng := rand.New(rand.NewPCG(3, 5))
	left := 0
	for n := range uses {
		if n%10 == 0 {
			use(fmt.Sprint("n-", n), func(id string) { h.create(t, id, linear(1)) })
		}
		for range 3 {
			stays := order[len(order)-1-rng.IntN(models/2)]
			use(stays, func(id string) { h.predict(t, id, 1) })
		}
		until(t, h, fmt.Sprintf("use %d: other models than the last ones of %v are in memory", n, order), func() bool {
			var resident []string
			h.Each(func(l *engine.Live) {
				if l.Resident {
					resident = append(resident, l.ID)
				}
			})
			left = max(0, len(order)-len(resident))
			return len(resident) >= models/2 && slices.Equal(resident, slices.Sorted(slices.Values(order[left:])))
		})
	}
	assert.GreaterOrEqual(t, left, int(uses/10), "%d models have left", left)
}

// A rate is that of the observations of the last minute, and of the ten seconds that are
// not over.
func TestObservationRate(t *testing.T) {
	c := newClock()
	h := start(t, files{newFS()}, c)
	h.create(t, "m", linear(1))
	rate := func() float64 {
		t.Helper()
		page := must(h.Engine.ListModels(t.Context(), engine.ListOptions{Limit: 1, Figures: true}))(t)
		return page.Models[0].Figures.Rate
	}
	var times []time.Time
	rng := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		if rng.IntN(4) == 0 {
			c.advance(time.Duration(rng.IntN(20_000)) * time.Millisecond)
		}
		h.observe(t, "m", engine.Observation{Features: []float64{1}, Labels: []float64{1}})
		times = append(times, c.now())
		now := c.now()
		from := now.Truncate(10 * time.Second).Add(-time.Minute)
		want := 0.0
		for _, at := range times {
			if !at.Before(from) {
				want++
			}
		}
		if want /= now.Sub(from).Seconds(); math.Abs(rate()-want) > 1e-12 {
			t.Fatalf("at %v the rate is %g, want %g", now, rate(), want)
		}
	}
	c.advance(2 * time.Minute)
	assert.EqualValues(t, 0, rate())
}

// The figures of a model that has left memory are those of when it left; after a start
// they are not known until it is used.
func TestFiguresOfModelsThatAreNotLoaded(t *testing.T) {
	s, c := files{newFS()}, newClock()
	h := start(t, s, c)
	h.create(t, "first", linear(1))
	size := h.Totals().ResidentBytes
	h.create(t, "m", linear(1))
	for n := range 10 {
		h.observe(t, "m", engine.Observation{Features: []float64{1}, Labels: []float64{float64(n)}})
	}
	figures := func() engine.Figures {
		t.Helper()
		page := must(h.Engine.ListModels(t.Context(), engine.ListOptions{Limit: 1, Prefix: "m", Figures: true}))(t)
		return *page.Models[0].Figures
	}
	loaded := figures()
	assert.True(t, loaded.State == engine.StateLoaded && loaded.Known && loaded.Recent.Observations == 9 && loaded.Regret > 0, "in memory %+v", loaded)
	h.hibernate(t)
	gone := figures()
	assert.True(t, gone.State == engine.StateHibernated && gone.Recent == loaded.Recent && gone.Regret == loaded.Regret && gone.Time != 0 && gone.Time == loaded.Time, "out of memory %+v", gone)
	h.stop(t)
	// The start loads models in the order of their ids until they take half of what they may.
	// The first one takes more than that and less than all, so that it stays and "m" is not loaded.
	h = start(t, s, c, func(o *engine.Options) { o.ModelMemory = size * 3 / 2 })
	waitFor(t, h, func() bool { return h.Totals().StartDone.Load() })
	assert.Equal(t, 1, h.loaded(t))
	f := figures()
	assert.True(t, f.State == engine.StateHibernated && !f.Known && math.IsNaN(f.Regret), "after a start %+v", f)
	h.stats(t, "m")
	f = figures()
	assert.True(t, f.Known && f.Recent == loaded.Recent, "used again %+v", f)
}

// A scrape shows the same statistics before and after a model leaves memory.
func TestLiveStatisticsAtRest(t *testing.T) {
	h := start(t, files{newFS()}, newClock())
	spec := linear(1)
	spec.Coverage = []float64{0.5, 0.9}
	h.create(t, "m", spec)
	for n := range 300 {
		y := float64(n % 7)
		if n > 150 {
			y *= 1000 // A drift.
		}
		h.observe(t, "m", engine.Observation{Features: []float64{1}, Labels: []float64{y}, Weight: 1})
	}
	live := func() (text string) {
		h.Each(func(l *engine.Live) { text = fmt.Sprint(l.Stats, l.Summary, l.ServedRegret) })
		return text
	}
	loaded := live()
	h.hibernate(t)
	rest := live()
	assert.True(t, loaded != "" && rest == loaded, "at rest %s, in memory %s", rest, loaded)
}

// Pages of any list have what a plain list of all models has, in its order, though models
// come and go between two pages.
func TestPages(t *testing.T) {
	h := start(t, files{newFS()}, newClock(), keeping(time.Hour))
	rng := rand.New(rand.NewPCG(5, 6))
	type plain struct {
		id, label string
		sequence  int
		deleted   bool
	}
	var all []plain
	for range 60 {
		p := plain{fmt.Sprintf("%c%d", 'a'+rng.IntN(3), rng.IntN(1000)), strconv.Itoa(rng.IntN(2)), rng.IntN(4), rng.IntN(4) == 0}
		if slices.ContainsFunc(all, func(o plain) bool { return o.id == p.id }) {
			continue
		}
		must(h.Engine.CreateModel(t.Context(), p.id, linear(1), engine.CreateOptions{Metadata: engine.Metadata{Labels: map[string]string{"k": p.label}}}))(t)
		for range p.sequence {
			h.observe(t, p.id, engine.Observation{Features: []float64{1}, Labels: []float64{1}})
		}
		if p.deleted {
			require.NoError(t, h.DeleteModel(t.Context(), p.id))
		}
		all = append(all, p)
	}
	for range 300 {
		o := engine.ListOptions{Limit: 1 + rng.IntN(9), Deleted: rng.IntN(2) == 0, Descending: rng.IntN(2) == 0}
		o.Prefix = []string{"", "b", "z"}[rng.IntN(3)]
		if rng.IntN(2) == 0 {
			o.Order = engine.BySequence
		}
		if rng.IntN(2) == 0 {
			o.Labels = map[string]string{"k": "1"}
		}
		var want []string
		chosen := slices.DeleteFunc(slices.Clone(all), func(p plain) bool {
			return p.deleted && !o.Deleted || o.Prefix != "" && p.id[:1] != o.Prefix || o.Labels != nil && p.label != "1"
		})
		slices.SortFunc(chosen, func(a, b plain) int {
			bySequence, byID := cmp.Compare(a.sequence, b.sequence), cmp.Compare(a.id, b.id)
			switch {
			case o.Order == engine.ByID && o.Descending:
				return -byID
			case o.Order == engine.ByID:
				return byID
			case o.Descending:
				return cmp.Or(-bySequence, byID)
			}
			return cmp.Or(bySequence, byID)
		})
		for _, p := range chosen {
			want = append(want, p.id)
		}
		var got []string
		for pages := 0; ; pages++ {
			page, err := h.Engine.ListModels(t.Context(), o)
			require.True(t, err == nil && page.Total == len(want) && len(page.Models) <= o.Limit, "%+v: page %+v, %v; want %d in all", o, page, err, len(want))
			for n := range page.Models {
				got = append(got, page.Models[n].ID)
			}
			if o.After = page.Next; o.After == nil {
				break
			}
		}
		require.Equal(t, want, got, o)
	}
}
