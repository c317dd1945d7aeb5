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
