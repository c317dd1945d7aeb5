package cli_test

import (
	"net"
	"strings"
	"testing"
)

// nowhere returns an address at which nothing listens.
func nowhere(t *testing.T) string {
	t.Helper()
	var listen net.ListenConfig
	l, err := listen.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
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
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close() //nolint:errcheck // only its address was needed
	if r := run(t, "--address", l.Addr().String(), "--timeout", "200ms", "model", "get", "m"); r.code != 3 {
		t.Errorf("exit code %d, want 3: %s", r.code, r.errors)
	}
}

func TestHelp(t *testing.T) {
	for _, args := range [][]string{{"--help"}, {"model"}} {
		if r := run(t, args...); r.code != 0 || !strings.Contains(r.out, "--json  ") {
			t.Errorf("%v: %+v", args, r)
		}
	}
}
