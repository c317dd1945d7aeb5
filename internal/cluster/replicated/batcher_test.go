package replicated_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"hindsight/internal/cluster/command"
	"hindsight/internal/cluster/replicated"
	"hindsight/internal/engine/storage"
	"hindsight/internal/store/storetest"
)

// gate is a log whose proposals a test answers.
type gate struct {
	*replicated.Store
	proposals chan proposal
	index     uint64
	changes   []storage.Change
}

type proposal struct {
	entry  []byte
	answer chan error
}

func (g *gate) Propose(ctx context.Context, entry []byte) error {
	p := proposal{entry, make(chan error, 1)}
	select {
	case g.proposals <- p:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	select {
	case err := <-p.answer:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func newGate(t *testing.T, local storage.Store) *gate {
	t.Helper()
	g := &gate{proposals: make(chan proposal)}
	var err error
	g.Store, err = replicated.New(t.Context(), replicated.Options{
		Local: local, Log: g, Undone: storetest.Undone, Changed: func(c storage.Change) { g.changes = append(g.changes, c) },
	})
	must(t, err)
	t.Cleanup(g.Close)
	return g
}

// commit applies a proposal and answers it.
func (g *gate) commit(t *testing.T, p proposal) {
	t.Helper()
	g.index++
	must(t, g.Apply(g.index, p.entry))
	p.answer <- nil
}

// models are new models with names of one letter.
func (g *gate) models(t *testing.T, names string) (out []storage.Model) {
	t.Helper()
	for _, name := range strings.Split(names, "") {
		call := later(func() error { _, err := g.Create(t.Context(), name, nil); return err })
		g.commit(t, <-g.proposals)
		must(t, <-call)
		out = append(out, find(t, g, name))
	}
	return out
}

// later calls f beside the test.
func later(f func() error) <-chan error {
	out := make(chan error, 1)
	go func() { out <- f() }()
	return out
}

func appending(ctx context.Context, m storage.Model) <-chan error {
	return later(func() error { return m.Append(ctx, storage.Commit{Record: record(1, 1)}) })
}

// commands lists the commands of an entry.
func commands(t *testing.T, entry []byte) (out []string) {
	t.Helper()
	e, err := command.Decode(entry)
	must(t, err)
	for {
		raw, ok, err := e.Next()
		must(t, err)
		if !ok {
			return out
		}
		var c command.Command
		must(t, c.Decode(raw))
		words := []string{fmt.Sprint(c.Kind, " of ", c.Model)}
		for _, i := range c.IDs {
			words = append(words, i.ID)
		}
		if c.Kind == command.Digest {
			words = append(words, c.From[:min(len(c.From), 8)])
		}
		out = append(out, strings.Join(words, " "))
	}
}

// digest proposes a digest beside the test.
func digest(t *testing.T, m storage.Model, text string) <-chan error {
	t.Helper()
	return later(func() error { return proposeDigest(t, m, storage.Rows{From: text}) })
}

func wantCommands(t *testing.T, p proposal, want ...string) {
	t.Helper()
	got := commands(t, p.entry)
	assert.Equal(t, strings.Join(want, ", "), strings.Join(got, ", "), "the entry has %q, want %q", got, want)
}

// The log may order two entries in flight either way: a record and the digest before it are not in flight together.
func TestModelsKeepTheOrder(t *testing.T) {
	g := newGate(t, newDisk(t).open(t))
	all := g.models(t, "ab")
	a, b := all[0], all[1]
	proposed := digest(t, a, "p")
	first := <-g.proposals
	ended := appending(t.Context(), a)
	other := appending(t.Context(), b)
	second := <-g.proposals
	wantCommands(t, second, "7 of 2")
	g.commit(t, second)
	must(t, <-other)
	g.commit(t, first)
	third := <-g.proposals
	wantCommands(t, third, "7 of 1")
	g.commit(t, third)
	must(t, <-proposed, <-ended)
	assert.True(t, len(g.changes) == 1 && g.changes[0].Kind == storage.Digested, "changes %v", g.changes)
}

// Aliases that are set with a value keep their order with other changes of aliases.
func TestAliasesKeepTheOrder(t *testing.T) {
	g := newGate(t, newDisk(t).open(t))
	all := g.models(t, "ab")
	ctx, cancel := context.WithCancel(t.Context())
	left := later(func() error { return g.PutAlias(ctx, "x", []byte("old")) })
	first := <-g.proposals
	cancel()
	assert.ErrorIs(t, <-left, context.Canceled)
	set := later(func() error { return all[0].SetValue(t.Context(), nil, storage.Alias{Name: "x", Value: []byte("new")}) })
	other := appending(t.Context(), all[1])
	second := <-g.proposals
	wantCommands(t, second, "7 of 2")
	g.commit(t, second)
	must(t, <-other)
	g.commit(t, first)
	third := <-g.proposals
	wantCommands(t, third, "3 of 1")
	g.commit(t, third)
	must(t, <-set, g.EachAlias(t.Context(), func(name string, value []byte) error {
		assert.True(t, name == "x" && string(value) == "new", "alias %s is %q", name, value)
		return nil
	}))
}

// A caller that leaves does not know the outcome. Changed receives the changes that are applied after the caller has
// left. A command that is not in an entry yet never gets into the log.
func TestCallersLeave(t *testing.T) {
	g := newGate(t, newDisk(t).open(t))
	all := g.models(t, "abc")
	cause := errors.New("the caller has left")
	ctx, cancel := context.WithCancelCause(t.Context())
	flying := appending(ctx, all[0])
	first := <-g.proposals
	other := appending(t.Context(), all[1])
	second := <-g.proposals
	queued := appending(ctx, all[2])
	cancel(cause)
	for _, ended := range []<-chan error{flying, queued} {
		assert.ErrorIs(t, <-ended, cause)
	}
	g.commit(t, first)
	g.commit(t, second)
	must(t, <-other)
	assert.True(t, len(g.changes) == 1 && g.changes[0].Kind == storage.Appended && g.changes[0].Model == all[0], "changes %v", g.changes)
	last, err := all[2].Last()
	assert.True(t, last == 0 && err == nil, "the log ends at %d, %v", last, err)
}

func TestEntriesAreBounded(t *testing.T) {
	g := newGate(t, newDisk(t).open(t))
	all := g.models(t, "abc")
	one := appending(t.Context(), all[0])
	first := <-g.proposals
	other := appending(t.Context(), all[1])
	second := <-g.proposals
	const many = 3000
	digests := []<-chan error{digest(t, all[2], "large   "+strings.Repeat("x", 200<<10))}
	queue := func(from, to int, long string) {
		for n := from; n < to; n++ {
			digests = append(digests, digest(t, all[2], fmt.Sprintf("p%07d", n)+long))
		}
		for g.Queued() < to+1 {
			runtime.Gosched()
		}
	}
	queue(0, many/2, "")
	queue(many/2, many, strings.Repeat("x", 1<<10))
	g.commit(t, first)
	g.commit(t, second)
	must(t, <-one, <-other)
	got, short, long := map[string]bool{}, 0, 0
	for len(got) < many+1 {
		p := <-g.proposals
		list := commands(t, p.entry)
		assert.True(t, len(list) <= 1024 && len(p.entry) <= 513<<10, "an entry of %d commands, %d bytes", len(list), len(p.entry))
		for _, text := range list {
			require.False(t, got[text], "%q twice", text)
			got[text] = true
		}
		if len(list) == 1024 {
			short++
		} else if len(p.entry) > 500<<10 {
			long++
		}
		g.commit(t, p)
	}
	assert.True(t, short != 0 && long >= 2, "%d entries of many commands, %d of many bytes", short, long)
	for _, d := range digests {
		must(t, <-d)
	}
}

// Close tells a caller that its command is not in the log, or that the outcome is unknown.
func TestClose(t *testing.T) {
	g := newGate(t, newDisk(t).open(t))
	all := g.models(t, "abc")
	one := appending(t.Context(), all[0])
	<-g.proposals
	other := appending(t.Context(), all[1])
	<-g.proposals
	queued := appending(t.Context(), all[2])
	go g.Close()
	for _, ended := range []<-chan error{one, other} {
		err := <-ended
		assert.True(t, err != nil && !errors.Is(err, storage.ErrNotOwner), "in flight: %v", err)
	}
	g.Close()
	_, err := g.Create(t.Context(), "new", nil)
	for _, err := range []error{<-queued, err, all[0].PutPending([]storage.Prediction{prediction("p")})} {
		assert.ErrorIs(t, err, storage.ErrNotOwner)
	}
}

// broken is a store whose aliases cannot be written.
type broken struct{ storage.Store }

var errDisk = errors.New("the disk is full")

func (broken) PutAlias(context.Context, string, []byte) error { return errDisk }

// After a command that the local store could not apply none is applied.
func TestLocalStoreFails(t *testing.T) {
	g := newGate(t, broken{newDisk(t).open(t)})
	alias := later(func() error { return g.PutAlias(t.Context(), "x", nil) })
	p := <-g.proposals
	for n := range uint64(2) {
		assert.ErrorIs(t, g.Apply(g.index+n+1, p.entry), errDisk, n)
	}
	p.answer <- nil
	assert.ErrorIs(t, <-alias, errDisk)
}

// Apply rejects an entry of another version or of another group, malformed bytes, and an entry with an unknown command
// behind a known one. It applies no command of such an entry.
func TestEntriesThatCannotBeRead(t *testing.T) {
	alias, unknown := command.Command{Kind: command.PutAlias, Name: "x"}, command.Command{Kind: command.Join + 1}
	raise := command.Command{Kind: command.Raise, Sequence: uint64(storage.Format) + 1, Name: "v9"}
	for _, c := range []struct {
		entry []byte
		want  error
	}{
		{append([]byte{byte(storage.Format + 1)}, make([]byte, 40)...), storage.ErrNewer},
		{append([]byte{byte(storage.OldestFormat - 1)}, make([]byte, 40)...), command.ErrOlder},
		{[]byte{byte(storage.Format), 0}, command.ErrMalformed},
		{unknown.Append(alias.Append(command.NewLogEntry(command.Header{Format: storage.Format}, 0))), storage.ErrNewer},
		{raise.Append(command.NewLogEntry(command.Header{Format: storage.Format}, 0)), storage.ErrNewer},
		{append(alias.Append(command.NewLogEntry(command.Header{Format: storage.Format}, 0)), byte(command.PutAlias)), command.ErrMalformed},
		{alias.Append(command.NewLogEntry(command.Header{Format: storage.Format, Group: 1}, 0)), command.ErrMalformed},
	} {
		g := newGate(t, newDisk(t).open(t))
		assert.ErrorIs(t, g.Apply(1, c.entry), c.want)
		good := command.NewLogEntry(command.Header{Format: storage.Format}, 0)
		assert.ErrorIs(t, g.Apply(2, good), c.want)
		must(t, g.EachAlias(t.Context(), func(name string, _ []byte) error { return errors.New("applied " + name) }))
	}
}
