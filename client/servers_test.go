package client_test

import (
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"

	"hindsight/client"
)

// listen answers a listener of a free port.
func listen(t *testing.T) net.Listener {
	t.Helper()
	l := must(new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0"))(t)
	return l
}

// The first server that answers is used, and the next one after a failure.
func TestServersOfACluster(t *testing.T) {
	dead, a, b := listen(t), listen(t), listen(t)
	require.NoError(t, dead.Close())
	first, second := &fake{}, &fake{}
	stopFirst, stopSecond := first.start(a), second.start(b)
	defer stopSecond()
	list := strings.Join([]string{dead.Addr().String(), a.Addr().String(), " " + b.Addr().String()}, ",")
	c, err := client.Dial(list, client.WithRetry(client.Retry{Max: 3, Backoff: time.Millisecond}), client.WithToken(client.TokenText("t")))
	require.NoError(t, err)
	defer c.Close() //nolint:errcheck // the test is over
	assert.Equal(t, strings.ReplaceAll(list, " ", ""), c.Address())
	m := c.Model("m")
	// No retry is needed to find a server.
	_, err = c.With(client.Retry{}).Model("m").Predict(t.Context(), client.Features(1))
	require.True(t, err == nil && first.calls == 1, "%v, %d calls", err, first.calls)
	stopFirst()
	for n := 1; n <= 2; n++ {
		_, err := m.Observe(t.Context(), client.ByInput(client.Features(1), client.Label(1)))
		assert.True(t, err == nil && second.calls == n, "%v, %d calls", err, second.calls)
	}
}

// Once calls of a name were forwarded, the client sends further calls of its group to the other
// servers in turn, until it finds the owner.
func TestOwnersOfGroups(t *testing.T) {
	owned := map[int]map[string]bool{0: {"a": true}, 2: {"b": true, "c": true}} // Server 1 owns nothing.
	group := map[string]string{"a": "1", "b": "2", "c": "2"}
	var list []string
	var fakes []*fake
	for n := range 3 {
		f, l := &fake{}, listen(t)
		f.forwarded = func(model string) metadata.MD {
			if name, _, _ := strings.Cut(model, "."); !owned[n][name] {
				return metadata.Pairs("hindsight-forwarded", group[name])
			}
			return nil
		}
		defer f.start(l)()
		fakes, list = append(fakes, f), append(list, l.Addr().String())
	}
	c := must(client.Dial(strings.Join(list, ",")))(t)
	defer c.Close() //nolint:errcheck // the test is over
	observe := func(model string, want ...int) {
		t.Helper()
		_, err := c.Model(model).Observe(t.Context(), client.ByInput(client.Features(1), client.Label(1)))
		require.NoError(t, err)
		for n, f := range fakes {
			assert.Equal(t, want[n], f.calls, n)
		}
	}
	observe("a", 1, 0, 0)
	observe("b.v1", 2, 0, 0)
	observe("b.v2", 2, 1, 0)
	observe("b.v1", 2, 1, 1)
	observe("a", 3, 1, 1)
	observe("c", 4, 1, 1) // The client does not know the group of c.
	observe("c", 4, 1, 2)
	owned[1], owned[2] = owned[2], nil // The ownership moves.
	observe("b", 4, 1, 3)
	observe("c", 5, 1, 3)
	observe("b", 5, 2, 3)
	observe("c", 5, 3, 3)
	owned[0], owned[1] = map[string]bool{"b": true}, nil // The ownership moves again.
	observe("b", 5, 4, 3)
	observe("b", 5, 4, 4)
	observe("b", 6, 4, 4)
	observe("b", 7, 4, 4)
}

// The client leaves a server that knows no owner, or does not answer, for the next server.
func TestServersThatFail(t *testing.T) {
	over := make(chan struct{})
	defer close(over)
	for name, fault := range map[string]func(int, bool) error{
		"no owner": func(int, bool) error { return reject(codes.Unavailable, "NOT_OWNER", after(time.Millisecond)) },
		"silent":   func(int, bool) error { <-over; return nil },
	} {
		t.Run(name, func(t *testing.T) {
			a, b := listen(t), listen(t)
			first, second := &fake{fault: fault}, &fake{}
			defer first.start(a)()
			defer second.start(b)()
			c, err := client.Dial(a.Addr().String()+","+b.Addr().String(), client.WithTimeout(2*time.Second),
				client.WithRetry(client.Retry{Max: 1, Backoff: time.Millisecond}))
			require.NoError(t, err)
			defer c.Close() //nolint:errcheck // the test is over
			ctx := t.Context()
			for n := range 3 {
				_, err := c.Model("m").Observe(ctx, client.ByInput(client.Features(1), client.Label(1)))
				assert.NoError(t, err, n)
			}
			assert.Equal(t, 3, second.calls)
		})
	}
}

func TestListsOfServers(t *testing.T) {
	for list, want := range map[string]string{
		"a,b:7":          "a:50051,b:7",
		"::1,[::2]:7":    "[::1]:50051,[::2]:7",
		"a,":             "",
		"a,unix:/h.sock": "",
		"a,http://b":     "",
	} {
		c, err := client.Dial(list)
		assert.Equal(t, (want != ""), (err == nil), "%v %v", list, err)
		if err != nil {
			continue
		}
		assert.Equal(t, want, c.Address(), list)
		assert.NoError(t, c.Close())
	}
	_, err := client.Dial("localhost,example.com", client.WithToken(client.TokenText("t")))
	assert.True(t, err != nil && strings.Contains(err.Error(), "in plaintext"), "a token to another machine: %v", err)
}
