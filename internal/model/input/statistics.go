package input

import "fmt"

// Statistics is what has been learned of one input.
type Statistics struct {
	// Seen and Missing count the observed records with and without a value.
	Seen, Missing uint64
	// Categories is how many categories have a feature of their own.
	Categories int
	// Keys is how many keys have a text: the newest, at most as many as the model remembers.
	Keys int
	// Outside counts the values that lay outside of what had been learned when they
	// came: outside of the range of a number, of the pooled range of a vector in any
	// place, the categories that were not known, and of a key alone the keys that were not
	// known. It is 0 for booleans, hashes, times and texts of words.
	Outside uint64
	// Low, High, Mean and Deviation describe the values as they came, of all
	// numbers of a vector, of 0 and 1 for booleans, of seconds since 1970 in UTC for
	// times. They are 0 unless NumbersKnown: before the first, for categories and for texts.
	Low, High, Mean, Deviation float64
	NumbersKnown               bool
	// Shift is the population stability index, if ShiftKnown.
	Shift      float64
	ShiftKnown bool
}

// OutsideShare is Outside over Seen, 0 before the first.
func (s Statistics) OutsideShare() float64 {
	if s.Seen == 0 {
		return 0
	}
	return float64(s.Outside) / float64(s.Seen)
}

// Observations is how many records were learned.
func (e *Encoder) Observations() uint64 { return e.n }

// Statistics is what has been learned of the input i, at a cost of O(1).
func (e *Encoder) Statistics(i int) Statistics {
	l := &e.inputs[i]
	s := Statistics{
		Seen: e.n - l.missing, Missing: l.missing, Outside: l.outside,
		Low: l.summary.low, High: l.summary.high, Mean: l.summary.Mean.Value(), Deviation: l.summary.Deviation(float64(l.summary.n)),
		NumbersKnown: l.summary.n > 0,
	}
	if l.categories != nil {
		s.Categories = len(l.categories.names)
	}
	if e.texts != nil {
		s.Keys = int(e.texts.counts[i])
	}
	if l.shift != nil {
		s.Shift, s.ShiftKnown = l.shift.index()
	}
	return s
}

// Category is the category k of the input i in the order of first appearance, and
// how often it was observed. There are Statistics.Categories of them.
func (e *Encoder) Category(i, k int) (name string, count uint64) {
	c := e.inputs[i].categories
	return c.names[k], c.counts[k]
}

// Names are the names of the features, as the package has them.
func (e *Encoder) Names() []string {
	names := make([]string, 0, e.schema.dimension)
	for i := range e.schema.fields {
		f := &e.schema.fields[i]
		names = e.inputs[i].appendNames(names, f)
		if f.indicates || f.categorizes {
			names = append(names, f.name+".missing")
		}
		if f.hasKey {
			names = append(names, f.name+".key")
		}
	}
	return names
}

func (l *learned) appendNames(names []string, f *field) []string {
	switch f.kind {
	case oneHot:
		for k := range f.limit {
			if k < len(l.categories.names) {
				names = append(names, f.name+"="+l.categories.names[k])
			} else {
				names = append(names, fmt.Sprintf("%s[%d]", f.name, k))
			}
		}
		names = append(names, f.name+".other")
	case hashed:
		for k := range f.limit {
			names = append(names, fmt.Sprintf("%s#%d", f.name, k))
		}
	case keyed:
	case words:
		for k := range f.limit {
			names = append(names, fmt.Sprintf("%s#%d", f.name, k))
		}
		names = append(names, f.name+".words")
	case moment:
		for c, name := range cycleNames() {
			if f.cycles[c] {
				names = append(names, f.name+"."+name+".sin", f.name+"."+name+".cos")
			}
		}
		if f.trend {
			names = append(names, f.name+".trend")
		}
	case vector:
		for k := range f.limit {
			names = append(names, fmt.Sprintf("%s[%d]", f.name, k))
		}
	default:
		names = append(names, f.name)
	}
	return names
}
