package window_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"hindsight/internal/model/codec"
	"hindsight/internal/model/loops"
	"hindsight/internal/model/modeltest"
	"hindsight/internal/model/window"
)

// The window has the newest rows, and Slack rows more are not overwritten. Their columns are those that
// Fill wrote when the rows were predicted, also if labels come late.
func TestTheRingKeepsTheNewestRows(t *testing.T) {
	const capacity = 100
	l := window.Layout{Inputs: 3, Deltas: 2, Keyed: true}
	for _, late := range []int{0, 1, 30, 900, 1500} {
		w := window.New(capacity, l)
		w.Begin([]float64{1, -2, 1e6, 0.5}, []float64{0.5, 2, 3, 4})
		var rows [][]float32
		columns := make([]float64, l.Columns())
		for n := range 3000 {
			x := float64(n)
			seen, counts := uint64(max(0, n-late)), 1.0
			if n%7 == 0 {
				counts = 1e-9
			}
			copy(columns, []float64{x, 3 * x, 1e6 + x})
			row := make([]float32, l.Columns())
			after := seen - min(seen, 150*uint64(n%9)) // 0 and seen among them.
			w.Fill(row, columns, seen, after, x+0.25)
			w.Add(columns, seen, after, x+0.5, x+0.25, counts)
			rows = append(rows, row)
			require.True(t, w.Count() == uint64(n+1) && w.Len() == min(n+1, capacity), "row %d: count %d, length %d", n, w.Count(), w.Len())
			first, second, skip := w.Newest(w.Len())
			for age := 0; age < min(n+1, w.Slots()); age += 1 + age/3 {
				s, got, in := w.Slot(age), make([]float32, l.Columns()), w.Row(age)
				w.Read(got, s)
				if want := rows[n-age]; w.Labels[s] != x-float64(age)+0.5 || w.Served[s] != x-float64(age)+0.25 || !slices.Equal(got, want) ||
					got[0] != float32((x-float64(age)-1)/0.5) || in[0] != want[0] || in[loops.Lanes] != want[1] || in[2*loops.Lanes] != want[2] {
					t.Fatalf("%d late, row %d, age %d: %v, want %v, label %g, served %g", late, n, age, got, want, w.Labels[s], w.Served[s])
				}
				if age >= w.Len() {
					continue
				}
				blocks, at := first, skip+w.Len()-1-age
				if rows := len(first) / 3; at >= rows {
					blocks, at = second, at-rows
				}
				for j, v := range rows[n-age][:3] {
					if place := (at/loops.Lanes*3+j)*loops.Lanes + at%loops.Lanes; blocks[place] != v {
						t.Fatalf("row %d, age %d: input %d is %v among the newest, want %v", n, age, j, blocks[place], v)
					}
				}
			}
		}
	}
}

// The columns of a row are those of the History, and how its inputs differ from those of the newest row
// that its prediction knew.
func TestFill(t *testing.T) {
	l := window.Layout{Inputs: 2, Deltas: 1}
	w, columns, row := window.New(50, l), make([]float64, l.Columns()), make([]float32, l.Columns())
	var h window.History
	rng := rand.New(rand.NewPCG(5, 6))
	var inputs []float64
	for n := range 1500 {
		seen := uint64(max(0, n-n%9))
		x, y := rng.NormFloat64(), rng.NormFloat64()
		columns[0], columns[1] = x, 1
		w.Fill(row, columns, seen, 0, 7)
		want := make([]float64, l.Delta()-2)
		h.Fill(want, seen, 7)
		delta := 0.0
		if seen > 0 {
			delta = x - inputs[seen-1]
		}
		want = append(append([]float64{x, 1}, want...), delta)
		for j, v := range want {
			require.True(t, math.Abs(float64(row[j])-v) <= 1e-5 && (j >= l.Delta() || columns[j] == v), "row %d: %v, want %v", n, row, want)
		}
		w.Add(columns, seen, 0, y, 7, 1)
		h.Add(y)
		inputs = append(inputs, x)
	}
}

func TestShownNumbersAreWithinTheLimit(t *testing.T) {
	l := window.Layout{Inputs: 3, Deltas: 3}
	w, columns, row := window.New(1, l), make([]float64, l.Columns()), make([]float32, l.Columns())
	w.Begin([]float64{1e100, 0, 0, 0}, []float64{1e-9, 1, 1, 1})
	w.Add([]float64{1e100, -1e100, 0}, 0, 0, 0, 0, 1)
	copy(columns, []float64{-1e100, 1e100, math.Copysign(0, -1)})
	w.Fill(row, columns, 1, 0, 0)
	w.Add(columns, 1, 0, 0, 0, 1)
	for range 2 {
		if row[0] != -window.Limit || row[1] != window.Limit || math.Signbit(float64(row[2])) ||
			row[l.Delta()+1] != window.Limit || math.Signbit(float64(row[l.Delta()+2])) {
			t.Errorf("%v", row)
		}
		w.Read(row, w.Slot(0))
	}
}

func TestStatesContinue(t *testing.T) {
	l := window.Layout{Inputs: 4, Deltas: 4}
	w, restored := window.New(50, l), window.New(50, l)
	w.Begin([]float64{1, 2, 3, 4, 5}, []float64{1, 2, 3, 4, 5})
	rng := rand.New(rand.NewPCG(1, 2))
	got, want := make([]float32, l.Columns()), make([]float32, l.Columns())
	for n := range 3000 {
		row := []float64{rng.Float64(), rng.Float64(), 1e9 * rng.Float64(), -1}
		w.Add(row, uint64(max(0, n-rng.IntN(5))), 0, rng.Float64(), rng.Float64(), 1)
		if n%97 != 0 {
			continue
		}
		was := modeltest.State(t, w.Visit)
		require.NoError(t, codec.Read(was, restored.Visit))
		require.Equal(t, modeltest.State(t, restored.Visit), was, n)
		for age := range min(n+1, w.Slots()) {
			w.Read(want, w.Slot(age))
			restored.Read(got, restored.Slot(age))
			require.True(t, slices.Equal(got, want), "row %d, age %d: %v, want %v", n, age, got, want)
		}
	}
}

// The columns are those of the definition, at once and late.
func TestHistory(t *testing.T) {
	var h window.History
	l := window.Layout{Inputs: 2}
	var labels, means9, means99 []float64
	rng := rand.New(rand.NewPCG(3, 4))
	mean9, mean99 := 0.0, 0.0
	got, want := make([]float64, l.Columns()-2), []float64(nil)
	label := func(seen, age int) float64 {
		if age > seen || age+len(labels)-seen > 1024 {
			return 0
		}
		return labels[seen-age]
	}
	for n := range 2500 {
		for _, seen := range []int{n, max(0, n-1), max(0, n-10), max(0, n-900), max(0, n-1100)} {
			want = append(want[:0], label(seen, 1), label(seen, 2), 7)
			for _, age := range []int{1, 2, 3, 4, 6, 8, 12, 24, 48, 168} {
				want = append(want, label(seen, age))
			}
			if seen > 0 && n-seen < 1024 {
				want = append(want, means9[seen-1], means99[seen-1])
			} else {
				want = append(want, 0, 0)
			}
			h.Fill(got, uint64(seen), 7)
			for j := range want {
				require.False(t, math.Abs(got[j]-want[j]) > 1e-12, "%d labels, seen %d: %v, want %v", n, seen, got, want)
			}
		}
		y := rng.NormFloat64()
		if n == 0 {
			mean9, mean99 = y, y
		}
		mean9, mean99 = 0.9*mean9+0.1*y, 0.99*mean99+0.01*y
		labels, means9, means99 = append(labels, y), append(means9, mean9), append(means99, mean99)
		h.Add(y)
	}
}

func TestLayout(t *testing.T) {
	for _, c := range []struct{ d, capacity int }{{1, 8192}, {12, 8192}, {50, 8192}, {100, 4599}, {10000, 52}, {1 << 30, 1}} {
		l := window.Layout{Inputs: c.d}
		if l.Capacity() != c.capacity || l.Columns() != c.d+15 || l.Ladder() != l.Served()+1 {
			t.Errorf("%d inputs: %d rows of %d columns", c.d, l.Capacity(), l.Columns())
		}
	}
}

func TestNothingAllocates(t *testing.T) {
	l := window.Layout{Inputs: 2, Deltas: 2}
	w, columns, row := window.New(10, l), make([]float64, l.Columns()), make([]float32, l.Columns())
	if n := testing.AllocsPerRun(100, func() {
		w.Fill(row, columns, w.Count(), 0, 1)
		w.Add(columns, w.Count(), 0, 1, 2, 1)
	}); n != 0 {
		t.Errorf("%g allocations", n)
	}
}

// What is accepted is what is appended again.
func FuzzVisit(f *testing.F) {
	l := window.Layout{Inputs: 2, Deltas: 1}
	w := window.New(3, l)
	f.Add(modeltest.State(f, w.Visit))
	w.Add([]float64{1, 2}, 0, 0, 3, 4, 1)
	f.Add(modeltest.State(f, w.Visit))
	f.Fuzz(func(t *testing.T, data []byte) {
		w := window.New(3, l)
		if codec.Read(data, w.Visit) != nil {
			return
		}
		assert.Equal(t, data, modeltest.State(t, w.Visit), "another state")
		w.Read(make([]float32, l.Columns()), 0)
	})
}
