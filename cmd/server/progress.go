package main

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/term"
)

const progressInterval = 2 * time.Second

// progress writes the progress of a command to standard error. Its methods may be called
// concurrently. A nil progress writes nothing.
type progress struct {
	to io.Writer
	mu struct {
		sync.Mutex
		last time.Time
	}
}

// newProgress returns nil unless standard error is a terminal or the user asked for progress.
func newProgress(stderr io.Writer, asked bool) *progress {
	file, ok := stderr.(*os.File)
	if !asked && (!ok || !term.IsTerminal(int(file.Fd()))) {
		return nil
	}
	return &progress{to: stderr}
}

func (p *progress) report(line func() string) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if now := time.Now(); now.Sub(p.mu.last) >= progressInterval {
		p.mu.last = now
		fmt.Fprintln(p.to, line())
	}
}

func (p *progress) end(line string) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.last = time.Time{}
	fmt.Fprintln(p.to, line)
}

func megabytes(bytes int64) string { return fmt.Sprintf("%.1f MB", float64(bytes)/1e6) }

func percent(part, whole int64) string {
	if whole <= 0 {
		return "100 %"
	}
	return fmt.Sprintf("%d %%", min(100, 100*part/whole))
}
