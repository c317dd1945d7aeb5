package cli

import (
	"bytes"
	"io"
	"os"
	"strings"

	"golang.org/x/term"

	"hindsight/cmd/internal/command"
)

// The control sequences of a screen that is drawn again and again.
const (
	enterScreen = "\x1b[?1049h\x1b[?25l\x1b[?7l" // the other buffer, no cursor, long lines are cut
	leaveScreen = "\x1b[?7h\x1b[?25h\x1b[?1049l"
	firstLine   = "\x1b[H"
	endOfLine   = "\x1b[K"
	endOfScreen = "\x1b[J"
	noColour    = "\x1b[m"
)

// screen is a terminal that shows a live page.
type screen struct{ out *os.File }

// newScreen takes the terminal. The screen is nil if standard output is no terminal, or the
// answer is not for people. The caller must call leave.
func (e *env) newScreen() *screen {
	out, ok := e.Stdout.(*os.File)
	if !ok || !e.Table() || !command.IsTerminal(out) {
		return nil
	}
	_, _ = io.WriteString(out, enterScreen) // A terminal that cannot be written shows nothing.
	return &screen{out}
}

// leave gives the terminal back.
func (s *screen) leave() { _, _ = io.WriteString(s.out, leaveScreen) }

// size is the size of the terminal, 80 by 24 if the terminal does not report it.
func (s *screen) size() (width, height int) {
	width, height, err := term.GetSize(int(s.out.Fd()))
	if err != nil || width < 1 || height < 1 {
		return 80, 24
	}
	return width, height
}

// draw replaces the page. It leaves out the lines below the screen and cuts long lines. It clears
// each line before it writes the line: after a full line the cursor stands on the last character,
// which clearing would erase.
func (s *screen) draw(text string) error {
	width, height := s.size()
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	lines = lines[:min(len(lines), height-1)]
	var out bytes.Buffer
	out.WriteString(firstLine)
	for _, line := range lines {
		out.WriteString(endOfLine + within(line, width) + "\r\n")
	}
	out.WriteString(endOfScreen)
	_, err := s.out.Write(out.Bytes())
	return err
}

// within cuts a line to at most width characters. A cut line ends with a mark, because half a
// number is another number. Colours have no width.
func within(line string, width int) string {
	at, seen, escape := 0, 0, false
	for i, c := range line {
		switch {
		case c == '\x1b':
			escape = true
		case escape:
			escape = c != 'm'
		default:
			if seen++; seen == width {
				at = i
			}
		}
	}
	if seen <= width {
		return line
	}
	return line[:at] + "…" + noColour
}
