package cluster

import (
	"context"
	"time"

	"google.golang.org/grpc"

	"hindsight/internal/cluster/consensus"
	"hindsight/internal/cluster/placement"
)

// UnusedFor is unusedFor.
const UnusedFor = unusedFor

// Peers are peers.
type Peers struct{ *peers }

// NewPeers is newPeers.
func NewPeers(s *consensus.Stream, now func() time.Time) Peers { return Peers{newPeers(s, now)} }

// Conn is conn of the kind Members.
func (p Peers) Conn(address string) (*grpc.ClientConn, error) {
	return p.conn(consensus.Members, address)
}

// Keep is keep.
func (p Peers) Keep(servers ...string) error { return p.keep(servers) }

// Close is close.
func (p Peers) Close() error { return p.close() }

// Repairs is repairs.
type Repairs struct{ repairs }

func (r *Repairs) Begin(now time.Time) (time.Time, bool) { return r.begin(now) }

// Move is make.
func (h *Host) Move(ctx context.Context, s placement.Step) error { return h.make(ctx, s) }
