package engine_test

import (
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	commands "hindsight/internal/cluster/command"
	"hindsight/internal/engine"
	"hindsight/internal/engine/recovery"
	"hindsight/internal/engine/storage"
	"hindsight/internal/model/catalog"
	"hindsight/internal/model/codec"
)

// The digests of servers differ if and only if a bit of what a caller sees differs: of the state, the account, the history,
// an id, a pending prediction or the metadata. It does not matter whether the owner or another server is wrong.
func TestDigestsFindABit(t *testing.T) {
	t.Parallel()
	snapshot := func(part func(*codec.Snapshot) []byte) func(t *testing.T, v *server, waits string) {
		return func(t *testing.T, v *server, _ string) {
			t.Helper()
			v.flip(t, part)
		}
	}
	for name, c := range map[string]struct {
		flip  func(t *testing.T, v *server, waits string)
		state bool // The digest of the state differs, the digest of the rows does not.
	}{
		"nothing":     {func(*testing.T, *server, string) {}, false},
		"the state":   {snapshot(func(s *codec.Snapshot) []byte { return s.Learner }), true},
		"the account": {snapshot(func(s *codec.Snapshot) []byte { return s.Account }), true},
		"the history": {snapshot(func(s *codec.Snapshot) []byte { return s.History }), true},
		"an id": {func(t *testing.T, v *server, _ string) {
			t.Helper()
			value, ok, err := v.stored().ID("o3")
			require.True(t, err == nil && ok, "%v %v", ok, err)
			value[len(value)-1] ^= 1
			at := v.clock.now()
			require.NoError(t, v.stored().PutIDs(t.Context(), []storage.ID{{ID: "o3", At: at, Value: value}}))
		}, false},
		"a pending prediction": {func(t *testing.T, v *server, waits string) {
			t.Helper()
			p, ok, err := v.stored().GetPending(waits)
			require.True(t, err == nil && ok, "%v %v", ok, err)
			p.Value[len(p.Value)-1] ^= 1
			require.NoError(t, v.stored().PutPending([]storage.Prediction{p}))
		}, false},
		"the metadata": {func(t *testing.T, v *server, _ string) {
			t.Helper()
			value, err := v.stored().Value()
			if err == nil {
				value[len(value)-1] ^= 1
				err = v.stored().SetValue(t.Context(), value)
			}
			require.NoError(t, err)
		}, false},
	} {
		for wrong, place := range map[string]int{"the owner": 0, "another server": 1} {
			t.Run(fmt.Sprintf("%s of %s", name, wrong), func(t *testing.T) {
				t.Parallel()
				s := startServers(t, 3)
				a := s.all[0]
				a.host.create(t, "m", taylor(2, 2))
				for n := range 30 {
					a.host.observe(t, "m", one(fmt.Sprint("o", n), float64(n%7), 1)...)
				}
				waits := a.host.predict(t, "m", 1, 2).ID
				s.equal()
				c.flip(t, s.all[place], waits)
				got := s.digests("m")
				for n, d := range got {
					require.True(t, len(got) == 3 && d.Rows != "" && d.State != "", "digests %+v", got)
					want := n == place && name != "nothing" && !c.state
					assert.Equal(t, want, (d.Rows != got[2].Rows), "the rows of server %d differ: %v", n, !want)
					want = n == place && c.state
					assert.Equal(t, want, (d.State != got[2].State), "the state of server %d differs: %v", n, !want)
				}
				counted := int64(0)
				for _, v := range s.all {
					counted += v.host.Totals().DigestMismatches.Load()
				}
				assert.True(t, (counted > 0) == (name != "nothing"), "%d mismatches are counted", counted)
			})
		}
	}
}

// A server digests its state at the sequence of a check although more records follow at once, and does not digest a state
// that a restore undoes.
func TestDigestAtASequence(t *testing.T) {
	s := startServers(t, 2)
	a, b := s.all[0], s.all[1]
	a.host.create(t, "m", linear(1))
	a.host.observe(t, "m", one("a", 1)...)
	s.equal()
	b.pause(true)
	require.NoError(t, a.host.CheckModel("m"))
	for n := range 20 {
		a.host.observe(t, "m", one(strconv.Itoa(n), 1)...)
	}
	b.pause(false)
	s.equal()
	d := b.host.Digest("m", a.checked.index, a.checked.own)
	assert.True(t, d == a.checked.own && d.State != "", "%+v, the owner has %+v", d, a.checked.own)
	b.pause(true)
	require.NoError(t, a.host.CheckModel("m"))
	check := a.checked
	must(a.host.RestoreModel(t.Context(), "m", 3))(t)
	for n := range 20 {
		a.host.observe(t, "m", one(fmt.Sprint("again", n), 2)...)
	}
	b.pause(false)
	s.equal()
	d = b.host.Digest("m", check.index, storage.Digest{})
	assert.True(t, (d.State == "" || d.State == check.own.State) && d.Rows == check.own.Rows, "%+v, the owner had %+v", d, check.own)
}

// A large model is checked in parts.
func TestCheckInParts(t *testing.T) {
	s := startServers(t, 2, func(o *engine.Options) { o.Check = time.Millisecond })
	a := s.all[0]
	a.host.create(t, "m", linear(1))
	rows := make([]engine.Observation, 1000)
	for part := range 5 {
		for n := range rows {
			rows[n] = engine.Observation{ObservationID: fmt.Sprint(part, "-", n), Features: []float64{1}, Labels: []float64{2}}
		}
		a.host.observe(t, "m", rows...)
	}
	a.host.create(t, "n", linear(1))
	waitFor(t, a.host, func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return a.checked.model == "n"
	})
	var parts []string
	for _, c := range s.commands() {
		if c.Kind == commands.Digest {
			parts = append(parts, c.From)
		}
	}
	assert.True(t, slices.ContainsFunc(parts, func(from string) bool { return from > "1" && from < "4" }), "the checks begin at %q", parts)
}

// flipped returns a snapshot with another bit in a part, which can be read.
func (v *server) flipped(t *testing.T, data []byte, part func(*codec.Snapshot) []byte) []byte {
	t.Helper()
	m := v.stored()
	source, _, err := recovery.DecodeRegistryEntry(storage.RegistryEntry{Name: "m", Value: must(m.Value())(t), Model: m}, catalog.New)
	require.NoError(t, err)
	for at := 1; ; at++ { // Not every bit gives a state that can be read.
		s := must(codec.Decode(slices.Clone(data)))(t)
		bytes := part(&s)
		bytes[len(bytes)-at] ^= 1
		s.Digest = codec.Digest(s.Learner)
		flipped := must(codec.Encode(s))(t)
		if source.CheckEncoded(s.Sequence, flipped, s.Digest) == nil {
			return flipped
		}
	}
}

// flip flips a bit of a part of a server's state, as a fault of its memory does.
func (v *server) flip(t *testing.T, part func(*codec.Snapshot) []byte) {
	t.Helper()
	must(v.host.SnapshotModel(t.Context(), "m"))(t)
	m := v.stored()
	sequences := must(m.Snapshots())(t)
	data := must(m.ReadSnapshot(sequences[0]))(t)
	require.True(t, v.host.Hibernate("m"), "the model stays in memory")
	require.NoError(t, m.WriteSnapshot(sequences[0], v.flipped(t, data, part)))
	if _, err := v.host.Predict(t.Context(), "m", vectors([]float64{1, 2}), engine.PredictOptions{}); err != nil { // It loads the model.
		t.Fatal(err)
	}
}
