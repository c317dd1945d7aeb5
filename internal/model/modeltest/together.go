package modeltest

import (
	"bytes"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"hindsight/internal/model"
)

// together: observations learned together have the outcomes of one by one and leave the state,
// bit for bit, also among rejected ones.
func (s Subject) together(t *testing.T) {
	one, many := s.New(), s.New()
	batched, ok := many.(model.Batched)
	if !ok {
		t.Skip("it learns one by one")
	}
	rng, most, batches := rand.New(rand.NewPCG(9, 10)), 1, 0
	for samples := Samples(9, s.Dimension, max(300, s.Warm+200)); len(samples) > 0; {
		count := min(1+rng.IntN(batched.Together()), len(samples))
		observations := make([]model.Observation, count)
		for n, o := range samples[:count] {
			observations[n] = model.Observation{X: o.X, Y: s.labels(o), Weight: o.Weight}
		}
		got, want := make([]model.Outcome, count), make([]model.Outcome, count)
		if most = max(most, count); count > 1 {
			rejectTogether(t, batched, observations)
			if err := batched.ObserveAll(got, observations); err != nil {
				t.Fatal(err)
			}
		} else {
			observeEach(t, many, got, observations)
		}
		observeEach(t, one, want, observations)
		for n := range want {
			if !sameOutcome(&got[n], &want[n]) {
				t.Fatalf("observation %d of %d: %+v, one by one %+v", n, count, got[n], want[n])
			}
		}
		samples = samples[count:]
		// A state may take longer to encode than a batch to learn.
		if batches++; (batches%8 == 1 || len(samples) == 0) && !bytes.Equal(State(t, one.Visit), State(t, many.Visit)) {
			t.Fatalf("%d batches leave another state, the last of %d observations", batches, count)
		}
	}
	if most == 1 {
		t.Skip("it learns one by one")
	}
}

func observeEach(t *testing.T, l model.Learner, outcomes []model.Outcome, all []model.Observation) {
	t.Helper()
	for n, o := range all {
		if err := l.Observe(&outcomes[n], o.X, o.Y, o.Weight); err != nil {
			t.Fatal(err)
		}
	}
}

// rejectTogether passes observations whose last is rejected.
func rejectTogether(t *testing.T, l model.Batched, all []model.Observation) {
	t.Helper()
	bad := slices.Clone(all)
	bad[len(bad)-1].Weight = -1
	if l.ObserveAll(make([]model.Outcome, len(bad)), bad) == nil {
		t.Fatal("a negative weight was learned")
	}
}

func sameOutcome(a, b *model.Outcome) bool {
	same := func(v, w float64) bool { return math.Float64bits(v) == math.Float64bits(w) }
	return same(a.Loss, b.Loss) && same(a.Regret, b.Regret) && slices.EqualFunc(a.Predictions, b.Predictions, same)
}
