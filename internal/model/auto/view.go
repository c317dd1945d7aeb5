package auto

import (
	"math"

	"hindsight/internal/model/codec"
	"hindsight/internal/model/neighbors"
	"hindsight/internal/model/window"
)

// view are the inputs as the lineup sees them: the numbers; in place of the indicators of each
// category the mean label of its earlier rows; in place of the sine and the cosine of each
// cycle the angle; and the number of each category.
type view struct {
	numbers, cycles, flags []int
	categories             []Span
	// keys is the number of columns of the keys.
	keys int
	// keyed reports whether keys have effects.
	keyed bool
	// kinds is the number of their kinds.
	kinds int
}

func (v view) keyGroups() int { return v.keys / max(1, v.kinds) }

func (o Options) view() view {
	v := view{keyed: o.keyed > 0, cycles: o.Cycles, flags: o.Flags, categories: o.Joint, keys: o.windowKeys(), kinds: o.keyKinds()}
	taken := make([]bool, o.Dimension)
	for _, c := range o.Cycles {
		taken[c], taken[c+1] = true, true
	}
	for _, span := range o.Joint {
		for j := span.From; j < span.To; j++ {
			taken[j] = true
		}
	}
	for j, is := range taken {
		if !is {
			v.numbers = append(v.numbers, j)
		}
	}
	return v
}

// differing is the number of inputs that have differences: the numbers and the means.
func (v view) differing() int { return len(v.numbers) + len(v.categories) }

// nearKinds are the kinds of columns of the keys that have distances: the effect and the decayed
// label of keys that say nothing are near the keys of others, the last labels are not.
const nearKinds = 2

// near is the number of inputs that have distances: the numbers, the means and, as far as there is
// room, the columns of the keys.
func (v view) near() int {
	near, groups := v.differing(), v.keyGroups()
	for range min(nearKinds, v.kinds) {
		if near+groups <= neighbors.MostInputs {
			near += groups
		}
	}
	return near
}

// discretes is the first input after the columns of the keys: the angle of the first cycle. The
// numbers of the categories follow the angles.
func (v view) discretes() int { return v.differing() + v.keys }

func (v view) layout() window.Layout {
	return window.Layout{Inputs: v.discretes() + len(v.cycles) + len(v.categories), Deltas: v.differing(), Keyed: v.keyed}
}

func (v view) indicators() int {
	total := 0
	for _, span := range v.categories {
		total += span.To - span.From
	}
	return total
}

// fill writes the inputs of the view, given the means of the categories.
func (v view) fill(dst, x, keys []float64, means []mean) {
	for i, j := range v.numbers {
		dst[i] = x[j]
	}
	copy(dst[v.differing():], keys[:v.keys])
	for i, c := range v.cycles {
		dst[v.discretes()+i] = angle(x[c], x[c+1])
	}
	codes := dst[v.discretes()+len(v.cycles):]
	for i, span := range v.categories {
		own := means[:span.To-span.From]
		means = means[len(own):]
		k := active(x[span.From:span.To])
		codes[i], dst[len(v.numbers)+i] = float64(k), 0
		if k >= 0 {
			dst[len(v.numbers)+i] = own[k].value()
		}
	}
}

// active is the number of the indicator that is set, or −1 if none is.
func active(indicators []float64) int {
	for k, v := range indicators {
		if v != 0 {
			return k
		}
	}
	return -1
}

// angle grows with the angle of a sine and a cosine, from 0 up to 4 at a full turn, without
// a transcendental function.
func angle(sine, cosine float64) float64 {
	sum := math.Abs(sine) + math.Abs(cosine)
	if sum == 0 {
		return 0
	}
	part := cosine / sum
	if sine < 0 {
		return 3 + part
	}
	return 1 - part
}

// mean is the mean label of a category, drawn towards 0 as by categoryPrior labels of 0.
type mean struct{ n, sum float64 }

const categoryPrior = 8

func (m *mean) value() float64 { return m.sum / (m.n + categoryPrior) }

// learn teaches the means the label of an input, in the units of the experts, of a row that counts ω.
func (v view) learn(means []mean, x []float64, label, counts float64) {
	for _, span := range v.categories {
		own := means[:span.To-span.From]
		means = means[len(own):]
		if k := active(x[span.From:span.To]); k >= 0 {
			own[k].n += counts
			own[k].sum += float64(counts * label)
		}
	}
}

// units writes the offsets and units of the inputs, and last of the labels, given the learner, which has the moments of
// the inputs, and the units of the labels.
func (v view) units(offsets, scales []float64, of *Learner, own units) {
	last := v.layout().Inputs
	offsets[last], scales[last] = own.offset, own.scale
	for i, j := range v.numbers {
		offsets[i], scales[i] = of.meanOf(j), of.scaleOf(j)
	}
	for i := len(v.numbers); i < last; i++ {
		offsets[i], scales[i] = 0, 1
	}
	for i := range v.keys {
		switch units, label := keyKind(i, v.keyGroups(), v.keys); {
		case label:
			offsets[v.differing()+i] = own.offset
			fallthrough
		case units:
			scales[v.differing()+i] = own.scale
		}
	}
}

func visitMeans(v *codec.Visitor, means []mean) {
	const most = 1 << 53
	for i := range means {
		v.Within(most, &means[i].n)
		v.Within(maxEntry, &means[i].sum)
		if v.Reading() && means[i].n < 0 {
			v.Corrupt("a category of %g rows", means[i].n)
		}
	}
}
