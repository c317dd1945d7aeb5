package main_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
)

// shadows makes two models that follow "m" and an alias of it.
func (p *process) shadows(t *testing.T) {
	t.Helper()
	degree := int32(2)
	for id, spec := range map[string]*hindsightv1.ModelSpec{
		"linear": {Dimension: 2, Scaling: unscaled(), Learner: &hindsightv1.ModelSpec_LinearAwv{LinearAwv: &hindsightv1.LinearAwv{}}},
		"taylor": {Dimension: 2, Scaling: unscaled(), Learner: &hindsightv1.ModelSpec_PkawvTaylor{PkawvTaylor: &hindsightv1.PkawvTaylor{Degree: &degree}}},
	} {
		must(p.models.CreateModel(t.Context(), &hindsightv1.CreateModelRequest{Id: id, Spec: spec, Follows: "m"}))(t)
	}
	must(p.models.SetAlias(t.Context(), &hindsightv1.SetAliasRequest{Alias: "live", Model: "m"}))(t)
}

// digests are those of the followers, once they have learned all.
func (p *process) digests(t *testing.T, rounds uint64) map[string]string {
	t.Helper()
	for {
		r, err := p.models.CompareModels(t.Context(), &hindsightv1.CompareModelsRequest{Model: "live"})
		require.True(t, err == nil && len(r.GetComparisons()) == 3, "%v %v", r, err)
		behind := uint64(0)
		for _, c := range r.GetComparisons() {
			behind += c.GetBehind()
		}
		if behind == 0 {
			break
		}
	}
	out := map[string]string{}
	for _, id := range []string{"linear", "taylor"} {
		r, err := p.models.GetModelStats(t.Context(), &hindsightv1.GetModelStatsRequest{Model: id})
		require.True(t, err == nil && r.GetStats().GetObservations() == rounds, "%s: %v, %v", id, r, err)
		out[id] = r.GetStats().GetStateDigest()
	}
	return out
}

// Killed at any moment, again and again, followers learn each observation of the model
// that they follow once, in its order.
func TestKilledFollowersLearnEachObservationOnce(t *testing.T) {
	endToEnd(t)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 3))
	const rounds = 400
	calm := launch(t, t.TempDir())
	calm.create(t)
	calm.shadows(t)
	require.EqualValues(t, rounds, calm.learn(t, 0, rounds))
	want := calm.digests(t, rounds)
	calm.terminate(t)

	dir := t.TempDir()
	p := launch(t, dir)
	p.create(t)
	p.shadows(t)
	kills := 0
	for next := 0; next < rounds; kills++ {
		p.kill(t)
		p = launch(t, dir, "--snapshot-replay", "1ms", "--snapshots-kept", "1")
		victim := p.command.Process
		timer := time.AfterFunc(time.Duration(10+rng.IntN(60))*time.Millisecond, func() {
			_ = victim.Kill() // It may have ended.
		})
		next = p.learn(t, next, rounds)
		timer.Stop()
	}
	p.kill(t)
	p = launch(t, dir)
	got := p.digests(t, rounds)
	for id := range want {
		assert.Equal(t, want[id], got[id], "%v %v", id, kills)
	}
	p.terminate(t)
	t.Logf("survived %d kills", kills)
}
