// Package window keeps the newest rows of a stream in single precision, for the trees and
// the neighbours that learn from them.
//
// A row has a number, from 0, and a slot: slot = number mod Slots(). The window has
// Len() = min(Count(), Capacity()) rows, the newest. The ring has Slack more slots: a
// computation over the rows of one round may take Slack rounds before its first row is
// overwritten.
//
// A row keeps its inputs. Its other columns follow from the labels and from the row before, and
// At computes them. A column is shown as (value − offset)/unit. Begin sets the offsets and the
// units once, so that rounding to single precision is relative to the spread of the column. A
// shown number is within ±Limit, so that no square of a difference overflows a float32.
//
// Methods that do not write may run concurrently. Nothing allocates after New.
package window

import (
	"math"

	"hindsight/internal/model"
	"hindsight/internal/model/codec"
	"hindsight/internal/model/loops"
	"hindsight/internal/model/moments"
)

const (
	// Limit is the largest magnitude of a shown number.
	Limit = 1 << 50
	// Slack is the number of slots beyond the capacity.
	Slack = 256

	maxRows = 1 << 53
)

// Window is a ring of the newest rows. The inputs and the labels of remembered more rows are kept,
// for the columns of the oldest rows that follow from them.
type Window struct {
	layout                   Layout
	capacity, slots, columns int
	// places is the length of the ring of inputs and of labels. The newest row is in slot newest and
	// in place last.
	places, newest, last int
	// n is the number of rows added.
	n uint64
	// offsets and units belong to the inputs, and the last of each to the labels.
	offsets, units []float64
	// inputs has the inputs of loops.Lanes places at a time: input j of place p is the number
	// p mod Lanes of the (d·(p div Lanes) + j)-th Lanes numbers.
	inputs []float32
	// past has the label and the means after it of each place, as columns show them.
	past []float32
	// delays has how many labels came between the prediction and the label of each slot, at most
	// remembered.
	delays []uint16
	// steps has how many rows before the row of each slot its reference is, 0 above remembered, of a keyed layout.
	steps []uint16
	// tail are the columns of labels but the served prediction.
	tail    []rung
	history History
	// Labels and Served have the label and the served prediction of each slot.
	Labels, Served []float64
	// Counts has what the row of each slot counts, see model.Weights.
	Counts []float32
}

// New is an empty window, whose offsets are 0 and whose units are 1.
func New(capacity int, layout Layout) *Window {
	slots := capacity + Slack
	places := blocks(slots + remembered)
	w := &Window{
		layout: layout, capacity: capacity, slots: slots, columns: layout.Columns(), places: places,
		offsets: make([]float64, layout.Inputs+1), units: make([]float64, layout.Inputs+1), tail: tail(),
		inputs: make([]float32, places*layout.Inputs), past: make([]float32, places*(1+Means)),
		delays: make([]uint16, slots), Labels: make([]float64, slots), Served: make([]float64, slots), Counts: make([]float32, slots),
	}
	for j := range w.units {
		w.units[j] = 1
	}
	if layout.Keyed {
		w.steps = make([]uint16, slots)
	}
	w.locate()
	return w
}

func (w *Window) locate() {
	w.newest = int((w.n + uint64(w.slots) - 1) % uint64(w.slots))
	w.last = int((w.n + uint64(w.places) - 1) % uint64(w.places))
}

// Begin sets the offset and the unit of each input, and last of the labels, before the first row.
// Units are positive.
func (w *Window) Begin(offsets, units []float64) {
	copy(w.offsets, offsets)
	copy(w.units, units)
}

// leastUnit is the least unit after a change.
const leastUnit = 1e-150

// Change follows a change of the unit of an input: what was v is factor v + shift from here on,
// and is stored as v was.
func (w *Window) Change(input int, factor, shift float64) {
	offset := float64(w.offsets[input]*factor) + shift
	w.offsets[input] = math.Max(-model.MaxMagnitude, math.Min(model.MaxMagnitude, offset))
	w.units[input] = math.Max(leastUnit, math.Min(model.MaxMagnitude, float64(w.units[input]*factor)))
}

// Renew gives an input another meaning, with a new offset and unit: all rows have the offset.
func (w *Window) Renew(input int, offset, unit float64) {
	w.offsets[input] = math.Max(-model.MaxMagnitude, math.Min(model.MaxMagnitude, offset))
	w.units[input] = math.Max(leastUnit, math.Min(model.MaxMagnitude, unit))
	for place := range w.places {
		w.inputs[w.at(place, input)] = 0
	}
}

// Capacity is the largest Len.
func (w *Window) Capacity() int { return w.capacity }

// Slots is the number of slots.
func (w *Window) Slots() int { return w.slots }

// Layout places the columns.
func (w *Window) Layout() Layout { return w.layout }

// Columns is the number of columns of a row.
func (w *Window) Columns() int { return w.columns }

// Count is the number of rows added.
func (w *Window) Count() uint64 { return w.n }

// Len is the number of rows in the window.
func (w *Window) Len() int { return int(min(w.n, uint64(w.capacity))) }

// Slot is the slot of the row of an age, 0 for the newest row, below min(Count(), Slots()).
func (w *Window) Slot(age int) int { return back(w.newest, age, w.slots) }

func back(at, steps, length int) int {
	if at -= steps; at < 0 {
		at += length
	}
	return at
}

// Newest are the inputs of the newest count rows, oldest first, in two parts of blocks as loops.Distances
// takes them. The oldest row is row skip of the first block of the first part.
func (w *Window) Newest(count int) (first, second []float32, skip int) {
	begin, d := back(w.last, count-1, w.places), w.layout.Inputs
	skip = begin % loops.Lanes
	from, end := begin-skip, begin+count
	if end > w.places {
		second = w.inputs[:blocks(end-w.places)*d]
		end = w.places
	}
	return w.inputs[from*d : blocks(end)*d], second, skip
}

// blocks is the number of places of the blocks of the first so many places.
func blocks(places int) int { return (places + loops.Lanes - 1) / loops.Lanes * loops.Lanes }

// Row is the row of an age, whose inputs j are at j·loops.Lanes.
func (w *Window) Row(age int) []float32 { return w.inputs[w.at(back(w.last, age, w.places), 0):] }

func (w *Window) at(place, input int) int {
	in := place % loops.Lanes
	return (place-in)*w.layout.Inputs + input*loops.Lanes + in
}

// Offset is the offset of a column.
func (w *Window) Offset(column int) float64 {
	if column >= w.layout.Delta() && column < w.layout.Reference() {
		return 0
	}
	return w.offsets[min(column, w.layout.Inputs)]
}

// Unit is the unit of a column.
func (w *Window) Unit(column int) float64 {
	if column >= w.layout.Delta() && column < w.layout.Reference() {
		return 1
	}
	return w.units[min(column, w.layout.Inputs)]
}

// Value is a shown number of a column in the column's own unit.
func (w *Window) Value(column int, shown float32) float64 {
	return w.Offset(column) + float64(w.Unit(column)*float64(shown))
}

// At is a column of the row in a slot.
func (w *Window) At(slot, column int) float32 {
	age := back(w.newest, slot, w.slots)
	place, d := back(w.last, age, w.places), w.layout.Inputs
	if column < d {
		return w.inputs[w.at(place, column)]
	}
	if column == d+Lags {
		return w.round(w.Served[slot], d)
	}
	r := rung{age: 1}
	if column < w.layout.Delta() {
		r = w.tail[column-d]
	}
	steps, before := int(w.delays[slot])+r.age, w.n-1-uint64(age)
	if column >= w.layout.Delta() && w.steps != nil {
		steps = int(w.steps[slot])
	}
	known := steps > 0 && steps <= remembered && uint64(steps) <= before
	place = back(place, steps, w.places)
	switch {
	case column < w.layout.Delta() && known:
		return w.past[place*(1+Means)+r.part]
	case column < w.layout.Delta():
		return w.round(0, d)
	case column == w.layout.Reference():
		if !known {
			return w.At(slot, w.layout.Lag())
		}
		return w.past[place*(1+Means)]
	case known:
		input := column - w.layout.Delta()
		return limited(w.inputs[w.at(back(w.last, age, w.places), input)] - w.inputs[w.at(place, input)])
	default:
		return 0
	}
}

// Read writes the columns of the row in a slot.
func (w *Window) Read(dst []float32, slot int) {
	for j := range dst {
		dst[j] = w.At(slot, j)
	}
}

// Fill writes the columns behind the inputs but the differences, of a row that is served with a
// prediction when the first seen labels are known, and all columns as the window shows them. The last row with
// the key was row after, counted from 1; without one, after is 0.
func (w *Window) Fill(shown []float32, columns []float64, seen, after uint64, served float64) {
	d, delta := w.layout.Inputs, w.layout.Delta()
	w.history.Fill(columns[d:delta], seen, served)
	for j, v := range columns[:delta] {
		shown[j] = w.round(v, min(j, d))
	}
	clear(shown[delta:])
	if w.layout.Keyed {
		shown[w.layout.Reference()] = shown[w.layout.Lag()]
	}
	age := w.n - reference(seen, after)
	if age >= min(w.n, remembered) {
		return
	}
	before := w.Row(int(age))
	for j := range w.layout.Deltas {
		shown[delta+j] = limited(shown[j] - before[j*loops.Lanes])
	}
	if w.layout.Keyed {
		shown[w.layout.Reference()] = w.past[back(w.last, int(age), w.places)*(1+Means)]
	}
}

// reference is the number, counted from 1, of the row that differences refer to: the last row with the key, or the
// last row that the prediction knew.
func reference(seen, after uint64) uint64 {
	if after > 0 {
		return min(seen, after)
	}
	return seen
}

// round is a value of an input, or of the labels, as columns show it.
func (w *Window) round(v float64, j int) float32 {
	scaled := (v - w.offsets[j]) / w.units[j]
	if math.Abs(v-w.offsets[j]) <= float64(moments.Rounding*math.Abs(w.offsets[j])) {
		scaled = 0
	}
	return float32(math.Max(-Limit, math.Min(Limit, scaled))) + 0 // No −0.
}

// limited is a difference within the limit.
func limited(v float32) float32 { return max(-Limit, min(Limit, v)) + 0 }

// Label is the label of an age, from 1, when the first seen labels were known, or 0 without that
// label.
func (w *Window) Label(seen, age uint64) float64 { return w.history.Label(seen, age) }

// Add adds the newest row, given its inputs, the number of labels that its prediction knew, and after as for Fill. The
// row counts more than 0 and at most 1.
func (w *Window) Add(inputs []float64, seen, after uint64, label, served, counts float64) {
	delay := uint16(min(w.n-min(w.n, seen), remembered))
	w.n++
	w.locate()
	for j, v := range inputs[:w.layout.Inputs] {
		w.inputs[w.at(w.last, j)] = w.round(v, j)
	}
	slot := w.newest
	if w.steps != nil {
		w.steps[slot] = 0
		if from := reference(seen, after); from > 0 && w.n-from <= remembered {
			w.steps[slot] = uint16(w.n - from)
		}
	}
	w.delays[slot], w.Labels[slot], w.Served[slot], w.Counts[slot] = delay, label, served, float32(counts)
	if counts >= model.Light {
		w.history.Add(label)
	} else {
		w.history.Repeat()
	}
	past, e := w.past[w.last*(1+Means):][:1+Means], w.history.newest()
	past[0] = w.round(e.label, w.layout.Inputs)
	for k, mean := range e.means {
		past[1+k] = w.round(mean, w.layout.Inputs)
	}
}

// Bytes is the memory of a window.
func Bytes(capacity int, l Layout) uint64 {
	slots := capacity + Slack
	return uint64(slots*(22+2*l.references())+blocks(slots+remembered)*4*(l.Inputs+1+Means)+16*l.Inputs) + historyBytes
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
	if v.Reading() { // States are written while others read them.
		w.locate()
	}
	filled, kept := int(min(w.n, uint64(w.slots))), int(min(w.n, uint64(w.places)))
	for at := range kept * w.layout.Inputs {
		at = w.at(at/w.layout.Inputs, at%w.layout.Inputs)
		v.SinglesWithin(Limit, w.inputs[at:at+1])
	}
	v.SinglesWithin(Limit, w.past[:kept*(1+Means)])
	v.FloatsWithin(model.MaxMagnitude, w.Labels[:filled])
	v.FloatsWithin(2*model.MaxMagnitude, w.Served[:filled])
	v.SinglesWithin(1, w.Counts[:filled])
	for slot, counts := range w.Counts[:filled] {
		if v.Reading() && !(counts > 0) {
			v.Corrupt("a row counts %g", counts)
		}
		v.Uint16(&w.delays[slot])
		if delay := w.delays[slot]; v.Reading() && delay > remembered {
			v.Corrupt("a delay of %d labels", delay)
		}
		if w.steps == nil {
			continue
		}
		if v.Uint16(&w.steps[slot]); v.Reading() && w.steps[slot] > remembered {
			v.Corrupt("a reference %d rows before", w.steps[slot])
		}
	}
	for _, unit := range w.units {
		if v.Reading() && !(unit > 0) {
			v.Corrupt("a column has a unit of %g", unit)
		}
	}
	w.history.Visit(v)
	if v.Reading() && w.history.Count() != w.n {
		v.Corrupt("%d labels of %d rows", w.history.Count(), w.n)
	}
}
