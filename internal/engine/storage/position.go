package storage

import (
	"cmp"
	"context"
)

// Position is the position of a command in a replicated log: the index of its entry, and the number of the command in
// the entry.
type Position struct {
	Index   uint64
	Command uint32
}

// Compare orders positions.
func (p Position) Compare(other Position) int {
	return cmp.Or(cmp.Compare(p.Index, other.Index), cmp.Compare(p.Command, other.Command))
}

type positionKey struct{}

// At returns a context under which a durable call applies the command at a position. The call writes the
// position atomically with its effect, and does not wait for durability: the replicated log has the command.
func At(ctx context.Context, p Position) context.Context {
	return context.WithValue(ctx, positionKey{}, p)
}

// PositionOf returns the position that At has set, false without a position.
func PositionOf(ctx context.Context) (Position, bool) {
	p, ok := ctx.Value(positionKey{}).(Position)
	return p, ok
}

// ChangeKind is the kind of a Change.
type ChangeKind int

// The kinds of a Change.
const (
	// Created: Model is new, created or imported, with Value.
	Created ChangeKind = iota + 1
	// Removed: Model was deleted.
	Removed
	// ValueSet: Value is the new value of Model, Also are aliases set with it.
	ValueSet
	// AliasSet: Value is the value of the alias Name.
	AliasSet
	AliasRemoved
	// Appended: the log of Model ends at Sequence.
	Appended
	// Rewound: Model was rewound to Sequence. Value is its new value, nil if that is unchanged.
	Rewound
	// Digested: rows of Model had Digest when the entry Index was applied, and the log of Model ended at Sequence or later.
	// The owner compares the digests of all servers, also of their states at Sequence unless that is 0.
	Digested
	// Snapshotted: the entry Index has the owner's snapshot of Model at Sequence. Value is the snapshot, which the store does
	// not have yet. It is nil on the server that proposed the entry.
	Snapshotted
)

// Change is the change that a command of a replicated log has made in a store.
type Change struct {
	Kind ChangeKind
	Name string
	// Model is nil for an alias.
	Model    Model
	Value    []byte
	Also     []Alias
	Sequence uint64
	Index    uint64
	Digest   string
}

// Digest is what servers compare of a model after an entry of the log. Servers with the same model have the same
// digests. An empty part is not known.
type Digest struct {
	// Rows is the digest of rows, State the digest of the state.
	Rows, State string
}

// Differs reports whether a part that both digests know differs.
func (d Digest) Differs(other Digest) bool {
	differ := func(a, b string) bool { return a != b && a != "" && b != "" }
	return differ(d.Rows, other.Rows) || differ(d.State, other.State)
}
