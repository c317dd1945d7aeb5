// Package cluster replicates groups of models on several servers. A Host is one of the servers. A Node is the server's
// part of a group: it has a local store with all models of the group, and takes part in a log that orders all changes.
// One server owns the log at a time, and only the owner changes models. If the owner fails, another server owns the log
// within seconds.
package cluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"google.golang.org/grpc"

	"hindsight/internal/cluster/consensus"
	"hindsight/internal/cluster/replicated"
	"hindsight/internal/engine/storage"
	"hindsight/internal/store"
)

// Sentinels.
var (
	ErrRemoved = consensus.ErrRemoved
	// ErrAsync: the options ask for asynchronous durability, and a cluster needs a durable log.
	ErrAsync = errors.New("cluster: a cluster needs durability sync")
	// ErrFounders: several servers have models, so that none can found the cluster, or this server has models and
	// cannot join.
	ErrFounders = errors.New("cluster: only one server may bring models into a cluster")
	ErrNoMember = errors.New("cluster: no member has this id or address")
	// ErrNoSuccessor: no other voter answers, all are drained, or none takes over in time.
	ErrNoSuccessor = consensus.ErrNoSuccessor
	ErrAddress     = errors.New("cluster: other servers connect to the cluster address: it needs a host and a port")
	ErrOwnerStays  = errors.New("cluster: move the ownership before removing its owner")
)

// Unheard is the age of a state that no owner has confirmed since the server was opened.
const Unheard = consensus.Unheard

// Member is a server of the cluster.
type Member = consensus.Member

// Dialer opens a connection, as net.Dialer.DialContext does.
type Dialer = consensus.Dialer

// Node is one server of a group. Its methods may be called concurrently.
type Node struct {
	host    *Host
	number  uint32
	o       Options
	log     *zap.Logger
	self    Member
	data    bool
	local   *store.Store
	raftLog *store.RaftLog
	storage consensus.Storage
	store   *replicated.Store

	// consensus is nil until become has returned. Then opened closes.
	consensus atomic.Pointer[consensus.Log]
	opened    chan struct{}
	// changed and digest are set before consensus is.
	changed func(storage.Change)
	digest  func(model string, index uint64, other storage.Digest) storage.Digest
	began   time.Time
	// member is set once this server was a member. Only run uses it.
	member bool
	// The owner holds joining while it changes the members.
	joining sync.Mutex
	// checkpoint has a token while the store has no checkpoint.
	checkpoint chan struct{}
	// behind has the index of a requested checkpoint.
	behind  chan uint64
	checks  chan check
	restart chan struct{}
	failed  chan error

	// calls are the calls of other servers. lifetime ends them.
	calls      sync.WaitGroup
	lifetime   context.Context //nolint:containedctx // It ends with the node.
	stop       context.CancelFunc
	background sync.WaitGroup
	closeOnce  sync.Once
	closed     error
}

func (h *Host) newNode(number uint32) *Node {
	n := &Node{
		host: h, number: number, o: h.o, log: h.log, began: h.o.Now(), opened: make(chan struct{}), checkpoint: make(chan struct{}, 1),
		behind: make(chan uint64, 1), checks: make(chan check, pendingChecks), restart: make(chan struct{}), failed: make(chan error, 1),
	}
	n.o.Directory, n.o.Store.Member = store.GroupDirectory(h.o.Directory, number), true
	n.o.Store.Cache /= int64(len(h.groups))
	if number > 0 {
		n.log = h.log.With(zap.Uint32("group", number))
	}
	n.checkpoint <- struct{}{}
	n.lifetime, n.stop = context.WithCancel(context.Background())
	return n
}

// Open opens the store of a group. If a complete checkpoint has arrived, Open first replaces the store by it. Before
// Serve the node only answers other servers: it does not change its store or take part in the log. The caller closes
// the node, and opens no other node of the group before.
func (h *Host) Open(ctx context.Context, number uint32) (_ *Node, err error) {
	n := h.newNode(number)
	defer func() {
		if err != nil {
			err = errors.Join(err, n.Close())
		}
	}()
	if err := n.openStores(ctx); err != nil {
		return nil, err
	}
	n.store, err = replicated.New(ctx, replicated.Options{
		Group: uint64(number), Local: n.local, Log: n, Owner: n.Owns, Undone: h.o.Undone, Held: h.o.Held, Changed: n.pass,
	})
	if err != nil {
		return nil, fmt.Errorf("cluster: %w", err)
	}
	g := h.groups[number]
	g.node.Store(n)
	g.set("", nil)
	return n, nil
}

// pass passes a change on, except the digest of an entry that the store may have had at Open: rows of later entries may be
// in the digest.
func (n *Node) pass(c storage.Change) {
	if c.Kind == storage.Digested {
		// The entry is new if this server had all entries at some time since Open, before this one.
		if n.Age() >= n.o.Now().Sub(n.began) {
			return
		}
	}
	n.changed(c)
}

// checkAddress rejects an address that other servers cannot connect to.
func checkAddress(address string) error {
	host, port, err := net.SplitHostPort(address)
	if ip := net.ParseIP(host); err != nil || host == "" || port == "" || port == "0" || ip != nil && ip.IsUnspecified() {
		return fmt.Errorf("%w: %q", ErrAddress, address)
	}
	return nil
}

func (n *Node) openStores(ctx context.Context) (err error) {
	if n.local, err = store.Open(n.o.Directory, n.o.Store); err != nil { //nolint:contextcheck // Nobody cancels an open.
		return fmt.Errorf("cluster: %w", err)
	}
	if n.self.ID, err = n.local.Member(); err != nil {
		return fmt.Errorf("cluster: %w", err)
	}
	n.self.Address = n.o.Address
	if n.raftLog, err = store.OpenRaftLog(filepath.Join(n.o.Directory, store.RaftDirectory), n.o.Store); err != nil {
		return fmt.Errorf("cluster: %w", err)
	}
	n.storage = consensus.OnDisk(n.raftLog)
	if n.data, err = hasData(ctx, n.local); err != nil || n.number > 0 {
		return err
	}
	if n.data && n.o.Groups > 1 { // No group would have the models.
		return fmt.Errorf("%w: got %d, and the directory has models without groups: export them and import them into a new cluster", ErrGroups, n.o.Groups)
	}
	here, err := n.host.here()
	n.data = n.data || len(here) > 0
	spread, readErr := n.local.GroupsSpread()
	n.host.spread.CompareAndSwap(false, spread)
	return errors.Join(err, readErr, n.checkGroups())
}

// checkGroups rejects a number of groups other than the number of the cluster that the directory belongs to. A
// directory with several groups may come from a backup, and then belongs to no cluster yet.
func (n *Node) checkGroups() error {
	exists, err := consensus.Exists(n.storage)
	if err != nil {
		return err
	}
	groups, err := n.local.Groups()
	if err == nil && groups != n.o.Groups && (exists || groups > 1) {
		err = fmt.Errorf("%w: got %d, and this server belongs to a cluster of %d", ErrGroups, n.o.Groups, groups)
	}
	return err
}

func hasData(ctx context.Context, s storage.Store) (bool, error) {
	has := false
	err := errors.Join(
		s.Models(ctx, func(storage.RegistryEntry) error { has = true; return nil }),
		s.EachAlias(ctx, func(string, []byte) error { has = true; return nil }),
	)
	if err != nil {
		return false, fmt.Errorf("cluster: %w", err)
	}
	return has, nil
}

// Serve lets the node take part in the cluster. A node that is not a member founds or joins the cluster. Then the
// node applies the log to the store, and calls changed for commands that other servers, or earlier runs, proposed.
// The function digest returns the digest of this server's copy of a model after an entry, and takes another server's digest.
// Serve returns at once. The caller calls it once.
func (n *Node) Serve(changed func(storage.Change), digest func(model string, index uint64, other storage.Digest) storage.Digest) {
	n.changed, n.digest = changed, digest
	n.background.Go(func() { n.compareAll(n.lifetime) })
	n.background.Go(func() { n.run(n.lifetime) })
	n.background.Go(func() { n.fetchWhenBehind(n.lifetime) })
}

func (n *Node) fail(err error) {
	select {
	case n.failed <- err:
	default:
	}
}

// Failed delivers the error after which this server takes no part in the cluster: the disk failed or hangs, the
// cluster has removed the server, or the server cannot join.
func (n *Node) Failed() <-chan error { return n.failed }

// Restart closes when a checkpoint of the owner has arrived. The caller then closes the node and opens it again, so
// that the checkpoint replaces the store.
func (n *Node) Restart() <-chan struct{} { return n.restart }

// Store returns the store of the cluster.
func (n *Node) Store() storage.Store { return n.store }

// Local returns the store of this server. The caller only reads it.
func (n *Node) Local() *store.Store { return n.local }

// Number returns the number of the group.
func (n *Node) Number() uint32 { return n.number }

// Self returns this server as a member of the group.
func (n *Node) Self() Member { return n.self }

// Propose implements replicated.Log.
func (n *Node) Propose(ctx context.Context, entry []byte) error {
	l := n.consensus.Load()
	if l == nil {
		return fmt.Errorf("cluster: this server is not a member: %w", storage.ErrNotOwner)
	}
	return l.Propose(ctx, entry)
}

// Owns reports whether this server owns the store: only the owner changes models, after it has applied all earlier
// changes.
func (n *Node) Owns() bool { return n.consensus.Load().Owns() }

// Owner returns the owner that this server knows.
func (n *Node) Owner() (Member, bool) { return n.consensus.Load().Owner() }

// Turned returns a channel that closes when this server learns of another owner, or of none.
func (n *Node) Turned() <-chan struct{} {
	if l := n.consensus.Load(); l != nil {
		return l.Turned()
	}
	return n.opened
}

// Conn returns a connection to the owner for calls that this server forwards. It waits until this server knows an
// owner, or fails with storage.ErrNotOwner when ctx ends. The owner may be this server.
func (n *Node) Conn(ctx context.Context) (grpc.ClientConnInterface, error) {
	for {
		turned := n.Turned()
		if owner, known := n.Owner(); known {
			return n.host.peers.conn(consensus.Forwarded, owner.Address)
		}
		select {
		case <-turned:
		case <-ctx.Done():
			return nil, fmt.Errorf("cluster: no owner: %w: %w", storage.ErrNotOwner, context.Cause(ctx))
		}
	}
}

// Age bounds the age of the state of this server.
func (n *Node) Age() time.Duration { return n.consensus.Load().Age() }

// Checkpoint makes a checkpoint of the local store. It first waits until the previous checkpoint is removed.
func (n *Node) Checkpoint(ctx context.Context) (string, error) {
	select {
	case <-n.checkpoint:
	case <-ctx.Done():
		return "", fmt.Errorf("cluster: another checkpoint is in use: %w", context.Cause(ctx))
	}
	dir, err := n.local.Checkpoint(ctx)
	if err != nil {
		n.checkpoint <- struct{}{}
	}
	return dir, err
}

// RemoveCheckpoint removes the checkpoint, and lets the next Checkpoint begin.
func (n *Node) RemoveCheckpoint() error {
	defer func() { n.checkpoint <- struct{}{} }()
	return n.local.RemoveCheckpoint()
}

// Close ends this server's part in the group, and closes the store. A second Close returns the same error.
func (n *Node) Close() error {
	n.closeOnce.Do(func() {
		n.host.groups[n.number].leave(n)
		n.stop()
		// Close ends the pending proposals before the goroutines that propose.
		if l := n.consensus.Load(); l != nil {
			_ = l.Close() // The second Close below returns the error too.
		}
		if n.store != nil {
			n.store.Close()
		}
		n.calls.Wait()
		n.background.Wait()
		if l := n.consensus.Load(); l != nil { // run may have opened the log meanwhile.
			if n.closed = l.Close(); n.closed != nil {
				return // Raft still uses the stores, so they stay open until the process ends.
			}
		}
		if n.raftLog != nil {
			n.closed = errors.Join(n.closed, n.raftLog.Close())
		}
		if n.local != nil {
			n.closed = errors.Join(n.closed, n.local.Close())
		}
	})
	return n.closed
}
