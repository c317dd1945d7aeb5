package metrics

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
)

// textBuffer is how much text is written at once.
const textBuffer = 64 << 10

// Scrape is what all instruments said at one moment. It holds no lock, so no
// call waits for a reader that is slow to take the text.
type Scrape struct {
	families []family
	samples  []sample
	parts    [kindsOfParts][]partSample
	server   []*dto.MetricFamily
}

// family writes the series of models that have one name.
type family struct {
	name  string
	write func(*textWriter, *Scrape)
}

// Scrape reads all instruments once.
func (m *Metrics) Scrape() (*Scrape, error) {
	// The models come first, since a number of the server is about them.
	s := &Scrape{families: m.families, samples: m.models.read()}
	for k := range m.models.kinds {
		s.parts[k] = byName(s.samples, k)
	}
	var err error
	if s.server, err = m.server.Gather(); err != nil {
		return nil, fmt.Errorf("metrics: %w", err)
	}
	return s, nil
}

// WriteText writes the scrape to w in the text format of Prometheus, byte for
// byte as expfmt writes what Gather yields. A thousand models have ninety
// thousand lines. The package expfmt is too slow for them, since it checks and
// escapes each label on each line.
func (s *Scrape) WriteText(w io.Writer) error {
	out := &textWriter{Writer: bufio.NewWriterSize(w, textBuffer)}
	ours := s.families
	for _, f := range s.server {
		for ; len(ours) > 0 && ours[0].name < f.GetName(); ours = ours[1:] {
			ours[0].write(out, s)
		}
		if _, err := expfmt.MetricFamilyToText(out, f); err != nil {
			return fmt.Errorf("metrics: %w", err)
		}
	}
	for _, f := range ours {
		f.write(out, s)
	}
	if err := out.Flush(); err != nil {
		return fmt.Errorf("metrics: %w", err)
	}
	return nil
}

// newFamilies yields the metrics of models by name. A name with several rows
// has a family for each; the first that is shown writes the heading.
func newFamilies(m *models) []family {
	var all []family
	for i, r := range m.rows {
		all = append(all, family{r.name, rowWriter(i, r)})
	}
	for k, kind := range m.kinds {
		for i, r := range kind.rows {
			all = append(all, family{r.name, partWriter(k, i, r)})
		}
	}
	for i, r := range timingRows() {
		all = append(all, family{r.name, timingWriter(i, r)})
	}
	slices.SortStableFunc(all, func(a, b family) int { return cmp.Compare(a.name, b.name) })
	return all
}

// rowWriter writes row i.
func rowWriter(i int, r modelRow) func(*textWriter, *Scrape) {
	heading := heading(r.name, r.help, r.kind.ToDTO())
	var own strings.Builder
	for _, name := range slices.Sorted(maps.Keys(r.own)) {
		own.WriteString(label(name, r.own[name]) + ",")
	}
	start := r.name + "{" + own.String()
	return func(w *textWriter, scrape *Scrape) {
		for n := range scrape.samples {
			if s := &scrape.samples[n]; s.values != nil && finite(s.values[i]) {
				w.head(heading)
				w.line(s.values[i], start, s.text, "} ")
			}
		}
	}
}

// partWriter writes row i of kind k.
func partWriter(k, i int, r partRow) func(*textWriter, *Scrape) {
	heading := heading(r.name, r.help, r.kind.ToDTO())
	start := r.name + "{"
	return func(w *textWriter, scrape *Scrape) {
		for _, p := range scrape.parts[k] {
			if finite(p.values[i]) {
				w.head(heading)
				w.line(p.values[i], start, p.text, p.labels, "} ")
			}
		}
	}
}

// timingWriter writes the classic histograms of timing row i.
func timingWriter(i int, r timingRow) func(*textWriter, *Scrape) {
	heading := heading(r.name, r.help, dto.MetricType_HISTOGRAM.Enum())
	bucket, total, count := r.name+"_bucket{", r.name+"_sum{", r.name+"_count{"
	var ends [bounds + 1]string
	for i, limit := range timingBuckets() {
		ends[i] = `,le="` + string(appendNumber(nil, limit)) + `"} `
	}
	ends[bounds] = `,le="+Inf"} `
	return func(w *textWriter, scrape *Scrape) {
		for _, s := range scrape.samples {
			if s.timing == nil {
				continue
			}
			w.head(heading)
			c := s.timing[i].classic()
			for j, n := range c.buckets {
				w.line(float64(n), bucket, s.text, ends[j])
			}
			w.line(c.sum, total, s.text, "} ")
			w.line(float64(c.buckets[bounds]), count, s.text, "} ")
		}
	}
}

// heading is what stands before the series of a name. No help has a character
// to escape.
func heading(name, help string, kind *dto.MetricType) string {
	return "# HELP " + name + " " + help + "\n# TYPE " + name + " " + strings.ToLower(kind.String()) + "\n"
}

// label is a label as the text format writes it.
func label(name, value string) string {
	return name + `="` + strings.NewReplacer(`\`, `\\`, "\n", `\n`, `"`, `\"`).Replace(value) + `"`
}

// textWriter leaves errors to Flush, which yields the first one.
type textWriter struct {
	*bufio.Writer
	headed string // the last heading written
}

func (w *textWriter) head(heading string) {
	if w.headed != heading {
		w.headed = heading
		_, _ = w.WriteString(heading)
	}
}

// line writes a number behind pieces.
func (w *textWriter) line(v float64, pieces ...string) {
	b := w.AvailableBuffer()
	for _, piece := range pieces {
		b = append(b, piece...)
	}
	_, _ = w.Write(append(appendNumber(b, v), '\n'))
}

// appendNumber appends v in the shortest form that is read as v. Nearly all
// numbers are small counts, which have a shorter way there.
func appendNumber(b []byte, v float64) []byte {
	if v >= 0 && v < 1e6 && v == math.Trunc(v) {
		return strconv.AppendUint(b, uint64(v), 10)
	}
	return strconv.AppendFloat(b, v, 'g', -1, 64)
}
