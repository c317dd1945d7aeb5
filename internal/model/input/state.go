package input

import (
	"encoding/binary"
	"errors"
	"fmt"
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
	// What no sum of squares is above: (2e100)² each, and 2⁶² of them.
	maxSquares = 1e224
	// What no count is above, so that sums of them do not overflow.
	maxCount = 1 << 50
)

// AppendBinary appends the whole state to dst, so that Restore on an encoder of the
// same schema continues bit for bit. It allocates nothing when dst has room.
//
// The state is, in little-endian numbers of 8 bytes unless it says otherwise:
//
//	a byte 1
//	records n
//	for every input: how many were missing
//	  numeric, vector: how many were outside
//	  all but categorical, if one was seen: low, high, mean in two parts, squares
//	  time, if one was seen: seconds, nanoseconds (4 bytes), minutes of offset (2)
//	  categorical by columns: how many (4 bytes), for each: length (2), text, count; and
//	    how many found no column
//	  all but time: the numbers of before (11), of recent (11), of open (11)
//	  numeric, vector: the first numbers, in the order in which they came, as long as
//	    fewer than 100 were seen; after that the 9 edges
//	for every feature that may be replaced by its mean: the mean in two parts
func (e *Encoder) AppendBinary(dst []byte) ([]byte, error) {
	dst = codec.AppendUint64(append(dst, stateVersion), e.n)
	for i := range e.inputs {
		dst = e.inputs[i].appendBinary(dst, &e.schema.fields[i])
	}
	for _, mean := range e.means {
		dst = codec.AppendFloats(dst, mean.High, mean.Low)
	}
	return dst, nil
}

func (l *learned) appendBinary(dst []byte, f *field) []byte {
	dst = codec.AppendUint64(dst, l.missing)
	if f.measures() {
		dst = codec.AppendUint64(dst, l.outside)
	}
	if s := &l.summary; s.n > 0 {
		dst = codec.AppendFloats(dst, s.low, s.high, s.mean.High, s.mean.Low, s.squares)
		if f.kind == moment {
			dst = codec.AppendUint64(dst, uint64(l.first.Seconds))
			dst = binary.LittleEndian.AppendUint32(dst, uint32(l.first.Nanos))
			dst = binary.LittleEndian.AppendUint16(dst, uint16(l.first.Offset))
		}
	}
	if c := l.categories; c != nil {
		dst = binary.LittleEndian.AppendUint32(dst, uint32(len(c.names)))
		for k, name := range c.names {
			dst = binary.LittleEndian.AppendUint16(dst, uint16(len(name)))
			dst = append(dst, name...)
			dst = codec.AppendUint64(dst, c.counts[k])
		}
		dst = codec.AppendUint64(dst, c.other)
	}
	s := l.shift
	if s == nil {
		return dst
	}
	for _, counts := range [...]*[bins]uint64{&s.before, &s.recent, &s.open} {
		for _, n := range counts {
			dst = codec.AppendUint64(dst, n)
		}
	}
	switch {
	case !s.sampled:
		return codec.AppendFloats(dst, s.sample...)
	case f.measures():
		return codec.AppendFloats(dst, s.edges[:]...)
	default:
		return dst
	}
}

// measures tells whether the values are numbers with a range and edges.
func (f *field) measures() bool { return f.kind == numeric || f.kind == vector }

// Restore replaces the state by one that AppendBinary wrote. It takes any bytes, and
// refuses those that cannot be a state with an error that wraps
// model.ErrCorruptState. On an error the state is as it was.
func (e *Encoder) Restore(state []byte) error {
	r := &stateReader{Reader: codec.NewReader(state)}
	restored := NewEncoder(e.schema)
	if b := r.Bytes(1); b != nil && b[0] != stateVersion {
		r.fail("version %d", b[0])
	}
	restored.n = r.count(maxCount)
	for i := range restored.inputs {
		if restored.grown += r.input(&restored.inputs[i], &e.schema.fields[i], restored.n); r.failed() != nil {
			return fmt.Errorf("input %q: %w: %w", e.schema.fields[i].name, r.failed(), model.ErrCorruptState)
		}
	}
	for i := range e.schema.fields {
		f, l := &e.schema.fields[i], &restored.inputs[i]
		if !f.indicates {
			continue
		}
		for k := range f.values() {
			r.mean(&restored.means[f.mean+k], l.missing < restored.n)
		}
	}
	if err := errors.Join(r.err, r.End()); err != nil {
		return fmt.Errorf("inputs: %w: %w", err, model.ErrCorruptState)
	}
	*e = *restored
	return nil
}

// stateReader is a codec.Reader that knows what a state can be. Its first failure
// sticks.
type stateReader struct {
	*codec.Reader
	err error
}

func (r *stateReader) fail(format string, args ...any) {
	if r.failed() == nil {
		r.err = fmt.Errorf(format, args...)
	}
}

func (r *stateReader) failed() error { return errors.Join(r.err, r.Err()) }

// count reads a count of at most most.
func (r *stateReader) count(most uint64) uint64 {
	n := r.Uint64()
	if n > most {
		r.fail("a count of %d, want at most %d", n, most)
		return 0
	}
	return n
}

// mean reads a mean, which is 0 unless something was seen.
func (r *stateReader) mean(m *compensated.Sum, seen bool) {
	r.Within(2*model.MaxMagnitude, &m.High, &m.Low)
	if !seen && (*m != compensated.Sum{} || math.Signbit(m.High) || math.Signbit(m.Low)) {
		r.fail("a mean of nothing")
	}
}

// input reads what was learned of one input in n records. It returns how many bytes
// the state has grown by.
func (r *stateReader) input(l *learned, f *field, n uint64) (grown uint64) {
	l.missing = r.count(n)
	seen := n - l.missing
	if l.missing > 0 && f.refuses {
		r.fail("a missing value that is refused")
	}
	if f.measures() {
		l.outside = r.count(seen)
	}
	if seen > 0 && f.kind != oneHot && f.kind != hashed {
		r.summary(&l.summary, f, seen)
	}
	if seen > 0 && f.kind == moment {
		r.first(&l.first)
	}
	if l.categories != nil {
		grown = r.categories(l, f, seen)
	}
	if l.shift != nil {
		r.shift(l.shift, f, n, l.missing)
		grown += l.shift.size()
	}
	return grown
}

func (r *stateReader) summary(s *summary, f *field, seen uint64) {
	s.n = seen
	if f.kind == vector {
		s.n *= uint64(f.limit)
	}
	limit := float64(model.MaxMagnitude)
	switch f.kind {
	case boolean:
		limit = 1
	case moment:
		limit = maxSeconds + 1
	default:
	}
	r.Within(limit, &s.low, &s.high)
	r.Within(2*limit, &s.mean.High, &s.mean.Low)
	r.Within(maxSquares, &s.squares)
	if !(s.low <= s.high) || !(s.squares >= 0) {
		r.fail("a range from %g to %g, a sum of squares of %g", s.low, s.high, s.squares)
	}
}

func (r *stateReader) first(t *Time) {
	t.Seconds, t.Nanos = int64(r.Uint64()), int32(r.Uint32())
	if b := r.Bytes(2); b != nil {
		t.Offset = int16(binary.LittleEndian.Uint16(b))
	}
	if !t.valid() {
		r.fail("a first time that is out of range")
	}
}

func (r *stateReader) categories(l *learned, f *field, seen uint64) (grown uint64) {
	n := int(r.Uint32())
	// A category takes 10 bytes at least.
	if n > f.limit || n > r.Len()/10 {
		r.fail("%d categories", n)
		return 0
	}
	c := l.categories
	var sum uint64
	for range n {
		var text []byte
		if b := r.Bytes(2); b != nil {
			text = r.Bytes(int(binary.LittleEndian.Uint16(b)))
		}
		count := r.count(seen)
		sum = min(sum+count, maxCount+1) // No sum of counts wraps around.
		if _, twice := c.columns[string(text)]; twice || count == 0 || len(text) > maxText || !utf8.Valid(text) {
			r.fail("a category that cannot be")
		}
		if r.failed() != nil {
			return 0
		}
		grown += c.append(string(text), count)
	}
	c.other = r.count(seen)
	if sum+c.other != seen || (c.other > 0 && n < f.limit) {
		r.fail("categories of %d values and %d without one, of %d", sum, c.other, seen)
	}
	l.outside = uint64(n) + c.other
	return grown
}

func (r *stateReader) shift(s *shift, f *field, n, missing uint64) {
	for _, counts := range [...]*[bins]uint64{&s.before, &s.recent, &s.open} {
		for i := range counts {
			counts[i] = r.count(n)
		}
	}
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
		r.fail("bins of %d, %d, %d records, of %d", before, recent, s.opened, n)
	}
	switch {
	case !s.sampled:
		if recent+s.opened != 0 {
			r.fail("bins before their edges")
		}
		r.sample(s, int(sample))
	case f.measures():
		r.FloatsWithin(model.MaxMagnitude, s.edges[:])
		if !slices.IsSorted(s.edges[:]) {
			r.fail("edges that do not ascend")
		}
	}
}

func (r *stateReader) sample(s *shift, n int) {
	if n == 0 {
		return
	}
	s.sample = make([]float64, n, sampled)
	r.FloatsWithin(model.MaxMagnitude, s.sample)
}
