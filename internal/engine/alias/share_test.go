package alias_test

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"hindsight/internal/engine/alias"
	"hindsight/internal/engine/hosted"
	"hindsight/internal/engine/record"
	"hindsight/internal/store"
)

// newTable returns an empty table.
func newTable(t *testing.T) *alias.Table {
	t.Helper()
	s, err := store.Open("data", store.Options{FS: vfs.NewMem()})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, s.Close()) })
	return alias.NewTable(context.Background(), s, zap.NewNop())
}

// bound is the binding of the alias "live" to model "a" with a share of model "b".
func bound(t *testing.T, name, second string, fraction float64) *alias.Binding {
	t.Helper()
	table := newTable(t)
	defer table.Close()
	current, next, err := table.Plan(name, record.Alias{
		Model: record.Ref{ID: "a", Created: 1}, Share: record.Share{Model: record.Ref{ID: second, Created: 2}, Fraction: fraction},
	}, "")
	if err == nil {
		err = table.Put(context.Background(), current, next, nil)
	}
	require.NoError(t, err)
	return table.Find(name)
}

// Users stay where they are: these keys are divided so in every version and on every processor.
func TestKeysAreDividedForEver(t *testing.T) {
	b, got := bound(t, "live", "b", 0.3), make([]byte, 0, 64)
	for n := range 64 {
		if b.ToSecond(fmt.Sprint("user ", n)) {
			got = append(got, 'b')
		} else {
			got = append(got, 'a')
		}
	}
	const golden = "aaabaabbabaaabbabbbaaaabbaabaaaabbaaababbaabaaaaaaabaaabbbbabaaa"
	assert.EqualValues(t, golden, string(got), got)
}

// A fraction of the keys, and of requests without a key, goes to the second model. A larger fraction keeps the keys
// of a smaller one. Other aliases and other models divide the keys independently.
func TestFractions(t *testing.T) {
	const keys = 40_000
	among := func(hits int, n, fraction float64, what string) {
		t.Helper()
		assert.LessOrEqual(t, math.Abs(float64(hits)-n*fraction), 5*math.Sqrt(n*fraction*(1-fraction)), "%v %v %v %v", what, hits, n, fraction)
	}
	fractions := []float64{0.01, 0.2, 0.5, 0.9}
	other, model := bound(t, "other", "b", 0.5), bound(t, "live", "c", 0.5)
	for n, fraction := range fractions {
		b, larger := bound(t, "live", "b", fraction), bound(t, "live", "b", fractions[min(n+1, len(fractions)-1)])
		var hits, drawn, both, too int
		for key := range keys {
			key := strconv.Itoa(key)
			in := b.ToSecond(key)
			require.True(t, in == b.ToSecond(key) && (!in || larger.ToSecond(key)), "key %s does not stay", key)
			if b.ToSecond("") {
				drawn++
			}
			if in {
				hits++
				if other.ToSecond(key) {
					both++
				}
				if model.ToSecond(key) {
					too++
				}
			}
		}
		among(hits, keys, fraction, "keys")
		among(drawn, keys, fraction, "requests without a key")
		among(both, float64(hits), 0.5, "the keys of another alias")
		among(too, float64(hits), 0.5, "the keys of another model")
	}
}

// What follows what: the model of before, and what is rejected.
func TestPlanOfShares(t *testing.T) {
	ref := func(id string) record.Ref { return record.Ref{ID: id, Created: 1} }
	share := func(id string, fraction float64) record.Share {
		if id == "" {
			return record.Share{}
		}
		return record.Share{Model: ref(id), Fraction: fraction}
	}
	for _, test := range []struct {
		name             string
		model, second    string
		toModel, to      string
		fraction         float64
		previous         string
		rejected, stands bool
	}{
		{name: "a share begins", model: "a", toModel: "a", to: "b", previous: "before"},
		{name: "the fraction changes", model: "a", second: "b", toModel: "a", to: "b", fraction: 0.7, previous: "before"},
		{name: "nothing changes", model: "a", second: "b", toModel: "a", to: "b", previous: "before", stands: true},
		{name: "the share ends", model: "a", second: "b", toModel: "a", previous: "b"},
		{name: "another second model", model: "a", second: "b", toModel: "a", to: "c", previous: "b"},
		{name: "promotion", model: "a", second: "b", toModel: "b", previous: "a"},
		{name: "the two change places", model: "a", second: "b", toModel: "b", to: "a", previous: "a"},
		{name: "a third model", model: "a", second: "b", toModel: "c", rejected: true},
		{name: "a switch", model: "a", toModel: "b", to: "c", previous: "a"},
	} {
		table := newTable(t)
		put := func(a record.Alias) (*alias.Binding, *alias.Binding, error) {
			current, next, err := table.Plan("live", a, "")
			if err == nil && current != next {
				err = table.Put(context.Background(), current, next, nil)
			}
			return current, next, err
		}
		for _, a := range []record.Alias{{Model: ref("before")}, {Model: ref(test.model), Share: share(test.second, 0.5)}} {
			_, _, err := put(a)
			require.NoError(t, err)
		}
		fraction := 0.5
		if test.fraction > 0 {
			fraction = test.fraction
		}
		current, next, err := put(record.Alias{Model: ref(test.toModel), Share: share(test.to, fraction)})
		switch {
		case test.rejected:
			assert.ErrorIs(t, err, hosted.ErrInvalidRequest, test.name)
		case err != nil || next.Previous.ID != test.previous || (current == next) != test.stands || next.Share.Model.ID != test.to:
			t.Errorf("%s: %+v, %v", test.name, next, err)
		}
		table.Close()
	}
}
