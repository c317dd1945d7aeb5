package input

import (
	"math"
	"slices"
	"unicode/utf8"

	"hindsight/internal/model"
	"hindsight/internal/model/codec"
	"hindsight/internal/model/compensated"
)

const (
	// The byte that begins every state.
	stateVersion = 1
	// (2e100)² each, and 2⁶² of them.
	maxSquares = 1e224
	// Sums of counts do not overflow.
	maxCount = 1 << 50
)

// Visit visits the whole state. Reading wants an encoder without records of the same schema.
//
// The state is, in little-endian numbers of 8 bytes unless it says otherwise:
//
//	a byte 1
//	records n
//	for every input: how many were missing
//	  numeric, vector, a key alone: how many were outside
//	  all but categorical and text, if one was seen: low, high, mean in two parts, squares
//	  time, if one was seen: seconds, nanoseconds (4 bytes), minutes of offset (2)
//	  categorical by columns: how many (4 bytes), for each: length (2), text, count; and
//	    how many have no column
//	  all but time and text: the numbers of before (11), of recent (11), of open (11)
//	  numeric, vector: the first numbers, in the order in which they came, as long as
//	    fewer than 100 were seen; after that the 9 edges
//	with keys: how many texts (4 bytes), for each, the least recently observed first: the
//	  place of its input (2), length (2), text
//	for every feature that may be replaced by its mean: the mean in two parts
func (e *Encoder) Visit(v *codec.Visitor) {
	v.Version(stateVersion)
	visitCount(v, maxCount, &e.n)
	for i := range e.inputs {
		f, l := &e.schema.fields[i], &e.inputs[i]
		if grown := l.visit(v, f, e.n); v.Reading() {
			e.grown += grown
		}
		if v.Err() != nil {
			return
		}
	}
	e.visitTexts(v)
	for i := range e.schema.fields {
		f, l := &e.schema.fields[i], &e.inputs[i]
		if !f.indicates {
			continue
		}
		for k := range f.values() {
			mean := &e.means[f.mean+k]
			v.Within(2*model.MaxMagnitude, &mean.High, &mean.Low)
			if v.Reading() && l.missing == e.n && (*mean != compensated.Sum{} || math.Signbit(mean.High) || math.Signbit(mean.Low)) {
				v.Corrupt("a mean of nothing")
			}
		}
	}
}

func visitCount(v *codec.Visitor, most uint64, n *uint64) {
	if v.Uint64(n); v.Reading() && *n > most {
		v.Corrupt("a count of %d, want at most %d", *n, most)
	}
}

func (f *field) measures() bool { return f.kind == numeric || f.kind == vector }

func (f *field) summarizes() bool {
	switch f.kind {
	case oneHot, hashed, keyed, words:
		return false
	default:
		return true
	}
}

// visit visits what was learned of one input in n records. What it returns is how many
// bytes the state grows by, if v reads.
func (l *learned) visit(v *codec.Visitor, f *field, n uint64) (grown uint64) {
	visitCount(v, n, &l.missing)
	seen := n - l.missing
	if v.Reading() && l.missing > 0 && f.rejects {
		v.Corrupt("a missing value that is rejected")
	}
	if f.measures() || f.kind == keyed {
		visitCount(v, seen, &l.outside)
	}
	if v.Err() != nil {
		return 0
	}
	if seen > 0 && f.summarizes() {
		l.summary.visit(v, f, seen)
	}
	if seen > 0 && f.kind == moment {
		visitTime(v, &l.first)
	}
	if l.categories != nil {
		grown = l.categories.visit(v, f.limit, seen)
		if v.Reading() {
			l.outside = uint64(len(l.categories.names)) + l.categories.other
		}
	}
	if l.shift != nil {
		l.shift.visit(v, f, n, l.missing)
		grown += l.shift.size()
	}
	return grown
}

func (s *summary) visit(v *codec.Visitor, f *field, seen uint64) {
	limit := float64(model.MaxMagnitude)
	switch f.kind {
	case boolean:
		limit = 1
	case moment:
		limit = maxSeconds + 1
	default:
	}
	v.Within(limit, &s.low, &s.high)
	v.Within(2*limit, &s.Mean.High, &s.Mean.Low)
	v.Within(maxSquares, &s.Squares)
	if !v.Reading() {
		return
	}
	s.n = seen
	if f.kind == vector {
		s.n *= uint64(f.limit)
	}
	if !(s.low <= s.high) || !(s.Squares >= 0) {
		v.Corrupt("a range from %g to %g, a sum of squares of %g", s.low, s.high, s.Squares)
	}
}

func visitTime(v *codec.Visitor, t *Time) {
	seconds, nanos, offset := uint64(t.Seconds), uint32(t.Nanos), uint16(t.Offset)
	v.Uint64(&seconds)
	v.Uint32(&nanos)
	v.Uint16(&offset)
	if !v.Reading() {
		return
	}
	*t = Time{Seconds: int64(seconds), Nanos: int32(nanos), Offset: int16(offset)}
	if !t.valid() {
		v.Corrupt("a first time that is out of range")
	}
}

// visit visits categories of seen values, and returns how many bytes those that it reads take.
func (c *categories) visit(v *codec.Visitor, most int, seen uint64) (grown uint64) {
	n := uint32(len(c.names))
	// A category takes 10 bytes at least.
	if v.Uint32(&n); v.Reading() && (int(n) > most || int(n) > v.Left()/10) {
		v.Corrupt("%d categories", n)
	}
	var sum uint64
	for k := range int(n) {
		if v.Err() != nil {
			return 0
		}
		var name string
		var count uint64
		if k < len(c.names) {
			name, count = c.names[k], c.counts[k]
		}
		length := uint16(len(name))
		v.Uint16(&length)
		v.Text(&name, int(length))
		visitCount(v, seen, &count)
		if !v.Reading() {
			continue
		}
		sum = min(sum+count, maxCount+1) // No sum of counts wraps around.
		if _, twice := c.columns[name]; twice || count == 0 || len(name) > maxText || !utf8.ValidString(name) {
			v.Corrupt("a category that cannot be")
			return 0
		}
		grown += c.append(name, count)
	}
	visitCount(v, seen, &c.other)
	if v.Reading() && (sum+c.other != seen || (c.other > 0 && int(n) < most)) {
		v.Corrupt("categories of %d values and %d without one, of %d", sum, c.other, seen)
	}
	return grown
}

// visit visits the bins of n records, of which some were missing.
func (s *shift) visit(v *codec.Visitor, f *field, n, missing uint64) {
	for _, counts := range [...]*[bins]uint64{&s.before, &s.recent, &s.open} {
		for i := range counts {
			visitCount(v, n, &counts[i])
		}
	}
	if v.Reading() {
		s.checkBins(v, f, n, missing)
	}
	switch {
	case v.Err() != nil:
	case !s.sampled:
		v.FloatsWithin(model.MaxMagnitude, s.sample)
	case f.measures():
		if v.FloatsWithin(model.MaxMagnitude, s.edges[:]); v.Reading() && !slices.IsSorted(s.edges[:]) {
			v.Corrupt("edges that do not ascend")
		}
	}
}

// checkBins checks the bins that were read, and makes room for the sample.
func (s *shift) checkBins(v *codec.Visitor, f *field, n, missing uint64) {
	before, recent := total(&s.before), total(&s.recent)
	s.opened = total(&s.open)
	sample := uint64(0)
	if seen := n - missing; f.measures() && seen < sampled {
		sample = seen
	} else {
		s.sampled = true
	}
	if s.opened >= window || (recent != 0 && recent != window) || (before != 0 && recent == 0 && !f.measures()) ||
		before+recent+s.opened+sample != n || s.before[missingBin]+s.recent[missingBin]+s.open[missingBin] != missing {
		v.Corrupt("bins of %d, %d, %d records, of %d", before, recent, s.opened, n)
	}
	if !s.sampled && recent+s.opened != 0 {
		v.Corrupt("bins before their edges")
	}
	if sample > 0 && v.Err() == nil {
		s.sample = make([]float64, sample, sampled)
	}
}
