package model

import (
	"fmt"
	"math"
	"strings"
)

// Label says which labels of a regression are possible. A nil *Label allows every label.
type Label struct {
	// Min and Max bound the labels, nil for no bound.
	Min *float64 `json:"min,omitempty"`
	Max *float64 `json:"max,omitempty"`
	// Integer: labels are whole numbers.
	Integer bool `json:"integer,omitempty"`
	// Unit is the unit of the labels of files, nil if it is not known.
	Unit *string `json:"unit,omitempty"`
}

// Bounded reports whether the label excludes some number.
func (l *Label) Bounded() bool { return l != nil && (l.Min != nil || l.Max != nil || l.Integer) }

// Project returns the number of [Min, Max] that is nearest to v. A projection onto an interval
// moves no prediction away from a label in the interval: |Project(v) − y| <= |v − y|.
func (l *Label) Project(v float64) float64 {
	if l == nil {
		return v
	}
	if l.Min != nil {
		v = math.Max(v, *l.Min)
	}
	if l.Max != nil {
		v = math.Min(v, *l.Max)
	}
	return v
}

// ProjectInterval returns the part of [lower, upper] with possible labels. If the part is
// empty, both ends are the possible label nearest to the middle.
func (l *Label) ProjectInterval(lower, upper float64) (least, most float64) {
	if l == nil {
		return lower, upper
	}
	least, most = l.Project(lower), l.Project(upper)
	if !l.Integer {
		return least, most
	}
	if from, to := math.Ceil(least), math.Floor(most); from <= to {
		return from, to
	}
	nearest := l.nearest((least + most) / 2)
	return nearest, nearest
}

// nearest returns the possible label nearest to v, a number of [Min, Max].
func (l *Label) nearest(v float64) float64 {
	nearest := math.RoundToEven(v)
	if l.Min != nil && nearest < *l.Min {
		nearest = math.Ceil(v)
	}
	if l.Max != nil && nearest > *l.Max {
		nearest = math.Floor(v)
	}
	return nearest
}

// Check accepts the labels of one observation that are possible.
func (l *Label) Check(labels []float64) error {
	if l == nil {
		return nil
	}
	for i, y := range labels {
		if l.Project(y) == y && (!l.Integer || y == math.Trunc(y)) {
			continue
		}
		field := "label"
		if len(labels) > 1 {
			field = fmt.Sprintf("labels[%d]", i)
		}
		return &FieldError{Field: field, Err: ErrLabelOutOfRange, Got: number(y), Want: l.String() + ", as spec.label says"}
	}
	return nil
}

// String names the possible labels, such as "a whole number of at least 0".
func (l *Label) String() string {
	var s strings.Builder
	s.WriteString("a number")
	if l.Integer {
		s.Reset()
		s.WriteString("a whole number")
	}
	switch {
	case l.Min != nil && l.Max != nil:
		fmt.Fprintf(&s, " from %g to %g", *l.Min, *l.Max)
	case l.Min != nil:
		fmt.Fprintf(&s, " of at least %g", *l.Min)
	case l.Max != nil:
		fmt.Fprintf(&s, " of at most %g", *l.Max)
	}
	return s.String()
}
