package cli_test

import (
	"net"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// nowhere returns an address at which nothing listens.
func nowhere(t *testing.T) string {
	t.Helper()
	var listen net.ListenConfig
	l, err := listen.Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close() //nolint:errcheck // only its address was needed
	return l.Addr().String()
}

// served starts a fake with one model of two inputs called m.
func served(t *testing.T) *fake {
	t.Helper()
	f := newFake()
	t.Setenv("HINDSIGHT_ADDRESS", f.start(t))
	document(t, 0, "model", "create", "m", "--spec", `{"dimension": 2, "pkawv_taylor": {"degree": 2}}`)
	return f
}

// TestConnectingForever asks a listener that never answers.
func TestConnectingForever(t *testing.T) {
	var listen net.ListenConfig
	l, err := listen.Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close() //nolint:errcheck // only its address was needed
	r := run(t, "--address", l.Addr().String(), "--timeout", "200ms", "model", "get", "m")
	assert.Equal(t, 3, r.code, r.errors)
}

func TestHelp(t *testing.T) {
	for _, args := range [][]string{{"--help"}, {"model"}} {
		r := run(t, args...)
		assert.True(t, r.code == 0 && strings.Contains(r.out, "--json  "), "%v: %+v", args, r)
	}
}
