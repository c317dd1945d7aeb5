package auto

import (
	"slices"

	"hindsight/internal/model/codec"
	"hindsight/internal/model/moments"
	"hindsight/internal/model/neighbors"
	"hindsight/internal/model/trees"
	"hindsight/internal/model/window"
)

// memory is what the experts of an output's lineup know.
type memory struct {
	lineup lineup
	view   view
	window *window.Window
	forest *trees.Forest
	// crosses, cells and logs are nil if the lineup lacks them.
	crosses *crosses
	cells   *cells
	logs    *logs
	means   []mean
	// used[c] is the last observation before which column c of the forest had a weight in b,
	// nearUsed the one before which the neighbors had one.
	used     []uint64
	nearUsed uint64
}

const (
	// The columns of trees share sharedCredit of the credit of one column in proportion to their weights in
	// b; each earns idleCredit to trees.Whole. A column whose weight was below leastUse for r >= idleRounds rounds
	// earns idleCredit·idleRounds/r, at least leastCredit.
	leastUse     = 1e-3
	idleRounds   = 1000
	sharedCredit = 20 * idleCredit
	idleCredit   = trees.Whole / 8
	leastCredit  = trees.Whole / 64
	// Idle neighbors are asked for trialRounds of trialPeriod rounds.
	trialRounds, trialPeriod = 64, 512
)

// nearRest reports whether the neighbors rest after n observations, for the search is half of a
// prediction: they had no weight in b for idleRounds rounds, and the stacks do not need them. Neighbors
// that rest say b, so that they lose and gain nothing against b, and the certificate holds.
func (m *memory) nearRest(n uint64) bool {
	return m.lineup.neighbors && n >= m.nearUsed+idleRounds && n%trialPeriod >= trialRounds
}

func newMemory(o Options, l lineup, output int) *memory {
	v := o.view()
	w := window.New(o.capacity(), v.layout())
	m := &memory{
		lineup: l, view: v, window: w, forest: trees.New(o.forestOptions(l, output), w),
		means: make([]mean, v.indicators()), used: make([]uint64, len(l.columns)),
	}
	if l.crosses {
		m.crosses = newCrosses(v)
	}
	if l.cells > 0 {
		m.cells = newCells(l.cells)
	}
	if l.logs > 0 {
		m.logs = newLogs(l.logs, len(v.numbers))
	}
	return m
}

// query is an input of one output of a lineup.
type query struct {
	x []float64
	// scales are the units of the near inputs of the view.
	scales []float64
	// seen is the number of labels known to the prediction, v the prediction of level 1.
	// after is the number of the last observation with the key, counted from 1, or 0.
	seen, after uint64
	v           float64
	// columns are the columns of the keys.
	columns []float64
	// affine is the affine map of level 1.
	affine []float64
	units
}

type memoryScratch struct {
	columns   []float64
	row       []float32
	codes     []int64
	crossed   []uint32
	corners   []corner
	logs      logScratch
	neighbors *neighbors.Scratch
	shares    []int
	// sums are the sums of the trees for the row, if known.
	sums  []int64
	known bool
}

func newMemoryScratch(o Options, l lineup) memoryScratch {
	v := o.view()
	columns := v.layout().Columns()
	s := memoryScratch{
		columns: make([]float64, columns), row: make([]float32, columns),
		codes: make([]int64, v.discrete()), crossed: make([]uint32, v.crossed()), shares: make([]int, len(l.columns)),
		sums: make([]int64, len(l.columns)), logs: newLogScratch(l.logs, len(v.numbers)),
	}
	if l.neighbors {
		s.neighbors = neighbors.NewScratch(v.near(), o.capacity()+window.Slack)
	}
	return s
}

// present writes the row of a query and its crossed cells into the scratch.
func (m *memory) present(s *memoryScratch, q *query) {
	s.known = false
	inputs := s.columns[:m.view.layout().Inputs]
	m.view.fill(inputs, q.x, q.columns, m.means)
	m.window.Fill(s.row, s.columns, q.seen, q.after, q.v)
	if m.crosses != nil {
		m.view.codes(s.codes, q.x, inputs)
		m.crosses.find(s.crossed, s.codes)
	}
	if m.cells != nil {
		s.corners = m.cells.find(s.corners[:0], s.row[:m.lineup.cells])
	}
	if m.logs != nil {
		m.presentLogs(s, q)
	}
}

// advise writes the predictions of the lineup for the query in the scratch, and what the neighbors say
// beside v into near, unless that is known.
func (m *memory) advise(dst []float64, s *memoryScratch, q *query, near []float64, known bool) {
	if !s.known {
		m.forest.Sum(s.sums, s.row)
		s.known = true
	}
	m.forest.Predict(dst, s.sums, s.row, q.v)
	at := len(m.lineup.columns)
	if m.lineup.neighbors {
		switch {
		case m.nearRest(q.seen): // They say b, which is not known yet.
			clear(near)
		case m.window.Len() < neighbors.MinRows:
			near[0], near[1], near[2] = q.v, 0, 0
		case !known:
			s.neighbors.Parts(near, m.window, s.row, q.scales)
		}
		neighbors.Say(dst[at:], near, q.v)
		at += neighbors.Experts
	}
	if m.crosses != nil {
		for e, origin := range [crossExperts]float64{q.offset, q.v, s.columns[m.view.layout().Lag()]} {
			dst[at+e] = origin + float64(m.crosses.predict(e, s.crossed)*q.scale)
		}
		at += crossExperts
	}
	if m.cells != nil {
		said := dst[at:][:cellExperts]
		m.cells.predict(said, s.corners)
		for e, origin := range [cellExperts]float64{q.offset, q.offset, q.v} {
			said[e] = origin + float64(said[e]*q.scale)
		}
		at += cellExperts
	}
	if m.logs != nil {
		m.logs.predict(dst[at:], s.logs.said)
	}
	for k, prediction := range dst {
		dst[k] = q.cut(prediction)
	}
}

// learn learns the label of the query in the scratch, of row r, whose prediction v was served.
func (m *memory) learn(s *memoryScratch, q *query, served, y float64, r row) {
	m.window.Add(s.columns, q.seen, q.after, y, served, r.counts)
	m.view.learn(m.means, q.x, q.scaledLabel(y), r.counts)
	if m.crosses != nil {
		m.crosses.learn(s.crossed, [crossExperts]float64{
			q.scaledLabel(y), q.relative(y - served), q.relative(y - s.columns[m.view.layout().Lag()]),
		}, r.counts)
	}
	if m.cells != nil {
		m.cells.learn(s.corners, [cellTargets]float64{q.scaledLabel(y), q.relative(y - served)}, r.counts)
	}
	if m.logs != nil {
		m.learnLogs(s, q, y, r.counts)
	}
	sums := s.sums
	if !s.known || served != q.v {
		sums = nil
	}
	m.forest.Observe(s.shares, sums)
}

// credit finds the shares of the columns' credit and whether the neighbors are used before
// observation n, given the lineup's weights in b.
func (m *memory) credit(s *memoryScratch, n uint64, weights []float64) {
	together := 0.0
	for c := range m.used {
		together += weights[c]
	}
	for c, w := range weights[:len(m.used)] {
		if w >= leastUse {
			m.used[c] = n
		}
		switch {
		case n-m.used[c] >= idleRounds:
			s.shares[c] = max(leastCredit, int(idleCredit*idleRounds/(n-m.used[c])))
		case together > 0:
			s.shares[c] = max(idleCredit, min(trees.Whole, int(float64(sharedCredit*w/together)+0.5)))
		default:
			s.shares[c] = trees.Whole
		}
	}
	if m.lineup.neighbors {
		for _, w := range weights[len(m.lineup.columns):][:neighbors.Experts] {
			if w >= leastUse {
				m.nearUsed = n
			}
		}
	}
}

// begin learns the kept rows of a stream, whose predictions served are of every outputs-th
// number: the columns get their units from the rows.
func (m *memory) begin(l *Learner, output int, served []float64) {
	s, unit := &l.scratch.level2.memory, l.mixers[output].units
	inputs := m.view.layout().Inputs
	offsets, units := make([]float64, inputs+1), make([]float64, inputs+1)
	m.view.units(offsets, units, l, unit)
	m.window.Begin(offsets, units)
	for c := range m.used {
		m.used[c], s.shares[c] = l.n, trees.Whole
	}
	m.nearUsed = l.n
	q := query{units: unit, affine: l.scratch.affine}
	for i, r := range l.kept {
		l.present(l.scratch, r.x, r.lags, r.seen)
		q.columns = r.columnsOf(output, l.o.keyColumns())
		q.x, q.seen, q.after, q.v = l.scratch.inner, r.seen, r.after, served[i*l.o.Outputs+output]
		m.present(s, &q)
		m.learn(s, &q, q.v, r.y[output], r)
	}
}

// change follows the units of the inputs, so that the trees and the rows of the window stay
// right.
func (m *memory) change(changes []moments.Change, of *Learner) {
	for _, c := range changes {
		if column := slices.Index(m.view.numbers, of.slotOf(c.Column)); column >= 0 {
			m.window.Change(column, c.Factor, c.Shift)
		}
	}
}

func (m *memory) visit(v *codec.Visitor, n uint64) {
	m.window.Visit(v)
	if v.Reading() && m.window.Count() != n {
		v.Corrupt("%d rows after %d observations", m.window.Count(), n)
	}
	if v.Err() != nil {
		return
	}
	m.forest.Visit(v)
	if m.crosses != nil {
		m.crosses.visit(v)
	}
	if m.cells != nil {
		m.cells.visit(v)
	}
	if m.logs != nil {
		m.logs.visit(v)
	}
	visitMeans(v, m.means)
	for c := range m.used {
		v.Uint64(&m.used[c])
		if v.Reading() && m.used[c] > n {
			v.Corrupt("column %d had a weight at %d of %d observations", c, m.used[c], n)
		}
	}
	if v.Uint64(&m.nearUsed); v.Reading() && m.nearUsed > n {
		v.Corrupt("the neighbors had a weight at %d of %d observations", m.nearUsed, n)
	}
}
