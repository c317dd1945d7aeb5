package window_test

import (
	"bytes"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"hindsight/internal/model/codec"
	"hindsight/internal/model/window"
)

func state(tb testing.TB, visit func(v *codec.Visitor)) []byte {
	tb.Helper()
	v := codec.Appending(nil)
	visit(&v)
	out, err := v.Appended()
	if err != nil {
		tb.Fatal(err)
	}
	return out
}

// The window has the newest rows, and Slack rows more are not overwritten.
func TestTheRingKeepsTheNewestRows(t *testing.T) {
	const capacity, columns = 100, 3
	w := window.New(capacity, columns)
	w.Begin([]float64{1, -2, 1e6}, []float64{0.5, 2, 3})
	for n := range 1000 {
		x := float64(n)
		slot := w.Add([]float64{x, 3 * x, 1e6 + x}, x+0.5, x+0.25, 1)
		if w.Count() != uint64(n+1) || w.Len() != min(n+1, capacity) || slot != w.Slot(0) {
			t.Fatalf("row %d: count %d, length %d, slot %d", n, w.Count(), w.Len(), slot)
		}
		for age := range min(n+1, w.Slots()) {
			s, x := w.Slot(age), float64(n-age)
			if w.Labels[s] != x+0.5 || w.Served[s] != x+0.25 || w.Row(s)[0] != float32((x-1)/0.5) ||
				w.Row(s)[2] != float32(x/3) || math.Abs(w.Value(1, w.Row(s)[1])-3*x) > 1e-3 {
				t.Fatalf("row %d, age %d: %v, %g, %g", n, age, w.Row(s), w.Labels[s], w.Served[s])
			}
		}
	}
}

func TestStoredNumbersAreWithinTheLimit(t *testing.T) {
	w := window.New(1, 3)
	w.Begin([]float64{1e100, 0, 0}, []float64{1e-9, 1, 1})
	w.Add([]float64{-1e100, 1e100, math.Copysign(0, -1)}, 0, 0, 1)
	if row := w.Row(w.Slot(0)); row[0] != -window.Limit || row[1] != window.Limit || math.Signbit(float64(row[2])) {
		t.Errorf("%v", row)
	}
}

func TestStatesContinue(t *testing.T) {
	const columns = 4
	w, restored := window.New(50, columns), window.New(50, columns)
	w.Begin([]float64{1, 2, 3, 4}, []float64{1, 2, 3, 4})
	var h, again window.History
	rng := rand.New(rand.NewPCG(1, 2))
	for n := range 1500 {
		row := []float64{rng.Float64(), rng.Float64(), 1e9 * rng.Float64(), -1}
		w.Add(row, rng.Float64(), rng.Float64(), 1)
		h.Add(rng.Float64())
		if n%97 != 0 {
			continue
		}
		was, labels := state(t, w.Visit), state(t, h.Visit)
		if err := errors.Join(codec.Read(was, restored.Visit), codec.Read(labels, again.Visit)); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(was, state(t, restored.Visit)) || !bytes.Equal(labels, state(t, again.Visit)) {
			t.Fatalf("row %d: another state", n)
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
				if math.Abs(got[j]-want[j]) > 1e-12 {
					t.Fatalf("%d labels, seen %d: %v, want %v", n, seen, got, want)
				}
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
	var h window.History
	w, row := window.New(10, 17), make([]float64, 17)
	if n := testing.AllocsPerRun(100, func() {
		h.Fill(row[2:], h.Count(), 1)
		w.Add(row, 1, 2, 1)
		h.Add(1)
	}); n != 0 {
		t.Errorf("%g allocations", n)
	}
}

// What is accepted is what is appended again.
func FuzzVisit(f *testing.F) {
	w := window.New(3, 2)
	f.Add(state(f, w.Visit))
	w.Add([]float64{1, 2}, 3, 4, 1)
	f.Add(state(f, w.Visit))
	var h window.History
	h.Add(3)
	f.Add(state(f, h.Visit))
	f.Fuzz(func(t *testing.T, data []byte) {
		w, h := window.New(3, 2), window.History{}
		for _, visit := range []func(*codec.Visitor){w.Visit, h.Visit} {
			if err := codec.Read(data, visit); err == nil && !slices.Equal(state(t, visit), data) {
				t.Error("another state")
			}
		}
	})
}

func BenchmarkAdd(b *testing.B) {
	l := window.Layout{Inputs: 12}
	w, row := window.New(l.Capacity(), l.Columns()), make([]float64, l.Columns())
	var h window.History
	b.ReportAllocs()
	for b.Loop() {
		h.Fill(row[12:], h.Count(), 1)
		w.Add(row, 1, 2, 1)
		h.Add(1)
	}
}
