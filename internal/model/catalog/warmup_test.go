package catalog_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"hindsight/internal/model"
	"hindsight/internal/model/catalog"
	"hindsight/internal/model/codec"
	"hindsight/internal/model/modeltest"
)

// Snapshots of a warm-up, of what catches up after it, and of a running scaling
// are read for ever: the golden ones are restored to the byte, and go on as if
// nothing had happened.
func TestGoldenWarmup(t *testing.T) {
	warmup := &model.Scaling{Warmup: &model.WarmupScaling{Observations: 70}}
	for name, c := range map[string]struct {
		scaling *model.Scaling
		at      int
	}{
		"warming_up":  {warmup, 20},
		"catching_up": {warmup, 71},
		"running":     {&model.Scaling{Running: &model.RunningScaling{}}, 50},
	} {
		t.Run(name, func(t *testing.T) { golden(t, name, c.scaling, c.at) })
	}
}

func golden(t *testing.T, name string, scaling *model.Scaling, at int) {
	t.Helper()
	spec, _, err := catalog.Complete(model.Spec{Dimension: 2, LinearAWV: &model.LinearAWV{}, Scaling: scaling})
	require.NoError(t, err)
	samples := modeltest.Samples(99, 2, 90)
	learn := func(l model.Learner, samples []modeltest.Sample) []byte {
		t.Helper()
		for _, s := range samples {
			must(modeltest.Observe(l, s.X, s.Y, s.Weight))(t)
		}
		return must(l.AppendBinary(nil))(t)
	}
	fresh := func() model.Learner { return must(catalog.New(spec))(t) }
	path := filepath.Join("testdata", name+".v1.hs")
	if *update {
		state := learn(fresh(), samples[:at])
		data, err := codec.Encode(codec.Snapshot{
			Spec: spec, Sequence: uint64(at), Digest: codec.Digest(state), Learner: state, Account: []byte("account"),
		})
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(path, data, 0o600))
	}
	data := must(os.ReadFile(path))(t)
	s, err := codec.Decode(data)
	require.NoError(t, err)
	restored := fresh()
	err = restored.Restore(s.Learner)
	require.True(t, err == nil && s.Sequence == uint64(at), "sequence %d: %v", s.Sequence, err)
	assert.Equal(t, s.Learner, learn(restored, nil), "another state is encoded than was restored")
	whole := fresh()
	got, want := learn(restored, samples[at:]), learn(whole, samples)
	assert.Equal(t, want, got, "restored, it ends elsewhere")
	for _, s := range samples {
		p := must(modeltest.Predict(restored, s.X))(t)
		require.Equal(t, must(modeltest.Predict(whole, s.X))(t), p)
	}
}
