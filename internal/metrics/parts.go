package metrics

import (
	"bytes"
	"maps"
	"math"
	"slices"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"

	"hindsight/internal/engine/account/classes"
	"hindsight/internal/engine/account/interval"
	"hindsight/internal/engine/figures"
)

// part is what a model has several of, such as an input: one of its kind in a scrape.
// It does not change after the scrape.
type part struct {
	name   string    // the value of its label
	text   string    // its label as the text format writes it, and a comma
	values []float64 // of each row of its kind
	counts []count   // of each row of its kind, in the series of one model
	by     uint64    // the model that gave it, by the number of its add
}

// parts are those of a series in one scrape, by their kinds.
type parts [kindsOfParts][]part

// of are those of a kind, none of a series that is not in the scrape.
func (p *parts) of(k int) []part {
	if p == nil {
		return nil
	}
	return p[k]
}

// partKind is a kind of parts. Its label sorts before those of a model.
type partKind struct {
	label string
	// most bounds the parts of a series: further ones are left out, in the order in
	// which they come. It matters to a series that models share too, since each of them
	// may have parts of its own.
	most int
	// shared says that models without series of their own show these parts together.
	// Otherwise they show none.
	shared bool
	count  func(*figures.Live) int
	// name appends the value of the label, which is the same at every scrape. A part
	// without one is left out.
	name func(dst []byte, p partOf) (name []byte, ok bool)
	rows []partRow
}

// partOf is part at of a kind of a model.
type partOf struct {
	model *figures.Live
	at    int
}

// partRow is a metric that a model has for each part of a kind.
type partRow struct {
	row[partOf]
	together together
}

// addParts takes the parts of a model into a series. What is not the first of its name
// is left out. What there is no room for is counted in mu.omitted.
func (m *models) addParts(s *series, live *figures.Live, own bool) {
	m.mu.adds++
	for k := range m.kinds {
		kind := &m.kinds[k]
		n := kind.count(live)
		if !own && !kind.shared {
			m.mu.omitted[k] += n
			continue
		}
		for at := range n {
			if own && len(s.parts[k]) == kind.most {
				m.mu.omitted[k] += n - at
				break
			}
			m.addPart(s, k, partOf{live, at}, own)
		}
	}
}

// addPart takes a part of kind k into a series.
func (m *models) addPart(s *series, k int, one partOf, own bool) {
	kind := &m.kinds[k]
	name, ok := kind.name(m.mu.name[:0], one)
	m.mu.name = name
	if !ok {
		return
	}
	if !utf8.Valid(name) {
		name = bytes.ToValidUTF8(name, []byte("?"))
	}
	p := s.part(k, kind, name)
	if p == nil {
		m.mu.omitted[k]++
		return
	}
	if p.by == m.mu.adds {
		return
	}
	p.by = m.mu.adds
	for j, r := range kind.rows {
		v := r.value(one)
		switch {
		case !own:
			v = r.together.join(p.values[j], v)
		case r.kind == counter:
			v = p.counts[j].show(v)
		}
		p.values[j] = v
	}
}

// beginParts makes room for as many parts as the last scrape had. That may still be
// printed.
func (s *series) beginParts(kinds *[kindsOfParts]partKind) {
	s.before, s.parts = s.parts, new(parts)
	n := 0
	for k := range kinds {
		before := s.before.of(k)
		if len(before) > 0 {
			s.parts[k] = make([]part, 0, len(before))
			n += len(before) * len(kinds[k].rows)
		}
	}
	s.room = make([]float64, n)
}

// part is the part of a kind that has a name, nil if there is no room for it.
func (s *series) part(k int, kind *partKind, name []byte) *part {
	there := s.parts[k]
	for i := range there {
		if there[i].name == string(name) {
			return &there[i]
		}
	}
	if len(there) == kind.most {
		return nil
	}
	n, added := len(kind.rows), part{}
	if before := s.partBefore(k, len(there), name); before != nil {
		added.name, added.text, added.counts = before.name, before.text, before.counts
	} else {
		added.name = string(name)
		added.text = label(kind.label, added.name) + ","
		added.counts = make([]count, n)
	}
	if len(s.room) < n {
		s.room = make([]float64, 8*n)
	}
	added.values, s.room = s.room[:n], s.room[n:]
	for j, r := range kind.rows {
		added.values[j] = r.together.start()
	}
	s.parts[k] = append(there, added)
	return &s.parts[k][len(there)]
}

// partBefore is the part of a kind that had a name at the last scrape, nil if none had. A part
// has the same place, at, in nearly every scrape.
func (s *series) partBefore(k, at int, name []byte) *part { return named(s.before.of(k), at, name) }

// named is the part with a name, which is most often the part at a place, nil if there is none.
func named(parts []part, at int, name []byte) *part {
	if at < len(parts) && parts[at].name == string(name) {
		return &parts[at]
	}
	for i := range parts {
		if parts[i].name == string(name) {
			return &parts[i]
		}
	}
	return nil
}

// partSample is a part of a sample.
type partSample struct {
	text   string // the label of the part
	labels string // of the sample
	values []float64
}

// byName yields the parts of a kind in the order in which Prometheus sorts them: first
// by the value of their label, then as the samples are. It costs O(n + u log u) for n
// parts with u values.
func byName(samples []sample, k int) []partSample {
	n, ends := 0, make(map[string]int)
	for i := range samples {
		for _, p := range samples[i].parts.of(k) {
			n++
			ends[p.name]++
		}
	}
	end := 0
	for _, name := range slices.Sorted(maps.Keys(ends)) {
		end += ends[name]
		ends[name] = end
	}
	all := make([]partSample, n)
	for i := range slices.Backward(samples) {
		for _, p := range samples[i].parts.of(k) {
			ends[p.name]--
			all[ends[p.name]] = partSample{p.text, samples[i].text, p.values}
		}
	}
	return all
}

// kindsOfParts is how many partKinds there are.
const kindsOfParts = 4

// partKinds are the kinds of parts that a model may have.
func partKinds() [kindsOfParts]partKind {
	return [kindsOfParts]partKind{levels(), inputs(), classParts(), bins()}
}

// levels are those of the intervals. Ten are enough: a spec has at most eight.
func levels() partKind {
	of := func(name, help string, together together, value func(*interval.Statistics) float64) partRow {
		return partRow{row[partOf]{name, help, gauge, func(p partOf) float64 { return value(&p.model.Intervals[p.at]) }}, together}
	}
	return partKind{
		label: labelCoverage, most: 10, shared: true,
		count: func(m *figures.Live) int { return len(m.Intervals) },
		name: func(dst []byte, p partOf) ([]byte, bool) {
			v := p.model.Intervals[p.at].Level
			return appendNumber(dst, v), finite(v)
		},
		rows: []partRow{
			of("hindsight_interval_mean_score", "Mean interval score: the width, and 2/(1 - coverage) times what the label missed the interval by.", nothing, func(i *interval.Statistics) float64 { return i.MeanScore }),
			of("hindsight_interval_mean_width", "Mean width of the intervals.", nothing, func(i *interval.Statistics) float64 { return i.MeanWidth }),
			// PromQL computes with values and not with labels.
			of("hindsight_interval_nominal_coverage", "The label coverage as a number.", least, func(i *interval.Statistics) float64 { return i.Level }),
			of("hindsight_interval_realised_coverage", "Share of labels inside the intervals.", least, func(i *interval.Statistics) float64 { return i.Coverage }),
			of("hindsight_interval_recent_coverage", "Share of labels inside the last 1000 judged intervals.", least, func(i *interval.Statistics) float64 {
				if i.Judged < recent {
					return math.NaN()
				}
				return i.RecentCoverage
			}),
		},
	}
}

// inputs are the named ones. Those of different models have nothing in common.
func inputs() partKind {
	of := func(name, help string, kind prometheus.ValueType, value func(*figures.InputStatistics) float64) partRow {
		return partRow{row[partOf]{name, help, kind, func(p partOf) float64 { return value(&p.model.Inputs[p.at]) }}, nothing}
	}
	return partKind{
		label: labelInput, most: 32,
		count: func(m *figures.Live) int { return len(m.Inputs) },
		name:  func(dst []byte, p partOf) ([]byte, bool) { return append(dst, p.model.Inputs[p.at].Name...), true },
		rows: []partRow{
			of("hindsight_input_deviation", "Standard deviation of the input's values.", gauge, func(i *figures.InputStatistics) float64 { return known(i.NumbersKnown, i.Deviation) }),
			of("hindsight_input_mean", "Mean of the input's values.", gauge, func(i *figures.InputStatistics) float64 { return known(i.NumbersKnown, i.Mean) }),
			of("hindsight_input_missing_total", "Observed records without a value of the input.", counter, func(i *figures.InputStatistics) float64 { return float64(i.Missing) }),
			of("hindsight_input_outside_total", "Values outside of the learned range, or of an unknown category, on arrival.", counter, func(i *figures.InputStatistics) float64 { return float64(i.Outside) }),
			of("hindsight_input_seen_total", "Observed records with a value of the input.", counter, func(i *figures.InputStatistics) float64 { return float64(i.Seen) }),
			of("hindsight_input_shift", "Population stability index of the last 512 records against all before: above 0.1 the input has moved, above 0.25 by much.", gauge, func(i *figures.InputStatistics) float64 { return known(i.ShiftKnown, i.Shift) }),
		},
	}
}

// classParts are the classes of a classifier.
func classParts() partKind {
	of := func(name, help string, value func(*classes.Class) uint64) partRow {
		return partRow{row[partOf]{name, help, counter, func(p partOf) float64 { return float64(value(&p.model.ClassAccount.Classes[p.at])) }}, nothing}
	}
	return partKind{
		label: labelClass, most: 32,
		count: func(m *figures.Live) int {
			if m.ClassAccount == nil {
				return 0
			}
			return min(len(m.ClassAccount.Classes), len(m.ClassAccount.Names))
		},
		name: func(dst []byte, p partOf) ([]byte, bool) {
			return append(dst, p.model.ClassAccount.Names[p.at]...), true
		},
		rows: []partRow{
			of("hindsight_class_errors_total", "Observations of the class with another one predicted.", func(c *classes.Class) uint64 { return c.Errors }),
			of("hindsight_class_observations_total", "Observations of the class.", func(c *classes.Class) uint64 { return c.Observed }),
			of("hindsight_class_predictions_total", "Observations for which the class was predicted.", func(c *classes.Class) uint64 { return c.Predicted }),
		},
	}
}

// bins are those of the reliability table of a classifier.
func bins() partKind {
	of := func(name, help string, value func(*classes.Bin) float64) partRow {
		return partRow{row[partOf]{name, help, counter, func(p partOf) float64 { return value(&p.model.ClassAccount.Reliability[p.at]) }}, nothing}
	}
	return partKind{
		label: labelBin, most: classes.Bins,
		count: func(m *figures.Live) int {
			if m.ClassAccount == nil {
				return 0
			}
			return classes.Bins
		},
		name: func(dst []byte, p partOf) ([]byte, bool) { return appendNumber(dst, float64(p.at)/classes.Bins), true },
		rows: []partRow{
			of("hindsight_reliability_expected_total", "Sum of the probabilities in the bin.", func(b *classes.Bin) float64 { return b.Expected }),
			of("hindsight_reliability_found_total", "Probabilities in the bin whose class was observed.", func(b *classes.Bin) float64 { return float64(b.Found) }),
			of("hindsight_reliability_probabilities_total", "Probabilities in the bin that begins at the label. Each class of each prediction has one.", func(b *classes.Bin) float64 { return float64(b.Members) }),
		},
	}
}
