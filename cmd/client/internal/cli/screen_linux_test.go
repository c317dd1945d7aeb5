package cli_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
	"hindsight/cmd/client/internal/cli"
)

// terminal opens a pseudo terminal: the end of the person and that of the program.
func terminal(t *testing.T, columns, rows uint16) (person, program *os.File) {
	t.Helper()
	person, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skipf("no pseudo terminal: %v", err)
	}
	t.Cleanup(func() { _ = person.Close() })
	n, err := unix.IoctlGetInt(int(person.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(person.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err == nil {
		err = unix.IoctlSetWinsize(int(person.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: rows, Col: columns})
	}
	if err == nil {
		program, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	}
	if err != nil {
		t.Skipf("no pseudo terminal: %v", err)
	}
	return person, program
}

// TestQuestion answers on a terminal, and interrupts there.
func TestQuestion(t *testing.T) {
	for typed, want := range map[string]int{"y\n": 0, "n\n": 2, "\n": 2, "": 130} {
		f := served(t)
		person, program := terminal(t, 80, 24)
		ctx, cancel := context.WithCancel(t.Context())
		asked := &question{asked: func() {
			if typed == "" {
				cancel()
			} else if _, err := io.WriteString(person, typed); err != nil {
				t.Error(err)
			}
		}}
		var out strings.Builder
		code := cli.Run(ctx, "v1", []string{"model", "delete", "m"}, program, &out, asked)
		cancel()
		if err := program.Close(); err != nil {
			t.Fatal(err)
		}
		if code != want || (f.models["m"] == nil) != (want == 0) {
			t.Errorf("%q: exit code %d, want %d: %s", typed, code, want, asked.text.String())
		}
	}
}

// question is a standard error on which a question is asked.
type question struct {
	text  strings.Builder
	asked func()
}

func (q *question) Write(p []byte) (int, error) {
	n, err := q.text.Write(p)
	if strings.HasSuffix(q.text.String(), "[y/N] ") {
		q.asked()
	}
	return n, err
}

// TestWatchScreen: the curves are named as those of "model stats", though events have no
// experts, and a line that is too long does not take the place of another.
func TestWatchScreen(t *testing.T) {
	served(t).stats = func(s *hindsightv1.ModelStats) { known(s); gateOf(3)(s) }
	person, program := terminal(t, 60, 40)
	shown := make(chan string)
	go func() {
		text, _ := io.ReadAll(person) // It ends with EIO when the program's end is closed.
		shown <- string(text)
	}()
	var errs strings.Builder
	code := cli.Run(t.Context(), "v1", []string{"model", "watch", "m", "--events", "2"}, strings.NewReader(""), program, &errs)
	if err := program.Close(); err != nil {
		t.Fatal(err)
	}
	out := <-shown
	if code != 0 {
		t.Fatalf("exit code %d: %s", code, errs.String())
	}
	for _, want := range []string{" observations, 3 set aside; q leaves", "recent mean loss", "regret against the best expert in hindsight", "\x1b[?7l", "\x1b[?7h"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in %q", want, out)
		}
	}
}
