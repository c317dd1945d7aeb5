package cli

import (
	"fmt"
	"io"
	"strings"
	"time"

	"hindsight/cmd/internal/command"
)

const (
	barWidth    = 30
	barInterval = 100 * time.Millisecond
)

// progress is a bar on a terminal. Elsewhere it writes nothing.
type progress struct {
	w           io.Writer // nil: no terminal
	title       string
	total, done int
	start, last time.Time
}

// newProgress starts a bar. A negative total means unknown.
func newProgress(w io.Writer, title string, total int) *progress {
	now := time.Now()
	p := &progress{title: title, total: total, start: now, last: now}
	if command.IsTerminal(w) {
		p.w = w
	}
	return p
}

// step counts one round.
func (p *progress) step() {
	p.done++
	if p.w == nil || p.done%16 != 0 && p.done != p.total {
		return
	}
	now := time.Now()
	if now.Sub(p.last) < barInterval && p.done != p.total {
		return
	}
	p.last = now
	rate := float64(p.done) / max(now.Sub(p.start).Seconds(), 1e-9)
	if p.total <= 0 {
		p.draw("\r%s %d rounds, %.0f/s\x1b[K", p.title, p.done, rate)
		return
	}
	filled := min(barWidth, barWidth*p.done/p.total)
	left := time.Duration(float64(p.total-p.done) / rate * float64(time.Second)).Round(time.Second)
	p.draw("\r%s [%s%s] %d%%, %d/%d, %.0f/s, %v left\x1b[K", p.title,
		strings.Repeat("=", filled), strings.Repeat(" ", barWidth-filled), 100*p.done/p.total, p.done, p.total, rate, left)
}

// end clears the line of the bar.
func (p *progress) end() {
	if p.w != nil {
		p.draw("\r\x1b[K")
	}
}

// draw writes to the terminal. Its errors are ignored: a bar is not an answer.
func (p *progress) draw(format string, args ...any) {
	_, _ = fmt.Fprintf(p.w, format, args...)
}
