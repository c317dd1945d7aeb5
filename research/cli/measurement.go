package cli

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"hindsight/client"
	"hindsight/cmd/internal/child"
	"hindsight/cmd/internal/command"
	"hindsight/cmd/research/papers"
	"hindsight/cmd/research/remote"
)

const (
	// A batch of a slow learner takes longer than other calls.
	leastTimeout = 2 * time.Minute

	streamsDirectory = "streams"
)

// measurement is what the flags of a command say that takes streams through a
// server.
type measurement struct{ server, data, out string }

// add adds the flags to a command.
func (m *measurement) add(p *command.Program, cmd *cobra.Command) {
	data := streamsDirectory
	if dir := os.Getenv(papers.StreamsEnv); dir != "" {
		data = dir
	}
	flags := cmd.Flags()
	p.ServerFlags(flags)
	flags.StringVar(&m.server, "server", "", "path of the server program to start")
	flags.StringVar(&m.data, "data", data, "directory of the streams; the environment variable "+papers.StreamsEnv+" changes the default")
	flags.StringVar(&m.out, "out", resultsDirectory(), "directory of the results")
}

// check checks the flags. A directory of streams that the user named must exist;
// the default one need not.
func (m *measurement) check(cmd *cobra.Command) error {
	if m.server != "" && cmd.Flags().Changed("address") {
		return command.Usagef("--server starts a server, --address names a running one: give one of them")
	}
	named := cmd.Flags().Changed("data") || os.Getenv(papers.StreamsEnv) != ""
	if info, err := os.Stat(m.data); named && (err != nil || !info.IsDir()) {
		return command.Usagef("--data or %s: there is no directory %s", papers.StreamsEnv, m.data)
	}
	return nil
}

// measure calls do with the server that the flags name. The ids of its models begin
// with the name of the command.
func (m *measurement) measure(ctx context.Context, p *command.Program, name string, do func(context.Context, *remote.Server) error) error {
	at := func(dial func() (*client.Client, error)) error {
		run, err := drawRun(name)
		if err != nil {
			return err
		}
		timeout := max(p.Timeout, leastTimeout)
		c, err := dial()
		if err != nil {
			return err
		}
		return errors.Join(do(ctx, &remote.Server{
			Models: c.Models(), Predictions: c.Predictions(),
			Run: run, Timeout: timeout,
			Now: time.Now, Say: p.Say,
		}), c.Close())
	}
	if m.server == "" {
		return at(func() (*client.Client, error) { return p.Dial() })
	}
	return child.Serve(ctx, m.server, func(s *child.Server) error {
		return at(func() (*client.Client, error) { return client.Dial(s.GRPC) })
	})
}

// drawRun draws a prefix of the ids of models, which begins with the name of a command.
func drawRun(name string) (string, error) {
	drawn := make([]byte, 4)
	if _, err := rand.Read(drawn); err != nil {
		return "", fmt.Errorf("draw a run: %w", err)
	}
	return name + "-" + hex.EncodeToString(drawn), nil
}
