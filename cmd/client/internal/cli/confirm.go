package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"hindsight/cmd/internal/command"
)

// confirm asks on a terminal whether to go on. Elsewhere it returns an error: --yes is missing.
func (e *env) confirm(ctx context.Context, what string) error {
	if !command.IsTerminal(e.Stdin) || !e.Table() {
		return command.Usagef("%s: confirm with --yes", what)
	}
	_, _ = fmt.Fprintf(e.Stderr, "%s. Go on? [y/N] ", what)
	answer, err := readAnswer(ctx, e.Stdin)
	if ctx.Err() != nil {
		return errors.New("interrupted: nothing was changed")
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return nil
	default:
		return command.Usagef("nothing was changed")
	}
}

// readAnswer reads a line from a terminal until ctx ends. It opens the terminal again, because
// a read of standard input itself cannot be ended.
func readAnswer(ctx context.Context, in io.Reader) (string, error) {
	if file, ok := in.(*os.File); ok {
		if tty, err := os.Open(file.Name()); err == nil {
			defer tty.Close() //nolint:errcheck // it was only read
			if tty.SetReadDeadline(time.Time{}) == nil {
				defer context.AfterFunc(ctx, func() { _ = tty.SetReadDeadline(time.Now()) })()
				in = tty
			}
		}
	}
	return bufio.NewReader(in).ReadString('\n')
}
