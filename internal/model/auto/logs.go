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
// The forecaster learns g(y) − g(m), m being the mean label, from the affine map of level 1 and g of the numbers, of the
// columns of the keys and of the lags. With its predictions p the expert predicts ρe,
//
//	e = g⁻¹(p + g(m)) within the labels,  ρ = (s² + Σωey)/(s² + Σωe²)
//
// The means and the deviations are those of the first lastStage rows. See model.Weights for ω.
type logs struct {
	factor *qr.Factor
	// product is Σωey/s², square is Σωe²/s².
	product, square float64
}

const (
	smallPart = 0.01
	// Beyond mostLogs features the lineup has no logs.
	mostLogs = 128
	// The largest logarithm that is raised, and the largest sum.
	largestLog, largestSum = 500, 1e300
)

// logged is the number of the features g(v).
func (v view) logged() int { return len(v.numbers) + v.keys + window.Lags }

// logFeatures is the number of features of logs, 0 without logs.
func (o Options) logFeatures() int {
	if r := o.affine() + o.view().logged(); r <= mostLogs {
		return r
	}
	return 0
}

func newLogs(features int) *logs { return &logs{factor: qr.New(features, 1, ridge)} }

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

// presentLogs writes the features of the query and e into the scratch, given the columns.
func (m *memory) presentLogs(s *memoryScratch, q *query) {
	v, root := m.view, math.Sqrt(float64(m.view.logged()))
	at := copy(s.logged, q.affine)
	add := func(from, count int) {
		for c := from; c < from+count; c++ {
			s.logged[at] = logarithm(s.columns[c], m.size(c)) / root
			at++
		}
	}
	add(0, len(v.numbers))
	add(v.differing(), v.keys)
	add(v.layout().Lag(), window.Lags)
	copy(s.solved, s.logged)
	square := m.logs.factor.Solve(s.solved, s.prior)
	served := v.layout().Served()
	s.raised = q.cut(raised(s.prior[0]/(1+square)+logarithm(m.window.Offset(served), m.size(served)), m.size(served)))
}

// predict is ρe.
func (l *logs) predict(e float64) float64 { return float64(e*(1+l.product)) / (1 + l.square) }

// learnLogs learns the label of the query in the scratch, of a row that counts ω.
func (m *memory) learnLogs(s *memoryScratch, y, counts float64) {
	served := m.view.layout().Served()
	size := m.size(served)
	s.logged[len(s.logged)-1] = logarithm(y, size) - logarithm(m.window.Offset(served), size)
	loops.Scale(s.logged, math.Sqrt(counts))
	m.logs.factor.Rotate(s.logged, s.prior)
	e := s.raised / size
	m.logs.product += float64(float64(counts*e) * (y / size))
	m.logs.square += float64(float64(counts*e) * e)
}

// renewInput forgets what input i of the affine map taught, which is number at of the view.
func (l *logs) renewInput(i, at, affine int) {
	l.factor.Renew(i, math.Sqrt(ridge))
	l.factor.Renew(affine+at, math.Sqrt(ridge))
}

func (l *logs) visit(v *codec.Visitor) {
	visitFactor(v, l.factor, ridge)
	v.Within(largestSum, &l.product, &l.square)
	if v.Reading() && !(l.square >= 0) {
		v.Corrupt("a sum of squares of %g", l.square)
	}
}
