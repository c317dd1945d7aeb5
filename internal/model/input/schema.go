package input

import (
	"errors"
	"fmt"
	"iter"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"hindsight/internal/model"
)

const (
	maxText    = 256     // Of a category, in bytes.
	maxPassage = 1 << 14 // Of a text of words.
)

type kind int

const (
	numeric kind = iota
	boolean
	oneHot
	hashed
	moment
	vector
	// A category that has its key alone.
	keyed
	// A text of words.
	words
)

// field is one declared input made ready.
type field struct {
	name string
	kind kind
	// rejects, indicates and categorizes say what becomes of a missing value.
	rejects, indicates, categorizes bool
	// The features [from, to) are the input's: the features of a value, then the indicator of
	// or the category for missing values, then the key. A keyed input has its key alone.
	from, to int
	hasKey   bool
	// mean is the place of the mean of its first feature, if it indicates.
	mean int
	// Of a number.
	low, high float64
	log1p     bool
	// limit is the number of categories, of buckets, or the length of a vector.
	limit int
	// Of a time.
	cycles [cycles]bool
	trend  bool
	// text is the place of the input among the texts of words.
	text int
}

// values is how many of its features say what its value is.
func (f *field) values() int {
	n := f.to - f.from
	if f.indicates || f.categorizes {
		n--
	}
	if f.hasKey {
		n--
	}
	return n
}

func (f *field) key() int { return f.to - 1 }

// Schema is declarations made ready. It is immutable.
type Schema struct {
	fields           []field
	dimension, means int
	// widest is the largest number of features of an input that indicates missing values.
	widest int
	// keys is the largest number of keys whose texts an encoder remembers, 0 without keys.
	keys int
	// texts counts the texts of words. Each has tokens numbers behind the features.
	texts, tokens int
}

// NewSchema makes declarations ready that Complete has completed. It panics at
// others. An encoder remembers the texts of so many keys. Tokens of texts may follow the features.
func NewSchema(inputs []*model.Input, keys int, tokens bool) *Schema {
	s := &Schema{fields: make([]field, len(inputs))}
	for i, in := range inputs {
		f := &s.fields[i]
		f.name = in.Name
		f.rejects, f.indicates, f.categorizes = in.Missing == model.MissingReject, in.Missing == model.MissingIndicator, in.Missing == model.MissingCategory
		f.from = s.dimension
		f.to = f.from + f.declare(in)
		f.categorizes = f.categorizes && f.kind != keyed
		if f.indicates {
			f.mean = s.means
			s.means += f.to - f.from
			s.widest = max(s.widest, f.to-f.from)
		}
		if f.indicates || f.categorizes {
			f.to++
		}
		if f.hasKey = in.Categorical != nil && in.Categorical.Key; f.hasKey {
			f.to++
			s.keys = keys
		}
		if f.kind == words {
			f.text = s.texts
			s.texts++
		}
		s.dimension = f.to
	}
	if tokens {
		s.tokens = 2 * mostWords
	}
	return s
}

// declare takes the kind of a declaration and returns how many features the value has.
func (f *field) declare(in *model.Input) int {
	switch {
	case in.Numeric != nil:
		f.kind, f.low, f.high = numeric, math.Inf(-1), math.Inf(1)
		f.log1p = *in.Numeric.Log1p
		if clip := in.Numeric.Clip; clip != nil {
			if clip.Low != nil {
				f.low = *clip.Low
			}
			if clip.High != nil {
				f.high = *clip.High
			}
		}
		return 1
	case in.Boolean != nil:
		f.kind = boolean
		return 1
	case in.Categorical != nil && in.Categorical.HashBuckets != nil:
		f.kind, f.limit = hashed, *in.Categorical.HashBuckets
		return f.limit
	case in.Categorical != nil && in.Categorical.MaxCategories == nil:
		f.kind = keyed
		return 0
	case in.Categorical != nil:
		f.kind, f.limit = oneHot, *in.Categorical.MaxCategories
		return f.limit + 1
	case in.Time != nil:
		f.kind, f.trend = moment, *in.Time.Trend
		n := 0
		for _, name := range in.Time.Cycles {
			f.cycles[cycleOf(name)] = true
			n += 2
		}
		if f.trend {
			n++
		}
		return n
	case in.Text != nil:
		f.kind, f.limit = words, *in.Text.HashBuckets
		return f.limit + 1
	default:
		f.kind, f.limit = vector, *in.Vector.Length
		return f.limit
	}
}

// Len is the number of inputs.
func (s *Schema) Len() int { return len(s.fields) }

// Name is the name of the input i.
func (s *Schema) Name(i int) string { return s.fields[i].name }

// Span are the places of the features of the input i, to excluded.
func (s *Schema) Span(i int) (from, to int) { return s.fields[i].from, s.fields[i].to }

// Key is the feature that is the key of the input i, if the input has one.
func (s *Schema) Key(i int) (feature int, ok bool) {
	f := &s.fields[i]
	return f.key(), f.hasKey
}

// Dimension is the number of features.
func (s *Schema) Dimension() int { return s.dimension }

// Tokens is the number of tokens behind the features, 0 for a missing one.
func (s *Schema) Tokens() int { return s.texts * s.tokens }

// maxDays is above the magnitude of a trend: RFC 3339 has the years 0 to 9999.
const maxDays = 4e6

// Bounds are above the magnitudes of the features, whatever the record is and whatever
// was learned, but for rounding. Those of numbers and vectors are 0: they have no
// bound. Their features are numbers of the record, 0, or means of the numbers of earlier records.
func (s *Schema) Bounds() []float64 {
	bounds := make([]float64, s.dimension)
	for i := range s.fields {
		f := &s.fields[i]
		end := f.from + f.values() // Of the features that say the value.
		for k := f.from; k < f.to; k++ {
			if k >= end || (f.kind != numeric && f.kind != vector) {
				bounds[k] = 1
			}
		}
		if f.trend {
			bounds[end-1] = maxDays
		}
		if f.kind == words {
			for k := f.from; k < end; k++ {
				bounds[k] = maxPassage
			}
		}
		if f.hasKey {
			bounds[f.key()] = keyBound
		}
	}
	return bounds
}

func (s *Schema) fixedBytes() uint64 {
	return sizeOfEncoder + sizeOfLearned*uint64(len(s.fields)) + 16*uint64(s.means) + 8*uint64(s.widest)
}

// MaxBytes is the most memory that the state of an encoder takes, in bytes: all
// categories have appeared, and have the longest names.
func (s *Schema) MaxBytes() uint64 {
	most := s.fixedBytes()
	for i := range s.fields {
		switch f := &s.fields[i]; f.kind {
		case oneHot:
			most += (sizeOfCategory + maxText) * uint64(f.limit)
		case numeric, vector:
			most += 8 * sampled
		default:
		}
	}
	if s.keys > 0 {
		most += sizeOfText*uint64(s.keys) + textBytes(s.keys) + 4*uint64(len(s.fields))
	}
	return most
}

// Accept checks that every value of a record is one that its input takes, and
// reads the times among them. What it accepts, an Encoder encodes and learns. It
// costs O(values) and allocates nothing unless it rejects. The error names every wrong
// value. A rejected record must not be encoded.
func (s *Schema) Accept(r *Record) error {
	if len(r.values) != len(s.fields) {
		return &model.FieldError{
			Field: "inputs", Err: model.ErrDimensionMismatch,
			Got: strconv.Itoa(len(r.values)) + " values", Want: strconv.Itoa(len(s.fields)) + " values",
		}
	}
	var wrong model.FieldErrors
	for i := range s.fields {
		if err := s.fields[i].accept(r, &r.values[i]); err != nil {
			wrong = append(wrong, err)
		}
	}
	return wrong.Err()
}

func (f *field) accept(r *Record, v *Value) *model.FieldError {
	if v.kind == Missing {
		if f.rejects {
			return f.error(ErrMissingInput, v.String(), f.want()+`: missing is "reject"`)
		}
		return nil
	}
	switch {
	case f.kind == numeric && v.kind == Number:
		return f.acceptNumber("", v.number())
	case f.kind == boolean && v.kind == Boolean:
	case f.kind == boolean && v.kind == Number && (v.number() == 0 || v.number() == 1):
		*v = booleanValue(v.number() == 1)
	case f.kind == oneHot || f.kind == hashed || f.kind == keyed:
		return f.acceptCategory(v, maxText)
	case f.kind == words:
		return f.acceptCategory(v, maxPassage)
	case f.kind == moment && v.kind == Moment:
	case f.kind == moment && v.kind == Text:
		t, ok := ParseTime(v.text)
		if !ok {
			return f.error(ErrInputType, v.String(), f.want())
		}
		*v = valueOf(t)
	case f.kind == vector && v.kind == Numbers:
		if int(v.extra) != f.limit {
			return f.error(model.ErrDimensionMismatch, v.String(), f.want())
		}
		for i, number := range r.list(v) {
			if !(math.Abs(number) <= model.MaxMagnitude) {
				return f.acceptNumber("["+strconv.Itoa(i)+"]", number)
			}
		}
	default:
		return f.error(ErrInputType, v.String(), f.want())
	}
	return nil
}

func (f *field) acceptNumber(place string, v float64) *model.FieldError {
	if math.Abs(v) <= model.MaxMagnitude {
		return nil
	}
	err := f.error(model.ErrFeatureOutOfRange, fmt.Sprintf("%g", v), fmt.Sprintf("a magnitude of at most %g", model.MaxMagnitude))
	if math.IsNaN(v) || math.IsInf(v, 0) {
		err.Err, err.Want = model.ErrNotFinite, "a finite number"
	}
	err.Field += place
	return err
}

// acceptCategory accepts a text of at most so many bytes, or what is a text in its place.
func (f *field) acceptCategory(v *Value, most int) *model.FieldError {
	switch {
	case v.kind == Boolean:
	case v.kind == Number:
		if math.Abs(v.number()) >= maxExact && math.Abs(v.number()) <= model.MaxMagnitude {
			return f.error(ErrInputType, v.String(), "a text, or a number between -2^53 and 2^53")
		}
		return f.acceptNumber("", v.number())
	case v.kind != Text:
		return f.error(ErrInputType, v.String(), f.want())
	case len(v.text) > most:
		return f.error(ErrInputTooLarge, fmt.Sprintf("a text of %d bytes", len(v.text)), fmt.Sprintf("at most %d bytes", most))
	case !utf8.ValidString(v.text):
		return f.error(ErrInputType, "a text that is not UTF-8", f.want())
	}
	return nil
}

func (f *field) error(sentinel error, got, want string) *model.FieldError {
	return &model.FieldError{Field: "inputs." + f.name, Err: sentinel, Got: got, Want: want}
}

func (f *field) want() string {
	switch f.kind {
	case numeric:
		return "a number"
	case boolean:
		return "true or false, or 1 or 0"
	case moment:
		return "a time such as 2026-11-21T18:00:00Z"
	case vector:
		return "a list of " + plural(f.limit, "number")
	default:
		return "a text"
	}
}

func plural(n int, unit string) string {
	if n == 1 {
		return "1 " + unit
	}
	return strconv.Itoa(n) + " " + unit + "s"
}

// Check names what is wrong with a record and its names: the names that no input has, in
// alphabetical order, then the declared names that are missing and the wrong values. It is for
// errors and costs O(names × inputs).
func (s *Schema) Check(r *Record, names iter.Seq[string]) error {
	given, declared := make(map[string]bool), make(map[string]bool, len(s.fields))
	for i := range s.fields {
		declared[s.fields[i].name] = true
	}
	for name := range names {
		given[name] = true
	}
	var wrong model.FieldErrors
	for _, name := range slices.Sorted(maps.Keys(given)) {
		if !declared[name] {
			wrong = append(wrong, &model.FieldError{
				Field: "inputs." + shorten(name), Err: ErrUnknownInput, Got: "a name that no input has", Want: s.Suggest(name, given),
			})
		}
	}
	for i := range s.fields {
		f := &s.fields[i]
		want := f.want()
		if !f.rejects {
			want += ", or null if it is missing"
		}
		if !given[f.name] {
			wrong = append(wrong, f.error(ErrMissingInput, "nothing", want))
		} else if err := f.accept(r, &r.values[i]); err != nil {
			wrong = append(wrong, err)
		}
	}
	return wrong.Err()
}

// Find is the number of the input of a name. It costs O(inputs).
func (s *Schema) Find(name string) (i int, ok bool) {
	i = slices.IndexFunc(s.fields, func(f field) bool { return f.name == name })
	return i, i >= 0
}

// Suggest says in an error what is wanted in place of a name that no input has: the name
// that is nearly the same, one that is not given first, or else one of the declared ones.
func (s *Schema) Suggest(name string, given map[string]bool) string {
	if near := s.near(name, given); near != "" {
		return fmt.Sprintf("%q, which is nearly the same", near)
	}
	return "one of " + s.list()
}

func (s *Schema) list() string {
	const most = 10
	var names []string
	for i := range s.fields {
		if i == most {
			names = append(names, fmt.Sprintf("%d more", len(s.fields)-most))
			break
		}
		names = append(names, s.fields[i].name)
	}
	return strings.Join(names, ", ")
}

// near is the declared name that is nearest to a name, those first that are
// not given. It is empty if none is near.
func (s *Schema) near(name string, given map[string]bool) string {
	if len(name) > 2*maxName {
		return ""
	}
	best, nearest := 2*len(s.fields)+1000, ""
	for i := range s.fields {
		declared := s.fields[i].name
		allowed := 2
		if min(len(name), len(declared)) < 5 {
			allowed = 1
		}
		d := distance(strings.ToLower(name), strings.ToLower(declared))
		if d > allowed {
			continue
		}
		if given[declared] {
			d += 10
		}
		if d < best {
			best, nearest = d, declared
		}
	}
	return nearest
}

// distance is how many runes have to be inserted, deleted, replaced or swapped
// with their neighbours to make one text the other, none of them twice (optimal
// string alignment). It costs O(product of the lengths).
func distance(a, b string) int {
	x, y := []rune(a), []rune(b)
	before, last, row := make([]int, len(y)+1), make([]int, len(y)+1), make([]int, len(y)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(x); i++ {
		row[0] = i
		for j := 1; j <= len(y); j++ {
			replace := last[j-1]
			if x[i-1] != y[j-1] {
				replace++
			}
			row[j] = min(replace, last[j]+1, row[j-1]+1)
			if i > 1 && j > 1 && x[i-1] == y[j-2] && x[i-2] == y[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(y)]
}

func shorten(s string) string {
	if len(s) <= maxName {
		return s
	}
	return strings.ToValidUTF8(s[:maxName], "") + "…"
}

// Sentinels of what can be wrong with a record. Errors wrap one of them, or one of
// the errors of package model for numbers (ErrNotFinite, ErrFeatureOutOfRange,
// ErrDimensionMismatch), in a *model.FieldError that names the input.
var (
	ErrUnknownInput  = errors.New("unknown input")
	ErrMissingInput  = errors.New("missing input")
	ErrInputType     = errors.New("input of another type")
	ErrInputTooLarge = errors.New("input too large")
)
