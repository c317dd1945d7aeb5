package auto

// keyBases is the number of predictions that effects are learned beside: v, and what the trees
// beside effects predict of a row without its effect. Until level 2 is awake both are v. The
// columns of the keys are the columns of the effects beside trees.
const keyBases = 2

// treeBase is what the trees beside effects, the first of the lineup, predict of a row without its effect, given the
// experts of level 2.
func (l *Learner) treeBase(k *keyedScratch, experts []float64, output int) float64 {
	base := l.lineupOf(experts)[0]
	for _, mu := range k.columnsOf(output)[:l.o.keyed] {
		base -= mu
	}
	return base
}

// adviseTreeKeys writes the prediction of the last expert of the lineup: the trees beside effects
// with the effect of the source of several inputs that pays most.
func (l *Learner) adviseTreeKeys(k *keyedScratch, experts []float64, output int) {
	experts[len(experts)-1] = k.units[output].cut(l.treeBase(k, experts, output) + k.beside[output])
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
	e.Learn(k.row, l.n-1, r.counts, k.labels, k.bases, k.served, k.before)
	l.chooseSloped()
}
