package command

import (
	"os"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"hindsight/client"
)

type connection struct {
	tls            bool
	files          client.TLS
	tokenFile      string
	plaintextToken bool
}

// tokenEnv has a token. No flag takes a token: other users see the arguments of a process.
const tokenEnv = "HINDSIGHT_TOKEN"

const tlsEnv = "HINDSIGHT_TLS"

// checkEnv rejects a value that would leave the connection in plaintext by mistake.
func (c *connection) checkEnv() error {
	value := os.Getenv(tlsEnv)
	if _, err := strconv.ParseBool(value); err != nil && value != "" {
		return Usagef("%s: got %q, want true or false", tlsEnv, value)
	}
	return nil
}

// flags adds the flags. The environment variable of each changes its default.
func (c *connection) flags(flags *pflag.FlagSet) {
	text := func(field *string, name, usage string) {
		env := "HINDSIGHT_" + strings.ToUpper(strings.ReplaceAll(name, "-", "_"))
		flags.StringVar(field, name, os.Getenv(env), usage+"; or "+env)
	}
	// A value that is no boolean is rejected by checkFlags.
	encrypted, _ := strconv.ParseBool(os.Getenv(tlsEnv))
	flags.BoolVar(&c.tls, "tls", encrypted, "use TLS; --ca, --cert and --server-name imply it; or HINDSIGHT_TLS=true")
	text(&c.files.CA, "ca", "CA file for verifying the server's certificate (PEM); empty uses the system's CAs")
	text(&c.files.Cert, "cert", "client certificate (PEM)")
	text(&c.files.Key, "key", "private key of --cert (PEM)")
	text(&c.files.ServerName, "server-name", "server name in the server's certificate, if it differs from the address")
	text(&c.tokenFile, "token-file", "file with the bearer token; "+tokenEnv+" is a token itself")
	flags.BoolVar(&c.plaintextToken, "token-in-plaintext", false, "send the token to another machine without TLS")
}

func (c *connection) options() []client.Option {
	var options []client.Option
	if c.tls || c.files != (client.TLS{}) {
		options = append(options, client.WithTLS(c.files))
	}
	if c.tokenFile != "" {
		options = append(options, client.WithToken(client.TokenFile(c.tokenFile)))
	} else if token := os.Getenv(tokenEnv); token != "" {
		options = append(options, client.WithToken(client.TokenText(strings.TrimSpace(token))))
	}
	if c.plaintextToken {
		options = append(options, client.WithTokenInPlaintext())
	}
	return options
}

// Dial prepares a connection to the server of the flags. Close must be called.
func (p *Program) Dial(options ...client.Option) (*client.Client, error) {
	c, err := client.Dial(p.Address, append(p.connection.options(), options...)...)
	if err != nil {
		return nil, &UsageError{Err: err}
	}
	return c, nil
}
