package auto

import (
	"slices"

	"hindsight/internal/model/trees"
)

// The experts of the effects beside trees: the best variant of single keys, alone and with the
// source that pays most.
const treeKeyExperts = 2

// treeBase is what the trees beside effects predict of the row without the effect, given the
// experts of level 2.
func (l *Learner) treeBase(k *keyedScratch, experts []float64, output int) float64 {
	base := l.lineupOf(experts)[slices.Index(l.lineup.columns, trees.Beside)]
	for _, mu := range k.columnsOf(output)[:l.o.keyed] {
		base -= mu
	}
	return base
}

// adviseTreeKeys writes the predictions of the effects beside trees.
func (l *Learner) adviseTreeKeys(k *keyedScratch, experts []float64, output int) {
	base := l.treeBase(k, experts, output)
	lineup := l.lineupOf(experts)
	for i := range treeKeyExperts {
		lineup[len(lineup)-treeKeyExperts+i] = k.units[output].cut(base + k.beside[treeKeyExperts*output+i])
	}
}

// learnEffects teaches the effects a row, beside v and beside trees as served. Which variant is
// best beside trees follows from what the variants say now.
func (l *Learner) learnEffects(r row) {
	k, e := l.scratch.keyed, l.keyed.effects
	experts, outputs := l.o.effects().Experts(), l.o.Outputs
	copy(k.labels, r.y)
	copy(k.labels[outputs:], r.y)
	for j := range r.y {
		said := k.served[(outputs+j)*experts:][:experts]
		e.Say(said, k.row, outputs+j)
		for i := range said {
			said[i] += k.bases[outputs+j]
		}
	}
	e.Learn(k.row, l.n-1, r.counts, k.labels, k.bases, k.served)
}
