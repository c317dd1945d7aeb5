package engine_test

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"hindsight/internal/engine"
)

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
