package cluster_test

import (
	"net"
	"sync/atomic"
	"syscall"
	"testing"

	"hindsight/internal/cluster/consensus"
)

// exhausted fails a number of calls of Accept, as a process without free descriptors does.
type exhausted struct {
	net.Listener
	left atomic.Int32
}

func (e *exhausted) Accept() (net.Conn, error) {
	if e.left.Add(-1) >= 0 {
		return nil, &net.OpError{Op: "accept", Net: "tcp", Err: syscall.EMFILE}
	}
	return e.Listener.Accept()
}

func TestTheClusterPortSurvivesMissingDescriptors(t *testing.T) {
	l := &exhausted{Listener: listen(t)}
	l.left.Store(3)
	s, err := consensus.Listen(l, nil, func(error) {})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	if !reaches(t, s, s, consensus.Members) {
		t.Error("the cluster port accepts no connection after errors of Accept")
	}
}
