package model

import "slices"

// What becomes of a missing value.
const (
	MissingReject = "reject"
	// MissingIndicator imputes the running mean of each feature, and sets a feature of its
	// own to 1. It is the default of all but categorical inputs.
	MissingIndicator = "indicator"
	// MissingCategory is a category of its own, the default of categorical inputs.
	MissingCategory = "category"
)

// Cycles of a time, each a sine and a cosine.
const (
	CycleHourOfDay = "hour_of_day"
	CycleDayOfWeek = "day_of_week"
	CycleDayOfYear = "day_of_year"
)

// Input declares one named input of a record, of exactly one kind.
type Input struct {
	Name        string            `json:"name"`
	Numeric     *NumericInput     `json:"numeric,omitempty" oneof:"kind"`
	Boolean     *BooleanInput     `json:"boolean,omitempty" oneof:"kind"`
	Categorical *CategoricalInput `json:"categorical,omitempty" oneof:"kind"`
	Time        *TimeInput        `json:"time,omitempty" oneof:"kind"`
	Vector      *VectorInput      `json:"vector,omitempty" oneof:"kind"`
	Text        *TextInput        `json:"text,omitempty" oneof:"kind"`
	Missing     string            `json:"missing,omitempty"`
}

// NumericInput is a number.
type NumericInput struct {
	// Log1p takes v as sign(v) log(1 + |v|), after Clip.
	Log1p *bool `json:"log1p,omitempty"`
	// Clip moves a number outside a range to its nearest end.
	Clip *Clip `json:"clip,omitempty"`
	// Unit is the unit of the numbers in files.
	Unit *string `json:"unit,omitempty"`
}

// Clip is a range. A missing end bounds nothing.
type Clip struct {
	Low  *float64 `json:"low,omitempty"`
	High *float64 `json:"high,omitempty"`
}

// BooleanInput is true or false.
type BooleanInput struct{}

// CategoricalInput is one of several texts. Numbers and booleans count as texts.
type CategoricalInput struct {
	// MaxCategories is the number of first categories with a feature of their own.
	MaxCategories *int `json:"max_categories,omitempty" oneof:"encoding"`
	// HashBuckets is the number of features that all categories share by their hashes.
	HashBuckets *int `json:"hash_buckets,omitempty" oneof:"encoding"`
	// Key adds a feature that identifies the category, whichever it is, for a learner of
	// effects of keys. Without MaxCategories and HashBuckets it is the only feature.
	Key bool `json:"key,omitempty"`
	// JointScale scales all features of the input by one factor, to vary together as one number.
	JointScale *bool `json:"joint_scale,omitempty"`
}

// TimeInput is a moment in RFC 3339.
type TimeInput struct {
	// Cycles are hour_of_day, day_of_week and day_of_year. The default is all of them, or
	// none if the input has a trend.
	Cycles []string `json:"cycles,omitempty"`
	// Trend adds the days since the first observed time.
	Trend *bool `json:"trend,omitempty"`
	// DayFirst is the order of dates in files.
	DayFirst *bool `json:"day_first,omitempty"`
}

// VectorInput is a list of numbers, each a feature.
type VectorInput struct {
	Length *int `json:"length,omitempty"`
}

// TextInput is a text of several words.
type TextInput struct {
	// HashBuckets is the number of features that all words share by their hashes.
	HashBuckets *int `json:"hash_buckets,omitempty"`
}

// WithoutEncoding copies completed inputs without the encodings of categories and texts, which are what a
// learner is shown of a record and not what a record has.
func WithoutEncoding(inputs []*Input) []*Input {
	out := slices.Clone(inputs)
	for i, in := range out {
		if in.Categorical != nil {
			input := *in
			input.Categorical, out[i] = &CategoricalInput{}, &input
		}
		if in.Text != nil {
			input := *in
			input.Text, out[i] = &TextInput{}, &input
		}
	}
	return out
}
