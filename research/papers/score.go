package papers

// GridPoints is the number of points of a curve. A shorter stream has one point
// for each row.
const GridPoints = 200

// Grid returns up to points round numbers, evenly spread over 1..n and ending
// with n.
func Grid(n, points int) []int {
	points = min(n, points)
	grid := make([]int, points)
	for i := range grid {
		grid[i] = ((i+1)*n + points - 1) / points
	}
	return grid
}

// Point is one point of a curve: the means over the first T rounds.
type Point struct {
	T                   int
	MeanLoss, ErrorRate float64
}

// Score is the account of a predictor over the rounds of a stream. Every
// prediction is made before its label is learned.
type Score struct {
	// Rows is the number of rounds.
	Rows int
	// Curve has a point for every round of the grid that was reached, and for
	// the last round.
	Curve []Point
	// First is the point after KernelRows rounds, or after the last round if
	// there are fewer.
	First Point

	lossSum float64
	wrong   int
	grid    []int
}

// NewScore returns an empty account over a grid.
func NewScore(grid []int) *Score { return &Score{grid: grid} }

// Add adds one round. A prediction of 0, or one that is no number, counts as the
// wrong sign.
func (s *Score) Add(prediction, label, loss float64) {
	s.Rows++
	s.lossSum += loss
	if !(prediction*label > 0) {
		s.wrong++
	}
	if s.Rows <= KernelRows {
		s.First = s.point()
	}
	for len(s.grid) > 0 && s.grid[0] <= s.Rows {
		s.grid = s.grid[1:]
		s.Curve = append(s.Curve, s.point())
	}
}

// Close ends the curve with the last round.
func (s *Score) Close() {
	if s.Rows > 0 && (len(s.Curve) == 0 || s.Curve[len(s.Curve)-1].T != s.Rows) {
		s.Curve = append(s.Curve, s.point())
	}
}

// MeanLoss is the mean of the losses, 0 without a round.
func (s *Score) MeanLoss() float64 { return s.point().MeanLoss }

// ErrorRate is the share of the predictions with the wrong sign.
func (s *Score) ErrorRate() float64 { return s.point().ErrorRate }

func (s *Score) point() Point {
	n := float64(max(1, s.Rows))
	return Point{T: s.Rows, MeanLoss: s.lossSum / n, ErrorRate: float64(s.wrong) / n}
}

// The names of the baselines.
const (
	NameMean = "running mean"
	NameLast = "last label"
)

// Baselines returns the scores of two predictors that ignore the inputs: the
// mean of the labels so far, and the last label. Both predict 0 in the first
// round. With signs as labels, the sign of the mean is the sign of the majority.
func Baselines(labels []float64, grid []int) (mean, last *Score) {
	mean, last = NewScore(grid), NewScore(grid)
	var average, latest float64
	for i, y := range labels {
		mean.Add(average, y, square(y-average))
		last.Add(latest, y, square(y-latest))
		average += (y - average) / float64(i+1)
		latest = y
	}
	mean.Close()
	last.Close()
	return mean, last
}

func square(v float64) float64 { return v * v }
