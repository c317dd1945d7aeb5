// Package cluster replicates one store on several servers. A Node is one of the servers: it has a local store with
// all models, and takes part in a log that orders all changes. One server owns the log at a time, and only the owner
// changes models. If the owner fails, another server owns the log within seconds.
package cluster

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"google.golang.org/grpc"

	clusterv1 "hindsight/api/proto/hindsight/cluster/v1"
	"hindsight/internal/cluster/consensus"
	"hindsight/internal/cluster/replicated"
	"hindsight/internal/engine/storage"
	"hindsight/internal/store"
)

// Sentinels.
var (
	// ErrRemoved: the cluster has removed this server.
	ErrRemoved = consensus.ErrRemoved
	// ErrAsync: the options ask for asynchronous durability, and a cluster needs a durable log.
	ErrAsync = errors.New("cluster: a cluster needs durability sync")
	// ErrFounders: several servers have models, so that none can found the cluster, or this server has models and
	// cannot join.
	ErrFounders = errors.New("cluster: only one server may bring models into a cluster")
	// ErrNoMember: no member has the id or the address.
	ErrNoMember = errors.New("cluster: no member has this id or address")
	// ErrNoSuccessor: no other voter answers, or all are drained.
	ErrNoSuccessor = errors.New("cluster: no other server can own the store")
	// ErrAddress: other servers cannot connect to the address.
	ErrAddress = errors.New("cluster: other servers connect to the cluster address: it needs a host and a port")
	// ErrOwnerStays: the owner cannot be removed.
	ErrOwnerStays = errors.New("cluster: move the ownership before removing its owner")
)

// Unheard is the age of a state that no owner has confirmed since the server was opened.
const Unheard = consensus.Unheard

// Member is a server of the cluster.
type Member = consensus.Member

// Dialer opens a connection, as net.Dialer.DialContext does.
type Dialer = consensus.Dialer

// Options of a node.
type Options struct {
	// Directory is the data directory, and Store says how to open the store there.
	Directory string
	Store     store.Options
	// Address is the address that the other servers connect to. Without a Listener the server also listens on it. The
	// node closes the Listener, even if Open fails.
	Address  string
	Listener net.Listener
	// Dial connects to another server. Nil is the operating system's dialer.
	Dial Dialer
	// Join are the addresses of the servers of the cluster. They may include Address. Without other addresses the
	// server founds a cluster by itself.
	Join []string
	// TLS has the certificate of this server and the authority of all servers. Nil is plaintext, between loopback
	// addresses only.
	TLS *tls.Config
	// Version is the version of the program. Other servers show it.
	Version string
	// Undone is as in replicated.Options.
	Undone func(sequence uint64) func(value []byte) bool
	// Proposed receives the outcome and the duration of each proposal of this server. It may be nil.
	Proposed func(took time.Duration, err error)
	Marks    consensus.Marks
	Now      func() time.Time
	Logger   *zap.Logger
}

// Node is one server of a cluster. Its methods may be called concurrently.
type Node struct {
	o       Options
	log     *zap.Logger
	self    Member
	data    bool
	local   *store.Store
	raftLog *store.RaftLog
	storage consensus.Storage
	stream  *consensus.Stream
	peers   *peers
	server  *grpc.Server
	store   *replicated.Store

	// consensus is nil until become has returned. Then opened closes.
	consensus atomic.Pointer[consensus.Log]
	opened    chan struct{}
	// changed is set before consensus is.
	changed func(storage.Change)
	// The owner holds joining while it changes the members.
	joining sync.Mutex
	// checkpoint has a token while the store has no checkpoint.
	checkpoint chan struct{}
	// behind has the index of a requested checkpoint.
	behind   chan uint64
	draining atomic.Bool
	restart  chan struct{}
	failed   chan error

	stop       context.CancelFunc
	background sync.WaitGroup
	closeOnce  sync.Once
	closed     error
}

// Open opens the store of a member. If a complete checkpoint has arrived, Open first replaces the store by it. Before
// Serve the node only answers other servers: it does not change its store or take part in the log.
func Open(ctx context.Context, o Options) (_ *Node, err error) {
	if o.Store.Async {
		return nil, ErrAsync
	}
	if err := checkAddress(o.Address); err != nil {
		return nil, err
	}
	o.Store.Member = true
	n := &Node{
		o: o, log: o.Logger, opened: make(chan struct{}), checkpoint: make(chan struct{}, 1),
		behind: make(chan uint64, 1), restart: make(chan struct{}), failed: make(chan error, 1),
	}
	n.checkpoint <- struct{}{}
	listener := o.Listener
	defer func() {
		if err != nil {
			err = errors.Join(err, n.Close())
		}
		if err != nil && listener != nil && n.stream == nil {
			err = errors.Join(err, listener.Close())
		}
	}()
	if err := n.openStores(ctx); err != nil {
		return nil, err
	}
	if listener == nil {
		var config net.ListenConfig
		if listener, err = config.Listen(ctx, "tcp", o.Address); err != nil {
			return nil, fmt.Errorf("cluster: %w", err)
		}
	}
	if n.stream, err = consensus.Listen(listener, o.TLS, n.connectionFailed); err != nil {
		return nil, err
	}
	n.stream.DialBy(o.Dial)
	n.peers = newPeers(n.stream)
	n.store, err = replicated.New(ctx, replicated.Options{
		Local: n.local, Log: n, Owner: n.Owns, Undone: o.Undone, Changed: func(c storage.Change) { n.changed(c) },
	})
	if err != nil {
		return nil, fmt.Errorf("cluster: %w", err)
	}
	// Stop waits for handlers, because they read the store.
	n.server = grpc.NewServer(grpc.WaitForHandlers(true))
	clusterv1.RegisterMemberServiceServer(n.server, memberServer{n: n})
	n.background.Go(func() {
		if err := n.server.Serve(n.stream.Listener(consensus.Members)); err != nil && !errors.Is(err, net.ErrClosed) {
			n.fail(fmt.Errorf("cluster: %w", err))
		}
	})
	return n, nil
}

// checkAddress refuses an address that other servers cannot connect to.
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
	n.data, err = hasData(ctx, n.local)
	return err
}

// hasData reports whether a store has models or aliases.
func hasData(ctx context.Context, s storage.Store) (bool, error) {
	has := false
	err := errors.Join(
		s.Models(ctx, func(storage.Entry) error { has = true; return nil }),
		s.EachAlias(ctx, func(string, []byte) error { has = true; return nil }),
	)
	if err != nil {
		return false, fmt.Errorf("cluster: %w", err)
	}
	return has, nil
}

// connectionFailed logs the failure of an accepted connection. Info is enough, because anyone can connect.
func (n *Node) connectionFailed(err error) {
	n.log.Info("a connection to the cluster port failed", zap.Error(err))
}

// Serve lets the node take part in the cluster. A node that is not a member founds or joins the cluster. Then the
// node applies the log to the store, and calls changed for commands that other servers, or earlier runs, proposed.
// Serve returns at once. The caller calls it once.
func (n *Node) Serve(changed func(storage.Change)) {
	n.changed = changed
	ctx, stop := context.WithCancel(context.Background())
	n.stop = stop
	n.background.Go(func() { n.run(ctx) })
	n.background.Go(func() { n.fetchWhenBehind(ctx) })
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

// Listener accepts the calls that other servers forward.
func (n *Node) Listener() net.Listener { return n.stream.Listener(consensus.Forwarded) }

// Self returns this server.
func (n *Node) Self() Member { return n.self }

// Propose implements replicated.Log.
func (n *Node) Propose(ctx context.Context, entry []byte) error {
	l := n.consensus.Load()
	if l == nil {
		return fmt.Errorf("cluster: this server is not a member: %w", storage.ErrNotOwner)
	}
	if n.o.Proposed == nil {
		return l.Propose(ctx, entry)
	}
	started := n.o.Now()
	err := l.Propose(ctx, entry)
	n.o.Proposed(n.o.Now().Sub(started), err)
	return err
}

// Owns reports whether this server owns the store: only the owner changes models, after it has applied all earlier
// changes.
func (n *Node) Owns() bool {
	l := n.consensus.Load()
	return l != nil && l.Owns()
}

// Owner returns the owner that this server knows.
func (n *Node) Owner() (Member, bool) {
	owner, known, _ := n.look()
	return owner, known
}

// Conn returns a connection to the owner for calls that this server forwards. It waits until this server knows an
// owner, or fails with storage.ErrNotOwner when ctx ends. The owner may be this server.
func (n *Node) Conn(ctx context.Context) (grpc.ClientConnInterface, error) {
	for {
		owner, known, turned := n.look()
		if known {
			return n.peers.conn(consensus.Forwarded, owner.Address)
		}
		select {
		case <-turned:
		case <-ctx.Done():
			return nil, fmt.Errorf("cluster: no owner: %w: %w", storage.ErrNotOwner, context.Cause(ctx))
		}
	}
}

// look returns the owner, and a channel that closes when the owner may have changed.
func (n *Node) look() (Member, bool, <-chan struct{}) {
	l := n.consensus.Load()
	if l == nil {
		return Member{}, false, n.opened
	}
	turned := l.Turned()
	owner, known := l.Owner()
	return owner, known, turned
}

// Age bounds the age of the state of this server.
func (n *Node) Age() time.Duration {
	l := n.consensus.Load()
	if l == nil {
		return Unheard
	}
	return l.Age()
}

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

// Close ends this server's part in the cluster, and closes the store. A second Close returns the same error.
func (n *Node) Close() error {
	n.closeOnce.Do(func() {
		if n.stop != nil {
			n.stop()
		}
		var failures []error
		// Close ends the pending proposals before the goroutines that propose.
		if l := n.consensus.Load(); l != nil {
			_ = l.Close() // The second Close below returns the error too.
		}
		if n.store != nil {
			n.store.Close()
		}
		if n.server != nil {
			n.server.Stop()
		}
		if n.peers != nil {
			failures = append(failures, n.peers.close(), n.stream.Close())
		}
		n.background.Wait()
		stalled := error(nil)
		if l := n.consensus.Load(); l != nil { // run may have opened the log meanwhile.
			stalled = l.Close()
		}
		if n.closed = errors.Join(append(failures, stalled)...); stalled != nil {
			return // Raft still uses the stores, so they stay open until the process ends.
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
