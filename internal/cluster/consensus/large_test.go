package consensus_test

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"hindsight/internal/cluster/consensus"
)

// slowRate is the rate of a slow link, in bytes a second.
const slowRate = 1 << 20

// slow rejects a request whose deadline is too near for a link of slowRate. It does not wait. A request begins with the
// first write after a read.
type slow struct {
	net.Conn
	deadline, began time.Time
	bytes           int
}

func (c *slow) SetDeadline(t time.Time) error {
	c.deadline = t
	return c.Conn.SetDeadline(t)
}

func (c *slow) Read(p []byte) (int, error) {
	c.bytes = 0
	return c.Conn.Read(p)
}

func (c *slow) Write(p []byte) (int, error) {
	if c.bytes == 0 {
		c.began = time.Now()
	}
	c.bytes += len(p)
	takes := time.Duration(c.bytes) * time.Second / slowRate
	if !c.deadline.IsZero() && c.began.Add(takes).After(c.deadline) {
		return 0, os.ErrDeadlineExceeded
	}
	return c.Conn.Write(p)
}

func TestALargeEntryPassesASlowLink(t *testing.T) {
	var servers []*server
	for k := range 3 {
		servers = append(servers, newServer(t, fmt.Sprintf("s%d", k)))
	}
	require.NoError(t, consensus.Found(servers[0].storage, servers[0].self, 0))
	for _, s := range servers {
		s.mu.index = 1
		stream, err := consensus.Listen(listen(t, s.self.Address), nil, func(error) {})
		require.NoError(t, err)
		stream.DialBy(func(ctx context.Context, network, address string) (net.Conn, error) {
			c, err := new(net.Dialer).DialContext(ctx, network, address)
			if err != nil {
				return nil, err
			}
			return &slow{Conn: c}, nil
		})
		s.stream = stream
		s.Log, err = consensus.Open(consensus.Options{
			Self: s.self, Storage: s.storage, Stream: stream, Apply: s.applyEntry, Sync: func(context.Context) error { return nil },
			Has: s.has, Behind: s.isBehind, Marks: s.marks, Now: s.now, Logger: zap.NewNop(), Calm: true,
		})
		require.NoError(t, err)
		t.Cleanup(func() { s.close(t) })
	}
	for n, s := range servers[1:] {
		eventually(t, "another member", func() bool { return owner(t, servers[:n+1]...).Add(t.Context(), s.self) == nil })
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	eventually(t, "an entry of 8 MiB is committed", func() bool { // A busy machine may elect another owner meanwhile.
		return owner(t, servers...).Propose(ctx, bytes.Repeat([]byte("x"), 8<<20)) == nil
	})
	for _, s := range servers {
		select {
		case err := <-s.Failed():
			t.Errorf("%s failed: %v", s.self.ID, err)
		default:
		}
	}
}

func TestStall(t *testing.T) {
	for _, c := range []struct {
		name  string
		write bool
		leads bool
		ends  bool
		after time.Duration
		want  bool
	}{
		{"no write, a proposal waits for others", false, true, false, time.Hour, false},
		{"a short write", true, true, false, 4 * time.Second, false},
		{"a write hangs", true, true, false, 6 * time.Second, true},
		{"a follower's write", true, false, false, time.Hour, false},
		{"the next write", true, true, true, time.Hour, false},
	} {
		var s consensus.Stall
		now := time.Unix(1e9, 0)
		if c.write {
			s.Step()
		}
		assert.False(t, s.Stalled(now, c.leads), "%s: stalled at once", c.name)
		if c.ends {
			s.Step()
			s.Step()
		}
		assert.Equal(t, c.want, s.Stalled(now.Add(c.after), c.leads), "%v %v", c.name, c.after)
	}
}
