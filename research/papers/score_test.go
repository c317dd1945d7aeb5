package papers_test

import (
	"math"
	"slices"
	"testing"

	"hindsight/cmd/research/papers"
)

func TestGrid(t *testing.T) {
	for _, c := range []struct {
		n, points int
		want      []int
	}{
		{0, 4, []int{}},
		{3, 4, []int{1, 2, 3}},
		{8, 4, []int{2, 4, 6, 8}},
		{10, 4, []int{3, 5, 8, 10}},
	} {
		if got := papers.Grid(c.n, c.points); !slices.Equal(got, c.want) {
			t.Errorf("%d on %d points: %v, want %v", c.n, c.points, got, c.want)
		}
	}
	grid := papers.Grid(141_691, papers.GridPoints)
	if len(grid) != papers.GridPoints || grid[len(grid)-1] != 141_691 || !slices.IsSorted(grid) {
		t.Errorf("%v", grid)
	}
}

func TestScore(t *testing.T) {
	s := papers.NewScore([]int{2, 4, 6})
	for _, r := range [][3]float64{{0, 1, 1}, {0.5, 1, 0.25}, {-1, 1, 4}, {1, 1, 0}, {2, 1, 1}} {
		s.Add(r[0], r[1], r[2])
	}
	s.Close()
	s.Close()
	// The first prediction is 0, the third has the wrong sign.
	want := []papers.Point{{T: 2, MeanLoss: 0.625, ErrorRate: 0.5}, {T: 4, MeanLoss: 1.3125, ErrorRate: 0.5}, {T: 5, MeanLoss: 1.25, ErrorRate: 0.4}}
	if !slices.Equal(s.Curve, want) || s.MeanLoss() != 1.25 || s.ErrorRate() != 0.4 || s.First != want[2] {
		t.Errorf("%+v", s)
	}
	empty := papers.NewScore(nil)
	empty.Close()
	if len(empty.Curve) != 0 || empty.MeanLoss() != 0 {
		t.Errorf("empty: %+v", empty)
	}
}

func TestScoreOfTheFirstRows(t *testing.T) {
	s := papers.NewScore(nil)
	for i := range papers.KernelRows + 100 {
		s.Add(1, 1, float64(i/papers.KernelRows))
	}
	if s.First.T != papers.KernelRows || s.First.MeanLoss != 0 || s.MeanLoss() == 0 {
		t.Errorf("first %+v, all %v", s.First, s.MeanLoss())
	}
}

func TestBaselines(t *testing.T) {
	labels := []float64{1, 1, -1, 1}
	mean, last := papers.Baselines(labels, papers.Grid(4, 4))
	// Means so far: 0, 1, 1, 1/3; labels before: 0, 1, 1, -1.
	if want := (1 + 0 + 4 + 4.0/9) / 4; math.Abs(mean.MeanLoss()-want) > 1e-15 {
		t.Errorf("mean %v, want %v", mean.MeanLoss(), want)
	}
	if last.MeanLoss() != (1+0+4+4)/4.0 {
		t.Errorf("last %v", last.MeanLoss())
	}
	if mean.ErrorRate() != 0.5 || last.ErrorRate() != 0.75 || mean.Rows != 4 || len(last.Curve) != 4 {
		t.Errorf("errors %v, %v; %d rows, %d points", mean.ErrorRate(), last.ErrorRate(), mean.Rows, len(last.Curve))
	}
}
