package input

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"hindsight/internal/model"
)

// Bounds of declarations.
const (
	maxInputs = 4_096
	maxName   = 64
	maxEach   = 4_096 // Categories, buckets or numbers of an input.
	// Of a text.
	defaultBuckets, maxBuckets = 4_096, 32_768
	// The max_categories of an input without an encoding.
	defaultCategories = 64
)

func cycleNames() []string {
	return []string{model.CycleHourOfDay, model.CycleDayOfWeek, model.CycleDayOfYear}
}

func cycleOf(name string) cycle { return cycle(slices.Index(cycleNames(), name)) }

// Options say what the learner behind the inputs takes.
type Options struct {
	// Keys: every categorical input has a key. Without Keys none has.
	Keys bool
	// EncodeKeys gives a key that stands alone features of its first categories too.
	EncodeKeys bool
	// Buckets is the default number of buckets of a text; 0 is 4,096.
	Buckets int
}

// Complete is a copy of declarations with every default filled in. It rejects those
// that cannot be, with an error that names the field. What it returns is complete.
func Complete(inputs []*model.Input, o Options) ([]*model.Input, error) {
	if len(inputs) > maxInputs {
		return nil, reject("inputs", plural(len(inputs), "input"), fmt.Sprintf("at most %d", maxInputs))
	}
	out := make([]*model.Input, len(inputs))
	named := make(map[string]int, len(inputs))
	var errs []error
	for i, in := range inputs {
		at := fmt.Sprintf("inputs[%d]", i)
		if in == nil {
			errs = append(errs, reject(at, "nothing", "an input"))
			continue
		}
		if err := CheckName(at+".name", in.Name); err != nil {
			errs = append(errs, err)
		} else if first, twice := named[in.Name]; twice {
			errs = append(errs, reject(at+".name", fmt.Sprintf("%q", in.Name), fmt.Sprintf("a name other than that of inputs[%d]", first)))
		} else {
			named[in.Name] = i
		}
		var err error
		out[i], err = complete(at, in, o)
		errs = append(errs, err)
	}
	if err := model.JoinFields(errs...); err != nil {
		return nil, err
	}
	return out, nil
}

func reject(field, got, want string) error {
	return &model.FieldError{Field: field, Err: model.ErrInvalidSpec, Got: got, Want: want}
}

// CheckName rejects an empty or a long name, and one with control characters.
func CheckName(field, name string) error {
	bad := func(r rune) bool { return !unicode.IsGraphic(r) }
	switch {
	case name == "":
		return reject(field, "nothing", "a name")
	case len(name) > maxName:
		return reject(field, fmt.Sprintf("%d bytes", len(name)), fmt.Sprintf("at most %d bytes", maxName))
	case !utf8.ValidString(name) || strings.ContainsFunc(name, bad):
		return reject(field, fmt.Sprintf("%q", name), "UTF-8 without control characters")
	}
	return nil
}

func complete(at string, in *model.Input, o Options) (*model.Input, error) {
	out := &model.Input{Name: in.Name, Missing: in.Missing}
	kinds := 0
	var err error
	if in.Numeric != nil {
		kinds++
		out.Numeric, err = completeNumeric(at+".numeric", in.Numeric)
	}
	if in.Boolean != nil {
		kinds++
		out.Boolean = &model.BooleanInput{}
	}
	if in.Categorical != nil && err == nil {
		kinds++
		out.Categorical, err = completeCategorical(at+".categorical", in.Categorical, o)
	}
	if in.Time != nil && err == nil {
		kinds++
		out.Time, err = completeTime(at+".time", in.Time)
	}
	if in.Vector != nil && err == nil {
		kinds++
		out.Vector, err = completeVector(at+".vector", in.Vector)
	}
	if in.Text != nil && err == nil {
		kinds++
		out.Text = &model.TextInput{HashBuckets: pointer(in.Text.HashBuckets, cmp.Or(o.Buckets, defaultBuckets))}
		err = within(at+".text.hash_buckets", *out.Text.HashBuckets, maxBuckets)
	}
	if err != nil {
		return nil, err
	}
	if kinds != 1 {
		return nil, reject(at, plural(kinds, "kind"), "one of numeric, boolean, categorical, time, vector, text")
	}
	usual := model.MissingIndicator
	if out.Categorical != nil || out.Text != nil {
		usual = model.MissingCategory
	}
	switch out.Missing {
	case "":
		out.Missing = usual
	case model.MissingReject, usual:
	default:
		return nil, reject(at+".missing", fmt.Sprintf("%q", out.Missing), fmt.Sprintf("%s or %s", model.MissingReject, usual))
	}
	return out, nil
}

func pointer[T any](p *T, otherwise T) *T {
	if p != nil {
		otherwise = *p
	}
	return &otherwise
}

func completeNumeric(at string, in *model.NumericInput) (*model.NumericInput, error) {
	out := &model.NumericInput{Log1p: pointer(in.Log1p, false), Unit: in.Unit}
	if in.Unit != nil {
		if err := CheckName(at+".unit", *in.Unit); err != nil {
			return nil, err
		}
	}
	if in.Clip == nil || (in.Clip.Low == nil && in.Clip.High == nil) {
		return out, nil
	}
	out.Clip = &model.Clip{}
	low, high := math.Inf(-1), math.Inf(1)
	for _, end := range []struct {
		name  string
		in    *float64
		out   **float64
		bound *float64
	}{{"low", in.Clip.Low, &out.Clip.Low, &low}, {"high", in.Clip.High, &out.Clip.High, &high}} {
		if end.in == nil {
			continue
		}
		if !(math.Abs(*end.in) <= model.MaxMagnitude) {
			return nil, reject(at+".clip."+end.name, fmt.Sprintf("%g", *end.in), fmt.Sprintf("a magnitude of at most %g", model.MaxMagnitude))
		}
		*end.out, *end.bound = pointer(end.in, 0), *end.in
	}
	if !(low < high) {
		return nil, reject(at+".clip.low", fmt.Sprintf("%g", low), fmt.Sprintf("less than high, %g", high))
	}
	return out, nil
}

func completeCategorical(at string, in *model.CategoricalInput, o Options) (*model.CategoricalInput, error) {
	if in.Key && in.MaxCategories == nil && in.HashBuckets == nil && !o.EncodeKeys {
		switch {
		case !o.Keys:
			return nil, reject(at+".key", "a key alone", "max_categories or hash_buckets: only auto learns of keys")
		case in.JointScale != nil:
			return nil, reject(at+".joint_scale", strconv.FormatBool(*in.JointScale), "nothing: a key alone has no scale")
		}
		return &model.CategoricalInput{Key: true}, nil
	}
	out := &model.CategoricalInput{JointScale: pointer(in.JointScale, true), Key: o.Keys}
	switch {
	case in.MaxCategories != nil && in.HashBuckets != nil:
		return nil, reject(at, "max_categories and hash_buckets", "at most one of them")
	case in.HashBuckets != nil:
		out.HashBuckets = pointer(in.HashBuckets, 0)
		return out, within(at+".hash_buckets", *out.HashBuckets, maxEach)
	default:
		out.MaxCategories = pointer(in.MaxCategories, defaultCategories)
		return out, within(at+".max_categories", *out.MaxCategories, maxEach)
	}
}

func completeTime(at string, in *model.TimeInput) (*model.TimeInput, error) {
	out := &model.TimeInput{Trend: pointer(in.Trend, false), DayFirst: in.DayFirst}
	var chosen [cycles]bool
	for i, name := range in.Cycles {
		c := cycleOf(name)
		field := fmt.Sprintf("%s.cycles[%d]", at, i)
		if c < 0 {
			return nil, reject(field, fmt.Sprintf("%q", name), "one of "+strings.Join(cycleNames(), ", "))
		}
		if chosen[c] {
			return nil, reject(field, name+" again", "each at most once")
		}
		chosen[c] = true
	}
	for c, name := range cycleNames() { // In the order of the features.
		if chosen[c] || (len(in.Cycles) == 0 && !*out.Trend) {
			out.Cycles = append(out.Cycles, name)
		}
	}
	return out, nil
}

func completeVector(at string, in *model.VectorInput) (*model.VectorInput, error) {
	if in.Length == nil {
		return nil, reject(at+".length", "nothing", "how many numbers the vector has")
	}
	return &model.VectorInput{Length: pointer(in.Length, 0)}, within(at+".length", *in.Length, maxEach)
}

func within(field string, value, most int) error {
	if value < 1 || value > most {
		return reject(field, strconv.Itoa(value), fmt.Sprintf("a number from 1 to %d", most))
	}
	return nil
}
