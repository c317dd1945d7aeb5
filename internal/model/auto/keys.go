package auto

import (
	"slices"

	"hindsight/internal/model/effects"
)

// Key is an input whose values are keys: names of what a row is about, such as a user. A value
// is any number but 0, which is missing. Keys have no order and no distance.
type Key struct {
	Feature int
	// Encoded says that other inputs identify the most frequent values.
	Encoded bool
}

const (
	// DefaultMaxKeys is the MaxKeys of options without one.
	DefaultMaxKeys = 1 << 16
	// MaxKeyedOutputs is the most outputs that keys have effects on: the memory of a key and the time
	// of a row grow with the outputs.
	MaxKeyedOutputs = 8
)

// validKeys reports whether the keys are inputs, in order.
func (o Options) validKeys() bool {
	last := -1
	for _, key := range o.Keys {
		if key.Feature <= last || key.Feature >= o.Dimension {
			return false
		}
		last = key.Feature
	}
	return o.MaxKeys >= 0
}

// numbers are the inputs that are no keys.
func (o Options) numbers() []int {
	keys, numbers := o.Keys, make([]int, 0, o.Dimension)
	for j := range o.Dimension {
		if len(keys) > 0 && keys[0].Feature == j {
			keys = keys[1:]
			continue
		}
		numbers = append(numbers, j)
	}
	return numbers
}

// numeric are the options of the learner of the inputs that are no keys. If all inputs are
// keys, the learner has one input, which is 0.
func (o Options) numeric() Options {
	if len(o.Keys) == 0 {
		return o.screened()
	}
	at, before := make([]int, o.Dimension+1), 0
	keys := o.Keys
	for j := range at {
		at[j] = before
		if len(keys) > 0 && keys[0].Feature == j {
			keys = keys[1:]
		} else {
			before++
		}
	}
	n := o
	n.Dimension = max(1, o.Dimension-len(o.Keys))
	n.Joint, n.Cycles, n.Flags, n.Keys = nil, nil, nil, nil
	for _, s := range o.Joint {
		n.Joint = append(n.Joint, Span{at[s.From], at[s.To]})
	}
	for _, j := range o.Cycles {
		n.Cycles = append(n.Cycles, at[j])
	}
	for _, j := range o.Flags {
		n.Flags = append(n.Flags, at[j])
	}
	if o.Outputs <= MaxKeyedOutputs {
		n.keyed = min(len(o.Keys), effects.MostInputs)
		n.encoded = !slices.ContainsFunc(o.Keys, func(k Key) bool { return !k.Encoded })
	}
	return n.screened()
}

func (o Options) effects() effects.Options {
	keys := o.MaxKeys
	if keys == 0 {
		keys = DefaultMaxKeys
	}
	return effects.Options{Inputs: o.keyed, Outputs: keyBases * o.Outputs, MaxKeys: keys, Kinds: o.keyKinds(), Sloped: o.Outputs, Numbers: o.sloped()}
}

func (o Options) keyExperts() int {
	if o.keyed == 0 {
		return 0
	}
	return o.effects().Experts() + o.effects().Products() + o.keyAffineExperts()
}

func (o Options) keyColumns() int {
	if o.keyed == 0 {
		return 0
	}
	return o.effects().Columns()
}

// windowKeys is the number of the columns that the window has.
func (o Options) windowKeys() int {
	if o.keyed == 0 {
		return 0
	}
	return o.keyKinds() * o.effects().Groups()
}

// mostKeyColumns is the most columns of keys that the window has.
const mostKeyColumns = 120

// keyKinds is the number of kinds of columns: all, or as many as there is room for. Keys have effects
// and no columns if every key is encoded: trees and neighbors see the encoded values.
func (o Options) keyKinds() int {
	if o.keyed == 0 || o.encoded {
		return 0
	}
	return min(effects.ColumnsEach, mostKeyColumns/(o.keyed+1))
}
