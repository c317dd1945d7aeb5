// Package regret solves for the regret of a learner on the last rows of a stream, against the best
// fixed function of the learner's own features on these rows:
//
//	L* = min over w of Σ ωℓ(w·z, y) + λ‖w‖²,  |w·z| ≤ C at all these rows if the learner cuts at C
//
// Sums over all rows do not have the regret of the last rows, because the L* of the last rows is no
// difference of two L*. The rows come from the log: a copy of the learner learns them again, and Rows
// keeps their features, as the learner computed them in their rounds. Learners keep nothing for it.
package regret

import (
	"math"
	"slices"

	"hindsight/internal/model"
	"hindsight/internal/model/compensated"
	"hindsight/internal/model/feature"
	"hindsight/internal/model/kernel"
	"hindsight/internal/model/losses"
)

// Class is the functions that a learner competes with, in the learner's units of labels. Each output
// has a function of its own, of the best of several maps.
type Class struct {
	Loss losses.Loss
	// Lambda is λ.
	Lambda float64
	// Limit is C, 0 for none: functions differ from Middle by at most C.
	Limit, Middle float64
	// One of Maps, Sizes and Kernel is given. A single map may grow: earlier rows have 0 for later
	// features. Sizes are the numbers of features of each map for a learner whose AppendInput appends
	// the features themselves. Kernel has all functions of its space.
	Maps   []feature.Map
	Sizes  []int
	Kernel *kernel.Kernel
	// Now: the maps as they are at the end give the features of all rounds.
	Now bool
	// Baselines is the number of the last numbers of AppendInput that the maps do not take: what the
	// functions add to, one an output, in the learner's units. AppendInput of a later state has others.
	Baselines int
	// Offsets and Scales turn the label y of output j into (y − Offsets[j]) Scales[j], unless nil.
	Offsets, Scales []float64
}

func (c *Class) appendFeatures(dst, input []float64) []float64 {
	input = input[:len(input)-c.Baselines]
	if c.Now {
		return append(dst, input...) // See Windows.
	}
	for _, m := range c.Maps {
		from := len(dst)
		dst = append(dst, make([]float64, m.Size())...)
		m.Map(dst[from:], input)
	}
	if c.Maps == nil {
		dst = append(dst, input...)
	}
	return dst
}

// competing is a learner that competes with a Class. The class is unknown until the scaling and the map are known.
type competing interface {
	Class() (c Class, known bool)
}

// presenting is a learner that changes inputs.
type presenting interface {
	// AppendInput appends what the maps of the class want of the input of the next round: nothing while
	// a warm-up keeps the input to learn it later.
	AppendInput(dst, x []float64) []float64
}

// Coding is a learner of classes.
type Coding interface {
	// AppendCode appends the labels of a class by its number.
	AppendCode(dst []float64, class int) []float64
}

// ClassOf is the class of a learner.
func ClassOf(l model.Learner) (c Class, known bool) {
	if competes, ok := model.As[competing](l); ok {
		return competes.Class()
	}
	return c, false
}

// AppendInput appends what the maps of a learner's class want of the input of the next round.
func AppendInput(l model.Learner, dst, x []float64) []float64 {
	if presents, ok := model.As[presenting](l); ok {
		return presents.AppendInput(dst, x)
	}
	return append(dst, x...)
}

// Rows are the newest rows of a stream, oldest first.
type Rows struct {
	class Class
	rows  []row
	// input is the input of the present round. numbers counts the features in rows.
	input   []float64
	numbers int
}

type row struct {
	// features are nil while a warm-up keeps x to learn it later.
	features, x, labels []float64
	baselines           []float64
	weight, loss        float64
}

// maxNumbers bounds the memory of Rows: features of all rows together.
const maxNumbers = 1 << 21

// Bytes is the memory that Rows and Windows take, without inputs and labels.
const Bytes = 3 * 8 * maxNumbers

// Rounds is how many rows of so many features Rows holds at most.
func Rounds(features int) int { return maxNumbers / max(1, features) }

// Begin begins the round of an input, before the learner learns it.
func (r *Rows) Begin(l model.Learner, x []float64) { r.input = AppendInput(l, r.input[:0], x) }

// End ends the round, given the labels, and the learner's prequential loss times the weight.
func (r *Rows) End(l model.Learner, x, labels []float64, weight, loss float64) {
	if len(r.input) == 0 {
		r.rows = append(r.rows, row{x: slices.Clone(x), labels: slices.Clone(labels), weight: weight, loss: loss})
	}
	if !r.Follow(l) {
		if len(r.input) > 0 {
			r.rows, r.numbers = nil, 0 // A window has no gaps.
		}
		return
	}
	if len(r.input) > 0 {
		features := r.class.appendFeatures(nil, r.input)
		r.numbers += len(features)
		baselines := slices.Clone(r.input[len(r.input)-r.class.Baselines:])
		r.rows = append(r.rows, row{features: features, labels: slices.Clone(labels), baselines: baselines, weight: weight, loss: loss})
	}
	for r.numbers > maxNumbers {
		r.numbers -= len(r.rows[0].features)
		r.rows = r.rows[1:]
	}
}

// Follow follows a round of which the learner did not learn the row, and reports whether the class is
// known. Rows before a change of the units of labels have another class and are dropped.
func (r *Rows) Follow(l model.Learner) (known bool) {
	class, known := ClassOf(l)
	if !known {
		return false
	}
	if !slices.Equal(class.Offsets[:min(len(class.Offsets), len(r.class.Offsets))], r.class.Offsets) ||
		!slices.Equal(class.Scales[:min(len(class.Scales), len(r.class.Scales))], r.class.Scales) {
		for len(r.rows) > 0 && r.rows[0].features != nil {
			r.numbers -= len(r.rows[0].features)
			r.rows = r.rows[1:]
		}
	}
	r.class = class
	if class.Baselines > 0 {
		r.rows = slices.DeleteFunc(r.rows, func(r row) bool { return r.features == nil })
	}
	for n := range r.rows {
		if row := &r.rows[n]; row.features == nil {
			row.features = class.appendFeatures([]float64{}, AppendInput(l, nil, row.x))
			row.x = nil
			r.numbers += len(row.features)
		}
	}
	return true
}

// Window is the regret on the last rounds that were learned.
type Window struct {
	Rounds int
	// Loss is the learner's prequential loss. HindsightLoss is at most L*, and at least L* less Gap.
	Loss, HindsightLoss, Gap float64
}

// Regret is at least the regret, and at most the regret and Gap.
func (w *Window) Regret() float64 { return w.Loss - w.HindsightLoss }

const (
	// The first window has firstWindow rounds, unless there are fewer.
	firstWindow = 16
	// The rows times the squares of their features are at most maxWork in a least squares problem, and
	// maxNewton in a problem of another loss, which takes some fifty times as long.
	maxWork, maxNewton = 4e9, 2e8
)

// Windows returns the windows of the last 16, 32, 64, … rounds and the window of all rows, at most limit and
// as many as some seconds suffice for. It calls pause between pieces of the work, so that others run.
func (r *Rows) Windows(limit int, pause func()) []Window {
	rows := r.rows[max(0, len(r.rows)-limit):]
	for len(rows) > 0 && rows[0].features == nil {
		rows = rows[1:]
	}
	if k := slices.IndexFunc(rows, func(r row) bool { return r.features == nil }); k >= 0 {
		rows = nil // A warm-up keeps the newest rows.
	}
	if r.class.Now {
		class := r.class
		class.Now = false
		rows = slices.Clone(rows)
		for n := range rows {
			rows[n].features = class.appendFeatures(nil, rows[n].features)
		}
	}
	limited := float64(maxWork)
	if r.class.newton() {
		limited = maxNewton
	}
	for len(rows) > 0 && r.class.work(rows) > limited {
		rows = rows[1:]
	}
	windows := windowsOf(rows)
	if len(rows) == 0 {
		return windows
	}
	outputs := len(rows[len(rows)-1].labels)
	least := make([][]bounds, len(windows)) // By windows and outputs.
	for m, coordinates := range r.class.maps(rows, pause) {
		for k, found := range r.class.solve(rows, coordinates, windows, outputs, pause) {
			if m == 0 {
				least[k] = found
				continue
			}
			for j, b := range found {
				least[k][j] = bounds{math.Min(least[k][j].lower, b.lower), math.Min(least[k][j].upper, b.upper)}
			}
		}
	}
	for k := range windows {
		for j, b := range least[k] {
			unit := r.class.unit(j)
			windows[k].HindsightLoss += float64(b.lower * unit)
			windows[k].Gap += float64((b.upper - b.lower) * unit)
		}
	}
	return windows
}

// windowsOf are windows with the loss alone.
func windowsOf(rows []row) (windows []Window) {
	var loss compensated.Sum
	next := firstWindow
	for n := 1; n <= len(rows); n++ {
		loss.Add(rows[len(rows)-n].loss)
		if n == next || n == len(rows) {
			windows = append(windows, Window{Rounds: n, Loss: loss.Value()})
			next *= 2
		}
	}
	return windows
}

// newton reports whether L* needs Newton steps: least squares need none.
func (c *Class) newton() bool { return c.Loss != losses.Squared || c.Limit > 0 }

func (c *Class) work(rows []row) float64 {
	r := len(rows[len(rows)-1].features)
	if n := len(rows); c.Kernel != nil || n < r {
		r = n
	}
	return float64(len(rows)) * float64(r) * float64(r)
}

// unit is the squared unit of the labels of an output.
func (c *Class) unit(output int) float64 {
	if c.Scales == nil {
		return 1
	}
	return 1 / (c.Scales[output] * c.Scales[output])
}

// label is the label of an output of a row in the units of the class, less the middle. An output that
// came later had the label 0.
func (c *Class) label(r *row, output int) float64 {
	y := 0.0
	if output < len(r.labels) {
		y = r.labels[output]
	}
	if c.Scales != nil {
		y = (y - c.Offsets[output]) * c.Scales[output]
	}
	if output < len(r.baselines) {
		y -= r.baselines[output]
	}
	return y - c.Middle
}
