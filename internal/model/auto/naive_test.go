package auto_test

import (
	"math"
	"math/rand/v2"
	"slices"

	"hindsight/internal/model/auto"
	"hindsight/internal/model/feature"
	"hindsight/internal/model/kernel"
	"hindsight/internal/model/moments"
)

// naive is the learner of docs/theory.md, of dense matrices solved anew for every prediction, and of plain
// sums over all rows. It shares with the learner the draw of frequencies, and the moments of columns, which
// package moments compares with naive ones.
type naive struct {
	o    auto.Options
	rows []naiveRow
	// fourier are the maps narrow, wide and lagged; sparse are (i, j, a, b).
	fourier [3]*feature.Fourier
	sparse  [][4]float64
	units   struct {
		offset, scale  []float64
		median, lagged float64
		sparse         []float64
	}
	// inputs and labels are the moments of the counted rows, which have a naive table of their own.
	inputs, labels moments.Table
	counted        int
	low, high      []float64
	// overshoots are, of each output, how far each label was above and below those before.
	overshoots  [][][2]float64
	forecasters []*dense
	descents    []*naiveDescent
	outputs     []*naiveOutput
}

type naiveRow struct {
	x, y   []float64
	lags   [][]float64
	weight float64
	// counts is the weight over the mean weight of the rows up to this one, at most 1.
	counts float64
}

type naiveDescent struct {
	kind  int
	step  float64
	theta [][]float64
}

// naivePoly is ML-Poly.
type naivePoly struct {
	regrets, squares []float64
	largest          float64
}

func (p *naivePoly) mix(f []float64, awake int) float64 {
	total, sum, mean, low, high := 0.0, 0.0, 0.0, math.Inf(1), math.Inf(-1)
	for k := range awake {
		mean += f[k] / float64(awake)
		low, high = math.Min(low, f[k]), math.Max(high, f[k])
		if p.regrets[k] > 0 {
			w := p.regrets[k] / (p.largest + p.squares[k])
			total += w
			sum += w * f[k]
		}
	}
	if total > 0 {
		mean = sum / total
	}
	return math.Max(low, math.Min(high, mean)) // Of equals, exactly what they are.
}

func (p *naivePoly) learn(slope, mixed float64, f []float64, awake int) {
	for k := range awake {
		r := slope * (mixed - f[k])
		p.regrets[k] += r
		p.squares[k] += r * r
		p.largest = math.Max(p.largest, r*r)
	}
}

type naiveOutput struct {
	base, final *naivePoly
	stacks      []*dense
	residual    float64
	// theta and curvature are those of the calibration.
	theta     [2]float64
	curvature [3]float64
}

// served is what a naive prediction says.
type served struct {
	seen             int
	lags             [][]float64
	columns          []float64
	experts, finals  [][]float64
	residuals        []float64
	values           []float64
	probability      float64
	complete, spoken bool
}

func newNaive(o auto.Options) *naive {
	const stream = 0x6175746f
	n := &naive{o: o, inputs: moments.NewTable(o.Dimension), labels: moments.NewTable(o.Outputs)}
	gaussian, columns := kernel.Kernel{Kind: kernel.Gaussian, Sigma: 1}, o.Dimension+o.Lags*o.Outputs
	generator := func(kind uint64) *rand.Rand { return rand.New(rand.NewPCG(o.Seed, stream+kind)) }
	n.fourier[0] = feature.NewFourier(gaussian, o.Dimension, o.Frequencies, true, generator(1))
	n.fourier[1] = feature.NewFourier(gaussian, o.Dimension, o.Frequencies, true, generator(2))
	n.fourier[2] = feature.NewFourier(gaussian, columns, o.Frequencies, true, generator(3))
	rng := generator(4)
	var deck []int
	var cards [][]int
	for j := range columns {
		if at := n.joint(j); at != nil && j != at.From {
			cards[len(cards)-1] = append(cards[len(cards)-1], j)
		} else {
			cards = append(cards, []int{j})
		}
	}
	deal := func() float64 {
		if len(deck) == 0 {
			deck = rng.Perm(len(cards))
		}
		card := cards[deck[0]]
		deck = deck[1:]
		if len(card) > 1 {
			return float64(card[rng.IntN(len(card))])
		}
		return float64(card[0])
	}
	for i := range o.Frequencies {
		f := [4]float64{deal(), 0, rng.NormFloat64(), 0}
		f[1] = f[0]
		if i%2 == 1 {
			f[1], f[3] = deal(), rng.NormFloat64()
		}
		n.sparse = append(n.sparse, f)
	}
	for range o.Outputs {
		poly := func(k int) *naivePoly {
			return &naivePoly{regrets: make([]float64, k), squares: make([]float64, k)}
		}
		n.outputs = append(n.outputs, &naiveOutput{base: poly(41), final: poly(4), theta: [2]float64{2, 0}, curvature: [3]float64{2, 0, 2}})
	}
	return n
}

// column scales v by mean and deviation of the values so far.
func (n *naive) column(which int, v float64) float64 {
	if len(n.rows) == 0 {
		return v
	}
	unit, table, at := n.columnMoments()[which], &n.inputs, which
	if d := n.o.Dimension; which >= d {
		table, at = &n.labels, which-d
	}
	if table.Deviation(at) == 0 && table.Total(at) >= 300 {
		return 0
	}
	return (table.Cut(at, v) - unit[0]) / unit[1]
}

// columnMoments are the mean and the deviation of each column of the rows so far.
func (n *naive) columnMoments() (units [][2]float64) {
	d := n.o.Dimension
	for ; n.counted < len(n.rows); n.counted++ {
		r := n.rows[n.counted]
		n.inputs.Add(r.x, r.counts)
		n.labels.Add(r.y, r.counts)
	}
	for which := range d + n.o.Outputs {
		table, at := &n.inputs, which
		if which >= d {
			table, at = &n.labels, which-d
		}
		mean, deviation := table.Mean(at), table.Deviation(at)
		if deviation == 0 {
			deviation = math.Max(math.Abs(mean), 1)
		}
		if span := n.joint(which); which < d && span != nil {
			sum := 0.0
			for j := span.From; j < span.To; j++ {
				sum += table.Deviation(j) * table.Deviation(j)
			}
			if deviation = math.Sqrt(sum); sum == 0 {
				deviation = 1
			}
		}
		units = append(units, [2]float64{mean, deviation})
	}
	return units
}

// counts are what the rows so far count.
func (n *naive) counts() []float64 { return n.pick(func(r naiveRow) float64 { return r.counts }) }

// momentsOf are the mean and the mean square of values that count something each.
func momentsOf(values, counts []float64) (mean, square float64) {
	total := 0.0
	for _, c := range counts {
		total += c
	}
	for i, v := range values {
		mean += counts[i] * v / total
	}
	constant := true
	for i, v := range values {
		square += counts[i] * (v - mean) * (v - mean) / total
		constant = constant && v == values[0]
	}
	if constant {
		return values[0], 0
	}
	return mean, square
}

// pick are the values of a column of the rows so far.
func (n *naive) pick(of func(naiveRow) float64) []float64 {
	var out []float64
	for _, r := range n.rows {
		out = append(out, of(r))
	}
	return out
}

// columns are the scaled inputs and lags.
func (n *naive) columns(x []float64, lags [][]float64) []float64 {
	var out []float64
	for j, v := range x {
		if v = n.column(j, v); !n.indicated(j, x) {
			v = 0
		}
		out = append(out, v)
	}
	for i := range n.o.Lags {
		for j := range n.o.Outputs {
			v := 0.0
			if i < len(lags) {
				v = n.column(n.o.Dimension+j, lags[i][j])
			}
			out = append(out, v)
		}
	}
	return out
}

// features are those of a map, from 0, the affine one.
func (n *naive) features(kind int, columns []float64) []float64 {
	d := n.o.Dimension
	var affine []float64
	for j, v := range columns {
		if j < d {
			v /= math.Sqrt(float64(d))
		}
		affine = append(affine, v)
	}
	affine = append(affine, 1)
	if kind == 0 {
		return affine
	}
	z := make([]float64, 2*n.o.Frequencies)
	if kind == 4 {
		for i, f := range n.sparse {
			angle := (f[2]*columns[int(f[0])] + f[3]*columns[int(f[1])]) / n.units.sparse[i]
			z[i] = math.Sin(angle) / math.Sqrt(float64(len(n.sparse)))
			z[len(n.sparse)+i] = math.Cos(angle) / math.Sqrt(float64(len(n.sparse)))
		}
		return slices.Concat(z, affine)
	}
	sigma := []float64{n.units.median / 2, n.units.median * 2, n.units.lagged}[kind-1]
	var in []float64
	for j, v := range columns[:n.fourier[kind-1].Dimension()] {
		if j >= d {
			v *= 8
		}
		in = append(in, v/sigma)
	}
	n.fourier[kind-1].Map(z, in)
	return slices.Concat(z, affine)
}

func (n *naive) allFeatures(columns []float64) (z [5][]float64) {
	for kind := range z {
		z[kind] = n.features(kind, columns)
	}
	return z
}

// lags are the last labels, newest first.
func (n *naive) lags() [][]float64 {
	var out [][]float64
	for i := 1; i <= max(n.o.Lags, 1) && i <= len(n.rows); i++ {
		at := len(n.rows) - i
		for at > 0 && n.rows[at].counts < 1e-3 { // A light row repeats the label before.
			at--
		}
		out = append(out, n.rows[at].y)
	}
	return out
}

// clip cuts advice to the range of values, and to a tenth of the range of the labels beyond an end that half of them have.
func (n *naive) clip(j int, v float64) float64 {
	low, high := n.valueRange(j)
	all, at, signs := 0.0, map[float64]float64{}, true
	for _, r := range n.rows {
		all, signs = all+r.counts, signs && math.Abs(r.y[j]) == 1
		if r.counts >= 1e-3 {
			at[r.y[j]] += r.counts
		}
	}
	if len(n.rows) >= 128 && !signs {
		room := (n.high[j] - n.low[j]) / 10
		if at[n.low[j]] >= all/2 {
			low -= room
		}
		if at[n.high[j]] >= all/2 {
			high += room
		}
	}
	return math.Max(low, math.Min(high, v))
}

// valueRange is the range of the labels, and twice beyond it where the last three left it.
func (n *naive) valueRange(j int) (low, high float64) {
	low, high = n.low[j], n.high[j]
	if last := n.overshoots[j]; len(n.rows) >= 128 {
		last = last[len(last)-3:]
		high += 2 * min(last[0][0], last[1][0], last[2][0])
		low -= 2 * min(last[0][1], last[1][1], last[2][1])
	}
	return low, high
}

// predict answers with the lags, of which the newest is the last label. The experts see those that are shown.
func (n *naive) predict(x []float64, lags, shown [][]float64) *served {
	k := n.o.Outputs
	s := &served{
		seen: len(n.rows), lags: lags, experts: matrix(k, 41), finals: matrix(k, 4), values: make([]float64, k),
		residuals: make([]float64, k), complete: len(n.rows) >= 8, spoken: len(n.rows) > 0,
	}
	if !s.spoken {
		return s
	}
	s.columns = n.columns(x, shown)
	last := make([]float64, k)
	if len(lags) > 0 {
		last = lags[0]
	}
	for j := range k {
		labels := n.pick(func(r naiveRow) float64 { return r.y[j] })
		counts := n.counts()
		mean, _ := momentsOf(labels, counts)
		recent := labels[0]
		for i, y := range labels[1:] {
			recent += 0.1 * counts[i+1] * (y - recent)
		}
		s.experts[j][0], s.experts[j][1], s.experts[j][2] = n.clip(j, mean), n.clip(j, last[j]), n.clip(j, recent)
	}
	if s.complete {
		n.predictExperts(s, last, len(shown) > 0)
	}
	for j, out := range n.outputs {
		n.mixOutput(s, j, out)
	}
	if k == 1 {
		s.probability = 1 / (1 + math.Exp(-n.outputs[0].theta[0]*s.values[0]-n.outputs[0].theta[1]))
	}
	return s
}

func (n *naive) predictExperts(s *served, last []float64, known bool) {
	at, z := 3, n.allFeatures(s.columns)
	for _, d := range n.forecasters {
		p := d.predict(z[d.kind])
		for j := range n.o.Outputs {
			o, c := n.units.offset[j], n.units.scale[j]
			increment := p[2*j+1]*c + o
			if known {
				increment += last[j] - o
			}
			s.experts[j][at], s.experts[j][at+1] = n.clip(j, p[2*j]*c+o), n.clip(j, increment)
		}
		at += 2
	}
	for _, d := range n.descents {
		for j, theta := range d.theta {
			sum := 0.0
			for i, v := range theta {
				sum += v * z[d.kind][i]
			}
			s.experts[j][at] = n.clip(j, sum*n.units.scale[j]+n.units.offset[j])
		}
		at++
	}
}

func (n *naive) mixOutput(s *served, j int, out *naiveOutput) {
	awake, finals := 3, 1
	if s.complete {
		awake, finals = 41, 4
	}
	b := out.base.mix(s.experts[j], awake)
	s.finals[j] = []float64{b, b, b, b}
	s.residuals[j] = out.residual
	if s.complete {
		for i, d := range out.stacks {
			p := d.predict(n.stackRow(j, s.experts[j], b, out.residual))
			s.finals[j][1+i] = n.clip(j, b+p[0]*n.units.scale[j])
		}
	}
	low, high := n.valueRange(j)
	s.values[j] = math.Max(low, math.Min(high, out.final.mix(s.finals[j], finals)))
}

func (n *naive) stackRow(j int, experts []float64, b, residual float64) []float64 {
	var row []float64
	for _, f := range experts {
		row = append(row, (f-b)/n.units.scale[j])
	}
	return append(row, residual/n.units.scale[j], 1)
}

// observe learns a label, given what was served for it. It answers what would
// be predicted now with the lags of then.
func (n *naive) observe(x, y []float64, weight float64, then *served) []float64 {
	now := then
	if then.seen != len(n.rows) {
		now = n.predict(x, then.lags, then.lags)
	}
	row := naiveRow{x: x, y: y, lags: then.lags, weight: weight}
	total := weight
	for _, r := range n.rows {
		total += r.weight
	}
	row.counts = math.Min(1, weight*float64(len(n.rows)+1)/total)
	if now.complete {
		n.learnExperts(row)
	}
	for j, out := range n.outputs {
		awake, finals := 0, 0
		switch {
		case then.complete:
			awake, finals = 41, 4
			for _, d := range out.stacks {
				d.learn(n.stackRow(j, then.experts[j], then.finals[j][0], then.residuals[j]),
					[]float64{(y[j] - then.finals[j][0]) / n.units.scale[j]}, weight)
			}
		case then.spoken:
			awake, finals = 3, 1
		}
		out.base.learn(2*weight*(then.finals[j][0]-y[j]), then.finals[j][0], then.experts[j], awake)
		out.final.learn(2*weight*(then.values[j]-y[j]), then.values[j], then.finals[j], finals)
		out.residual = y[j] - then.finals[j][0]
	}
	if len(n.outputs) == 1 && math.Abs(y[0]) == 1 {
		n.outputs[0].calibrate(then.values[0], y[0], weight)
	}
	for j, v := range y {
		if len(n.rows) == 0 {
			n.low, n.high, n.overshoots = append(n.low, v), append(n.high, v), append(n.overshoots, make([][2]float64, 3))
		}
		if row.counts >= 1e-3 {
			n.overshoots[j] = append(n.overshoots[j], [2]float64{math.Max(0, v-n.high[j]), math.Max(0, n.low[j]-v)})
			n.low[j], n.high[j] = math.Min(n.low[j], v), math.Max(n.high[j], v)
		}
	}
	n.rows = append(n.rows, row)
	if c := len(n.rows); c >= 8 && c <= 128 && c&(c-1) == 0 {
		n.rebuild()
	}
	return now.values
}

// learnExperts is a round of all but the baselines.
func (n *naive) learnExperts(row naiveRow) {
	columns := n.columns(row.x, row.lags)
	labels := make([]float64, 2*len(row.y))
	for j, y := range row.y {
		labels[2*j] = (y - n.units.offset[j]) / n.units.scale[j]
		labels[2*j+1] = labels[2*j]
		if len(row.lags) > 0 {
			labels[2*j+1] -= (row.lags[0][j] - n.units.offset[j]) / n.units.scale[j]
		}
	}
	features := n.allFeatures(columns)
	for _, d := range n.forecasters {
		d.learn(features[d.kind], labels, row.weight)
	}
	for _, d := range n.descents {
		z := features[d.kind][:2*n.o.Frequencies]
		for j, theta := range d.theta {
			sum := 0.0
			for i, v := range theta {
				sum += v * z[i]
			}
			step := math.Min(d.step, 0.5/(row.weight+1e-4))
			for i, v := range z {
				theta[i] -= 2 * step * (row.weight*(sum-labels[2*j])*v + 1e-4*theta[i])
			}
		}
	}
}

func (o *naiveOutput) calibrate(score, y, weight float64) {
	p := 1 / (1 + math.Exp(-o.theta[0]*score-o.theta[1]))
	c := &o.curvature
	const f = 0.9995
	c[0] = f*c[0] + weight*p*(1-p)*score*score + (1-f)*2
	c[1] = f*c[1] + weight*p*(1-p)*score
	c[2] = f*c[2] + weight*p*(1-p) + (1-f)*2
	step := solve([][]float64{{c[0], c[1]}, {c[1], c[2]}}, []float64{score, 1})
	for i := range o.theta {
		o.theta[i] = math.Max(-20, math.Min(20, o.theta[i]-weight*(p-(1+y)/2)*step[i]))
	}
}
