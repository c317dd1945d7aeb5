// Package window keeps the newest rows of a stream in single precision, for the trees and
// the neighbours that learn from them.
//
// A row has a number, from 0, and a slot: slot = number mod Slots(). The window has
// Len() = min(Count(), Capacity()) rows, the newest. The ring has Slack more slots: a
// computation over the rows of one round may take Slack rounds before its first row is
// overwritten.
//
// A column is stored as (value − offset)/unit. Begin sets the offsets and the units once, so
// that rounding to single precision is relative to the spread of the column. A stored number
// is within ±Limit, so that no square of a difference overflows a float32.
//
// Methods that do not write may run concurrently. Nothing allocates after New.
package window

import (
	"math"

	"hindsight/internal/model"
	"hindsight/internal/model/codec"
	"hindsight/internal/model/moments"
)

const (
	// Limit is the largest magnitude of a stored number.
	Limit = 1 << 50
	// Slack is the number of slots beyond the capacity.
	Slack = 256

	maxRows = 1 << 53
)

// Window is a ring of the newest rows.
type Window struct {
	capacity, slots, columns int
	// n is the number of rows added.
	n              uint64
	offsets, units []float64
	// Rows has the columns of slot s in Rows[s*Columns():][:Columns()].
	Rows []float32
	// Labels and Served have the label and the served prediction of each slot.
	Labels, Served []float64
	// Counts has what the row of each slot counts, see model.Weights.
	Counts []float32
}

// New is an empty window, whose offsets are 0 and whose units are 1.
func New(capacity, columns int) *Window {
	slots := capacity + Slack
	w := &Window{
		capacity: capacity, slots: slots, columns: columns,
		offsets: make([]float64, columns), units: make([]float64, columns),
		Rows: make([]float32, slots*columns), Labels: make([]float64, slots), Served: make([]float64, slots),
		Counts: make([]float32, slots),
	}
	for j := range w.units {
		w.units[j] = 1
	}
	return w
}

// Begin sets the offset and the unit of each column before the first row. Units are
// positive.
func (w *Window) Begin(offsets, units []float64) {
	copy(w.offsets, offsets)
	copy(w.units, units)
}

// leastUnit is the least unit after a change.
const leastUnit = 1e-150

// Change follows a change of the unit of a column: what was v is factor v + shift from here on,
// and is stored as v was.
func (w *Window) Change(column int, factor, shift float64) {
	offset := float64(w.offsets[column]*factor) + shift
	w.offsets[column] = math.Max(-model.MaxMagnitude, math.Min(model.MaxMagnitude, offset))
	w.units[column] = math.Max(leastUnit, math.Min(model.MaxMagnitude, float64(w.units[column]*factor)))
}

// Renew gives a column another meaning, with a new offset and unit: all rows have the offset.
func (w *Window) Renew(column int, offset, unit float64) {
	w.offsets[column] = math.Max(-model.MaxMagnitude, math.Min(model.MaxMagnitude, offset))
	w.units[column] = math.Max(leastUnit, math.Min(model.MaxMagnitude, unit))
	for at := column; at < len(w.Rows); at += w.columns {
		w.Rows[at] = 0
	}
}

// Capacity is the largest Len.
func (w *Window) Capacity() int { return w.capacity }

// Slots is the number of slots.
func (w *Window) Slots() int { return w.slots }

// Columns is the number of columns of a row.
func (w *Window) Columns() int { return w.columns }

// Count is the number of rows added.
func (w *Window) Count() uint64 { return w.n }

// Len is the number of rows in the window.
func (w *Window) Len() int { return int(min(w.n, uint64(w.capacity))) }

// Slot is the slot of the row of an age, 0 for the newest row, below min(Count(), Slots()).
func (w *Window) Slot(age int) int { return int((w.n - 1 - uint64(age)) % uint64(w.slots)) }

// Row is the row in a slot.
func (w *Window) Row(slot int) []float32 { return w.Rows[slot*w.columns:][:w.columns] }

// Offset is the offset of a column.
func (w *Window) Offset(column int) float64 { return w.offsets[column] }

// Unit is the unit of a column.
func (w *Window) Unit(column int) float64 { return w.units[column] }

// Value is a stored number of a column in the column's own unit.
func (w *Window) Value(column int, stored float32) float64 {
	return w.offsets[column] + float64(w.units[column]*float64(stored))
}

// Round writes columns as the window stores them.
func (w *Window) Round(dst []float32, columns []float64) {
	for j, v := range columns {
		scaled := (v - w.offsets[j]) / w.units[j]
		if math.Abs(v-w.offsets[j]) <= float64(moments.Rounding*math.Abs(w.offsets[j])) {
			scaled = 0
		}
		dst[j] = float32(math.Max(-Limit, math.Min(Limit, scaled))) + 0 // No −0.
	}
}

// Add adds the newest row, which counts more than 0 and at most 1, and returns its slot.
func (w *Window) Add(columns []float64, label, served, counts float64) (slot int) {
	slot = int(w.n % uint64(w.slots))
	w.Round(w.Row(slot), columns[:w.columns])
	w.Labels[slot], w.Served[slot], w.Counts[slot] = label, served, float32(counts)
	w.n++
	return slot
}

// Bytes is the memory of a window.
func Bytes(capacity, columns int) uint64 {
	return uint64(capacity+Slack)*uint64(4*columns+20) + uint64(16*columns)
}

// Visit visits the state, the slots that have a row.
func (w *Window) Visit(v *codec.Visitor) {
	v.Uint64(&w.n)
	v.FloatsWithin(model.MaxMagnitude, w.offsets)
	v.FloatsWithin(2*model.MaxMagnitude, w.units)
	if v.Reading() && w.n > maxRows {
		v.Corrupt("a window after %d rows", w.n)
		return
	}
	filled := int(min(w.n, uint64(w.slots)))
	v.SinglesWithin(Limit, w.Rows[:filled*w.columns])
	v.FloatsWithin(model.MaxMagnitude, w.Labels[:filled])
	v.FloatsWithin(2*model.MaxMagnitude, w.Served[:filled])
	v.SinglesWithin(1, w.Counts[:filled])
	for _, counts := range w.Counts[:filled] {
		if v.Reading() && !(counts > 0) {
			v.Corrupt("a row counts %g", counts)
		}
	}
	for _, unit := range w.units {
		if v.Reading() && !(unit > 0) {
			v.Corrupt("a column has a unit of %g", unit)
		}
	}
}
