package replicated_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"hindsight/internal/cluster/command"
	"hindsight/internal/cluster/replicated"
	"hindsight/internal/cluster/replicated/logtest"
	"hindsight/internal/engine/storage"
)

// large returns data of the size that a command takes at most five parts for.
func large(n byte) []byte { return bytes.Repeat([]byte{n, 'x'}, 300<<10) }

// manyIDs and manyPending are rows of more than one part.
func manyIDs() (out []storage.ID) {
	for n := range uint64(2000) {
		i := id(n + 1)
		i.Value = make([]byte, 200)
		out = append(out, i)
	}
	return out
}

func manyPending() (out []storage.Prediction) {
	for n := range 2000 {
		p := prediction(fmt.Sprintf("pending %06d", n))
		p.Value = make([]byte, 200)
		out = append(out, p)
	}
	return out
}

// Changes of any size are the same on every server, whose stores crash at any time, and no entry is large.
func TestLargeChanges(t *testing.T) {
	c := newCluster(t, 3)
	owner, ctx := c.servers[0], t.Context()
	m := create(t, owner)
	pending := manyPending()
	imported, err := owner.Import(ctx, "imported", large(1), storage.Import{
		Sequence: 7, Snapshot: large(2), IDs: manyIDs(), Pending: pending,
	})
	must(t, err, m.PutPending(pending))
	answered := make([]string, 0, len(pending)/2)
	for _, p := range pending[:len(pending)/2] {
		answered = append(answered, p.ID)
	}
	must(t, m.Append(ctx, storage.Commit{Record: storage.Record{First: 1, Last: 4, Data: large(3)}, IDs: manyIDs(), Answered: answered}),
		imported.SetValue(ctx, large(4), storage.Alias{Name: "a", Value: large(5)}),
		m.Append(ctx, storage.Commit{Record: record(5, 5)}),
		imported.Rewind(ctx, storage.Rewind{Sequence: 7, Value: large(6), Snapshot: large(7), IDs: manyIDs()}))
	_, err = owner.Import(ctx, "imported", large(1), storage.Import{})
	assert.ErrorIs(t, err, storage.ErrExists, "an import of a name that exists")
	c.same(t)
	for n := range c.servers {
		assert.Equal(t, int64(len(pending)/2), find(t, c.servers[n], "m").CountPending(), "%v %v", n, len(pending)/2)
		c.servers[n].crash(t, n == 1)
	}
	c.same(t)
	for _, entry := range c.log.Entries() {
		assert.True(t, len(entry) <= 513<<10, "an entry of %d bytes", len(entry))
	}
}

// A change whose owner fails in the middle has no effect on any server, and the next owner's first entry drops its
// parts. A server that crashed, whose log no longer has the first parts, joins the parts too.
func TestHalfAChange(t *testing.T) {
	for _, n := range []int{2, 4, 7} {
		for _, fault := range []logtest.Fault{logtest.Rejected, logtest.Dropped, logtest.Deposed} {
			c := newCluster(t, 2)
			create(t, c.servers[0])
			before := len(c.log.Entries())
			faults(c, append(make([]logtest.Fault, n), fault, fault, fault)...) // A part is sent three times.
			_, err := c.servers[0].Import(t.Context(), "new", large(1), storage.Import{Snapshot: []byte("state")})
			require.True(t, (fault != logtest.Rejected || errors.Is(err, storage.ErrNotOwner)) && (fault == logtest.Rejected || errors.Is(err, storage.ErrUnknown)), "after %d entries: %v", n, err)
			c.log.SetFault(nil)
			must(t, c.servers[1].local.Sync(t.Context()))
			c.servers[1].crash(t, true)
			c.log.Own(1)
			must(t, c.servers[1].log.WaitAll(t.Context()))
			_, exists := models(t, c.servers[1])["new"]
			list := commands(t, last(c.log.Entries()))
			assert.Equal(t, (fault == logtest.Deposed && strings.HasPrefix(list[0], "16 ")), exists, "after %d entries: the model exists", n)
			must(t, c.servers[1].PutAlias(t.Context(), "a", nil))
			c.same(t)
			for _, s := range c.servers {
				for _, of := range transfers(t, c.log.Entries()[before:]) {
					_, err := s.local.JoinParts(of.Transfer, of.size)
					assert.ErrorIs(t, err, storage.ErrNotFound, "after %d entries: parts", n)
				}
			}
			if !exists {
				_, err = c.servers[1].Import(t.Context(), "new", large(1), storage.Import{Snapshot: []byte("state")})
				must(t, err)
			}
			c.servers[0].crash(t, true)
			c.same(t)
		}
	}
}

// A part that fails is sent again. The change has its effect once.
func TestPartsAreSentAgain(t *testing.T) {
	for _, fault := range []logtest.Fault{logtest.Rejected, logtest.Dropped, logtest.Applied} {
		c := newCluster(t, 2)
		create(t, c.servers[0])
		faults(c, logtest.None, fault, fault, logtest.None, fault)
		_, err := c.servers[0].Import(t.Context(), "new", large(1), storage.Import{Snapshot: large(2)})
		must(t, err)
		c.same(t)
		assert.True(t, models(t, c.servers[1])["new"] != nil, "fault %d: the model does not exist", fault)
	}
}

func last(entries [][]byte) []byte { return entries[len(entries)-1] }

func models(t *testing.T, s storage.Store) map[string]storage.Model {
	t.Helper()
	out := map[string]storage.Model{}
	must(t, s.Models(t.Context(), func(e storage.RegistryEntry) error { out[e.Name] = e.Model; return nil }))
	return out
}

type transfer struct {
	storage.Transfer
	size uint64
}

// transfers lists the bytes of each transfer after each of its parts.
func transfers(t *testing.T, entries [][]byte) (out []transfer) {
	t.Helper()
	for _, entry := range entries {
		e, err := command.Decode(entry)
		must(t, err)
		for {
			raw, ok, err := e.Next()
			must(t, err)
			if !ok {
				break
			}
			var c command.Command
			if must(t, c.Decode(raw)); c.Kind == command.Part && len(c.Data) > 0 {
				out = append(out, transfer{storage.Transfer{Proposer: e.Proposer, Number: c.Transfer}, c.Offset + uint64(len(c.Data))})
			}
		}
	}
	return out
}

// An owner that loses the store to another one in the middle of a change, and gets the store back, does not complete the
// change: the other owner's entry has dropped its parts.
func TestAnotherOwnerInTheMiddle(t *testing.T) {
	g := newGate(t, newDisk(t).open(t))
	imported := later(func() error { _, err := g.Import(t.Context(), "new", large(1), storage.Import{}); return err })
	for range 3 {
		g.commit(t, <-g.proposals)
	}
	alias := command.Command{Kind: command.PutAlias, Name: "a"}
	g.index++
	must(t, g.Apply(g.index, alias.Append(command.NewLogEntry(command.Header{Format: storage.Format, Proposer: [16]byte{1}}, 0))))
	for {
		select {
		case p := <-g.proposals:
			g.commit(t, p)
			continue
		case err := <-imported:
			assert.ErrorIs(t, err, storage.ErrNotOwner)
		}
		break
	}
	all := models(t, g)
	assert.True(t, len(all) == 0, "models %v", all)
	g.commit(t, <-g.proposals) // The drop.
}

// Commands of other callers pass the parts of a large command, also commands of the same names. The parts of a caller that
// leaves are dropped.
func TestPartsLetOthersPass(t *testing.T) {
	disk := newDisk(t)
	g := newGate(t, disk.open(t))
	all := g.models(t, "ab")
	ctx, cancel := context.WithCancel(t.Context())
	imported := later(func() error { _, err := g.Import(ctx, "new", large(1), storage.Import{}); return err })
	first := <-g.proposals
	wantCommands(t, first, "15 of 0")
	g.commit(t, first)
	second := <-g.proposals
	wantCommands(t, second, "15 of 0")
	created := later(func() error { _, err := g.Create(t.Context(), "c", nil); return err })
	third := <-g.proposals
	wantCommands(t, third, "1 of 0")
	g.commit(t, third)
	must(t, <-created)
	appended := appending(t.Context(), all[0])
	third = <-g.proposals
	wantCommands(t, third, "7 of 1")
	cancel()
	assert.ErrorIs(t, <-imported, context.Canceled)
	g.commit(t, second)
	g.commit(t, third)
	must(t, <-appended)
	of := transfers(t, [][]byte{second.entry})[0]
	_, err := disk.s.JoinParts(of.Transfer, of.size)
	must(t, err)
	drop := <-g.proposals
	wantCommands(t, drop, "16 of 0")
	g.commit(t, drop)
	_, err = disk.s.JoinParts(of.Transfer, of.size)
	assert.ErrorIs(t, err, storage.ErrNotFound, "the parts of a caller that has left")
}

// A part takes twice the usual time of an entry and some milliseconds, unless the link is slower than the least part. The
// parts use the most of the link.
func TestPace(t *testing.T) {
	for _, c := range []struct {
		usual   time.Duration
		rate    int
		longest time.Duration
		share   float64
	}{
		{4 * time.Millisecond, 1 << 20, 18 * time.Millisecond, 0.7},
		{4 * time.Millisecond, 2 << 20, 18 * time.Millisecond, 0.6},
		{30 * time.Millisecond, 2 << 20, 70 * time.Millisecond, 0.4},
		{4 * time.Millisecond, 1 << 30, 18 * time.Millisecond, 0.03}, // 50 MB a second.
		{4 * time.Millisecond, 128 << 10, 130 * time.Millisecond, 0.9},
	} {
		p := replicated.NewPace()
		bytes, all, longest := 0, time.Duration(0), time.Duration(0)
		for n := range 300 {
			size, took := p.Send(c.usual, c.rate)
			if bytes, all = bytes+size, all+took; n >= 30 {
				longest = max(longest, took)
			}
		}
		share := float64(bytes) / all.Seconds() / float64(c.rate)
		assert.False(t, longest > c.longest*5/4 || share < c.share, "usual %v at %d bytes a second: parts of %v, %.2f of the link", c.usual, c.rate, longest, share)
	}
}

// FuzzParts applies parts, joins and entries of another proposer in any order, and compares what is created with a set of
// the parts that have arrived.
func FuzzParts(f *testing.F) {
	f.Add([]byte{0, 1, 2, 3, 4})
	f.Add([]byte{0, 1, 5, 2, 3, 4, 0, 1, 2, 3, 4})
	f.Add([]byte{3, 2, 0, 1, 7, 4, 6, 4})
	f.Fuzz(func(t *testing.T, steps []byte) {
		create := command.Command{Kind: command.Create, Name: "m", Value: []byte("a value in four parts")}
		body := command.Body(create.Append(nil))
		const parts = 4
		each := (len(body) + parts - 1) / parts
		disk := newDisk(t)
		g := newGate(t, disk.open(t))
		var log [][]byte
		apply := func(proposer byte, c command.Command) {
			log = append(log, c.Append(command.NewLogEntry(command.Header{Format: storage.Format, Proposer: [16]byte{proposer}}, 0)))
			must(t, g.Apply(uint64(len(log)), last(log)))
		}
		arrived, exists := map[int]bool{}, false
		for _, step := range steps[:min(len(steps), 64)] {
			switch k := int(step % 8); k {
			default:
				from, to := k*each, min((k+1)*each, len(body))
				apply(1, command.Command{Kind: command.Part, Transfer: 1, Offset: uint64(from), Data: body[from:to]})
				arrived[k] = true
			case 4, 5:
				join := command.Command{Kind: command.Join, Transfer: 1, Size: uint64(len(body)), Joined: command.Create}
				if k == 5 {
					join.Joined = 0
				}
				apply(1, join)
				exists = exists || k == 4 && len(arrived) == parts
				clear(arrived)
			case 6:
				apply(2, command.Command{Kind: command.PutAlias, Name: "a"})
				clear(arrived)
			case 7:
				g.Close()
				disk.crash(t, step >= 128)
				g.Store = reopened(t, g, disk)
				for n, entry := range log {
					must(t, g.Apply(uint64(n+1), entry))
				}
			}
			all := models(t, g)
			require.Equal(t, exists, (all["m"] != nil), "after %v: models %v, want one", steps, all)
		}
	})
}

// reopened opens the store of a gate again after a crash.
func reopened(t *testing.T, g *gate, disk *disk) *replicated.Store {
	t.Helper()
	s, err := replicated.New(t.Context(), replicated.Options{Local: disk.open(t), Log: g})
	must(t, err)
	t.Cleanup(s.Close)
	return s
}
