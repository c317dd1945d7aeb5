package auto

import (
	"math"

	"hindsight/internal/model/effects"
	"hindsight/internal/model/loops"
	"hindsight/internal/model/qr"
)

// The affine experts of an output are forecasters over the affine map and the columns of the
// keys. They learn the label, and the residual y − v. Both have one factor. Wide inputs have none.
const (
	keyAffineExperts = 2
	mostKeyAffine    = 512
	keyAffineShare   = 8 // Of the budget.
)

func (o Options) keyAffineExperts() int {
	r := o.keyAffineSize()
	if r > mostKeyAffine || o.Outputs*keyAffineShare*int(factorFlops(r, keyAffineExperts)) > int(o.Microseconds*flopsPerMicrosecond) {
		return 0
	}
	return keyAffineExperts
}

func (o Options) keyAffineSize() int { return o.affine() + o.keyColumns() }

// newKeyAffine is nil without affine experts.
func newKeyAffine(o Options) *qr.Factor {
	if o.keyAffineExperts() == 0 {
		return nil
	}
	return qr.New(o.keyAffineSize(), keyAffineExperts, ridge)
}

// keyAffineScratch has the features of each output, before and after Solve.
type keyAffineScratch struct {
	features [][]float64
	z, row   []float64
	priors   []float64
	groups   int
	windowed int
}

func newKeyAffineScratch(o Options) keyAffineScratch {
	r := 0
	if o.keyAffineExperts() > 0 {
		r = o.keyAffineSize()
	}
	s := keyAffineScratch{
		z: make([]float64, r), row: qr.NewRow(r + keyAffineExperts), priors: make([]float64, keyAffineExperts), groups: o.view().keyGroups(), windowed: o.windowKeys(),
	}
	for range o.Outputs {
		s.features = append(s.features, make([]float64, r))
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

// solve writes the scaled label that the first expert predicts and the residual of the second.
func (s *keyAffineScratch) solve(dst []float64, f *qr.Factor, affine, columns []float64, u units, output int) {
	s.fill(s.features[output], affine, columns, u)
	copy(s.z, s.features[output])
	square := 1 + f.Solve(s.z, s.priors)
	dst[0], dst[1] = s.priors[0]/square, float64(s.priors[1]/square*u.scale)
}

// learn teaches a factor the features of an output, given the served v.
func (s *keyAffineScratch) learn(f *qr.Factor, u units, v, y, weight float64, output int) {
	size := copy(s.row, s.features[output])
	s.row[size], s.row[size+1] = u.scaledLabel(y), u.relative(y-v)
	if weight != 1 {
		loops.Scale(s.row, math.Sqrt(weight))
	}
	f.Rotate(s.row, s.priors)
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
	if !l.isStage() {
		for j := range l.mixers {
			k.affine.learn(l.keyed.mixers[j].affine, k.units[j], k.vs[j], r.y[j], r.weight, j)
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
			k.affine.fill(k.affine.features[j], l.scratch.affine, r.columnsOf(j, l.o.keyColumns()), u)
			k.affine.learn(l.keyed.mixers[j].affine, u, r.vs[j], r.y[j], r.weight, j)
		}
	}
}
