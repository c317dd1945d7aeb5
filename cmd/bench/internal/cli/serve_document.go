package cli

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"hindsight/cmd/bench/internal/load"
	"hindsight/cmd/bench/internal/scrape"
	"hindsight/cmd/internal/command"
)

// serveDocument is the answer of "serve", as JSON.
type serveDocument struct {
	Server *serveSide `json:"server"`
	Echo   *serveSide `json:"echo,omitempty"`

	// The models and observations that both were measured with.
	models []string
	rows   []load.Row
}

// serveSide is what one server did.
type serveSide struct {
	Calls          int64            `json:"calls"`
	Seconds        float64          `json:"seconds"`
	CallsPerSecond float64          `json:"callsPerSecond"`
	Errors         map[string]int64 `json:"errors"`
	// Of the process, null if its metrics could not be read.
	CPUSecondsPerCall *float64         `json:"cpuSecondsPerCall"`
	ResidentBytes     *float64         `json:"residentBytes"`
	Operations        []serveOperation `json:"operations"`
}

// serveOperation is what came of one kind of call.
type serveOperation struct {
	Operation string         `json:"operation"`
	Calls     int64          `json:"calls"`
	Latency   serveQuantiles `json:"latencySeconds"`
	Service   serveQuantiles `json:"serviceSeconds"`
}

// serveQuantiles are those of a duration, in seconds.
type serveQuantiles struct {
	P50  float64 `json:"p50"`
	P90  float64 `json:"p90"`
	P99  float64 `json:"p99"`
	P999 float64 `json:"p999"`
	Max  float64 `json:"max"`
}

func newServeQuantiles(q load.Quantiles) serveQuantiles {
	return serveQuantiles{q.P50.Seconds(), q.P90.Seconds(), q.P99.Seconds(), q.P999.Seconds(), q.Max.Seconds()}
}

func newServeSide(r *load.Result) *serveSide {
	s := &serveSide{Calls: r.Calls, Seconds: r.Elapsed.Seconds(), Errors: r.Errors, CallsPerSecond: float64(r.Calls) / r.Elapsed.Seconds()}
	for _, o := range r.Operations {
		s.Operations = append(s.Operations, serveOperation{
			Operation: o.Name, Calls: o.Service.Count, Latency: newServeQuantiles(o.Latency), Service: newServeQuantiles(o.Service),
		})
	}
	return s
}

// process adds the figures of the process.
func (s *serveSide) process(before, after scrape.Sample) {
	resident := after[scrape.ResidentBytes]
	s.ResidentBytes = &resident
	if s.Calls > 0 {
		cpu := (after[scrape.CPUSeconds] - before[scrape.CPUSeconds]) / float64(s.Calls)
		s.CPUSecondsPerCall = &cpu
	}
}

// write writes the answer for people: a column for the server, one for the echo and one
// for the ratio.
func (d *serveDocument) write(w *command.Page) {
	header := []string{"", "hindsight"}
	if d.Echo != nil {
		header = append(header, "echo", "ratio")
	}
	w.Printf("%s\n", strings.Join(header, "\t"))
	d.row(w, "calls a second", rounded, func(s *serveSide) *float64 { return &s.CallsPerSecond })
	d.row(w, "CPU a call", duration, func(s *serveSide) *float64 { return s.CPUSecondsPerCall })
	d.row(w, "memory, MiB", rounded, func(s *serveSide) *float64 {
		if s.ResidentBytes == nil {
			return nil
		}
		mib := *s.ResidentBytes / (1 << 20)
		return &mib
	})
	for n, o := range d.Server.Operations {
		for _, q := range []struct {
			name string
			of   func(*serveQuantiles) float64
		}{
			{"p50", func(q *serveQuantiles) float64 { return q.P50 }},
			{"p90", func(q *serveQuantiles) float64 { return q.P90 }},
			{"p99", func(q *serveQuantiles) float64 { return q.P99 }},
			{"p99.9", func(q *serveQuantiles) float64 { return q.P999 }},
			{"max", func(q *serveQuantiles) float64 { return q.Max }},
		} {
			d.row(w, o.Operation+" "+q.name, duration, func(s *serveSide) *float64 {
				if n >= len(s.Operations) || s.Operations[n].Operation != o.Operation {
					return nil
				}
				v := q.of(&s.Operations[n].Latency)
				return &v
			})
		}
	}
	for _, reason := range slices.Sorted(maps.Keys(d.Server.Errors)) {
		w.Row("errors: "+reason, d.Server.Errors[reason])
	}
}

// row writes one figure of both servers and its ratio.
func (d *serveDocument) row(w *command.Page, name string, show func(float64) string, of func(*serveSide) *float64) {
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
