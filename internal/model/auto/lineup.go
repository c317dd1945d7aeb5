package auto

import (
	"hindsight/internal/model/mix"
	"hindsight/internal/model/moments"
	"hindsight/internal/model/neighbors"
	"hindsight/internal/model/qr"
	"hindsight/internal/model/trees"
	"hindsight/internal/model/window"
)

// lineup are the experts that level 2 adds for each output: columns of trees, then the
// experts of package neighbors, then the crosses.
type lineup struct {
	columns            []trees.Kind
	neighbors, crosses bool
	// keys is the expert of several keys beside trees.
	keys bool
	// cells is the number of numbers of the cells, 0 without cells.
	cells int
	// logs is the number of features of the logs, 0 without logs.
	logs int
}

// lineups are all lineups that the inputs allow, the most expensive first. With keys, trees beside their effects are in
// place of the trees of labels.
func (o Options) lineups() []lineup {
	first := trees.Labels
	if o.windowKeys() > 0 {
		first = trees.Beside
	}
	v, columns := o.view(), []trees.Kind{first, trees.Residuals, trees.Changes, trees.Plain}
	if v.layout().Capacity() < leastWindow || o.last() < lastStage {
		return nil
	}
	all := []lineup{{columns: columns, neighbors: true}, {columns: columns[:3], neighbors: true}, {columns: columns[:3]}, {columns: columns[:2]}}
	if v.near() == 0 || v.near() > neighbors.MostInputs {
		all = all[2:]
	}
	for i := range all {
		l := &all[i]
		l.crosses, l.keys, l.logs = v.crossed() > 0, v.keyGroups() > 1, o.logFeatures()
		if len(v.numbers) <= maxCelled && len(v.categories) == 0 && o.keyed == 0 {
			l.cells = len(v.numbers)
		}
	}
	return all
}

const (
	// Windows of fewer rows hold too little for trees.
	leastWindow = 1024
	// The outputs have mostWindows full windows together.
	mostWindows = 4
	// Nanoseconds of an Observe for a column of trees of 31 leaves and of 127 leaves.
	columnTime, plainTime = 25_000, 50_000
	// Nanoseconds of one descent of a tree.
	descentTime = 10
)

// capacity is the number of rows of each output's window.
func (o Options) capacity() int {
	whole := o.view().layout().Capacity()
	return min(whole, max(leastWindow, mostWindows*whole/o.Outputs))
}

func (o Options) lineup() lineup {
	_, l := o.choose()
	return l
}

// forestOptions share the work of one Observe among the outputs.
func (o Options) forestOptions(l lineup, output int) trees.Options {
	layout := o.view().layout()
	return trees.Options{
		Seed: o.Seed + uint64(output), Inputs: layout.Inputs, Deltas: layout.Deltas, Keyed: layout.Keyed, Columns: l.columns,
		Means: trees.Span{From: len(o.view().numbers), To: o.view().differing()},
		Keys:  trees.Keys{From: o.view().differing(), Effect: o.view().differing() + o.keyed, To: o.view().discretes()},
		Work:  max(1, min(trees.DefaultWork, 2*trees.DefaultWork/o.Outputs)),
	}
}

// parts is how many numbers the neighbors say beside v.
func (l lineup) parts() int {
	if !l.neighbors {
		return 0
	}
	return neighbors.Experts
}

func (l lineup) empty() bool { return l.experts() == 0 }

// experts is F, the number of experts of an output.
func (l lineup) experts() int {
	count := len(l.columns)
	if l.neighbors {
		count += neighbors.Experts
	}
	if l.crosses {
		count += crossExperts
	}
	if l.cells > 0 {
		count += cellExperts
	}
	if l.logs > 0 {
		count += logExperts
	}
	if l.keys {
		count++
	}
	return count
}

// level2Experts is the number of experts of level 2: v, or u with keys, the experts of level 1,
// the experts of the keys and the experts of the lineup.
func (o Options) level2Experts(p Plan, l lineup) int {
	return 1 + p.experts() + o.keyExperts() + l.experts()
}

// nearAsleep marks the experts of level 2 that are no neighbors.
func (o Options) nearAsleep(l lineup) []bool {
	awake := make([]bool, o.level2Experts(o.plan(), l))
	from := len(awake) - l.experts() + len(l.columns)
	for k := range awake {
		awake[k] = !l.neighbors || k < from || k >= from+neighbors.Experts
	}
	return awake
}

// Names of experts of level 2.
const levelOne = "level_1"

func (l lineup) names() []string {
	var names []string
	for _, kind := range l.columns {
		names = append(names, "trees/"+[...]string{"label", "increment", "residual", "plain", "beside"}[kind])
	}
	if l.neighbors {
		names = append(names, "neighbors/affine", "neighbors/residual", "neighbors/mean")
	}
	if l.crosses {
		names = append(names, "crosses/label", "crosses/residual", "crosses/increment")
	}
	if l.cells > 0 {
		names = append(names, "cells/label", "cells/coarse", "cells/residual")
	}
	if l.logs > 0 {
		names = append(names, "affine/logarithms/product", "affine/logarithms/value", "affine/logarithms/increment")
	}
	if l.keys {
		names = append(names, "keys/trees/several")
	}
	return names
}

// lineupFlops are nominal multiply-adds of an Observe and of a Predict, all outputs and level
// 2 included.
func (o Options) lineupFlops(p Plan, l lineup) (observe, predict uint64) {
	const nanosecond = flopsPerMicrosecond / 1000
	experts, rows := o.level2Experts(p, l), o.capacity()
	for _, kind := range l.columns {
		each := uint64(columnTime)
		if kind == trees.Plain {
			each = plainTime
		}
		predict += nanosecond * descentTime * trees.Trees
		observe += nanosecond * (each + descentTime*trees.Trees)
	}
	both := 40 * uint64(experts)
	if l.neighbors {
		both += neighbors.Flops(o.view().near(), rows)
	}
	if l.crosses {
		both += uint64(20 * o.view().crossed())
	}
	both += cellFlops(l.cells)
	predict += both + uint64(l.logs*(l.logs+1)/2+3*l.logs)
	observe += both + factorFlops(l.logs, logExperts)
	for _, f := range stackForgettings() {
		r := stackSize(experts)
		observe += factorFlops(r, 1) + renewalFlops(r, f)
		predict += uint64(r*(r+1)/2 + 3*r)
	}
	return observe * uint64(o.Outputs), predict * uint64(o.Outputs)
}

// level2Bytes is the memory of the mixtures and the stacks of level 2 with their scratch.
func (o Options) level2Bytes(l lineup) uint64 {
	experts := o.level2Experts(o.plan(), l)
	each := mix.Bytes(experts) + mix.Bytes(level2Finalists) + stacks*qr.Bytes(stackSize(experts), 1) + tops*qr.Bytes(topSize, 1) +
		8*uint64(4*(level2Finalists+l.experts())+experts+32+topSize+2+2*stacks*stackSize(experts))
	each += 16 * uint64(1+l.experts()) // Of passed.
	each += buckets * (mix.Bytes(len(opinions{})) + staleBytes)
	return uint64(o.Outputs) * each
}

// memoryBytes is the memory of what the experts of the lineup know.
func (o Options) memoryBytes(l lineup) uint64 {
	rows, v := o.capacity(), o.view()
	columns := v.layout().Columns()
	each := 16*uint64(v.indicators()) + window.Bytes(rows, v.layout()) + o.forestOptions(l, 0).Bytes(rows)
	if l.crosses {
		each += crossBytes(v.crossed())
	}
	each += cellBytes(l.cells) + qr.Bytes(l.logs, logExperts) + 16*uint64(l.logs+logExperts) + 8*(moments.Numbers+2)*uint64(len(v.numbers))
	total := uint64(o.Outputs)*each + 16*uint64(columns)
	if l.neighbors {
		total += neighbors.Bytes(v.near(), rows+window.Slack)
	}
	return total
}
