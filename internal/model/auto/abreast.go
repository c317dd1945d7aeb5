package auto

import (
	"hindsight/internal/model"
	"hindsight/internal/model/qr"
	"hindsight/internal/model/trees"
)

// PredictAll is Predict of every input, bit for bit. The factors and the trees, most of a Predict, serve
// rowsAbreast inputs in one pass.
func (l *Learner) PredictAll(p []*model.Prediction, x [][]float64) error {
	for _, row := range x {
		if err := l.checkFeatures(row); err != nil {
			return err
		}
	}
	if stageAfter(l.n) == complete {
		for b := l.newAbreast(len(x)); len(x) >= rowsAbreast; p, x = p[rowsAbreast:], x[rowsAbreast:] {
			l.predictAbreast(b, p[:rowsAbreast], x)
		}
	}
	for n, row := range x {
		if err := l.Predict(p[n], row); err != nil {
			return err
		}
	}
	return nil
}

const rowsAbreast = qr.Abreast // It equals trees.Abreast.

// abreast is the scratch of inputs that are predicted together.
type abreast struct {
	each  [rowsAbreast]*scratch
	fresh [rowsAbreast]bool
	// features are the features of one factor; qr.SolveAbreast takes solved and priors.
	features, solved, priors []float64
	squares                  [rowsAbreast]float64
	asked                    [rowsAbreast]asked
	// row are the features of one input, room is for trees.SumAbreast.
	row  []float64
	room []float32
}

// newAbreast is the scratch for so many inputs, nil for too few.
func (l *Learner) newAbreast(inputs int) *abreast {
	if inputs < rowsAbreast {
		return nil
	}
	widest := stackSize(l.plan.experts())
	for _, e := range l.experts {
		widest = max(widest, e.features.size)
	}
	b := &abreast{priors: qr.NewRow(2 * l.o.Outputs * rowsAbreast)}
	if l.awake() {
		widest = max(widest, stackSize(l.o.level2Experts(l.plan, l.lineup)))
		b.room = make([]float32, l.view.layout().Columns()*rowsAbreast)
	}
	b.features, b.solved, b.row = qr.NewRow(widest*rowsAbreast), qr.NewRow(widest*rowsAbreast), make([]float64, widest)
	return b
}

func (l *Learner) predictAbreast(b *abreast, p []*model.Prediction, x [][]float64) {
	var buckets [rowsAbreast]int
	for n := range b.each {
		s := l.pool.Get().(*scratch) //nolint:forcetypeassert // The pool holds nothing else.
		defer l.pool.Put(s)
		buckets[n] = l.ahead(p[n].Horizon)
		b.each[n], b.fresh[n] = s, buckets[n] < 0
		l.foresee(s, l.split(s, x[n]), l.lags, l.n)
		l.baselines(s, b.fresh[n])
	}
	l.solveAbreast(b)
	l.mixAbreast(b)
	for n, s := range b.each {
		l.say(p[n], s, buckets[n])
	}
}

// spread writes the features of input n.
func (b *abreast) spread(features []float64, n int) {
	for at, v := range features {
		b.features[at*rowsAbreast+n] = v
	}
}

// solve writes the priors and the squares of a factor.
func (b *abreast) solve(f *qr.Factor) {
	size := f.Order() * rowsAbreast
	copy(b.solved[:size], b.features)
	f.SolveAbreast(b.solved[:size], b.priors[:f.Columns()*rowsAbreast], &b.squares)
}

func (l *Learner) solveAbreast(b *abreast) {
	for i := range l.experts {
		e := &l.experts[i]
		for n, s := range b.each {
			z := s.solved.maps[i].z
			e.features.fill(z, s, &l.bandwidths)
			b.spread(z, n)
			l.adviseDescents(s, e, z)
		}
		for f, factor := range e.factors {
			b.solve(factor)
			for n, s := range b.each {
				priors := s.solved.maps[i].factors[f].Priors
				for c := range priors {
					priors[c] = b.priors[c*rowsAbreast+n]
				}
				l.advise(s, e.at+2*f, priors, b.squares[n]/l.plan.forgettings[f])
			}
		}
	}
	if l.screen != nil {
		for _, s := range b.each {
			l.adviseWide(s)
		}
	}
}

// solveStacks is stacked.solve of what is asked of each input.
func (b *abreast) solveStacks(m *stacked) {
	for n := range b.asked {
		row := b.row[:m.stacks[0].Order()]
		b.asked[n].row(row)
		b.spread(row, n)
	}
	for i, f := range stackForgettings() {
		b.solve(m.stacks[i])
		for n, q := range b.asked {
			q.final[1+i] = q.stack(q.final[0], b.priors[n], b.squares[n]/f)
		}
	}
}

// mixAbreast is mixLevels of each input.
func (l *Learner) mixAbreast(b *abreast) {
	for j := range l.mixers {
		for n, s := range b.each {
			b.asked[n] = l.mixLevel1(s, j, b.fresh[n])
		}
		b.solveStacks(&l.mixers[j].stacked)
		for _, s := range b.each {
			l.valueLevel1(s, j)
		}
	}
	for _, s := range b.each {
		l.liftLevel1(s)
	}
	for j, m := range l.memories {
		var sums [trees.Abreast][]int64
		var rows [trees.Abreast][]float32
		for n, s := range b.each {
			l.queryLineup(s, j)
			memory := &s.level2.memory
			sums[n], rows[n], memory.known = memory.sums, memory.row, true
		}
		m.forest.SumAbreast(&sums, &rows, b.room)
		for n, s := range b.each {
			b.asked[n] = l.mixLevel2(s, j, b.fresh[n])
		}
		b.solveStacks(&l.level2[j].stacked)
		for _, s := range b.each {
			l.valueLevel2(s, j)
		}
	}
}
