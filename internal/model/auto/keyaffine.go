package auto

import (
	"math"

	"hindsight/internal/model/effects"
	"hindsight/internal/model/loops"
	"hindsight/internal/model/qr"
)

// The affine experts of an output are forecasters over columns of the keys. They learn the label, and the residual y − v.
// The first two read the affine map and all columns, and forget nothing. The others read the mean labels and the counts of
// the keys: from few columns a forecaster learns within a hundred rows what the keys say in these rows. Wide inputs have none.
const (
	keyTargets     = 2 // The label and the residual.
	keyMemories    = 3
	mostKeyAffine  = 512
	keyAffineShare = 8 // Of the budget.
)

// keyForgettings are the memories of the forecasters, of which the first has all columns.
func keyForgettings() [keyMemories]float64 { return [...]float64{unforgetting, 0.99, 0.97} }

// keyForecasters is the number of forecasters.
func (o Options) keyForecasters() int {
	r := o.keyAffineSize()
	switch {
	case r > mostKeyAffine || o.Outputs*keyAffineShare*int(factorFlops(r, keyTargets)) > int(o.Microseconds*flopsPerMicrosecond):
		return 0
	case o.keyKinds() <= effects.CountColumn:
		return 1
	default:
		return keyMemories
	}
}

func (o Options) keyAffineExperts() int { return keyTargets * o.keyForecasters() }

// keyAffineSize is the number of features of the first forecaster.
func (o Options) keyAffineSize() int { return o.affine() + o.keyColumns() }

// keyAffineOrder is the number of features of forecaster i.
func (o Options) keyAffineOrder(i int) int {
	if i == 0 {
		return o.keyAffineSize()
	}
	return 1 + 2*o.effects().Groups()
}

// newKeyAffine are the factors of an output.
func newKeyAffine(o Options) (factors []*qr.Factor) {
	for i := range o.keyForecasters() {
		factors = append(factors, qr.New(o.keyAffineOrder(i), keyTargets, ridge))
	}
	return factors
}

// keyAffineScratch has all features of each output.
type keyAffineScratch struct {
	features [][]float64
	// rows, priors and renewals have an entry for each forecaster.
	rows, priors [][]float64
	renewals     []renewal
	groups       int
	windowed     int
}

func newKeyAffineScratch(o Options) keyAffineScratch {
	s := keyAffineScratch{groups: o.view().keyGroups(), windowed: o.windowKeys()}
	for i := range o.keyForecasters() {
		r := o.keyAffineOrder(i)
		s.rows, s.priors = append(s.rows, qr.NewRow(r+keyTargets)), append(s.priors, make([]float64, keyTargets))
		s.renewals = append(s.renewals, newRenewal(r, keyForgettings()[i]))
	}
	if len(s.rows) > 0 {
		for range o.Outputs {
			s.features = append(s.features, make([]float64, o.keyAffineSize()))
		}
	}
	return s
}

// keyKind reports whether column i of the keys is in units of labels, and whether it is a label
// and not a difference of labels. The window has the first windowed columns, groups of a kind.
func keyKind(i, groups, windowed int) (units, label bool) {
	if i >= windowed {
		return true, false // The mean of a pair.
	}
	c := i / groups
	return c < effects.LabelColumns, c > 0 && c < effects.LabelColumns
}

// keyScales writes the scales of the columns that have distances.
func (v view) keyScales(scales []float64, u units) {
	for i := v.differing(); i < v.near(); i++ {
		scales[i] = 1
		if scaled, _ := keyKind(i-v.differing(), v.keyGroups(), v.keys); scaled {
			scales[i] = u.scale
		}
	}
}

// fill writes the features of an output: the features of the affine map and the columns of the keys.
func (s *keyAffineScratch) fill(dst, affine, columns []float64, u units) {
	keys := dst[copy(dst, affine):]
	for i, v := range columns {
		switch units, label := keyKind(i, s.groups, s.windowed); {
		case label:
			v = u.scaledLabel(v)
		case units:
			v = u.relative(v)
		}
		keys[i] = v
	}
}

// row writes the features of forecaster i of an output, and returns them.
func (s *keyAffineScratch) row(i, output, columns int) []float64 {
	row, all := s.rows[i], s.features[output]
	row = row[:len(row)-keyTargets]
	if i == 0 {
		copy(row, all)
		return row
	}
	keys := all[len(all)-columns:]
	row[0] = 1
	copy(row[1:], keys[effects.MeanColumn*s.groups:][:s.groups])
	copy(row[1+s.groups:], keys[effects.CountColumn*s.groups:][:s.groups])
	return row
}

// solve writes the scaled labels and the residuals that the experts predict.
func (s *keyAffineScratch) solve(dst []float64, factors []*qr.Factor, affine, columns []float64, u units, output int) {
	s.fill(s.features[output], affine, columns, u)
	for i, f := range factors {
		z := s.row(i, output, len(columns))
		if i > 0 {
			cutCounts(z[1+s.groups:], f)
		}
		square := 1 + f.Solve(z, s.priors[i])/s.renewals[i].forgetting
		dst[keyTargets*i], dst[keyTargets*i+1] = s.priors[i][0]/square, float64(s.priors[i][1]/square*u.scale)
	}
}

// cutCounts cuts the counts of a row to three deviations from their means in the memory of a forecaster. If all keys are
// known well, their counts take a share of the constant, which a new key would lose.
func cutCounts(counts []float64, f *qr.Factor) {
	first := f.Order() - len(counts)
	for i, c := range counts {
		mean, deviation := f.Feature(first + i)
		counts[i] = min(max(c, mean-float64(3*deviation)), mean+float64(3*deviation))
	}
}

// learn teaches the factors the features of an output in a round, from 1, given the served v.
func (s *keyAffineScratch) learn(factors []*qr.Factor, u units, v, y, weight float64, output, columns int, round uint64) {
	for i, f := range factors {
		row, size := s.rows[i], len(s.row(i, output, columns))
		row[size], row[size+1] = u.scaledLabel(y), u.relative(y-v)
		if weight != 1 {
			loops.Scale(row, math.Sqrt(weight))
		}
		f.RotateDiscounted(row, s.priors[i], math.Sqrt(s.renewals[i].forgetting))
		s.renewals[i].renew(f, ridge, round, row, s.priors[i])
	}
}

// learnKeyAffine teaches the affine experts a row. A stage, which changes the units, makes new
// experts of the kept rows.
func (l *Learner) learnKeyAffine(r row) {
	k := l.scratch.keyed
	if len(l.kept) == int(l.n) {
		l.kept[l.n-1].vs = append([]float64(nil), k.vs...)
	}
	if l.o.keyAffineExperts() == 0 {
		return
	}
	columns := l.o.keyColumns()
	if !l.isStage() {
		for j := range l.mixers {
			k.affine.learn(l.keyed.mixers[j].affine, k.units[j], k.vs[j], r.y[j], r.weight, j, columns, l.n)
		}
		return
	}
	for j := range l.mixers {
		l.keyed.mixers[j].affine = newKeyAffine(l.o)
	}
	for i := range l.kept {
		r := &l.kept[i]
		l.present(l.scratch, r.x, r.lags, r.seen)
		for j := range l.mixers {
			u := l.mixers[j].units
			k.affine.fill(k.affine.features[j], l.scratch.affine, r.columnsOf(j, columns), u)
			k.affine.learn(l.keyed.mixers[j].affine, u, r.vs[j], r.y[j], r.weight, j, columns, uint64(i+1))
		}
	}
}
