package trees_test

import (
	"math"

	"hindsight/internal/model/modeltest"
	"hindsight/internal/model/trees"
	"hindsight/internal/model/window"
)

func allKinds() []trees.Kind {
	return []trees.Kind{trees.Labels, trees.Changes, trees.Residuals, trees.Plain, trees.Beside}
}

// stream feeds a forest as auto does: the window begins with the rows that are kept.
type stream struct {
	layout    window.Layout
	history   window.History
	w         *window.Window
	f         *trees.Forest
	kept      [][]float64 // Columns, label and served.
	columns   []float64
	row       []float32
	low, high float64
}

func newStream(o trees.Options) *stream {
	l := window.Layout{Inputs: o.Inputs}
	w := window.New(l.Capacity(), l.Columns())
	return &stream{
		layout: l, w: w, f: trees.New(o, w), columns: make([]float64, l.Columns()), row: make([]float32, l.Columns()),
		low: math.Inf(1), high: math.Inf(-1),
	}
}

func (s *stream) fill(x []float64, v float64) {
	copy(s.columns, x)
	s.history.Fill(s.columns[s.layout.Inputs:], s.history.Count(), v)
}

func (s *stream) seen(y float64) {
	s.history.Add(y)
	s.low, s.high = math.Min(s.low, y), math.Max(s.high, y)
}

func (s *stream) keep(sample modeltest.Sample, v float64) {
	s.fill(sample.X, v)
	s.kept = append(s.kept, append(append([]float64(nil), s.columns...), sample.Y, v))
	s.seen(sample.Y)
	if len(s.kept) == 128 {
		s.begin()
	}
}

func (s *stream) begin() {
	count := len(s.columns)
	offsets, units := make([]float64, count+1), make([]float64, count+1)
	for j := range offsets {
		squares := 0.0
		for _, r := range s.kept {
			offsets[j] += r[j] / float64(len(s.kept))
		}
		for _, r := range s.kept {
			squares += (r[j] - offsets[j]) * (r[j] - offsets[j])
		}
		if units[j] = math.Sqrt(squares / float64(len(s.kept))); units[j] < 1e-6 {
			units[j] = 1
		}
	}
	for j := s.layout.Inputs; j < count; j++ { // Labels.
		offsets[j], units[j] = offsets[count], units[count]
	}
	s.w.Begin(offsets[:count], units[:count])
	for _, r := range s.kept {
		s.w.Add(r[:count], r[count], r[count+1], 1)
		s.f.Observe(nil, nil)
	}
	s.kept = nil
}

func (s *stream) predict(dst, x []float64, v float64) {
	s.fill(x, v)
	s.w.Round(s.row, s.columns)
	var sums [trees.Kinds]int64
	s.f.Predict(dst, sums[:len(dst)], s.row, v)
	for c := range dst {
		dst[c] = math.Max(s.low, math.Min(s.high, dst[c]))
	}
}

func (s *stream) observe(sample modeltest.Sample, v float64) {
	s.fill(sample.X, v)
	s.w.Add(s.columns, sample.Y, v, 1)
	s.f.Observe(nil, nil)
	s.seen(sample.Y)
}
