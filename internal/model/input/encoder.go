package input

import (
	"math"
	"slices"

	"hindsight/internal/model/compensated"
	"hindsight/internal/model/exponential"
	"hindsight/internal/model/moments"
	"hindsight/internal/model/trig"
)

// Encoder turns records into features. It is a deterministic state machine: the same
// records in the same order give the same state, bit for bit.
//
// Encode and all methods that only read may run concurrently with each other; Learn
// and Restore need exclusive access.
type Encoder struct {
	schema *Schema
	// n counts the records that were learned.
	n      uint64
	inputs []learned
	// means are the means of the features of the inputs that indicate missing values.
	means []compensated.Sum
	// texts has the texts of keys, nil without keys.
	texts *texts
	// scratch has the features of one input that Learn needs.
	scratch []float64
	// fixed is the memory that does not grow, grown what has been added to it.
	fixed, grown uint64
}

type learned struct {
	missing uint64
	// outside counts the values that lay outside of what had been learned when they
	// came: of the range of a number, of a vector's in any place, of the categories, of the keys.
	outside    uint64
	summary    summary
	first      Time
	categories *categories
	shift      *shift
}

// NewEncoder makes an encoder that has learned nothing.
func NewEncoder(s *Schema) *Encoder {
	e := &Encoder{schema: s, inputs: make([]learned, len(s.fields)), means: make([]compensated.Sum, s.means)}
	for i := range s.fields {
		f, l := &s.fields[i], &e.inputs[i]
		if f.kind == oneHot {
			l.categories = &categories{columns: make(map[string]int)}
		}
		if f.kind != moment && f.kind != words {
			l.shift = &shift{sampled: f.kind != numeric && f.kind != vector}
		}
	}
	if s.keys > 0 {
		e.texts = newTexts(s.keys, len(s.fields))
	}
	e.scratch = make([]float64, s.widest)
	e.fixed = s.fixedBytes()
	return e
}

// Nominal sizes, in bytes, of what the state is made of: of the input with its
// shift, and of a category beside its text.
const (
	sizeOfEncoder  = 128
	sizeOfLearned  = 560
	sizeOfCategory = 72
)

// Schema is the schema of the records.
func (e *Encoder) Schema() *Schema { return e.schema }

// Size is the memory that the state takes, in bytes, at a cost of O(1).
func (e *Encoder) Size() uint64 {
	size := e.fixed + e.grown
	if e.texts != nil {
		size += e.texts.size()
	}
	return size
}

// Encode appends the features and the tokens of an accepted record to dst, by what has been learned.
// It costs O(Dimension + Tokens) and allocates only when dst has no room.
func (e *Encoder) Encode(dst []float64, r *Record) []float64 {
	n, size := len(dst), e.schema.dimension+e.schema.Tokens()
	dst = slices.Grow(dst, size)[:n+size]
	x := dst[n:]
	clear(x)
	for i := range e.schema.fields {
		f, v := &e.schema.fields[i], &r.values[i]
		out := x[f.from:f.to]
		if f.hasKey {
			out[len(out)-1] = float64(v.key())
			out = out[:len(out)-1]
		}
		switch {
		case v.kind != Missing && f.kind == words:
			tokens := x[e.schema.dimension+f.text*e.schema.tokens:][:e.schema.tokens]
			v.countWords(out[:f.values()], tokens, uint64(f.text))
		case v.kind != Missing:
			e.inputs[i].encode(f, out[:f.values()], r, v)
		case f.indicates:
			for k, mean := range e.means[f.mean : f.mean+f.values()] {
				out[k] = mean.Value()
			}
			out[len(out)-1] = 1
		case f.categorizes:
			out[len(out)-1] = 1
		}
	}
	return dst
}

func (l *learned) encode(f *field, out []float64, r *Record, v *Value) {
	switch f.kind {
	case numeric:
		out[0] = f.transform(v.number())
	case boolean:
		out[0] = v.number()
	case oneHot:
		column, known := l.categories.column(v)
		if !known {
			column = len(out) - 1
		}
		out[column] = 1
	case hashed:
		bucket, sign := bucketOf(v.hash(), f.limit)
		out[bucket] = sign
	case moment:
		l.encodeTime(f, out, v.time())
	case keyed, words:
	default:
		copy(out, r.list(v))
	}
}

func (f *field) transform(v float64) float64 {
	v = max(f.low, min(v, f.high))
	if f.log1p {
		v = symmetricLog1p(v)
	}
	return v
}

func (v *Value) hash() uint64 {
	if v.kind == Text {
		return Hash(v.text)
	}
	var room [32]byte
	return Hash(v.appendText(room[:0]))
}

func (l *learned) encodeTime(f *field, out []float64, t Time) {
	var angles, sines, cosines [cycles]float64
	n := 0
	for c, chosen := range f.cycles {
		if chosen {
			angles[n] = cycle(c).angle(t)
			n++
		}
	}
	trig.Sincos(sines[:n], cosines[:n], angles[:n])
	for k := range n {
		out[2*k], out[2*k+1] = sines[k], cosines[k]
	}
	if f.trend && l.summary.n > 0 {
		out[2*n] = t.days(l.first)
	}
}

// Learn takes an accepted record in that was observed. It costs O(Dimension), and
// allocates for a new category or key alone, and once for the bins of a number.
func (e *Encoder) Learn(r *Record) {
	e.n++
	for i := range e.schema.fields {
		f, l, v := &e.schema.fields[i], &e.inputs[i], &r.values[i]
		if v.kind == Missing {
			// A missing category has a key without a text.
			l.missing++
			if l.shift != nil {
				l.shift.addMissing()
			}
			continue
		}
		if f.indicates {
			e.learnMeans(f, l, r, v)
		}
		known := f.hasKey && e.texts.learn(i, v)
		if f.kind == keyed && !known {
			l.outside++
		}
		e.learnValue(f, l, r, v)
	}
}

func (e *Encoder) learnMeans(f *field, l *learned, r *Record, v *Value) {
	x := e.scratch[:f.values()]
	clear(x)
	l.encode(f, x, r, v)
	n := float64(e.n - l.missing)
	for k, value := range x {
		mean := &e.means[f.mean+k]
		mean.Add(((value - mean.High) - mean.Low) / n)
	}
}

func (e *Encoder) learnValue(f *field, l *learned, r *Record, v *Value) {
	switch f.kind {
	case numeric:
		if l.summary.excludes(v.number()) {
			l.outside++
		}
		l.summary.add(v.number())
		e.addNumber(l, v.number())
	case boolean:
		l.summary.add(v.number())
		l.shift.add(int(v.number()))
	case oneHot:
		bytes, known := l.categories.learn(v, f.limit)
		e.grown += bytes
		if !known {
			l.outside++
		}
		column, known := l.categories.column(v)
		if !known {
			column = restBin
		}
		l.shift.add(min(column, restBin))
	case hashed, keyed:
		bin, _ := bucketOf(v.hash(), missingBin)
		l.shift.add(bin)
	case moment:
		if l.summary.n == 0 {
			l.first = v.time()
		}
		l.summary.add(v.time().number())
	case words:
	default:
		e.learnVector(l, r.list(v))
	}
}

func (e *Encoder) learnVector(l *learned, numbers []float64) {
	outside, sum := false, 0.0
	for _, number := range numbers {
		outside = outside || l.summary.excludes(number)
		sum += number / float64(len(numbers))
	}
	if outside {
		l.outside++
	}
	for _, number := range numbers {
		l.summary.add(number)
	}
	e.addNumber(l, sum)
}

func (e *Encoder) addNumber(l *learned, v float64) {
	before := l.shift.size()
	l.shift.addNumber(v)
	e.grown += l.shift.size() - before // Modulo 2⁶⁴, when the sample goes.
}

// summary is the range and the moments of n numbers.
type summary struct {
	moments.Exact

	n         uint64
	low, high float64
}

func (s *summary) excludes(v float64) bool { return s.n > 0 && (v < s.low || v > s.high) }

func (s *summary) add(v float64) {
	s.n++
	if s.n == 1 {
		s.low, s.high = v, v
	}
	s.low, s.high = min(s.low, v), max(s.high, v)
	s.Add(v, 1, float64(s.n))
}

// categories are the categories of one input, in the order of their first appearance.
type categories struct {
	columns map[string]int
	names   []string
	// counts are how often each was observed.
	counts []uint64
	// other counts the observations of categories without a column.
	other uint64
}

// column is the column of a value, if it has one. It allocates nothing.
func (c *categories) column(v *Value) (column int, known bool) {
	if v.kind == Text {
		column, known = c.columns[v.text]
		return column, known
	}
	var room [32]byte
	column, known = c.columns[string(v.appendText(room[:0]))]
	return column, known
}

// learn counts an observation of a value. A new category gets the next column, if one
// is left. It returns by how many bytes the state grows, and whether the category was known.
func (c *categories) learn(v *Value, most int) (grown uint64, known bool) {
	column, known := c.column(v)
	switch {
	case known:
		c.counts[column]++
	case len(c.names) < most:
		grown = c.append(string(v.appendText(nil)), 1)
	default:
		c.other++
	}
	return grown, known
}

func (c *categories) append(name string, count uint64) (grown uint64) {
	c.columns[name] = len(c.names)
	c.names = append(c.names, name)
	c.counts = append(c.counts, count)
	return uint64(len(name)) + sizeOfCategory
}

// symmetricLog1p is sign(v) log(1 + |v|).
func symmetricLog1p(v float64) float64 { return math.Copysign(exponential.Log1p(math.Abs(v)), v) }
