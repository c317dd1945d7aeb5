package cluster

import (
	"fmt"

	"google.golang.org/grpc"

	"hindsight/internal/cluster/consensus"
)

// Turned returns a channel that closes when this server learns of another owner, or of none.
func (n *Node) Turned() <-chan struct{} {
	_, _, turned := n.look()
	return turned
}

// connTo returns a connection for calls that this server forwards to a member, named by id or address. For this
// server itself the connection is nil.
func (n *Node) connTo(which string) (grpc.ClientConnInterface, error) {
	l := n.consensus.Load()
	if l == nil {
		return nil, fmt.Errorf("%w: %s", ErrNoMember, which)
	}
	m, err := find(l, which)
	if err != nil || m.ID == n.self.ID {
		return nil, err
	}
	return n.host.peers.conn(consensus.Forwarded, m.Address)
}
