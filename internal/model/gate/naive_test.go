package gate_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sort"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"hindsight/internal/model"
	"hindsight/internal/model/catalog"
	"hindsight/internal/model/codec"
	"hindsight/internal/model/modeltest"
)

// naive is the rule of docs/theory.md of one output, without events: it keeps every label
// of a start and computes each figure anew from all of them.
type naive struct {
	// learned are the labels of this start, tracked those without admitted ones, early those
	// of its first 128 rows that were not dropped; taken counts the rows of this start that
	// were learned, rows all.
	learned, tracked, early []float64
	taken, rows             int
	// aside are the newest 16 labels that were set aside. large counts these labels and the
	// admitted ones, stretched is large when one last stretched met.
	aside            []float64
	large, stretched int
	// met is around the labels set aside, admitted around those that are learned.
	met, admitted []float64
	ring          []float64
	alarm         float64
	later         bool
	starts        int
}

// means are m, a, A and v over labels.
func means(labels []float64) (m, near, far, moves float64) {
	for n, y := range labels {
		if n == 0 {
			m = y
			continue
		}
		d, count := math.Abs(y-m), float64(n)
		near += math.Max(0.01, 1/count) * (d - near)
		far += (d - far) / count
		m += math.Max(0.01, 1/(count+1)) * (y - m)
		moves *= 0.98
		if y != labels[n-1] {
			moves += 0.02
		}
	}
	return m, near, far, moves
}

// threeValues reports whether labels have more than two values.
func threeValues(labels []float64) bool {
	other := slices.IndexFunc(labels, func(y float64) bool { return y != labels[0] })
	return other > 0 && slices.ContainsFunc(labels[other:], func(y float64) bool { return y != labels[0] && y != labels[other] })
}

// limit is 50 times the mean of |y − median| but the largest.
func (n *naive) limit() (limit, median float64) {
	if !threeValues(n.tracked) {
		return 0, 0
	}
	sorted := slices.Clone(n.early)
	sort.Float64s(sorted)
	median = sorted[len(sorted)/2]
	for i, y := range sorted {
		sorted[i] = math.Abs(y - median)
	}
	sort.Float64s(sorted)
	spared := len(sorted) / 32
	if n.later {
		spared = len(sorted) / 5
	}
	rest, sum := sorted[:len(sorted)-max(1, spared)], 0.0
	for _, u := range rest {
		sum += u
	}
	return 50 * sum / float64(len(rest)), median
}

func (n *naive) strange(y float64) bool {
	if n.taken < 128 {
		if len(n.early) < 4 {
			return false
		}
		limit, median := n.limit()
		return limit > 0 && math.Abs(y-median) > limit*(1+50/float64(len(n.early)))
	}
	return !within(n.admitted, y) && n.outside(y)
}

func (n *naive) outside(y float64) bool {
	m, near, far, _ := means(n.tracked)
	s := math.Max(near, far)
	return s > 0 && math.Abs(y-m)/s > 20*(1+50/float64(len(n.tracked))) &&
		threeValues(append(slices.Clone(n.tracked), y))
}

func within(span []float64, y float64) bool {
	return len(span) > 0 && y >= slices.Min(span) && y <= slices.Max(span)
}

// around is the mean of the tracked labels and twice as far as y.
func (n *naive) around(y float64) []float64 {
	m, _, _, _ := means(n.tracked)
	return []float64{m, y + (y - m)}
}

// learn learns a label, and tracks the label unless it is admitted.
func (n *naive) learn(y float64) {
	n.learned = append(n.learned, y)
	if n.taken > 128 && within(n.admitted, y) && n.outside(y) {
		n.large++
	} else {
		n.tracked = append(n.tracked, y)
	}
	if n.alarm = math.Max(0, n.alarm-0.1); n.alarm == 0 {
		n.ring = nil
	}
}

// setAside keeps a label that is set aside.
func (n *naive) setAside(y float64) {
	n.aside = append(n.aside, y)
	n.aside = n.aside[max(0, len(n.aside)-16):]
	n.large++
	if n.outside(y) && !within(n.met, y) {
		n.met, n.stretched = append(n.met, n.around(y)...), n.large
	}
}

// distributed reports whether the labels that are set aside are part of the distribution.
func (n *naive) distributed() bool {
	repeats := 0
	for i, y := range n.tracked {
		if i > 0 && y == n.tracked[i-1] {
			repeats++
		}
	}
	still, least := float64(repeats) >= 0.9*float64(len(n.tracked)), 16
	if still {
		least = 8
	}
	if n.taken <= 128 || n.large < least || n.large < 2*n.stretched || float64(n.large) < 0.005*float64(n.rows) {
		return false
	}
	if still {
		return true
	}
	times, all := map[float64]int{}, 0
	for _, y := range n.aside {
		if !within(n.admitted, y) && n.outside(y) {
			times[y]++
			all++
		}
	}
	for _, count := range times {
		if count > 1 && 4*count > all {
			return false
		}
	}
	return true
}

// admit learns the labels that are set aside.
func (n *naive) admit() {
	for _, y := range n.aside {
		if n.outside(y) {
			n.admitted = append(n.admitted, n.around(y)...)
		}
	}
	large := n.large
	for _, y := range n.aside {
		n.learn(y)
	}
	n.aside, n.ring, n.large = nil, nil, large
}

func (n *naive) observe(y float64) (setAside bool) {
	n.rows++
	if n.strange(y) {
		n.alarm++
		n.ring = append(n.ring, y)
		n.ring = n.ring[max(0, len(n.ring)-5):]
		if n.alarm < 5 {
			if n.setAside(y); n.distributed() {
				n.admit()
			}
			return true
		}
		*n = naive{
			later: true, starts: n.starts + 1, taken: len(n.ring),
			learned: n.ring, tracked: slices.Clone(n.ring), early: slices.Clone(n.ring),
		}
		return false
	}
	n.taken++
	n.learn(y)
	if n.taken <= 128 {
		n.early = append(n.early, y)
		if n.taken >= 4 && n.taken&(n.taken-1) == 0 {
			n.purge()
		}
		return false
	}
	if len(n.tracked) <= 1000 || !threeValues(n.tracked) {
		return false
	}
	if _, near, far, moves := means(n.tracked); 20*near < far && moves > 0.1 {
		*n = naive{later: true, starts: n.starts + 1}
	}
	return false
}

// purge drops what is far from the other labels of the start.
func (n *naive) purge() {
	limit, median := n.limit()
	if len(n.early) < 8 {
		limit *= 1 + 50/float64(len(n.early))
	}
	var rest, far []float64
	for _, y := range n.early {
		if limit == 0 || math.Abs(y-median) <= limit {
			rest = append(rest, y)
		} else {
			far = append(far, y)
		}
	}
	if len(far) > 0 {
		n.early, n.learned, n.tracked = rest, slices.Clone(rest), slices.Clone(rest)
		for _, y := range far {
			n.setAside(y)
		}
	}
}

// subject makes a gate before a learner.
type subject struct {
	name  string
	seeds uint64
	make  func(t *testing.T) model.Learner
}

// subjects are gates of one input before learners of several kinds.
func subjects() []subject {
	specs := map[string]model.Spec{
		"linear":      {Dimension: 1, LabelGate: model.GateOn, LinearAWV: &model.LinearAWV{}},
		"two outputs": {Dimension: 1, Outputs: 2, LabelGate: model.GateOn, LinearAWV: &model.LinearAWV{}},
	}
	all := []subject{{"recorder", 16, func(*testing.T) model.Learner {
		l, _ := recorded(1, 1)
		return l
	}}}
	for _, name := range []string{"linear", "two outputs"} {
		all = append(all, subject{name, 8, func(t *testing.T) model.Learner {
			t.Helper()
			l, err := catalog.New(specs[name])
			require.NoError(t, err)
			return l
		}})
	}
	for _, v := range versions() {
		all = append(all, subject{"auto " + v.name, 1, func(*testing.T) model.Learner {
			o := options(1)
			o.Lags, o.Frequencies = 1, 3
			return v.gated(o)
		}})
	}
	return all
}

// outputs is the number of labels of a row.
func (s subject) outputs() int {
	if s.name == "two outputs" {
		return 2
	}
	return 1
}

// mixture is a stream of one input.
type mixture struct {
	name string
	rows int
	draw func(rng *rand.Rand) func(row int) (x, y float64)
}

func mixtures() []mixture {
	return []mixture{
		{"holidays", 600, func(rng *rand.Rand) func(int) (float64, float64) {
			return func(row int) (float64, float64) {
				if row == 2 || rng.IntN(70) == 0 {
					return 1, 2000 + 20*rng.NormFloat64()
				}
				return 0, 10 + rng.NormFloat64()
			}
		}},
		{"events among dirt", 1200, func(rng *rand.Rand) func(int) (float64, float64) {
			rate, size := 0.005+0.03*rng.Float64(), math.Pow(10, 2+3*rng.Float64())
			labels := dirtyLabels(rng, 1200)
			return func(row int) (float64, float64) {
				if row < 8 && rng.IntN(4) == 0 || rng.Float64() < rate {
					return 1, size * (1 + 0.1*rng.NormFloat64())
				}
				return 0, labels[row]
			}
		}},
		{"labels beside the smallest numbers", 300, func(rng *rand.Rand) func(int) (float64, float64) {
			unit := []float64{math.SmallestNonzeroFloat64, 1e-300, 1e-200}[rng.IntN(3)]
			return func(row int) (float64, float64) {
				if row > 200 && rng.IntN(20) == 0 {
					return 1, math.Pow(10, 99*rng.Float64())
				}
				return 0, unit * float64(rng.IntN(5))
			}
		}},
	}
}

// After every row of any dirt a gate restores its state, and goes on with it. A gate around auto,
// whose state is large, does so after every 32nd row.
func TestRestoreAfterEveryRow(t *testing.T) {
	for _, s := range subjects() {
		for _, d := range mixtures() {
			for seed := range s.seeds {
				t.Run(fmt.Sprintf("%s/%s/%d", s.name, d.name, seed), func(t *testing.T) {
					t.Parallel()
					restoresAfterEveryRow(t, s, d, seed)
				})
			}
		}
	}
}

func restoresAfterEveryRow(t *testing.T, s subject, d mixture, seed uint64) {
	t.Helper()
	draw := d.draw(rand.New(rand.NewPCG(seed, 34)))
	l, every := s.make(t), 1
	if strings.HasPrefix(s.name, "auto") {
		every = 32
	}
	var o model.Outcome
	for row := range d.rows {
		x, label := draw(row)
		y := make([]float64, s.outputs())
		for j := range y {
			y[j] = label
		}
		require.NoError(t, l.Observe(&o, []float64{x}, y, 1), row)
		if row%every != 0 {
			continue
		}
		restored := s.make(t)
		require.NoError(t, codec.Read(modeltest.State(t, l.Visit), restored.Visit), row)
		// A recorder does not restore.
		if s.name != "recorder" {
			l = restored
		}
	}
}
