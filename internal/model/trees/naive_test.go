package trees_test

import (
	"cmp"
	"maps"
	"math"
	"math/rand/v2"
	"slices"

	"hindsight/internal/model/modeltest"
	"hindsight/internal/model/trees"
	"hindsight/internal/model/window"
)

// naiveForest is the forest as the package comment tells it. It keeps every row of the stream,
// finds splits by looking at every row of a leaf for every cut point, grows a whole tree when a
// fit begins, and adds up all trees for every residual. Numbers of residuals and leaves are
// integers, as in the forest, so that both have the same bits.
type naiveForest struct {
	o             trees.Options
	capacity      int
	offset, unit  float64 // Of labels.
	rows          []naiveRow
	mean, counted float64
	columns       []*naiveColumn
	cuts          map[int][]float32
	cutsDue       int
	steps         []naiveStep // Of the job.
	start         int         // Of the fit, or −1.
	debt          int64
	done          int // Trees.
}

type naiveRow struct {
	x             []float32
	label, served float64
	counts        float32
}

type naiveColumn struct {
	kind   trees.Kind
	trees  []*naiveTree
	made   int
	credit int64
}

// naiveTree is a node with its children, or a leaf.
type naiveTree struct {
	input       int
	cut         float32
	left, right *naiveTree
	value       int64
}

// naiveStep is a step of a job: it returns its units.
type naiveStep func() int64

func newNaiveForest(o trees.Options, w *window.Window) *naiveForest {
	served := window.Layout{Inputs: o.Inputs, Deltas: o.Deltas}.Served()
	f := &naiveForest{
		o: o, capacity: w.Capacity(), offset: w.Offset(served), unit: w.Unit(served),
		cuts: map[int][]float32{}, cutsDue: 16, start: -1,
	}
	for _, kind := range o.Columns {
		c := &naiveColumn{kind: kind}
		for range 64 {
			c.trees = append(c.trees, &naiveTree{})
		}
		f.columns = append(f.columns, c)
	}
	return f
}

func (t *naiveTree) leaf(x []float32) *naiveTree {
	switch {
	case t.left == nil:
		return t
	case x[t.input] <= t.cut:
		return t.left.leaf(x)
	default:
		return t.right.leaf(x)
	}
}

func (t *naiveTree) at(x []float32) int64 { return t.leaf(x).value }

func (t *naiveTree) size() int64 {
	if t.left == nil {
		return 1
	}
	return 1 + t.left.size() + t.right.size()
}

// current reports whether the cut points of a tree are among the present cut points.
func (f *naiveForest) current(t *naiveTree) bool {
	return t.left == nil || slices.Contains(f.cuts[t.input], t.cut) && f.current(t.left) && f.current(t.right)
}

func (c *naiveColumn) sum(x []float32) (sum int64) {
	for _, t := range c.trees {
		sum += t.at(x)
	}
	return sum
}

// fixed is a label in units, as a multiple of 2⁻³².
func (f *naiveForest) fixed(y float64) int64 {
	return int64(math.RoundToEven(math.Max(-32768, math.Min(32768, (y-f.offset)/f.unit)) * (1 << 32)))
}

// last is the last label of a row, or the label of the reference.
func (f *naiveForest) last(x []float32) float64 {
	if f.o.Keyed {
		return f.offset + float64(f.unit*float64(x[len(x)-1]))
	}
	return f.offset + float64(f.unit*float64(x[f.o.Inputs]))
}

// effect is the effect of the keys of a row.
func (f *naiveForest) effect(x []float32) (sum float64) {
	for _, v := range x[f.o.Keys.From:f.o.Keys.Effect] {
		sum += f.offset + float64(f.unit*float64(v))
	}
	return sum
}

// target is what the trees of a column add up to at best.
func (f *naiveForest) target(kind trees.Kind, r naiveRow) int64 {
	switch kind {
	case trees.Changes:
		return f.fixed(r.label) - f.fixed(f.last(r.x))
	case trees.Residuals:
		return f.fixed(r.label) - f.fixed(r.served)
	case trees.Beside:
		return f.fixed(r.label - f.effect(r.x))
	default:
		return f.fixed(r.label)
	}
}

func (f *naiveForest) predict(x []float32, served float64) (values []float64, sums []int64) {
	for _, c := range f.columns {
		origin := map[trees.Kind]float64{
			trees.Labels: f.mean, trees.Plain: f.mean, trees.Changes: f.last(x), trees.Residuals: served,
			trees.Beside: f.mean + f.effect(x),
		}[c.kind]
		sum := c.sum(x)
		sums = append(sums, sum)
		values = append(values, origin+float64(f.unit*(float64(sum)/(1<<32))))
	}
	return values, sums
}

// window are the newest rows, at most so many.
func (f *naiveForest) window(most int) []naiveRow { return f.rows[max(0, len(f.rows)-most):] }

// inputs are the columns of a row that a kind may split.
func (f *naiveForest) inputs(kind trees.Kind) (inputs []int) {
	l := window.Layout{Inputs: f.o.Inputs, Deltas: f.o.Deltas, Keyed: f.o.Keyed}
	for j := range l.Columns() {
		input, lag, delta := j < l.Inputs && (kind != trees.Beside || j < f.o.Keys.From || j >= f.o.Keys.To), j == l.Inputs || j == l.Inputs+1, j >= l.Delta()
		served := j == l.Inputs+2
		ladder := j >= l.Inputs && !lag && !served && !delta
		if input || ((kind == trees.Labels || kind == trees.Beside) && lag) || (kind == trees.Residuals && (lag || served)) ||
			(kind == trees.Changes && (ladder || delta)) {
			inputs = append(inputs, j)
		}
	}
	return inputs
}

// drawn is how many inputs a tree may split.
func (f *naiveForest) drawn(kind trees.Kind) int {
	count := len(f.inputs(kind))
	if kind == trees.Changes {
		count = int(math.Ceil(0.6*float64(count) - 1e-9))
	}
	return min(count, 24)
}

func (f *naiveForest) price(c *naiveColumn) int64 {
	return 4 * int64(len(f.window(f.capacity))) * int64(f.drawn(c.kind)) * 7 / 10
}

// work is about the units of a fit.
func (f *naiveForest) work(c *naiveColumn) int64 {
	groups, leaves, levels := int64(f.drawn(c.kind)+3)/4, int64(31), int64(6)
	if c.kind == trees.Plain {
		leaves, levels = 127, 8
	}
	return int64(len(f.window(f.capacity)))*(10+leaves/10+(3*groups*(2+levels)+4*levels)*7/20) + leaves*groups*760
}

func (f *naiveForest) observe(r naiveRow, shares []int) {
	f.rows = append(f.rows, r)
	f.counted += float64(r.counts)
	f.mean += float64(float64(r.counts)*(r.label-f.mean)) / f.counted
	most, earned, behind := int64(cmp.Or(f.o.Work, 120_000)), int64(0), int64(0)
	for i, c := range f.columns {
		earns, price := int64(13_000), f.price(c)
		if shares != nil {
			earns = 13_000 * int64(shares[i]) / 64
		}
		if len(f.rows) < 32 {
			earned = most
			continue
		}
		c.credit = min(4*price, c.credit+earns)
		earned += earns * f.work(c) / price
		behind = max(behind, 64*(c.credit-price)/(3*price))
	}
	earned = min(earned, most)
	left := earned + (most-earned)*behind/64 - f.debt
	f.debt = 0
	for len(f.steps) > 0 || f.begin() {
		// A fit must end while the ring has its rows.
		if late := f.start >= 0 && len(f.rows)-f.start >= window.Slack-1; left <= 0 && !late {
			f.debt = -left
			return
		}
		left -= 50 + f.steps[0]()
		f.steps = f.steps[1:]
	}
}

// begin begins the job that is due, if any.
func (f *naiveForest) begin() bool {
	n := len(f.rows)
	f.start = -1
	if n >= f.cutsDue {
		half := (f.capacity + 1) / 2
		if f.cutsDue = n + n/2 + 1; n >= 2*half {
			f.cutsDue = n + half
		}
		for j := range f.rows[0].x {
			f.steps = append(f.steps, func() int64 {
				rows, share := f.window(f.capacity+window.Slack), map[int]int{}
				for _, r := range rows {
					at, _ := slices.BinarySearch(f.cuts[j], r.x[j])
					share[at]++
				}
				if slices.Max(slices.Collect(maps.Values(share))) <= len(rows)/32 {
					return int64(len(rows))
				}
				f.cuts[j] = quantiles(rows, j)
				return 16 * int64(len(rows))
			})
		}
		return true
	}
	var next *naiveColumn
	for _, c := range f.columns {
		if n < 32 || c.credit < f.price(c) {
			continue
		}
		if next == nil {
			next = c
			continue
		}
		gap := float64(c.credit)/float64(f.price(c)) - float64(next.credit)/float64(f.price(next))
		if gap > 1e-12 || (gap > -1e-12 && c.made < next.made) {
			next = c
		}
	}
	if next == nil {
		return false
	}
	next.credit -= f.price(next)
	f.start = n
	f.fit(next)
	return true
}

// quantiles are the cut points of an input: midpoints between different values at the 64ths.
func quantiles(rows []naiveRow, input int) (cuts []float32) {
	var values []float32
	for _, r := range rows {
		values = append(values, r.x[input])
	}
	slices.Sort(values)
	for b := 1; b < 64; b++ {
		at := b * len(values) / 64
		if at == 0 {
			continue
		}
		for _, above := range values[at:] {
			if below := values[at-1]; above > below {
				cut := float32(0.5*float64(below) + 0.5*float64(above))
				if cut >= above || cut < below {
					cut = below
				}
				if len(cuts) == 0 || cut > cuts[len(cuts)-1] {
					cuts = append(cuts, cut)
				}
				break
			}
		}
	}
	return cuts
}

// sample is a row in the bag with its residual in multiples of 2⁻²⁰.
type sample struct {
	x        []float32
	residual int64
}

// naiveLeaf is a leaf of a growing tree with its best split.
type naiveLeaf struct {
	node    *naiveTree
	samples []sample
	gain    float64
	input   int
	cut     float32
	held    bool // It has histograms.
}

func (l *naiveLeaf) sum() (sum int64) {
	for _, s := range l.samples {
		sum += s.residual
	}
	return sum
}

// fit grows a new tree for a column, and queues the steps that it takes.
func (f *naiveForest) fit(c *naiveColumn) {
	old, rows := c.trees[c.made%64], f.window(f.capacity)
	chunks := func(units func(rows int64) int64) {
		for left := len(rows); left > 0; left -= 1024 {
			f.queue(units(int64(min(left, 1024))))
		}
	}
	chunks(func(rows int64) int64 {
		if f.current(old) {
			return old.size()*rows/40 + 5*rows
		}
		return 25 * rows
	})
	var rng rand.PCG
	rng.Seed(f.o.Seed, uint64(c.kind)<<32+uint64(c.made))
	inputs := draw(&rng, f.inputs(c.kind), f.drawn(c.kind))
	bag, mean := f.bag(&rng, c, old)
	grown := f.grow(c.kind, bag, inputs)
	leaves := map[*naiveTree][]naiveRow{}
	for _, r := range rows {
		leaves[grown.leaf(r.x)] = append(leaves[grown.leaf(r.x)], r)
	}
	for leaf, rows := range leaves {
		sum, weights := int64(0), int64(0)
		for _, r := range rows {
			weight := int64(256 * r.counts)
			sum += weight * f.residual(c, old, mean, r)
			weights += weight
		}
		leaf.value = int64(math.RoundToEven(float64(float64(sum)*(0.2*4096)) / float64(weights+2*256)))
	}
	chunks(func(rows int64) int64 { return grown.size()*rows/40 + 3*rows })
	chunks(func(rows int64) int64 { return 2 * rows })
	last := f.steps[len(f.steps)-1]
	f.steps[len(f.steps)-1] = func() int64 {
		c.trees[c.made%64] = grown
		c.made++
		f.done++
		return last()
	}
}

// draw draws count of the inputs, ascending.
func draw(rng *rand.PCG, inputs []int, count int) []int {
	deck := slices.Clone(inputs)
	for i := 0; i < count && count < len(deck); i++ {
		j := i + int((rng.Uint64()>>32)*uint64(len(deck)-i)>>32)
		deck[i], deck[j] = deck[j], deck[i]
	}
	deck = deck[:count]
	slices.Sort(deck)
	return deck
}

// bag draws the rows of the window with the probability 0.7 ω, from the oldest on.
func (f *naiveForest) bag(rng *rand.PCG, c *naiveColumn, old *naiveTree) (bag []sample, mean int64) {
	rows := f.window(f.capacity)
	if c.kind != trees.Changes && c.kind != trees.Residuals {
		mean = f.fixed(f.mean)
	}
	var bits uint64
	for i, r := range rows {
		if i%4 == 0 {
			bits = rng.Uint64()
		}
		number := bits >> (16 * (i % 4)) % (1 << 16)
		if float32(number+1) > 45875*r.counts {
			continue
		}
		bag = append(bag, sample{r.x, f.residual(c, old, mean, r)})
	}
	return bag, mean
}

// residual is what the other trees leave of a row, rounded.
func (f *naiveForest) residual(c *naiveColumn, old *naiveTree, mean int64, r naiveRow) int64 {
	residual := f.target(c.kind, r) - mean - c.sum(r.x) + old.at(r.x)
	return max(1-1<<35, min(1<<35-1, int64(math.Floor(float64(residual)/4096+0.5))))
}

// queue queues a step of fixed units.
func (f *naiveForest) queue(units int64) {
	f.steps = append(f.steps, func() int64 { return units })
}

// grow grows a tree best first.
func (f *naiveForest) grow(kind trees.Kind, bag []sample, inputs []int) *naiveTree {
	most, least := 31, 5
	if kind == trees.Plain {
		most, least = 127, 2
	}
	groups := int64(len(inputs)+3) / 4
	root := &naiveTree{}
	leaves := []*naiveLeaf{{node: root, samples: bag}}
	for range groups {
		f.queue(3 * int64(len(bag)))
	}
	f.queue(350 * groups)
	free := (f.capacity+window.Slack)/768 + 2 // Places of histograms.
	search := func(l *naiveLeaf) {
		l.search(inputs, f.cuts, least)
		if l.held = len(l.samples) > 128 && free >= 2; !l.held {
			free++
		}
	}
	search(leaves[0])
	enough := 0.0
	for _, s := range bag {
		enough += float64(float64(s.residual) * float64(s.residual))
	}
	enough = max(1, enough/float64(max(1, len(bag))))
	for len(leaves) < most {
		var widest *naiveLeaf
		for _, l := range leaves {
			if l.gain > enough && (widest == nil || l.gain > widest.gain) {
				widest = l
			}
		}
		if widest == nil {
			f.queue(0)
			break
		}
		held := widest.held
		f.queue(2 * int64(len(widest.samples)))
		right := widest.split()
		if leaves = append(leaves, right); len(leaves) == most {
			break
		}
		smaller, larger := widest, right
		if len(right.samples) < len(widest.samples) {
			smaller, larger = right, widest
		}
		for range groups {
			f.queue(3 * int64(len(smaller.samples)))
		}
		if free--; !held {
			f.queue(3 * groups * int64(len(larger.samples)))
			free--
		}
		f.queue(groups * (60 + 2*350))
		search(smaller)
		search(larger)
	}
	return root
}

// search finds the best split: the first of equal ones.
func (l *naiveLeaf) search(inputs []int, cuts map[int][]float32, least int) {
	sum, all := float64(l.sum()), float64(len(l.samples))
	parent := float64(sum*sum) / (all + 2)
	score := parent
	l.gain = 0
	for _, input := range inputs {
		for _, cut := range cuts[input] {
			sumLeft, left := int64(0), 0
			for _, s := range l.samples {
				if s.x[input] <= cut {
					sumLeft += s.residual
					left++
				}
			}
			right := len(l.samples) - left
			if left < least || right < least {
				continue
			}
			a, b := float64(sumLeft), sum-float64(sumLeft)
			na, nb := float64(left+2), float64(right+2)
			// a²/na + b²/nb as one quotient.
			if s := (float64(float64(a*a)*nb) + float64(float64(b*b)*na)) / float64(na*nb); s > score {
				score, l.input, l.cut = s, input, cut
				l.gain = score - parent
			}
		}
	}
}

// split splits the leaf, which becomes its left part, and returns the right part.
func (l *naiveLeaf) split() *naiveLeaf {
	node := l.node
	node.input, node.cut, node.left, node.right = l.input, l.cut, &naiveTree{}, &naiveTree{}
	right := &naiveLeaf{node: node.right}
	all := l.samples
	l.node, l.samples = node.left, nil
	for _, s := range all {
		if s.x[l.input] <= l.cut {
			l.samples = append(l.samples, s)
		} else {
			right.samples = append(right.samples, s)
		}
	}
	return right
}

func allKinds() []trees.Kind {
	return []trees.Kind{trees.Labels, trees.Changes, trees.Residuals, trees.Plain, trees.Beside}
}

// stream feeds a forest as auto does: the window begins with the rows that are kept.
type stream struct {
	layout    window.Layout
	w         *window.Window
	f         *trees.Forest
	kept      []modeltest.Sample
	served    []float64
	columns   []float64
	row       []float32
	low, high float64
}

func newStream(o trees.Options) *stream {
	l := window.Layout{Inputs: o.Inputs}
	w := window.New(l.Capacity(), l)
	return &stream{
		layout: l, w: w, f: trees.New(o, w), columns: make([]float64, l.Columns()), row: make([]float32, l.Columns()),
		low: math.Inf(1), high: math.Inf(-1),
	}
}

func (s *stream) keep(sample modeltest.Sample, v float64) {
	s.kept, s.served = append(s.kept, sample), append(s.served, v)
	if len(s.kept) == 128 {
		s.begin()
	}
}

func (s *stream) begin() {
	d := s.layout.Inputs
	offsets, units := make([]float64, d+1), make([]float64, d+1)
	for j := range offsets {
		value := func(r modeltest.Sample) float64 {
			if j == d {
				return r.Y
			}
			return r.X[j]
		}
		squares := 0.0
		for _, r := range s.kept {
			offsets[j] += value(r) / float64(len(s.kept))
		}
		for _, r := range s.kept {
			squares += (value(r) - offsets[j]) * (value(r) - offsets[j])
		}
		if units[j] = math.Sqrt(squares / float64(len(s.kept))); units[j] < 1e-6 {
			units[j] = 1
		}
	}
	s.w.Begin(offsets, units)
	for i, r := range s.kept {
		s.observe(r, s.served[i])
	}
	s.kept, s.served = nil, nil
}

func (s *stream) predict(dst, x []float64, v float64) {
	copy(s.columns, x)
	s.w.Fill(s.row, s.columns, s.w.Count(), 0, v)
	var sums [trees.Kinds]int64
	s.f.Sum(sums[:len(dst)], s.row)
	s.f.Predict(dst, sums[:len(dst)], s.row, v)
	for c := range dst {
		dst[c] = math.Max(s.low, math.Min(s.high, dst[c]))
	}
}

func (s *stream) observe(sample modeltest.Sample, v float64) {
	s.w.Add(sample.X, s.w.Count(), 0, sample.Y, v, 1)
	s.f.Observe(nil, nil)
	s.low, s.high = math.Min(s.low, sample.Y), math.Max(s.high, sample.Y)
}
