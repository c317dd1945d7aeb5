package replicated_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"hindsight/internal/cluster/replicated"
	"hindsight/internal/cluster/replicated/logtest"
	"hindsight/internal/engine/storage"
	"hindsight/internal/store/storetest"
)

func create(t *testing.T, s storage.Store) storage.Model {
	t.Helper()
	m, err := s.Create(t.Context(), "m", []byte("value of m"))
	must(t, err)
	return m
}

func find(t *testing.T, s storage.Store, name string) (m storage.Model) {
	t.Helper()
	must(t, s.Models(t.Context(), func(e storage.RegistryEntry) error {
		if e.Name == name {
			m = e.Model
		}
		return nil
	}))
	require.True(t, m != nil, "no model %q", name)
	return m
}

func record(first, last uint64) storage.Record {
	return storage.Record{First: first, Last: last, Data: fmt.Appendf(nil, "record %d-%d", first, last)}
}

// id is an id of the observation of a sequence.
func id(sequence uint64) storage.ID {
	return storage.ID{ID: fmt.Sprint("id", sequence), At: time.Unix(int64(sequence), 0), Value: fmt.Append(nil, sequence, " ")}
}

func prediction(name string) storage.Prediction {
	return storage.Prediction{ID: name, Value: []byte("value"), Expiry: time.Unix(1<<32, 0)}
}

func proposeDigest(t *testing.T, m storage.Model, r storage.Rows) error {
	t.Helper()
	return m.(*replicated.Model).ProposeDigest(t.Context(), 8, r)
}

// Changed of the other servers receives all changes of the owner, in order. Changed of the owner receives no change
// that a call waits for, except a digest, which equals the digests of the others.
func TestChanged(t *testing.T) {
	c := newCluster(t, 3)
	owner, ctx := c.servers[0], t.Context()
	m := create(t, owner)
	_, err := owner.Import(ctx, "imported", []byte("value"), storage.Import{Sequence: 7, Snapshot: []byte("state"), Pending: []storage.Prediction{prediction("p")}})
	must(t, err,
		m.SetValue(ctx, []byte("second"), storage.Alias{Name: "a", Value: []byte("to m")}),
		owner.PutAlias(ctx, "b", []byte("to b")), owner.RemoveAlias(ctx, "b"),
		m.Append(ctx, storage.Commit{Record: record(1, 3)}),
		m.PutPending([]storage.Prediction{prediction("p")}),
		m.Append(ctx, storage.Commit{Record: record(4, 8), Answered: []string{"p"}}),
		proposeDigest(t, m, storage.Rows{}),
		m.Rewind(ctx, storage.Rewind{Sequence: 3, Value: []byte("rewound")}), m.Rewind(ctx, storage.Rewind{Sequence: 3}),
		find(t, owner, "imported").Delete(ctx))
	assert.ErrorIs(t, m.Append(ctx, storage.Commit{Record: record(9, 9)}), storage.ErrRejected)
	c.same(t)
	want := []string{
		`1 m "value of m" of 1`, `1 imported "value" of 2`, `3 m "second" of 1 and a "to m"`, `4 b "to b"`, `5 b ""`, `6 m "" of 1 to 3`,
		`6 m "" of 1 to 8`, "", `7 m "rewound" of 1 to 3`, `7 m "" of 1 to 3`, `2 imported "" of 2`,
	}
	for n, s := range c.servers {
		got := s.told()
		if n == 0 {
			require.True(t, len(got) == 1 && strings.HasPrefix(got[0], `8 m "" of 1 to 8`) && len(got[0]) >= 64, "the owner was told %q", got)
			want[7] = got[0]
			continue
		}
		assert.True(t, slices.Equal(got, want), "server %d was told\n%s\nwant\n%s", n, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// The digests of servers differ if and only if their rows do. Servers may have the ids of the last record or not, and
// forgotten ids.
func TestDigestOfRows(t *testing.T) {
	c := newCluster(t, 2)
	m, ctx := create(t, c.servers[0]), t.Context()
	must(t, m.Append(ctx, storage.Commit{Record: record(1, 3)}), m.PutPending([]storage.Prediction{prediction("p"), prediction("q")}),
		m.Append(ctx, storage.Commit{Record: record(4, 8), IDs: []storage.ID{id(1), id(2), id(3)}}), c.servers[0].PutAlias(ctx, "a", []byte("m")))
	c.settle(t)
	other := find(t, c.servers[1].local, "m")
	same := func(what string, want bool, r storage.Rows) {
		t.Helper()
		must(t, proposeDigest(t, m, r))
		c.settle(t)
		a, b := c.servers[0].told(), c.servers[1].told()
		assert.Equal(t, want, a[len(a)-1] == b[len(b)-1], "%v %v %v", what, a, b)
	}
	late := storage.Rows{Since: time.Unix(2, 0)}
	same("the same rows", true, storage.Rows{})
	must(t, other.PutIDs(ctx, []storage.ID{id(8)}))
	same("an id of the last record", true, storage.Rows{})
	for what, change := range map[string]struct {
		put, restore func() error
		without      storage.Rows // Rows that do not have the changed one.
	}{
		"another answer of an id": {
			func() error {
				return other.PutIDs(ctx, []storage.ID{{ID: "id2", At: time.Unix(2, 0), Value: []byte("2 x")}})
			},
			func() error { return other.PutIDs(ctx, []storage.ID{id(2)}) },
			storage.Rows{From: "id3"},
		},
		"an id that may be forgotten": {
			func() error {
				return other.PutIDs(ctx, []storage.ID{{ID: "id1", At: time.Unix(1, 0), Value: []byte("1 x")}})
			},
			func() error { return other.PutIDs(ctx, []storage.ID{id(1)}) }, late,
		},
		"another pending prediction": {
			func() error {
				return other.PutPending([]storage.Prediction{{ID: "p", Value: []byte("valuf"), Expiry: prediction("p").Expiry}})
			},
			func() error { return other.PutPending([]storage.Prediction{prediction("p")}) },
			storage.Rows{To: "p"},
		},
		"a lost pending prediction": {
			func() error { return other.RemovePending([]string{"q"}) },
			func() error { return other.PutPending([]storage.Prediction{prediction("q")}) },
			storage.Rows{From: "p", To: "q"},
		},
		"other metadata": {
			func() error { return other.SetValue(ctx, []byte("valuf of m")) },
			func() error { return other.SetValue(ctx, []byte("value of m")) },
			storage.Rows{},
		},
		"another alias": {
			func() error { return c.servers[1].local.PutAlias(ctx, "a", []byte("n")) },
			func() error { return c.servers[1].local.PutAlias(ctx, "a", []byte("m")) },
			storage.Rows{From: "a"},
		},
	} {
		must(t, change.put())
		same(what, false, storage.Rows{})
		if change.without.From+change.without.To != "" || !change.without.Since.IsZero() {
			same(what+" is not among the rows", true, change.without)
		}
		must(t, change.restore())
		same(what+" restored", true, storage.Rows{})
	}
	end, err := m.RowsEnd("", 1)
	assert.True(t, err == nil && end == "id2", "the rows end at %q, %v", end, err)
	end, err = m.RowsEnd("id2", 2)
	assert.True(t, err == nil && end == "", "the last rows end at %q, %v", end, err)
}

// The other servers receive a snapshot once they have all its parts, after its ids. A snapshot of which a part is lost
// does not arrive.
func TestSnapshotInParts(t *testing.T) {
	c := newCluster(t, 2)
	m, ctx := create(t, c.servers[0]), t.Context()
	must(t, m.Append(ctx, storage.Commit{Record: record(1, 9)}), m.PutIDs(ctx, []storage.ID{id(9)}))
	propose := func(sequence uint64, data string) error {
		return m.(interface {
			ProposeSnapshot(ctx context.Context, sequence uint64, data []byte, ids []storage.ID) error
		}).ProposeSnapshot(ctx, sequence, []byte(data), []storage.ID{id(9)})
	}
	first, second := strings.Repeat("first", 200_000), strings.Repeat("second", 100_000)
	faults(c, logtest.None, logtest.None, logtest.None, logtest.Dropped, logtest.Dropped, logtest.Dropped)
	assert.ErrorIs(t, propose(8, first), storage.ErrUnknown)
	c.same(t)
	_, _ = c.servers[0].told(), c.servers[1].told()
	must(t, propose(9, second), propose(9, "short"))
	c.same(t)
	want := []string{fmt.Sprintf("%d m %q of 1 to 9", storage.Snapshotted, second), fmt.Sprintf(`%d m "short" of 1 to 9`, storage.Snapshotted)}
	assert.Equal(t, want, slices.DeleteFunc(c.servers[1].told(), func(s string) bool { return s == "" }))
	without := fmt.Sprintf(`%d m "" of 1 to 9`, storage.Snapshotted)
	assert.Equal(t, []string{without, without}, c.servers[0].told(), "the owner receives more than the entries of its snapshots")
	c.log.Own(1)
	must(t, c.servers[1].log.WaitAll(ctx))
	assert.ErrorIs(t, propose(9, second), storage.ErrNotOwner)
}

// faults sets the faults of the next proposals.
func faults(c *cluster, next ...logtest.Fault) {
	c.log.SetFault(func() logtest.Fault {
		if len(next) == 0 {
			return logtest.None
		}
		fault := next[0]
		next = next[1:]
		return fault
	})
}

// After a rewind a server puts no ids that it has derived before, because they may be of undone records: a retry of an undone
// observation would be answered as learned.
func TestNoIDsOfUndoneRecords(t *testing.T) {
	c := newCluster(t, 2)
	m, ctx := create(t, c.servers[0]), t.Context()
	c.settle(t)
	for _, s := range c.servers {
		find(t, s, "m").(*replicated.Model).FollowRewind()
	}
	must(t, m.Append(ctx, storage.Commit{Record: record(1, 3)}), m.Append(ctx, storage.Commit{Record: record(4, 8)}),
		m.Rewind(ctx, storage.Rewind{Sequence: 3, Undone: storetest.Undone(3)}))
	c.settle(t)
	for _, s := range c.servers {
		m := find(t, s, "m")
		must(t, m.PutIDs(ctx, []storage.ID{id(8)}))
		_, known, err := m.ID("id8")
		assert.False(t, known || err != nil, "an undone id is put: %v, %v", known, err)
		m.(*replicated.Model).FollowRewind()
		must(t, m.PutIDs(ctx, []storage.ID{id(3)}))
		_, known, err = m.ID("id3")
		assert.True(t, known && err == nil, "an id after the rewind is put: %v, %v", known, err)
	}
}

// A server that does not own the store changes nothing durable.
func TestNotOwner(t *testing.T) {
	c := newCluster(t, 2)
	must(t, create(t, c.servers[0]).PutPending([]storage.Prediction{prediction("p")}))
	c.same(t)
	before := dump(t, c.servers[0])
	other, ctx := c.servers[1], t.Context()
	m := find(t, other, "m")
	_, createErr := other.Create(ctx, "new", nil)
	_, importErr := other.Import(ctx, "new", nil, storage.Import{})
	for what, err := range map[string]error{
		"create": createErr, "import": importErr, "alias": other.PutAlias(ctx, "a", nil), "no alias": other.RemoveAlias(ctx, "a"),
		"value": m.SetValue(ctx, nil), "delete": m.Delete(ctx), "append": m.Append(ctx, storage.Commit{Record: record(1, 1)}),
		"rewind": m.Rewind(ctx, storage.Rewind{}), "waiting": m.PutPending([]storage.Prediction{prediction("q")}),
		"digest": proposeDigest(t, m, storage.Rows{}),
	} {
		assert.ErrorIs(t, err, storage.ErrNotOwner, what)
	}
	if got := dump(t, other); !slices.Equal(got, before) {
		t.Errorf("changed:%s", difference(before, got))
	}
	// The log does not carry ids that another server derives by itself.
	must(t, m.PutIDs(ctx, []storage.ID{id(1)}), m.RemovePending([]string{"p"}))
	c.settle(t)
	if got := dump(t, c.servers[0]); !slices.Equal(got, before) {
		t.Errorf("the owner changed:%s", difference(before, got))
	}
	if _, ok, err := m.ID("id1"); !ok || err != nil || m.CountPending() != 0 {
		t.Errorf("id %t, %v; %d waiting", ok, err, m.CountPending())
	}
}

// The answer of a proposal answers only calls that Apply has not answered.
func TestOutcomes(t *testing.T) {
	c := newCluster(t, 2)
	m, ctx := create(t, c.servers[0]), t.Context()
	fault := func(f logtest.Fault) { c.log.SetFault(func() logtest.Fault { return f }) }
	commit := storage.Commit{Record: record(1, 1)}
	fault(logtest.Rejected)
	assert.ErrorIs(t, m.Append(ctx, commit), storage.ErrNotOwner)
	fault(logtest.Dropped)
	if err := m.Append(ctx, commit); !errors.Is(err, logtest.ErrLost) || errors.Is(err, storage.ErrNotOwner) {
		t.Errorf("dropped: %v", err)
	}
	fault(logtest.Applied)
	must(t, m.Append(ctx, commit))
	_, err := c.servers[0].Create(ctx, "m", nil)
	assert.ErrorIs(t, err, storage.ErrExists)
	if got := c.servers[0].told(); len(got) > 0 {
		t.Errorf("the owner was told %q", got)
	}
	// Either the caller learns that the entry is applied, or Changed is told.
	fault(logtest.Deposed)
	err = m.Append(ctx, storage.Commit{Record: record(2, 2)})
	c.same(t)
	got, want := c.servers[0].told(), []string(nil)
	if err != nil {
		want = []string{`6 m "" of 1 to 2`}
		assert.ErrorIs(t, err, logtest.ErrLost)
	}
	assert.Equal(t, want, got, err)
	assert.False(t, c.servers[0].log.Owner() || !c.servers[1].log.Owner(), "the owner is not the other server")
	c.log.SetFault(nil)
	must(t, find(t, c.servers[1], "m").Append(ctx, storage.Commit{Record: record(3, 3)}))
	c.same(t)
}

// remembered fails the test unless the store has so many ids, and Forget works with the exact count.
func remembered(t *testing.T, s *server, want int) {
	t.Helper()
	far := time.Unix(1<<32, 0)
	count := func() (n int) {
		must(t, s.Models(t.Context(), func(e storage.RegistryEntry) error {
			return e.Model.EachID(t.Context(), func(storage.ID) error { n++; return nil })
		}))
		return n
	}
	assert.Equal(t, want, count())
	must(t, s.local.Forget(t.Context(), far, want))
	assert.Equal(t, want, count())
	must(t, s.local.Forget(t.Context(), far, want-1))
	assert.Equal(t, want-1, count(), "%v %v", want, want)
}

// A server may have put the ids of a commit before it applies the commit.
func TestIDsKnownBefore(t *testing.T) {
	c := newCluster(t, 3)
	m, ctx := create(t, c.servers[0]), t.Context()
	append3 := func(first uint64) {
		must(t,
			m.Append(ctx, storage.Commit{Record: record(first, first)}),
			m.Append(ctx, storage.Commit{Record: record(first+1, first+1), IDs: []storage.ID{id(first)}}))
		c.settle(t)                           //nolint:contextcheck // It has no context.
		derived := find(t, c.servers[1], "m") //nolint:contextcheck // It has no context.
		must(t, derived.PutIDs(ctx, []storage.ID{id(first + 1)}), derived.PutIDs(ctx, []storage.ID{id(first), id(first + 1)}))
		must(t, m.Append(ctx, storage.Commit{Record: record(first+2, first+2), IDs: []storage.ID{id(first + 1)}}))
		c.same(t) //nolint:contextcheck // It has no context.
	}
	append3(1)
	// An earlier process put them.
	derived := find(t, c.servers[1], "m")
	must(t, derived.PutIDs(ctx, []storage.ID{id(3)}))
	c.servers[1].crash(t, false)
	must(t, m.Append(ctx, storage.Commit{Record: record(4, 4), IDs: []storage.ID{id(3)}}))
	c.same(t)
	// The owner put them, and another server appends them.
	must(t, m.PutIDs(ctx, []storage.ID{id(4)}))
	c.settle(t)
	c.log.Own(1)
	m = find(t, c.servers[1], "m")
	must(t, m.Append(ctx, storage.Commit{Record: record(5, 5), IDs: []storage.ID{id(4)}}))
	append3(6)
	must(t, m.Append(ctx, storage.Commit{Record: record(9, 9), IDs: []storage.ID{id(8)}}))
	// After a rewind the owner proposes ids again that other servers may not have.
	must(t,
		m.Append(ctx, storage.Commit{Record: record(10, 10), IDs: []storage.ID{id(9)}}),
		m.Append(ctx, storage.Commit{Record: record(11, 11), IDs: []storage.ID{id(10)}}),
		m.Rewind(ctx, storage.Rewind{Sequence: 9, Undone: storetest.Undone(9)}),
		m.Append(ctx, storage.Commit{Record: record(10, 10), IDs: []storage.ID{id(9)}}),
	)
	// A rejected commit puts none of its ids.
	assert.ErrorIs(t, m.Append(ctx, storage.Commit{Record: record(9, 9), IDs: []storage.ID{id(99)}}), storage.ErrRejected)
	c.same(t)
	for n, s := range c.servers {
		t.Run(fmt.Sprint("server ", n), func(t *testing.T) { remembered(t, s, 8) })
	}
}

// A restart may begin anywhere in the log, because Apply skips commands that the local store has.
func TestAppliedOnce(t *testing.T) {
	c := newCluster(t, 3)
	owner, ctx := c.servers[0], t.Context()
	for n := range uint64(3) {
		m := create(t, owner)
		must(t, m.Append(ctx, storage.Commit{Record: record(1, 2)}), m.Append(ctx, storage.Commit{Record: record(3, 3), IDs: []storage.ID{id(1), id(2)}}))
		must(t, m.Rewind(ctx, storage.Rewind{Sequence: 2, Undone: func([]byte) bool { return false }}))
		must(t, m.Append(ctx, storage.Commit{Record: record(3, 3+n)}), m.PutPending([]storage.Prediction{prediction("p")}))
		// An import that is rejected takes no number.
		_, err := owner.Import(ctx, "long", nil, storage.Import{IDs: []storage.ID{{ID: strings.Repeat("x", storage.MaxID+1)}}})
		assert.ErrorIs(t, err, storage.ErrInvalidID)
		if n < 2 {
			must(t, m.Delete(ctx))
		}
	}
	must(t, owner.PutAlias(ctx, "a", []byte("to m")), owner.RemoveAlias(ctx, "a"))
	c.same(t)
	want := dump(t, owner)
	for _, cut := range []bool{false, true} {
		for n, s := range c.servers {
			s.told()
			if !cut { // Unlike Sync of the server, this does not say that the log is not needed.
				must(t, s.local.Sync(ctx))
			}
			s.crash(t, cut)
			if got := dump(t, s); !slices.Equal(got, want) {
				t.Errorf("server %d after a crash (cut %t):%s", n, cut, difference(want, got))
			}
			last := s.told()
			assert.True(t, cut || len(last) == 0, "server %d applied again %q", n, last)
		}
	}
	must(t, find(t, owner, "m").Append(ctx, storage.Commit{Record: record(6, 6)}))
	c.same(t)
}
