package cli

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"hindsight/cmd/internal/command"
	"hindsight/cmd/research/load"
)

// serveDocument is the answer of "serve", as JSON.
type serveDocument struct {
	Server *load.Result `json:"server"`
	Echo   *load.Result `json:"echo,omitempty"`

	// models and rows are those that both servers are measured with.
	models []string
	rows   []load.Row
}

// write writes the answer for people: a column for the server, one for the echo and one
// for their ratio.
func (d *serveDocument) write(w *command.Page) {
	header := []string{"", "hindsight"}
	if d.Echo != nil {
		header = append(header, "echo", "ratio")
	}
	w.Printf("%s\n", strings.Join(header, "\t"))
	d.row(w, "calls a second", rounded, func(s *load.Result) *float64 { return &s.CallsPerSecond })
	d.row(w, "CPU a call", duration, func(s *load.Result) *float64 { return s.CPUSecondsPerCall })
	d.row(w, "memory, MiB", rounded, func(s *load.Result) *float64 {
		if s.ResidentBytes == nil {
			return nil
		}
		mib := *s.ResidentBytes / (1 << 20)
		return &mib
	})
	for n, o := range d.Server.Operations {
		for q, name := range []string{"p50", "p90", "p99", "p99.9", "max"} {
			d.row(w, o.Name+" "+name, duration, func(s *load.Result) *float64 {
				if n >= len(s.Operations) || s.Operations[n].Name != o.Name {
					return nil
				}
				l := s.Operations[n].Latency
				return []*float64{&l.P50, &l.P90, &l.P99, &l.P999, &l.Max}[q]
			})
		}
	}
	for _, reason := range slices.Sorted(maps.Keys(d.Server.Errors)) {
		w.Row("errors: "+reason, d.Server.Errors[reason])
	}
}

// row writes one figure of both servers and its ratio.
func (d *serveDocument) row(w *command.Page, name string, show func(float64) string, of func(*load.Result) *float64) {
	cells := []string{name, command.Optional(of(d.Server), show)}
	if d.Echo != nil {
		server, echo := of(d.Server), of(d.Echo)
		cells = append(cells, command.Optional(echo, show))
		if server != nil && echo != nil && *echo > 0 {
			cells = append(cells, fmt.Sprintf("%.2f", *server / *echo))
		}
	}
	w.Printf("%s\n", strings.TrimRight(strings.Join(cells, "\t"), "\t"))
}

func rounded(v float64) string { return fmt.Sprintf("%.0f", v) }

func duration(seconds float64) string {
	return time.Duration(seconds * float64(time.Second)).Round(time.Microsecond / 10).String()
}
