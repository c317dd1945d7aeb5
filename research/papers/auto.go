package papers

import (
	"strconv"

	"hindsight/cmd/research/markdown"
)

// automatic is the part of auto: beside the best other learner and the baselines,
// and with late labels.
func automatic(m *markdown.Report, results []*Result) {
	first := true
	for _, r := range results {
		auto := r.entry(NameAuto)
		if auto == nil {
			continue
		}
		if first {
			m.Paragraph("## auto")
			m.Paragraph("`auto` beside the best other learner of each stream: loss, or errors if the labels are signs.")
			m.Head("stream", "`auto`", "best other", "which", NameMean, NameLast, "skill", "inside 90 %", "least of 500", "inside 99 %", "least of 500")
			first = false
		}
		m.Row(r.beside(auto)...)
	}
	if first {
		return
	}
	m.Line()
	late(m, results)
}

// entry returns the entry of that name, nil if there is none.
func (r *Result) entry(name string) *Entry {
	for i := range r.Entries {
		if r.Entries[i].Name == name {
			return &r.Entries[i]
		}
	}
	return nil
}

// beside is the row of auto on a stream.
func (r *Result) beside(auto *Entry) []string {
	other := Entry{Score: NewScore(nil)}
	for _, e := range r.Entries {
		if e.Name == NameAuto || e.Baseline || !r.competes(e) {
			continue
		}
		if other.Rows == 0 || e.Main(r.Stream) < other.Main(r.Stream) {
			other = e
		}
	}
	which := markdown.Absent
	if other.Rows > 0 {
		which = other.label()
	}
	cells := []string{r.link(), r.marked(*auto), r.marked(other), which}
	for _, name := range []string{NameMean, NameLast} {
		if e := r.entry(name); e != nil {
			cells = append(cells, r.marked(*e))
		} else {
			cells = append(cells, markdown.Absent)
		}
	}
	cells = append(cells, markdown.Digits(auto.Skill, 3))
	for _, level := range Coverages() {
		i := auto.interval(level)
		cells = append(cells, markdown.Percent(i.Inside), markdown.Percent(i.Least))
	}
	return cells
}

// link is the name of a stream, with a link to its figure.
func (r *Result) link() string { return "[" + r.Stream.Name + "](" + r.Stream.Name + ".svg)" }

// marked writes the number by which learners are compared. It is bold if it is the
// smallest of the stream.
func (r *Result) marked(e Entry) string {
	cell := r.shown(e)
	if cell != markdown.Absent && r.competes(e) && e.Main(r.Stream) == r.least() {
		return "**" + cell + "**"
	}
	return cell
}

// late is the table of late labels.
func late(m *markdown.Report, results []*Result) {
	first := true
	for _, r := range results {
		for _, l := range r.Late {
			if first {
				m.Paragraph("What `auto` served with labels that are delay rounds late; squared loss.")
				m.Head("stream", "rows", "delay", "loss", "errors", NameMean, NameLast, "skill")
				first = false
			}
			m.Row(r.link(), markdown.Thousands(l.Rows), strconv.Itoa(l.Delay), markdown.Digits(l.Loss, 3), markdown.Percent(l.ErrorRate),
				markdown.Digits(l.RunningMean, 3), markdown.Digits(l.LastLabel, 3), markdown.Digits(l.Skill, 3))
		}
	}
	if !first {
		m.Line()
	}
}
