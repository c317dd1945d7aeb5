package cli_test

import (
	"context"
	"crypto/tls"
	"net"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"

	"hindsight/cmd/internal/testca"
)

// secure starts a fake with TLS that wants certificates of its own CA and the token
// "s3cret". It returns the address and a directory with the files.
func secure(t *testing.T) (address, dir string) {
	t.Helper()
	dir = t.TempDir()
	a := testca.New(t, "ca")
	testca.Write(t, dir, "ca.crt", a.PEM)
	testca.Write(t, dir, "other.crt", testca.New(t, "other").PEM)
	testca.Write(t, dir, "token", []byte("s3cret\n"))
	a.Files(t, dir, "client", testca.Leaf{Name: "client"})
	pair := a.Pair(t, testca.Leaf{Hosts: []string{"hindsight.example", "127.0.0.1"}})
	var listen net.ListenConfig
	l, err := listen.Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(newFake().serve(l,
		grpc.Creds(credentials.NewTLS(&tls.Config{
			Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12, ClientCAs: a.Pool(), ClientAuth: tls.RequireAndVerifyClientCert,
		})),
		grpc.UnaryInterceptor(func(ctx context.Context, request any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
			incoming, _ := metadata.FromIncomingContext(ctx)
			if strings.Join(incoming.Get("authorization"), "") != "Bearer s3cret" {
				return nil, reject(codes.Unauthenticated, "UNAUTHENTICATED", "who is it?")
			}
			return handle(ctx, request)
		})))
	return l.Addr().String(), dir
}

// The flags, and the variables in their place, secure the connection.
func TestSecureFlags(t *testing.T) {
	address, dir := secure(t)
	file := func(name string) string { return filepath.Join(dir, name) }
	ca, cert, key, token := file("ca.crt"), file("client.crt"), file("client.key"), file("token")
	for name, c := range map[string]struct {
		args []string
		env  map[string]string
		code int
		say  string
	}{
		"flags":            {[]string{"--ca", ca, "--cert", cert, "--key", key, "--token-file", token}, nil, 0, ""},
		"server name":      {[]string{"--tls", "--ca", ca, "--cert", cert, "--key", key, "--server-name", "hindsight.example", "--token-file", token}, nil, 0, ""},
		"variables":        {nil, map[string]string{"HINDSIGHT_CA": ca, "HINDSIGHT_CERT": cert, "HINDSIGHT_KEY": key, "HINDSIGHT_TOKEN_FILE": token}, 0, ""},
		"token itself":     {[]string{"--ca", ca, "--cert", cert, "--key", key}, map[string]string{"HINDSIGHT_TOKEN": "s3cret"}, 0, ""},
		"no token":         {[]string{"--ca", ca, "--cert", cert, "--key", key}, nil, 1, "give a token"},
		"file wins":        {[]string{"--ca", ca, "--cert", cert, "--key", key, "--token-file", ca}, map[string]string{"HINDSIGHT_TOKEN": "s3cret"}, 1, "want printable ASCII"},
		"wrong token":      {[]string{"--ca", ca, "--cert", cert, "--key", key}, map[string]string{"HINDSIGHT_TOKEN": "guess"}, 1, "does not take the token"},
		"no file":          {[]string{"--ca", file("none")}, nil, 2, "TLS: CA: open "},
		"no TLS":           {nil, nil, 3, "it may want TLS"},
		"HINDSIGHT_TLS":    {nil, map[string]string{"HINDSIGHT_TLS": "true"}, 3, "give its file as CA"},
		"HINDSIGHT_TLS=1":  {nil, map[string]string{"HINDSIGHT_TLS": "1"}, 3, "give its file as CA"},
		"HINDSIGHT_TLS=on": {nil, map[string]string{"HINDSIGHT_TLS": "on"}, 2, `HINDSIGHT_TLS: got "on", want true or false`},
		"wrong CA":         {[]string{"--ca", file("other.crt")}, nil, 3, "give its file as CA"},
		"wrong name":       {[]string{"--ca", ca, "--server-name", "x.example"}, nil, 3, "give that name as server name"},
		"no certificate":   {[]string{"--ca", ca}, nil, 3, "give the files of a certificate and its key"},
		"one of two":       {[]string{"--ca", ca, "--cert", cert}, nil, 2, "want both or none"},
		"far away":         {[]string{"--address", "server.example"}, map[string]string{"HINDSIGHT_TOKEN": "s3cret"}, 2, "a token is not sent in plaintext"},
	} {
		t.Run(name, func(t *testing.T) {
			for variable, value := range c.env {
				t.Setenv(variable, value)
			}
			r := run(t, append([]string{"--address", address, "model", "list"}, c.args...)...)
			assert.True(t, r.code == c.code && strings.Contains(r.errors, c.say) && !strings.Contains(r.out+r.errors, "s3cret"), "exit code %d, want %d: %s%s", r.code, c.code, r.out, r.errors)
			assert.False(t, strings.Contains(r.errors, "start one with"), "it says to start a server: %s", r.errors)
		})
	}
}
