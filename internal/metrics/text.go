package metrics

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
)

// textBuffer is how much text is written at once.
const textBuffer = 64 << 10

// Scrape is what all instruments said at one moment. It holds no lock, so a
// reader that is slow to take the text keeps nobody waiting.
type Scrape struct {
	families []family
	samples  []sample
	server   []*dto.MetricFamily
}

// family writes the series of models that have one name.
type family struct {
	name  string
	write func(out *bufio.Writer, samples []sample)
}

// Scrape reads all instruments once.
func (m *Metrics) Scrape() (*Scrape, error) {
	// The models come first, since a number of the server is about them.
	s := &Scrape{families: m.live.families, samples: m.live.read()}
	var err error
	if s.server, err = m.server.Gather(); err != nil {
		return nil, fmt.Errorf("metrics: %w", err)
	}
	return s, nil
}

// WriteText writes the scrape to w in the text format of Prometheus, byte for
// byte as expfmt writes what Gather yields. A thousand models have sixty
// thousand lines. expfmt is too slow for them, since it checks and escapes each
// label on each line.
func (s *Scrape) WriteText(w io.Writer) error {
	out := bufio.NewWriterSize(w, textBuffer)
	ours := s.families
	for _, f := range s.server {
		for ; len(ours) > 0 && ours[0].name < f.GetName(); ours = ours[1:] {
			ours[0].write(out, s.samples)
		}
		if _, err := expfmt.MetricFamilyToText(out, f); err != nil {
			return fmt.Errorf("metrics: %w", err)
		}
	}
	for _, f := range ours {
		f.write(out, s.samples)
	}
	// The buffer keeps the first error of all writes.
	if err := out.Flush(); err != nil {
		return fmt.Errorf("metrics: %w", err)
	}
	return nil
}

// newFamilies yields the metrics of models by name.
func newFamilies(rows []modelRow) []family {
	var all []family
	for i, r := range timingRows() {
		all = append(all, family{r.name, timingWriter(i, r)})
	}
	for i := 0; i < len(rows); {
		end := i + 1
		for end < len(rows) && rows[end].name == rows[i].name {
			end++
		}
		all = append(all, family{rows[i].name, rowWriter(rows, i, end)})
		i = end
	}
	slices.SortFunc(all, func(a, b family) int { return cmp.Compare(a.name, b.name) })
	return all
}

// rowWriter writes rows[first:end], which have one name.
func rowWriter(rows []modelRow, first, end int) func(*bufio.Writer, []sample) {
	heading := heading(rows[first].name, rows[first].help, kindName(rows[first].kind))
	starts := make([]string, end-first)
	for i, r := range rows[first:end] {
		starts[i] = r.name + "{"
		if r.label != "" {
			starts[i] += labelKind + `="` + r.label + `",`
		}
	}
	return func(out *bufio.Writer, samples []sample) {
		headed := false
		for i, start := range starts {
			for _, s := range samples {
				if s.values == nil || !finite(s.values[first+i]) {
					continue
				}
				if !headed {
					_, _ = out.WriteString(heading)
					headed = true
				}
				writeLine(out, start, s.text, "} ", s.values[first+i])
			}
		}
	}
}

// timingWriter writes the classic histograms of one row.
func timingWriter(of int, r timingRow) func(*bufio.Writer, []sample) {
	heading := heading(r.name, r.help, "histogram")
	bucket, total, count := r.name+"_bucket{", r.name+"_sum{", r.name+"_count{"
	var ends []string
	for _, le := range append(timingBuckets()[:], math.Inf(1)) {
		ends = append(ends, `,le="`+string(appendNumber(nil, le))+`"} `)
	}
	return func(out *bufio.Writer, samples []sample) {
		headed := false
		for _, s := range samples {
			if s.timing == nil {
				continue
			}
			if !headed {
				_, _ = out.WriteString(heading)
				headed = true
			}
			c := s.timing[of].classic()
			for i, n := range c.buckets {
				writeLine(out, bucket, s.text, ends[i], float64(n))
			}
			writeLine(out, total, s.text, "} ", c.sum)
			writeLine(out, count, s.text, "} ", float64(c.buckets[bounds]))
		}
	}
}

// heading is what the text format says before the series of a name. No help
// has a character to escape.
func heading(name, help, kind string) string {
	return "# HELP " + name + " " + help + "\n# TYPE " + name + " " + kind + "\n"
}

func kindName(kind prometheus.ValueType) string {
	switch kind {
	case counter:
		return "counter"
	case gauge:
		return "gauge"
	case untyped:
	}
	return "untyped"
}

// writeLine leaves errors to the flush of out.
func writeLine(out *bufio.Writer, start, labels, end string, v float64) {
	b := out.AvailableBuffer()
	b = append(b, start...)
	b = append(b, labels...)
	b = append(b, end...)
	b = appendNumber(b, v)
	_, _ = out.Write(append(b, '\n'))
}

// appendNumber appends v in the shortest form that is read as v. Nearly all
// numbers are small counts, which have a shorter way there.
func appendNumber(b []byte, v float64) []byte {
	if v >= 0 && v < 1e6 && v == math.Trunc(v) {
		return strconv.AppendUint(b, uint64(v), 10)
	}
	return strconv.AppendFloat(b, v, 'g', -1, 64)
}
