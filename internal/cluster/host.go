package cluster

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"

	clusterv1 "hindsight/api/proto/hindsight/cluster/v1"
	"hindsight/internal/cluster/consensus"
	"hindsight/internal/cluster/placement"
	"hindsight/internal/store"
)

// ErrNewer says that the cluster has data that this program does not read.
var ErrNewer = errors.New("cluster: a newer version of the program writes in the cluster")

// ErrGroups reports that the option Groups is not the number of groups of the cluster.
var ErrGroups = errors.New("cluster: the number of groups is fixed when a cluster is founded")

// Options of a server of a cluster.
type Options struct {
	// Directory is the data directory, and Store says how to open a store there.
	Directory string
	Store     store.Options
	Groups    int
	// Address is the address that the other servers connect to. Without a Listener the server also listens on it. The
	// host closes the Listener, even if OpenHost fails.
	Address  string
	Listener net.Listener
	// Dial connects to another server. Nil is the operating system's dialer.
	Dial Dialer
	// Join are the addresses of the servers of the cluster. They may include Address. Without other addresses the
	// server founds a cluster by itself.
	Join []string
	// TLS has the certificate of this server and the CA of all servers. Nil is plaintext, between loopback
	// addresses only.
	TLS *tls.Config
	// Version is the version of the program. Other servers show it.
	Version string
	// Undone is as in replicated.Options.
	Undone func(sequence uint64) func(value []byte) bool
	// Held is as in replicated.Options.
	Held   func(bytes int64)
	Marks  consensus.Marks
	Now    func() time.Time
	Logger *zap.Logger
}

// Host is a server of a cluster: the cluster port, and the groups that have this server as a member. With several
// groups of models, these are the groups 1 to Options.Groups, and the members of group 0 are all servers.
type Host struct {
	o      Options
	log    *zap.Logger
	stream *consensus.Stream
	peers  *peers
	server *grpc.Server
	// groups are the groups of the cluster: group 0, then the groups of models if there are several.
	groups   []*Group
	draining atomic.Bool
	failed   chan error
	// opening receives the groups that Run has to open.
	opening chan uint32
	// The one call that moves groups holds rebalancing.
	rebalancing sync.Mutex
	// spread: the founding of the groups has ended; see place.
	spread     atomic.Bool
	background sync.WaitGroup
	closeOnce  sync.Once
	closed     error
}

// The log has at most one failed connection to the cluster port in failureInterval.
const failureInterval = time.Second

// OpenHost opens the cluster port. The server answers other servers, but has no group before Open.
func OpenHost(ctx context.Context, o Options) (_ *Host, err error) {
	defer func() {
		if err != nil && o.Listener != nil {
			err = errors.Join(err, o.Listener.Close())
		}
	}()
	if o.Store.Async {
		return nil, ErrAsync
	}
	if err := checkAddress(o.Address); err != nil {
		return nil, err
	}
	if o.Groups = max(o.Groups, 1); o.Groups > placement.MaxGroups {
		return nil, fmt.Errorf("%w: got %d, want at most %d", ErrGroups, o.Groups, placement.MaxGroups)
	}
	h := &Host{o: o, log: o.Logger, failed: make(chan error, 1), opening: make(chan uint32, placement.MaxGroups+1)}

	h.groups = append(h.groups, newGroup(h, 0))
	if o.Groups > 1 {
		for n := range o.Groups {
			h.groups = append(h.groups, newGroup(h, uint32(n)+1))
		}
	}
	if o.Listener == nil {
		if o.Listener, err = new(net.ListenConfig).Listen(ctx, "tcp", o.Address); err != nil {
			return nil, fmt.Errorf("cluster: %w", err)
		}
	}
	strangers := h.log.WithOptions(zap.WrapCore(func(c zapcore.Core) zapcore.Core {
		return zapcore.NewSamplerWithOptions(c, failureInterval, 1, 0)
	}))
	h.stream, err = consensus.Listen(o.Listener, o.TLS, func(err error) { // Info is enough, because anyone can connect.
		strangers.Info("a connection to the cluster port failed", zap.Error(err))
	})
	if err != nil {
		return nil, err
	}
	h.stream.DialBy(o.Dial)
	h.peers = newPeers(h.stream, o.Now)
	// Stop waits for handlers, because they read stores.
	h.server = grpc.NewServer(grpc.WaitForHandlers(true), grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: pingAfter / 2}))
	clusterv1.RegisterMemberServiceServer(h.server, memberServer{h: h})
	h.background.Go(func() {
		if err := h.server.Serve(h.stream.Listener(consensus.Members)); err != nil && !errors.Is(err, net.ErrClosed) {
			h.fail(fmt.Errorf("cluster: %w", err))
		}
	})
	return h, nil
}

// Accepts returns the error of the cluster port while the port cannot accept connections, as without free descriptors.
func (h *Host) Accepts() error { return h.stream.Accepts() }

func (h *Host) fail(err error) {
	select {
	case h.failed <- err:
	default:
	}
}

// Listener accepts the calls that other servers forward.
func (h *Host) Listener() net.Listener { return h.stream.Listener(consensus.Forwarded) }

// Groups returns the groups that have models, by number.
func (h *Host) Groups() []*Group {
	if len(h.groups) == 1 {
		return h.groups
	}
	return h.groups[1:]
}

// Group returns a group by its number, nil if the cluster has no such group.
func (h *Host) Group(number uint32) *Group {
	if int(number) >= len(h.groups) {
		return nil
	}
	return h.groups[number]
}

// Of returns the group of a model or an alias.
func (h *Host) Of(name string) *Group { return h.groups[placement.Of(name, h.o.Groups)] }

// Close closes the cluster port. The caller first closes all nodes. A second Close returns the same error.
func (h *Host) Close() error {
	h.closeOnce.Do(func() {
		h.server.Stop()
		h.closed = errors.Join(h.peers.close(), h.stream.Close())
		h.background.Wait()
	})
	return h.closed
}

func (h *Host) here() ([]uint32, error) {
	var out []uint32
	for _, g := range h.groups[1:] {
		exists, err := store.GroupExists(store.GroupDirectory(h.o.Directory, g.number), h.o.Store)
		if err != nil {
			return nil, fmt.Errorf("cluster: %w", err)
		}
		if exists {
			out = append(out, g.number)
		}
	}
	return out, nil
}

// foundGroups founds the groups of models, with this server as their only member. After a crash the next call founds
// the other groups.
func (h *Host) foundGroups(ctx context.Context) error {
	for _, g := range h.groups[1:] {
		if err := h.foundGroup(ctx, g.number); err != nil {
			return fmt.Errorf("cluster: found group %d: %w", g.number, err)
		}
	}
	return nil
}

func (h *Host) foundGroup(ctx context.Context, number uint32) (err error) {
	n := h.newNode(number)
	defer func() { err = errors.Join(err, n.Close()) }()
	if err := n.openStores(ctx); err != nil {
		return err
	}
	if exists, err := consensus.Exists(n.storage); exists || err != nil {
		return err
	}
	return consensus.Found(n.storage, n.self, n.local.Position().Index)
}

// Run opens the groups that have this server as a member, now and later, and calls serve for each. When serve returns,
// Run closes the node. If a checkpoint has arrived, Run opens the node again. If the cluster has removed this server
// from the group, Run removes the group's directory. Run returns after every serve has returned: when ctx ends, or when
// a group fails.
//
// The function serve calls Serve of the node, and waits for Restart, Failed or the end of ctx.
func (h *Host) Run(ctx context.Context, serve func(ctx context.Context, n *Node) error) error {
	if err := h.checkFormat(ctx); err != nil {
		return err
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var running sync.WaitGroup
	defer running.Wait()
	open := map[uint32]bool{}
	ended := make(chan uint32)
	begin := func(number uint32) {
		if open[number] {
			return
		}
		open[number] = true
		running.Go(func() {
			if err := h.runGroup(ctx, number, serve); err != nil {
				stop(err)
			}
			select {
			case ended <- number:
			case <-ctx.Done():
			}
		})
	}
	begin(0)
	joined := h.groups[0].joined
	// A server that is no member of the cluster has no groups.
	var opening <-chan uint32
	for {
		select {
		case <-joined:
			joined, opening = nil, h.opening
			numbers, err := h.here()
			if err != nil {
				stop(err)
			}
			for _, n := range numbers {
				begin(n)
			}
			if len(h.groups) > 1 {
				running.Go(func() { h.place(ctx) })
				running.Go(func() { h.joinAgain(ctx, numbers) })
			}
		case n := <-opening:
			begin(n)
		case n := <-ended:
			delete(open, n)
		case err := <-h.failed:
			stop(err)
		case <-ctx.Done():
			running.Wait()
			if err := context.Cause(ctx); !errors.Is(err, context.Canceled) {
				return err
			}
			return nil
		}
	}
}

func (h *Host) runGroup(ctx context.Context, number uint32, serve func(context.Context, *Node) error) error {
	for ctx.Err() == nil {
		n, err := h.Open(ctx, number)
		if err != nil {
			return err
		}
		err = serve(ctx, n)
		if closeErr := n.Close(); closeErr != nil {
			return errors.Join(err, closeErr)
		}
		switch {
		case number > 0 && errors.Is(err, ErrRemoved):
			h.log.Info("this server has left a group", zap.Uint32("group", number))
			return store.RemoveGroup(store.GroupDirectory(h.o.Directory, number), h.o.Store)
		case err != nil:
			return err
		}
	}
	return nil
}

// Drain hands the ownership of all groups on, now and whenever this server becomes an owner again. A server drains
// before it ends.
func (h *Host) Drain(ctx context.Context) error {
	h.draining.Store(true)
	failures := make([]error, len(h.groups))
	var draining sync.WaitGroup
	for k, g := range h.groups {
		if n := g.node.Load(); n != nil {
			draining.Go(func() { failures[k] = n.drain(ctx) })
		}
	}
	draining.Wait()
	return errors.Join(failures...)
}

// servers returns the cluster addresses of all servers that this server knows: of Options.Join, and of the members of
// group 0.
func (h *Host) servers() []string {
	out := h.founders()
	for _, m := range h.members() {
		out = append(out, m.Address)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func (h *Host) members() []Member {
	if n := h.groups[0].node.Load(); n != nil {
		return n.Status().Members
	}
	return nil
}

func (h *Host) others() []string {
	return slices.DeleteFunc(h.servers(), func(address string) bool { return address == h.o.Address })
}
