package cli_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/proto"

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

// screenOf is what a terminal of so many columns shows after the last page of out: a
// character beyond the last column takes the place of the last, and a sequence that clears
// the line begins at the cursor.
func screenOf(t *testing.T, out string, columns int) []string {
	t.Helper()
	at := strings.LastIndex(out, "\x1b[H")
	if at < 0 {
		t.Fatalf("no page in %q", out)
	}
	var rows []string
	var line []rune
	column := 0
	text := []rune(out[at:])
	for i := 0; i < len(text); i++ {
		switch c := text[i]; c {
		case '\r':
			column = 0
		case '\n':
			rows, line = append(rows, strings.TrimRight(string(line), " ")), nil
		case '\x1b':
			end := i + 2
			for text[end] < '@' {
				end++
			}
			if text[end] == 'K' {
				line = line[:min(len(line), column)]
			}
			i = end
		default:
			for len(line) <= column {
				line = append(line, ' ')
			}
			line[column] = c
			column = min(column+1, columns-1)
		}
	}
	return rows
}

// shownOn is what a command shows on a terminal of so many columns before it is interrupted
// after its first page.
func shownOn(t *testing.T, columns uint16, args ...string) []string {
	t.Helper()
	person, program := terminal(t, columns, 40)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	shown := make(chan string)
	go func() {
		var text strings.Builder
		buffer := make([]byte, 1<<12)
		for {
			n, err := person.Read(buffer) // It ends with EIO when the program's end is closed.
			text.Write(buffer[:n])
			if strings.Contains(text.String(), "\x1b[J") {
				cancel()
			}
			if err != nil {
				shown <- text.String()
				return
			}
		}
	}()
	var errs strings.Builder
	code := cli.Run(ctx, "v1", args, strings.NewReader(""), program, &errs)
	if err := program.Close(); err != nil {
		t.Fatal(err)
	}
	out := <-shown
	if code != 130 {
		t.Fatalf("exit code %d, want 130: %s", code, errs.String())
	}
	return screenOf(t, out, int(columns))
}

// TestTopScreen: a narrow terminal shows fewer columns, and no part of a number.
func TestTopScreen(t *testing.T) {
	f := served(t)
	m := f.models["m"].model
	m.Learner, m.Sequence = "pkawv_taylor", 200_000
	m.Summary = &hindsightv1.ModelSummary{
		ObservationRate: 1234.5678, Regret: proto.Float64(-1.23456e-07), State: hindsightv1.ModelSummary_STATE_LOADED,
		Recent: &hindsightv1.Performance{Served: &hindsightv1.PerformanceFigures{MeanLoss: 1.23456e-06, Skill: proto.Float64(0.123456)}},
	}
	for columns, want := range map[uint16]string{
		200: "better than trivial", 80: "-1.23456e-07", 30: "…",
	} {
		rows := shownOn(t, columns, "top")
		table := strings.Join(rows, "\n")
		if !strings.Contains(table, want) {
			t.Errorf("%d columns: no %s in\n%s", columns, want, table)
		}
		whole := []string{"m", "pkawv_taylor", "200000", "1234.57", "1.23456e-06", "0.123456", "-1.23456e-07", "loaded", "better", "than", "trivial"}
		for _, cell := range strings.Fields(rows[3]) {
			if !slices.Contains(whole, cell) && !strings.HasSuffix(cell, "…") {
				t.Errorf("%d columns: %q in\n%s", columns, cell, table)
			}
		}
	}
}
