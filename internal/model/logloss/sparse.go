package logloss

import (
	"math"

	"hindsight/internal/model/codec"
	"hindsight/internal/model/mix"
)

// sparse is a regression of each class on many numbers, p(k) ∝ exp(w_k·v). The features v of a row are its
// counts, divided by their norm; the other numbers, standardized and divided by the root of how many
// they are; and 1. A row costs O(K) for each feature that is not 0.
type sparse struct {
	features int
	classes  []regression
}

func (m *multinomial) features(dst []entry, counts []entry, z []float64) []entry {
	square, others := 0.0, 0
	for _, e := range counts {
		square += float64(e.value * e.value)
	}
	for _, e := range counts {
		dst = append(dst, entry{e.number, e.value / math.Sqrt(square)})
	}
	for _, measured := range m.measured {
		if measured {
			others++
		}
	}
	for j, measured := range m.measured {
		if measured && z[j] != 0 {
			dst = append(dst, entry{j, z[j] / math.Sqrt(float64(others))})
		}
	}
	return append(dst, entry{len(m.measured), 1})
}

// logs writes log p(k) of all classes, 0 before the exponential of a class that it does not know.
func (n *sparse) logs(dst, each []float64, row []entry) {
	n.odds(dst, row)
	normalize(dst, each)
}

func (n *sparse) odds(dst []float64, row []entry) {
	clear(dst)
	for k := range n.classes[:min(len(n.classes), len(dst))] {
		dst[k] = n.classes[k].odds(row)
	}
}

// learn learns a row of a class, the next one if it is new, among so many classes. P is scratch of their number.
func (n *sparse) learn(p []float64, row []entry, class int, weight float64) {
	for len(n.classes) < len(p) {
		n.classes = append(n.classes, newRegression(n.features))
	}
	n.odds(p, row)
	mix.Exponential(p)
	mix.Normalize(p)
	for k := range n.classes {
		c := &n.classes[k]
		c.learn(row, p[k], indicator(class, k), c.spread(row), weight)
	}
}

func (n *sparse) visit(v *codec.Visitor, classes int) {
	if v.Reading() {
		n.classes = nil
		for range classes {
			n.classes = append(n.classes, newRegression(n.features))
		}
	}
	for k := range n.classes {
		n.classes[k].visit(v)
	}
}
