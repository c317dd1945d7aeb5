package cli

import (
	"bytes"
	"context"
	"io"
	"os"
	"strings"
	"time"

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

	ctrlC = 3
)

// screen is a terminal that shows a live page. The key q leaves it. Where a read of the keys
// cannot be ended, only an interrupt leaves it.
type screen struct {
	out    *os.File
	tty    *os.File // nil: no keys
	state  *term.State
	cancel context.CancelFunc
	left   chan struct{} // closed when the reader of the keys has ended
	quit   bool          // the key q; set before left is closed
}

// newScreen takes the terminal. The returned context ends when q is pressed. The screen is nil
// if standard output is no terminal, or the answer is not for people. The caller must call
// leave.
func (e *env) newScreen(ctx context.Context) (*screen, context.Context) {
	out, ok := e.Stdout.(*os.File)
	if !ok || !e.Table() || !command.IsTerminal(out) {
		return nil, ctx
	}
	ctx, cancel := context.WithCancel(ctx)
	s := &screen{out: out, cancel: cancel, left: make(chan struct{})}
	s.openKeys()
	_, _ = io.WriteString(out, enterScreen) // A terminal that cannot be written shows nothing.
	go s.read()
	return s, ctx
}

// openKeys opens the terminal for its keys, if a read of it can be ended.
func (s *screen) openKeys() {
	tty, err := os.OpenFile("/dev/tty", os.O_RDWR, 0)
	if err != nil {
		return
	}
	if tty.SetReadDeadline(time.Time{}) == nil {
		if s.state, err = term.MakeRaw(int(tty.Fd())); err == nil {
			s.tty = tty
			return
		}
	}
	_ = tty.Close() // It was not used.
}

// read waits for the key q, or for the end of the screen.
func (s *screen) read() {
	defer close(s.left)
	if s.tty == nil {
		return
	}
	key := make([]byte, 1)
	for {
		if _, err := s.tty.Read(key); err != nil {
			return
		}
		if key[0] == 'q' || key[0] == 'Q' || key[0] == ctrlC {
			s.quit = true
			s.cancel()
			return
		}
	}
}

// leave gives the terminal back. It returns nil in place of err if q was pressed.
func (s *screen) leave(err error) error {
	if s.tty != nil {
		_ = s.tty.SetReadDeadline(time.Now()) // It ends read.
	}
	<-s.left
	s.cancel()
	if s.tty != nil {
		_ = term.Restore(int(s.tty.Fd()), s.state)
		_ = s.tty.Close() // It was only read.
	}
	_, _ = io.WriteString(s.out, leaveScreen)
	if s.quit {
		return nil
	}
	return err
}

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
