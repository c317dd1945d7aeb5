package engine_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	"hindsight/internal/engine"
	"hindsight/internal/model"
)

// shadow makes a model that follows another.
func (h *host) shadow(t *testing.T, id, leader string, spec model.Spec) {
	t.Helper()
	if _, err := h.Engine.CreateModel(t.Context(), id, spec, engine.CreateOptions{Follows: leader}); err != nil {
		t.Fatal(err)
	}
}

// caughtUp compares until the last follower has learned all.
func (h *host) caughtUp(t *testing.T, name string) []engine.Comparison {
	t.Helper()
	for range 10_000 {
		all, err := h.CompareModels(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		behind := uint64(0)
		for _, c := range all {
			behind += c.Behind
		}
		if behind == 0 {
			return all
		}
	}
	t.Fatal("the followers do not catch up")
	return nil
}

// feed lets "leader" observe n observations, some predicted before, some weighted, and gives the
// answers.
func (h *host) feed(t *testing.T, from, n int, also ...string) (answers []engine.Answer) {
	t.Helper()
	for k := from; k < from+n; k++ {
		x := []float64{math.Sin(float64(k)), math.Cos(float64(3 * k))}
		o := engine.Observation{Features: x, Labels: []float64{x[0] - x[1]/2}, Weight: 1 + float64(k%3), ObservationID: fmt.Sprint("o", k)}
		for _, other := range also {
			h.observe(t, other, o)
		}
		if k%2 == 0 {
			o.PredictionID, o.Features, o.ObservationID = h.predict(t, "leader", x...).ID, nil, ""
		}
		answers = append(answers, h.observe(t, "leader", o)...)
	}
	return answers
}

func TestAFollowerLearnsWhatItsLeaderLearns(t *testing.T) { onBackends(t, testFollows) }

func testFollows(t *testing.T, newDisk func() disk) {
	t.Helper()
	d, c := newDisk(), newClock()
	h := start(t, d, c)
	h.create(t, "leader", linear(2))
	h.create(t, "alone", taylor(2, 3))
	h.feed(t, 0, 20)
	h.shadow(t, "shadow", "leader", taylor(2, 3))
	answers := h.feed(t, 20, 150, "alone")
	h.stop(t)
	h = start(t, d, c)
	answers = append(answers, h.feed(t, 170, 50, "alone")...)
	all := h.caughtUp(t, "shadow")
	if len(all) != 2 || all[0].ID != "leader" || all[1].ID != "shadow" || all[1].Observations != 200 || all[0].Observations != 220 || all[0].Followed != nil {
		t.Fatalf("compared %+v", all)
	}
	alone, shadow := h.stats(t, "alone"), h.stats(t, "shadow")
	if alone.Digest != shadow.Digest || shadow.Sequence != 200 || all[1].Own != alone.Whole {
		t.Errorf("the follower has learned otherwise than a model that was told the same:\n%+v\n%+v", all[1].Own, alone.Whole)
	}
	prequential, served := 0.0, 0.0
	for _, a := range answers {
		prequential += a.Loss
		if a.Served {
			served += a.ServedLoss
		} else {
			served += a.Loss
		}
	}
	f := all[1].Followed
	if f.Observations != 200 || math.Abs(f.Prequential.Loss-prequential) > 1e-10*prequential || math.Abs(f.Served.Loss-served) > 1e-10*served {
		t.Errorf("the leader lost %+v, want %g and %g", f, prequential, served)
	}
	if info, err := h.GetModel(t.Context(), "shadow"); err != nil || info.Follows != "leader" {
		t.Errorf("the follower is %+v, %v", info, err)
	}
	if p := h.predict(t, "shadow", 1, 1); p.ID != "" || p.Sequence != 200 {
		t.Errorf("predicted %+v", p)
	}
	_, err := h.Observe(t.Context(), "shadow", []engine.Observation{{Features: []float64{1, 1}, Labels: []float64{1}, Weight: 1}})
	if !errors.Is(err, engine.ErrFollows) {
		t.Errorf("observed a follower: %v", err)
	}
}

func TestWhatCannotFollow(t *testing.T) {
	h := startOn(t, newFS(), newClock())
	h.create(t, "leader", linear(2))
	h.shadow(t, "shadow", "leader", taylor(2, 3))
	for _, rejected := range []struct {
		id, leader string
		spec       model.Spec
		want       error
		text       string
	}{
		{"x", "leader", linear(3), engine.ErrInvalidRequest, "spec.dimension"},
		{"x", "leader", model.Spec{Dimension: 2, Outputs: 2, Scaling: model.Unscaled(), LinearAWV: &model.LinearAWV{}}, engine.ErrInvalidRequest, "spec.outputs"},
		{"x", "shadow", linear(2), engine.ErrInvalidRequest, "follows"},
		{"x", "none", linear(2), engine.ErrModelNotFound, "none"},
		{"leader", "leader", linear(2), engine.ErrInvalidRequest, "itself"},
		{"shadow", "", taylor(2, 3), engine.ErrModelExists, "follows"},
		{"leader", "shadow", linear(2), engine.ErrModelExists, "follows"},
	} {
		_, err := h.Engine.CreateModel(t.Context(), rejected.id, rejected.spec, engine.CreateOptions{Follows: rejected.leader})
		if !errors.Is(err, rejected.want) || !strings.Contains(err.Error(), rejected.text) {
			t.Errorf("%+v: %v", rejected, err)
		}
	}
	h.shadow(t, "shadow", "leader", taylor(2, 3)) // Again the same.
	h.setAlias(t, "live", "leader")
	info, err := h.Engine.CreateModel(t.Context(), "other", linear(2), engine.CreateOptions{Follows: "live", ValidateOnly: true})
	if err != nil || info.Follows != "leader" {
		t.Errorf("by an alias: %+v, %v", info, err)
	}
}

// follows is what a model follows.
func (h *host) follows(t *testing.T, id string) string {
	t.Helper()
	info, err := h.GetModel(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return info.Follows
}

// awaitAlone waits until a model follows none.
func (h *host) awaitAlone(t *testing.T, id string) {
	t.Helper()
	for h.follows(t, id) != "" {
		if t.Context().Err() != nil {
			t.Fatal("it still follows")
		}
	}
	h.observe(t, id, engine.Observation{Features: []float64{1, 1}, Labels: []float64{1}, Weight: 1})
}

func TestRestoringAModelThatIsFollowed(t *testing.T) { onBackends(t, testLeaderRestored) }

func testLeaderRestored(t *testing.T, newDisk func() disk) {
	t.Helper()
	d, c := newDisk(), newClock()
	h := start(t, d, c)
	h.create(t, "leader", linear(2))
	h.create(t, "alone", linear(2))
	h.shadow(t, "before", "leader", linear(2))
	h.feed(t, 0, 30)
	h.caughtUp(t, "leader")
	h.Pause("leader", true) // The next one stays at 0.
	h.shadow(t, "later", "leader", linear(2))
	if _, err := h.RestoreModel(t.Context(), "before", 10); err != nil { // It learns the rest again.
		t.Fatal(err)
	}
	h.Pause("leader", false)
	if got := h.caughtUp(t, "leader"); got[1].Observations+got[2].Observations != 30 {
		t.Errorf("compared %+v", got)
	}
	if _, err := h.RestoreModel(t.Context(), "leader", 30); err != nil {
		t.Fatal(err)
	}
	if b, l := h.follows(t, "before"), h.follows(t, "later"); b != "leader" || l != "leader" {
		t.Errorf("restored to where they are, they follow %q and %q", b, l)
	}
	h.feed(t, 30, 5)
	h.caughtUp(t, "leader")
	if _, _, err := h.Engine.RestoreModel(t.Context(), "leader", 31, true); err != nil || h.follows(t, "before") == "" {
		t.Errorf("only validated: %v", err)
	}
	if _, err := h.RestoreModel(t.Context(), "leader", 31); err != nil {
		t.Fatal(err)
	}
	h.stop(t)
	h = start(t, d, c)
	for _, id := range []string{"before", "later"} {
		h.awaitAlone(t, id)
	}
	if b, l := h.sequence(t, "before"), h.sequence(t, "later"); b != 36 || l != 6 {
		t.Errorf("they have learned %d and %d, want 36 and 6: they keep what they had", b, l)
	}
}

func TestDeletingAModelThatIsFollowed(t *testing.T) {
	c := newClock()
	h := startOn(t, newFS(), c, func(o *engine.Options) { o.DeletedKept = time.Hour })
	h.create(t, "leader", linear(2))
	h.shadow(t, "shadow", "leader", linear(2))
	h.shadow(t, "gone", "leader", linear(2))
	h.feed(t, 0, 30)
	if err := h.DeleteModel(t.Context(), "gone"); err != nil {
		t.Fatal(err)
	}
	if err := h.DeleteModel(t.Context(), "leader"); err != nil {
		t.Fatal(err)
	}
	for h.sequence(t, "shadow") < 30 { // From the log of the deleted model.
	}
	if got := h.follows(t, "shadow"); got != "leader" {
		t.Errorf("it follows %q while its leader can be brought back", got)
	}
	if _, err := h.UndeleteModel(t.Context(), "leader"); err != nil {
		t.Fatal(err)
	}
	if _, err := h.UndeleteModel(t.Context(), "gone"); err != nil {
		t.Fatal(err)
	}
	h.feed(t, 30, 10)
	h.caughtUp(t, "leader")
	if a, b := h.stats(t, "shadow"), h.stats(t, "gone"); a.Sequence != 40 || a.Digest != b.Digest || a.Digest != h.stats(t, "leader").Digest {
		t.Errorf("they have learned %d and %d", a.Sequence, b.Sequence)
	}
	if _, err := h.Engine.DeleteModel(t.Context(), "leader", engine.DeleteOptions{Purge: true}); err != nil {
		t.Fatal(err)
	}
	c.advance(time.Second)
	h.create(t, "leader", linear(2)) // It is another one.
	h.awaitAlone(t, "shadow")
	if n := h.sequence(t, "shadow"); n != 41 {
		t.Errorf("learned %d, want 41", n)
	}
}

// The log is kept for a follower that has not learned it, and no longer.
func TestTheLogIsKeptForFollowers(t *testing.T) {
	h := startOn(t, newFS(), newClock(), func(o *engine.Options) { o.SnapshotsKept = 1 })
	h.create(t, "leader", linear(2))
	h.shadow(t, "shadow", "leader", linear(2))
	h.Pause("leader", true)
	snapshot := func() {
		t.Helper()
		if _, err := h.SnapshotModel(t.Context(), "leader"); err != nil {
			t.Fatal(err)
		}
	}
	for n := range 5 {
		h.feed(t, 40*n, 40)
		snapshot()
	}
	h.Pause("leader", false)
	h.caughtUp(t, "leader")
	if a, b := h.stats(t, "leader"), h.stats(t, "shadow"); a.Digest != b.Digest || b.Sequence != 200 {
		t.Errorf("the follower is at %d", b.Sequence)
	}
	h.feed(t, 200, 40)
	h.caughtUp(t, "leader")
	snapshot()
	if _, err := h.RestoreModel(t.Context(), "shadow", 0); err != nil {
		t.Fatal(err)
	}
	h.awaitAlone(t, "shadow")
	if n := h.sequence(t, "shadow"); n != 1 {
		t.Errorf("a follower whose log is cut has learned %d", n)
	}
}

// A follower stops before what its learner does not take.
func TestAFollowerStopsAtWhatItCannotLearn(t *testing.T) {
	h := startOn(t, newFS(), newClock())
	spec := model.Spec{Dimension: 2, Scaling: model.Unscaled(), KernelAWV: &model.KernelAWV{MaxObservations: ptr(10)}}
	h.create(t, "leader", linear(2))
	h.shadow(t, "shadow", "leader", spec)
	h.feed(t, 0, 15)
	for h.follows(t, "shadow") != "" {
	}
	if n := h.sequence(t, "shadow"); n != 10 {
		t.Errorf("learned %d, want 10", n)
	}
}

// Clients observe by the alias while it is set to the follower. The follower has then
// learned all that its leader had, and learns what comes.
func TestPromotion(t *testing.T) {
	d, c := files{newFS()}, newClock()
	h := start(t, d, c)
	h.create(t, "champion", linear(2))
	h.setAlias(t, "live", "champion")
	h.shadow(t, "challenger", "live", taylor(2, 3))
	predicted := h.predict(t, "live", 1, 0)
	const clients, each = 4, 50
	var all sync.WaitGroup
	for client := range clients {
		all.Go(func() {
			for n := range each {
				o := engine.Observation{ObservationID: fmt.Sprint(client, "-", n), Features: []float64{1, 0}, Labels: []float64{1}, Weight: 1}
				for range 2 {
					if _, _, err := h.send(context.Background(), o); err != nil {
						t.Error(err)
						return
					}
				}
			}
		})
	}
	if a, err := h.SetAlias(t.Context(), "live", "challenger", "champion"); err != nil || a.Previous != "champion" {
		t.Errorf("promoted: %+v, %v", a, err)
	}
	all.Wait()
	if by, _, err := h.send(t.Context(), engine.Observation{PredictionID: predicted.ID, Labels: []float64{1}, Weight: 1}); err != nil || by != "champion" {
		t.Errorf("the label of the champion's prediction is learned by %q, %v", by, err)
	}
	h.stop(t)
	h = start(t, d, c)
	champion, challenger := h.sequence(t, "champion"), h.sequence(t, "challenger")
	if h.follows(t, "challenger") != "" || champion+challenger < clients*each+1 || challenger > clients*each {
		t.Errorf("the champion has learned %d, the challenger %d", champion, challenger)
	}
}
