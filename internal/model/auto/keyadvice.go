package auto

import (
	"math"

	"hindsight/internal/model/codec"
)

// keyedBlock is the numbers of the keys in advice, by outputs: the columns, v + e of every
// expert, u, and the number of the last observation with the key, counted from 1.
type keyedBlock struct {
	numbers          []float64
	columns, experts int
	// windowed columns are in the window too.
	windowed int
	// groups is the number of columns of each kind.
	groups int
}

func (o Options) keyedBlock() keyedBlock {
	return keyedBlock{columns: o.keyColumns(), experts: o.keyExperts(), windowed: o.windowKeys(), groups: o.view().keyGroups()}
}

func (b keyedBlock) size() int {
	if b.experts == 0 {
		return 0
	}
	return b.columns + b.experts + 2
}

func (b keyedBlock) of(output int) (columns, experts []float64, u float64) {
	part := b.numbers[output*b.size():][:b.size()]
	return part[:b.columns], part[b.columns:][:b.experts], part[b.size()-2]
}

// after is the number of the last observation with the key, counted from 1.
func (b keyedBlock) after(output int) float64 { return b.numbers[(output+1)*b.size()-1] }

// base is what level 2 had as the prediction below.
func (a *advice) base(output int) float64 {
	if len(a.keyed.numbers) == 0 {
		_, _, _, v := a.level1.of(output)
		return v
	}
	_, _, u := a.keyed.of(output)
	return u
}

func (k *keyedScratch) appendAdvice(dst []float64) []float64 {
	for j, u := range k.us {
		dst = append(dst, k.columnsOf(j)...)
		dst = append(dst, k.predictionsOf(j)[1:]...)
		dst = append(dst, u, float64(k.after))
	}
	return dst
}

// keyColumns writes the served columns of an output, and the last row of the key, into the scratch.
func (a *advice) keyColumns(k *keyedScratch, output int) {
	columns, _, _ := a.keyed.of(output)
	copy(k.columnsOf(output), columns)
	k.after = uint64(a.keyed.after(output))
}

// keyPredictions writes the served v and v + e of an output, and returns u.
func (a *advice) keyPredictions(dst []float64, output int) (u float64) {
	_, _, _, dst[0] = a.level1.of(output)
	_, experts, u := a.keyed.of(output)
	copy(dst[1:], experts)
	return u
}

// keyRange is the range that column i of the keys is cut to, of which the first windowed are in
// the window: labels are within the range of the labels, means within its width, and logarithms
// of counts below mostLog.
func (m *mixer) keyRange(i, groups, windowed int) (low, high float64) {
	switch units, label := keyKind(i, groups, windowed); {
	case label:
		return m.low, m.high
	case units:
		return m.lowest - m.highest, m.highest - m.lowest
	default:
		return 0, mostLog
	}
}

const mostLog = 64 // Exceeds log maxObservations.

func (m *mixer) cutColumns(columns []float64, groups, windowed int) {
	for i, v := range columns {
		low, high := m.keyRange(i, groups, windowed)
		columns[i] = within(v, low, high)
	}
}

// possibleKeys reports whether the advice of the keys is in the range that it was cut to.
func (m *mixer) possibleKeys(a *advice, output int) bool {
	if len(a.keyed.numbers) == 0 {
		return true
	}
	columns, experts, u := a.keyed.of(output)
	for i, c := range columns {
		if low, high := m.keyRange(i, a.keyed.groups, a.keyed.windowed); !(c >= low && c <= high) {
			return false
		}
	}
	if after := a.keyed.after(output); !(after >= 0 && after <= float64(a.seen)) || after != math.Trunc(after) {
		return false
	}
	_, _, _, v := a.level1.of(output)
	for _, f := range experts {
		if !inRange(f, m.lowest, m.highest, a.seen > 0) {
			return false
		}
	}
	return m.mixes(u, v, experts)
}

// visitKeyed visits the columns of a kept row.
func (r *row) visitKeyed(v *codec.Visitor, o Options) {
	if v.Reading() {
		r.keyed = make([]float64, o.keyColumns()*o.Outputs)
		if o.keyed > 0 {
			r.vs = make([]float64, o.Outputs)
		}
	}
	if o.keyed > 0 {
		v.Uint64(&r.after)
	}
	v.FloatsWithin(maxReach, r.keyed)
	v.FloatsWithin(maxReach, r.vs)
}

func (r *row) columnsOf(output, columns int) []float64 { return r.keyed[output*columns:][:columns] }
