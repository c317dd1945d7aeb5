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
	// The intervals of rewriting a terminal's line, and of new lines elsewhere.
	terminalEvery = 200 * time.Millisecond
	lineEvery     = 2 * time.Second
)

// progress writes the progress of a command to standard error. Its methods may be called
// concurrently. A nil progress writes nothing.
type progress struct {
	to       io.Writer
	terminal bool
	mu       struct {
		sync.Mutex
		last  time.Time
		width int
	}
}

// newProgress returns nil unless standard error is a terminal or the user asked for progress.
func newProgress(stderr io.Writer, asked bool) *progress {
	file, ok := stderr.(*os.File)
	terminal := ok && term.IsTerminal(int(file.Fd()))
	if !terminal && !asked {
		return nil
	}
	return &progress{to: stderr, terminal: terminal}
}

// report writes the line, unless the interval has not passed.
func (p *progress) report(line func() string) {
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

// megabytes formats a size for people.
func megabytes(bytes int64) string { return fmt.Sprintf("%.1f MB", float64(bytes)/1e6) }

// percent formats a share of at most 100 %.
func percent(part, whole int64) string {
	if whole <= 0 {
		return "100 %"
	}
	return fmt.Sprintf("%d %%", min(100, 100*part/whole))
}
