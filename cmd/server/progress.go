package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"
)

const (
	// A terminal's line is written again so often, and a line of its own elsewhere.
	terminalEvery = 200 * time.Millisecond
	lineEvery     = 2 * time.Second
)

// progress writes how far a command is to standard error. Its methods may be called by
// any number of goroutines, also on nil, which writes nothing.
type progress struct {
	to       io.Writer
	terminal bool
	mu       struct {
		sync.Mutex
		last  time.Time
		width int
	}
}

// newProgress is nil unless standard error is a terminal or the user asked for it.
func newProgress(stderr io.Writer, asked bool) *progress {
	file, ok := stderr.(*os.File)
	terminal := ok && term.IsTerminal(int(file.Fd()))
	if !terminal && !asked {
		return nil
	}
	return &progress{to: stderr, terminal: terminal}
}

// tell writes what line answers, unless something was written just before.
func (p *progress) tell(line func() string) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	every := lineEvery
	if p.terminal {
		every = terminalEvery
	}
	now := time.Now()
	if now.Sub(p.mu.last) < every {
		return
	}
	p.mu.last = now
	p.write(line())
}

// end writes the last line.
func (p *progress) end(line string) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.write(line)
	if p.terminal {
		fmt.Fprintln(p.to)
	}
	p.mu.last, p.mu.width = time.Time{}, 0
}

func (p *progress) write(line string) {
	if !p.terminal {
		fmt.Fprintln(p.to, line)
		return
	}
	fmt.Fprintf(p.to, "\r%s%s", line, strings.Repeat(" ", max(0, p.mu.width-len(line))))
	p.mu.width = len(line)
}

// megabytes writes a size as people read it.
func megabytes(bytes int64) string { return fmt.Sprintf("%.1f MB", float64(bytes)/1e6) }

// percent is a share, at most 100.
func percent(part, whole int64) string {
	if whole <= 0 {
		return "100 %"
	}
	return fmt.Sprintf("%d %%", min(100, 100*part/whole))
}
