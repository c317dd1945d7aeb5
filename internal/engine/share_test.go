package engine_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"hindsight/internal/engine"
	"hindsight/internal/model"
)

// share gives model "b" half of the requests to "live", which is "a".
func (h *host) share(t *testing.T, fraction float64, learnAll bool) engine.Alias {
	t.Helper()
	return must(h.ShareAlias(t.Context(), "live", "a", "", &engine.Share{Model: "b", Fraction: fraction, LearnAll: learnAll}))(t)
}

// ask predicts by the alias "live" with a key as a request does, and tells which model predicted.
func (h *host) ask(t *testing.T, key, id string, x ...float64) (string, engine.Prediction) {
	t.Helper()
	target := must(h.Resolve("live"))(t)
	target = target.Of(key)
	p := must(target.Predict(t.Context(), vectors(x), engine.PredictOptions{Remember: true, IDs: []string{id}}))(t)
	return target.Named(), p[0]
}

// labelled sends the label of a prediction, which has to be learned by a model.
func (h *host) labelled(t *testing.T, id, by string, duplicate bool) engine.Answer {
	t.Helper()
	got, a, err := h.send(t.Context(), engine.Observation{PredictionID: id, Labels: []float64{1}, Weight: 1})
	assert.True(t, err == nil && got == by && a.Duplicate == duplicate, "the label of %s is learned by %q, duplicate %v, %v; want %q, %v", id, got, a.Duplicate, err, by, duplicate)
	return a
}

// learned is how many observations models have learned.
func (h *host) learned(t *testing.T, want ...uint64) {
	t.Helper()
	for n, id := range []string{"a", "b"}[:len(want)] {
		assert.Equal(t, want[n], h.sequence(t, id), id)
	}
}

// Each model learns what it predicted, whatever becomes of the share, and an id once.
func TestShareOfAnAlias(t *testing.T) {
	d, c := newDisk(), newClock()
	h := start(t, d, c)
	h.create(t, "a", linear(1))
	h.create(t, "b", linear(1))
	h.setAlias(t, "live", "a")
	set := h.share(t, 0.5, false)
	again := h.share(t, 0.5, false)
	assert.True(t, *again.Share == *set.Share && set.Share.Model == "b" && set.Previous == "", "set %+v, again %+v", set, again)
	maker := map[string]string{}
	of := map[string][]string{}
	for n := range 40 {
		id := fmt.Sprint("p", n)
		by, p := h.ask(t, fmt.Sprint("user ", n%20), id, 1)
		again, same := h.ask(t, fmt.Sprint("user ", n%20), id, 1)
		require.True(t, again == by && same.Sequence == p.Sequence, "%s is predicted by %s and by %s", id, by, again)
		maker[id] = by
		of[by] = append(of[by], id)
	}
	require.True(t, len(of["a"]) >= 8 && len(of["b"]) >= 8, "the keys are divided into %v", of)
	// Without a prediction the key, and without a key the id, chooses.
	for n := range 20 {
		id := fmt.Sprint("o", n)
		key := fmt.Sprint("user ", n)
		by, a, err := h.sendKey(t.Context(), key, one(id, 1)[0])
		assert.True(t, err == nil && by == maker[fmt.Sprint("p", n)] && !a.Duplicate, "%s is learned by %q, %+v, %v", id, by, a, err)
		// The same id with another key is the same observation.
		for other := range 4 {
			again, a, err := h.sendKey(t.Context(), strconv.Itoa(other), one(id, 1)[0])
			assert.True(t, err == nil && again == by && a.Duplicate, "%s is learned by %q and by %q, %+v, %v", id, by, again, a, err)
		}
	}
	a, b := h.sequence(t, "a"), h.sequence(t, "b")
	assert.EqualValues(t, 20, a+b, "%v %v", a, b)
	half := func(from, to int) {
		for n := from; n < to; n++ {
			id := fmt.Sprint("p", n)
			assert.True(t, h.labelled(t, id, maker[id], false).Served, "%s has no served prediction", id)
		}
		for n := range to {
			id := fmt.Sprint("p", n)
			h.labelled(t, id, maker[id], true)
		}
	}
	half(0, 10)
	h.stop(t)
	h = start(t, d, c)
	half(10, 20)
	h.share(t, 0.99, false) // Most keys of a are those of b now.
	half(20, 25)
	h.setAlias(t, "live", "a") // The share ends.
	half(25, 30)
	by, _ := h.ask(t, "user 3", "later", 1)
	assert.Equal(t, "a", by)
	h.share(t, 0.01, false)
	half(30, 35)
	if set, err := h.SetAlias(t.Context(), "live", "b", "a"); err != nil || set.Previous != "a" || set.Share != nil { // Promoted.
		t.Errorf("promoted: %+v, %v", set, err)
	}
	half(35, 40)
	h.labelled(t, "later", "a", false)
	h.learned(t, a+uint64(len(of["a"]))+1, b+uint64(len(of["b"])))
}

// Both models learn every label once, in the same order, whoever predicted.
func TestShareThatLearnsAll(t *testing.T) {
	d, c := newDisk(), newClock()
	h := start(t, d, c)
	h.create(t, "a", linear(1))
	h.shadow(t, "b", "a", taylor(1, 2))
	set := h.share(t, 0.5, true)
	assert.True(t, set.Share.LearnAll, "set %+v", set)
	maker := map[string]string{}
	for n := range 60 {
		id := fmt.Sprint("p", n)
		maker[id], _ = h.ask(t, id, id, float64(n%7))
	}
	const by = "a"
	label := func(from, to int) {
		for n := from; n < to; n++ {
			id := fmt.Sprint("p", n)
			// What the second model predicted is no prediction of the first.
			assert.Equal(t, (maker[id] == by), h.labelled(t, id, by, false).Served, "%v %v", id, maker[id])
			h.labelled(t, id, by, true)
		}
	}
	label(0, 20)
	if by, a, err := h.sendKey(t.Context(), "any", one("o", 1)[0]); err != nil || by != "a" || a.Sequence != 21 {
		t.Errorf("an observation is learned by %q: %+v, %v", by, a, err)
	}
	h.caughtUp(t, "a")
	h.learned(t, 21, 21)
	p, err := h.Predict(t.Context(), "b", vectors([]float64{1}), engine.PredictOptions{Remember: true})
	assert.True(t, err == nil && p[0].ID == "", "by itself the second model remembers: %+v, %v", p, err)
	h.stop(t)
	h = start(t, d, c)
	for n := range 20 {
		h.labelled(t, fmt.Sprint("p", n), "a", true)
	}
	label(20, 30)
	h.setAlias(t, "live", "a") // The share ends; its labels are on their way.
	label(30, 35)
	h.share(t, 0.5, true)
	label(35, 40)
	h.caughtUp(t, "a")
	h.learned(t, 41, 41)
	// Promoted, each model learns what it predicted and nothing twice.
	h.setAlias(t, "live", "b")
	sequences := map[string]uint64{"a": 41, "b": 41}
	for n := range 60 {
		id := fmt.Sprint("p", n)
		if n < 40 {
			h.labelled(t, id, "a", true)
			continue
		}
		h.labelled(t, id, maker[id], false)
		h.labelled(t, id, maker[id], true)
		sequences[maker[id]]++
	}
	h.learned(t, sequences["a"], sequences["b"])
}

// A follower that follows no more gets no requests, and keeps what it has predicted.
func TestShareOfAFollowerThatStops(t *testing.T) {
	h := startOn(t, newFS(), newClock())
	h.create(t, "a", linear(1))
	h.observe(t, "a", one("0", 1)...)
	h.shadow(t, "b", "a", linear(1))
	h.share(t, 0.999, true)
	by, _ := h.ask(t, "key", "p", 1)
	require.Equal(t, "b", by)
	h.observe(t, "a", one("1", 1)...)
	h.caughtUp(t, "a")
	must(h.RestoreModel(t.Context(), "a", 0))(t)
	for h.follows(t, "b") != "" {
		require.NoError(t, t.Context().Err(), "it still follows")
	}
	by, _ = h.ask(t, "key", "later", 1)
	assert.Equal(t, "a", by)
	h.labelled(t, "p", "b", false)
	h.labelled(t, "p", "b", true)
	h.labelled(t, "later", "a", false)
}

func TestRejectedShares(t *testing.T) {
	h := startOn(t, newFS(), newClock())
	h.create(t, "a", linear(1))
	h.create(t, "b", linear(1))
	h.create(t, "wide", linear(2))
	h.create(t, "classes", model.Spec{Dimension: 1, Scaling: model.Unscaled(), Classes: &model.Classes{}, LinearAWV: &model.LinearAWV{}})
	h.shadow(t, "f", "a", linear(1))
	for name, test := range map[string]struct {
		model string
		share engine.Share
		field string
	}{
		"nothing":               {"a", engine.Share{Fraction: 0.5}, "share.model"},
		"itself":                {"a", engine.Share{Model: "a", Fraction: 0.5}, "share.model"},
		"a fraction of 0":       {"a", engine.Share{Model: "b"}, "share.fraction"},
		"a fraction of 1":       {"a", engine.Share{Model: "b", Fraction: 1}, "share.fraction"},
		"no number":             {"a", engine.Share{Model: "b", Fraction: math.NaN()}, "share.fraction"},
		"another dimension":     {"a", engine.Share{Model: "wide", Fraction: 0.5}, "share.model"},
		"classes":               {"a", engine.Share{Model: "classes", Fraction: 0.5}, "share.model"},
		"no follower":           {"a", engine.Share{Model: "b", Fraction: 0.5, LearnAll: true}, "share.learn_all"},
		"a follower":            {"a", engine.Share{Model: "f", Fraction: 0.5}, "share.learn_all"},
		"a follower as the 1st": {"f", engine.Share{Model: "b", Fraction: 0.5}, "model"},
	} {
		_, err := h.ShareAlias(t.Context(), "live", test.model, "", &test.share)
		var field *model.FieldError
		assert.True(t, errors.Is(err, engine.ErrInvalidRequest) && errors.As(err, &field) && field.Field == test.field, "%s: %v, want %s", name, err, test.field)
	}
	assert.ErrorIs(t, errOf(h.ShareAlias(t.Context(), "live", "a", "", &engine.Share{Model: "none", Fraction: 0.5})), engine.ErrModelNotFound)
	h.share(t, 0.5, false)
	assert.ErrorIs(t, h.DeleteModel(t.Context(), "b"), engine.ErrAliased)
	info, err := h.GetModel(t.Context(), "b")
	assert.True(t, err == nil && slices.Equal(info.Aliases, []string{"live"}), "the second model: %v, %v", info.Aliases, err)
	assert.ErrorIs(t, errOf(h.SetAlias(t.Context(), "live", "wide", "")), engine.ErrInvalidRequest)
}

// Clients send each label twice by an alias whose share changes all the time, and which is promoted back and forth.
// Each is learned once, by the model that predicted it.
func TestExactlyOnceWhileAShareChanges(t *testing.T) {
	h := startOn(t, newFS(), newClock())
	h.create(t, "a", linear(1))
	h.create(t, "b", linear(1))
	h.setAlias(t, "live", "a")
	const clients, each = 4, 60
	var all sync.WaitGroup
	var changes atomic.Int64
	change := func() {
		n := changes.Add(1)
		to, second := "a", "b"
		if n/8%2 == 1 {
			to, second = second, to
		}
		share := &engine.Share{Model: second, Fraction: 0.1 + 0.2*float64(n%4)}
		if n%5 == 4 {
			share = nil
		}
		assert.NoError(t, errOf(h.ShareAlias(context.Background(), "live", to, "", share)))
	}
	for client := range clients {
		all.Go(func() {
			for n := range each {
				o := one(fmt.Sprint(client, "-", n), 1)[0]
				change() // While the other clients send.
				var twice sync.WaitGroup
				for range 2 {
					twice.Go(func() {
						_, _, err := h.sendKey(context.Background(), o.ObservationID, o)
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

// After a power cut at any moment every acknowledged label is a duplicate of what the same model learned.
func TestShareAfterACrash(t *testing.T) {
	for _, learnAll := range []bool{false, true} {
		fs, c := newFS(), newClock()
		h := startOn(t, fs, c)
		h.create(t, "a", linear(1))
		if learnAll {
			h.shadow(t, "b", "a", linear(1))
		} else {
			h.create(t, "b", linear(1))
		}
		h.share(t, 0.5, learnAll)
		rng, by := rand.New(rand.NewPCG(1, 2)), map[string]string{}
		for n := range 40 {
			id := fmt.Sprint("p", n)
			maker, _ := h.ask(t, id, id, 1)
			if learnAll {
				maker = "a"
			}
			h.labelled(t, id, maker, false)
			by[id] = maker
			if n%8 != 7 {
				continue
			}
			cut := startOn(t, fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 50, RNG: rng}), c)
			for id, maker := range by {
				cut.labelled(t, id, maker, true)
			}
			if learnAll {
				cut.caughtUp(t, "a")
				cut.learned(t, uint64(len(by)), uint64(len(by)))
			} else if a, b := cut.sequence(t, "a"), cut.sequence(t, "b"); int(a+b) != len(by) {
				t.Errorf("they have learned %d and %d, want %d", a, b, len(by))
			}
			cut.stop(t)
		}
	}
}

// The figures of a share are those since it began, and its difference is that of the served losses.
func TestCompareAShare(t *testing.T) {
	fs, c := newFS(), newClock()
	h := startOn(t, fs, c)
	h.create(t, "a", linear(1))
	h.create(t, "b", linear(1))
	rng := rand.New(rand.NewPCG(3, 4))
	for n := range 50 {
		h.observe(t, "a", engine.Observation{Features: []float64{1}, Labels: []float64{100 * rng.NormFloat64()}, ObservationID: strconv.Itoa(n)})
	}
	h.share(t, 0.5, false)
	var sums, squares, counts [2]float64
	feed := func(from, n int) {
		for k := from; k < from+n; k++ {
			id := fmt.Sprint("p", k)
			by, p := h.ask(t, id, id, 1)
			y := rng.NormFloat64()
			_, _, err := h.send(t.Context(), engine.Observation{PredictionID: id, Labels: []float64{y}, Weight: 1})
			require.NoError(t, err)
			of := int(by[0] - 'a')
			loss := (y - p.Values[0]) * (y - p.Values[0])
			counts[of]++
			if of == 1 && counts[of] == 1 {
				continue // The first that a model learns is not scored.
			}
			sums[of] += loss
			squares[of] += loss * loss
		}
	}
	compare := func() []engine.Comparison {
		all, err := h.CompareModels(t.Context(), "live")
		require.True(t, err == nil && len(all) == 2 && all[0].ID == "a" && all[1].ID == "b" && all[0].Difference == nil, "%+v, %v", all, err)
		for n, x := range all {
			if float64(x.Observations) != counts[n] || math.Abs(x.Own.Served.Loss-sums[n]) > 1e-6*(1+sums[n]) {
				t.Errorf("%s: %d observations, a loss of %g, want %g and %g", x.ID, x.Observations, x.Own.Served.Loss, counts[n], sums[n])
			}
		}
		return all
	}
	feed(0, 60)
	assert.Nil(t, compare()[1].Difference)
	feed(60, 300)
	check := func() {
		t.Helper()
		d := compare()[1].Difference
		require.NotNil(t, d, "no difference")
		scored := counts[1] - 1
		mean := sums[1]/scored - sums[0]/counts[0]
		if math.Abs(d.Mean-mean) > 1e-6 || d.Paired || d.Observations != scored || d.First != counts[0] || !(d.Lower < mean && mean < d.Upper) {
			t.Errorf("%+v, want a mean of %g of %v", d, mean, counts)
		}
	}
	check()
	h.stop(t)
	h = startOn(t, fs, c)
	check()
	feed(360, 40)
	check()
	// A restore to before the beginning of the share leaves no figures.
	must(h.RestoreModel(t.Context(), "a", 10))(t)
	all, err := h.CompareModels(t.Context(), "live")
	assert.True(t, err == nil && all[0].Observations == 0 && all[1].Difference == nil, "after a restore %+v, %v", all, err)
}

// The difference of a follower is that of the prequential losses of the same observations, also after a start.
func TestPairedDifference(t *testing.T) {
	d, c := newDisk(), newClock()
	h := start(t, d, c)
	h.create(t, "a", linear(1))
	h.observe(t, "a", one("0", 1)...)
	h.shadow(t, "b", "a", taylor(1, 3))
	h.share(t, 0.3, true)
	for n := range 400 {
		if n == 200 {
			h.caughtUp(t, "live") // What is not learned yet has no pair after the start.
			h.stop(t)
			h = start(t, d, c)
		}
		x := math.Sin(float64(n))
		_, _, err := h.send(t.Context(), engine.Observation{Features: []float64{x}, Labels: []float64{x * x * x}, Weight: 1, ObservationID: fmt.Sprint("o", n)})
		require.NoError(t, err)
	}
	all := h.caughtUp(t, "live")
	got := all[1].Difference
	mean := (all[1].Own.Prequential.Loss - all[1].Followed.Prequential.Loss) / 400
	// A follower that is faster than the leader's answer learns without the loss of the leader.
	if got == nil || !got.Paired || got.Observations < 380 || got.Observations > 400 || math.Abs(got.Mean-mean) > 2e-3 || !(got.Lower < mean && mean < got.Upper) {
		t.Errorf("%+v, want a mean of %g", got, mean)
	}
	assert.True(t, got.Upper < 0, "a cubic model on a cubic label is not better: %+v", got)
}

// A prediction of the share that has expired is learned by its input, once.
func TestLateLabelOfAShare(t *testing.T) {
	h := startOn(t, newFS(), newClock())
	h.create(t, "a", linear(1))
	h.create(t, "b", linear(1))
	h.share(t, 0.5, false)
	for n := range 10 {
		id := fmt.Sprint("p", n)
		by, _ := h.ask(t, id, id, 1)
		h.clock.advance(2 * time.Hour)
		_, _, err := h.send(t.Context(), engine.Observation{PredictionID: id, Labels: []float64{1}, Weight: 1})
		assert.ErrorIs(t, err, engine.ErrPredictionNotFound)
		for _, duplicate := range []bool{false, true} {
			got, a, err := h.send(t.Context(), one(id, 1)[0])
			assert.True(t, err == nil && got == by && a.Duplicate == duplicate, "%s is learned by %q, %+v, %v; want %s", id, got, a, err, by)
		}
	}
}
