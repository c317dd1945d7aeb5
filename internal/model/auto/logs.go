package auto

import (
	"math"

	"hindsight/internal/model/codec"
	"hindsight/internal/model/exponential"
	"hindsight/internal/model/loops"
	"hindsight/internal/model/qr"
	"hindsight/internal/model/window"
)

// logs forecasts labels that are products. Let s be the root of mean² + deviation² of a column of the window, the
// label's for labels, and
//
//	g(v) = sign(v) log(1 + |v|/(smallPart s))
//
// Let m be the mean label. The forecaster has three labels: g(y) − g(m), y, and y minus the last label. Its features are
// the affine map of level 1; g of the numbers, of the columns of the keys and of the lags; and the changes of the numbers
// since the row before, in running deviations. A strange change stands at the mean: a counter that was reset says nothing
// of its rate. Of the prediction p of g(y) − g(m) the first expert makes ρe,
//
//	e = g⁻¹(p + g(m)) within the labels,  ρ = (s² + Σωey)/(s² + Σωe²)
//
// The means and the deviations are those of the first lastStage rows. See model.Weights for ω.
type logs struct {
	factor *qr.Factor
	// product is Σωey/s², square is Σωe²/s².
	product, square float64
	// changes are the moments of the changes.
	changes columns
}

const (
	logExperts = 3
	smallPart  = 0.01
	// Beyond mostLogs features the lineup has no logs.
	mostLogs = 128
	// A change beyond mostChange deviations is strange.
	mostChange = 8
	// The argument of exp is at most largestLog. A sum of a stored state is at most largestSum.
	largestLog, largestSum = 500, 1e300
)

// logged is the number of the features g(v) and of the changes.
func (v view) logged() int { return 2*len(v.numbers) + v.keys + window.Lags }

// logFeatures is the number of features of logs, 0 without logs.
func (o Options) logFeatures() int {
	if r := o.affine() + o.view().logged(); r <= mostLogs {
		return r
	}
	return 0
}

func newLogs(features, numbers int) *logs {
	return &logs{factor: qr.New(features, logExperts, ridge), changes: newColumns(numbers, nil)}
}

// size is s of a column.
func (m *memory) size(column int) float64 {
	mean, deviation := m.window.Offset(column), m.window.Unit(column)
	return math.Sqrt(float64(mean*mean) + float64(deviation*deviation))
}

func logarithm(v, size float64) float64 {
	return math.Copysign(exponential.Log1p(math.Abs(v)/float64(smallPart*size)), v)
}

// raised is the inverse of logarithm.
func raised(log, size float64) float64 {
	return math.Copysign(float64(smallPart*size)*(exponential.Of(math.Min(math.Abs(log), largestLog))-1), log)
}

// logScratch is the scratch of logs.
type logScratch struct {
	// features has the features of a row and, behind them, its three labels. changes are the changes of its numbers. said
	// has the predictions of y by the experts; the first is e.
	features, solved, prior, changes []float64
	said                             [logExperts]float64
}

func newLogScratch(features, numbers int) logScratch {
	return logScratch{
		make([]float64, features+logExperts), make([]float64, features), make([]float64, logExperts), make([]float64, numbers),
		[logExperts]float64{},
	}
}

// presentLogs writes the features of the query and e into the scratch, given the columns.
func (m *memory) presentLogs(s *memoryScratch, q *query) {
	v, l, root := m.view, &s.logs, math.Sqrt(float64(m.view.logged()))
	at := copy(l.features, q.affine)
	add := func(from, count int) {
		for c := from; c < from+count; c++ {
			l.features[at] = logarithm(s.columns[c], m.size(c)) / root
			at++
		}
	}
	add(0, len(v.numbers))
	add(v.differing(), v.keys)
	add(v.layout().Lag(), window.Lags)
	for j := range l.changes {
		l.changes[j] = float64(s.row[v.layout().Delta()+j])
	}
	changes := l.features[at:][:len(l.changes)]
	m.logs.changes.scaled(changes, l.changes)
	for j, z := range changes {
		if changes[j] = z / root; math.Abs(z) > mostChange {
			changes[j] = 0
		}
	}
	copy(l.solved, l.features)
	square, served := m.logs.factor.Solve(l.solved, l.prior), v.layout().Served()
	for i := range l.prior {
		l.prior[i] /= 1 + square
	}
	size := m.size(served)
	l.said[0] = q.cut(raised(l.prior[0]+logarithm(m.window.Offset(served), size), size))
	l.said[1] = q.offset + float64(q.scale*l.prior[1])
	l.said[2] = s.columns[v.layout().Lag()] + float64(q.scale*l.prior[2])
}

// predict writes the predictions of the experts.
func (l *logs) predict(dst []float64, said [logExperts]float64) {
	copy(dst, said[:])
	dst[0] = float64(said[0]*(1+l.product)) / (1 + l.square)
}

// learnLogs learns label y of the row whose features presentLogs has written. Counts is ω.
func (m *memory) learnLogs(s *memoryScratch, q *query, y, counts float64) {
	served, l := m.view.layout().Served(), &s.logs
	size, labels := m.size(served), l.features[len(l.solved):]
	labels[0] = logarithm(y, size) - logarithm(m.window.Offset(served), size)
	labels[1], labels[2] = q.scaledLabel(y), q.relative(y-s.columns[m.view.layout().Lag()])
	loops.Scale(l.features, math.Sqrt(counts))
	m.logs.factor.Rotate(l.features, l.prior)
	m.logs.changes.add(l.changes, counts)
	e := l.said[0] / size
	m.logs.product += float64(float64(counts*e) * (y / size))
	m.logs.square += float64(float64(counts*e) * e)
}

// renewInput forgets what an input taught. It is feature i of the affine map, and number at of the view.
func (l *logs) renewInput(i, at, affine int) {
	changes := l.factor.Order() - len(l.changes.scale)
	for _, feature := range [...]int{i, affine + at, changes + at} {
		l.factor.Renew(feature, math.Sqrt(ridge))
	}
}

func (l *logs) visit(v *codec.Visitor) {
	visitFactor(v, l.factor, ridge)
	l.changes.visit(v)
	v.Within(largestSum, &l.product, &l.square)
	if v.Reading() && !(l.square >= 0) {
		v.Corrupt("a sum of squares of %g", l.square)
	}
}
