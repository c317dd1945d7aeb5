package performance

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"gonum.org/v1/gonum/mat"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
	"hindsight/cmd/research/load"
	"hindsight/internal/model"
	"hindsight/internal/model/catalog"
	"hindsight/internal/model/codec"
	"hindsight/internal/model/loops"
	"hindsight/internal/model/qr"
)

const (
	// A turn of fused has fusedFlops operations: 10 vectors of four, multiplied and added.
	fusedFlops = 10 * 4 * 2
	// What runs in this process is measured for a part of a slice at a time, in more rounds: its
	// calls are short, and so the median leaves out what other processes take.
	part, more = 20, 5
	// A learner learns so many rows over and over.
	rowsDrawn = 1024
)

// timed returns the seconds that one call of f takes, measured for a time.
func timed(slice time.Duration, f func()) float64 {
	calls, begin := 0, time.Now()
	for batch := 1; ; batch *= 2 {
		for range batch {
			f()
		}
		calls += batch
		if elapsed := time.Since(begin); elapsed >= slice {
			return elapsed.Seconds() / float64(calls)
		}
	}
}

// kernels compares a rotation and a triangular solve with loops that move the same bytes, with
// gonum and with the peak of the processor.
func (b *Bench) kernels() (Table, error) {
	t := Table{
		Title: "Kernels",
		Text: "Each figure is the time of Rotate or Solve of package qr beside that of a loop that moves as many bytes or of gonum's SymRankOne, " +
			"or their operations a second beside those of FMA in 256-bit vectors.",
		Columns: []string{"r", "Rotate / bytes moved", "Rotate / gonum", "Solve / bytes read", "Rotate of the peak", "Solve of the peak"},
	}
	for _, r := range []int{55, 190, 276, 512, 2048} {
		f, source, row, p := qr.New(r, 1, 1), normals(r+1), make([]float64, r+1), make([]float64, 1)
		bytes := normals(r * (r + 3) / 2)
		half := len(bytes) / 2
		var peer mat.Cholesky
		peer.Factorize(mat.NewDiagDense(r, slices.Repeat([]float64{1}, r)))
		x := mat.NewVecDense(r, source[:r])
		var ways []func() (float64, error)
		for _, way := range []func(){
			func() { copy(row, source); f.Rotate(row, p) },
			func() { copy(row, source); f.Solve(row[:r], p) },
			func() { loops.Scale(bytes, 1) },
			func() { loops.Dot(bytes[:half], bytes[half:2*half]) },
			func() { peer.SymRankOne(&peer, 1, x) },
		} {
			ways = append(ways, func() (float64, error) { return timed(b.Slice/part, way), nil })
		}
		const turns = 1000
		ways = append(ways, func() (float64, error) {
			if !fused(1) {
				return 0, nil
			}
			return timed(b.Slice/part, func() { fused(turns) }) / (turns * fusedFlops), nil
		})
		seconds, err := Alternate(more*b.Rounds, ways...)
		if err != nil {
			return t, err
		}
		rotate, solve, move, read, gonum, flop := seconds[0], seconds[1], seconds[2], seconds[3], seconds[4], seconds[5]
		entries := float64(r) * float64(r+1) / 2
		t.Rows = append(t.Rows, Row{strconv.Itoa(r), []Ratio{
			Paired(rotate, move), Paired(rotate, gonum), Paired(solve, read),
			Paired(scaled(flop, 6*entries), rotate), Paired(scaled(flop, 2*entries), solve), // A rotation turns pairs of numbers.
		}})
	}
	return t, nil
}

// sweep is how the cost of a learner grows with one number.
type sweep struct {
	title, text string
	// theory is the exponent that the cost approaches.
	theory float64
	values []int
	// learner makes the spec for a value, as JSON, the number that stands for it, and the rows that
	// are learned first.
	learner func(value int) (spec string, x, history int)
}

func sweeps() []sweep {
	return []sweep{
		{"Cost against features", "`pkawv_taylor`, d = 10, by degree.", 2, []int{1, 2, 3, 4}, func(degree int) (string, int, int) {
			r := 1
			for i := range degree {
				r = r * (10 + i + 1) / (i + 1)
			}
			return fmt.Sprintf(`{"dimension": 10, "pkawv_taylor": {"degree": %d}}`, degree), r, rowsDrawn
		}},
		{"Cost against inputs", "`fogd`, 64 frequencies, by d.", 1, []int{10, 40, 160, 640}, func(d int) (string, int, int) {
			return fmt.Sprintf(`{"dimension": %d, "fogd": {"frequencies": 64}}`, d), d, rowsDrawn
		}},
		{"Cost against history", "`auto`, d = 10, by the observations that were learned. Its window has 8192 rows.", 0, []int{1000, 4000, 16000}, func(n int) (string, int, int) {
			return `{"dimension": 10, "auto": {}}`, n, n
		}},
	}
}

// grow measures a sweep.
func (b *Bench) grow(s sweep) (Table, error) {
	var x []float64
	var ways []func() (float64, error)
	for _, value := range s.values {
		spec, at, history := s.learner(value)
		l, err := newLearner(spec, history)
		if err != nil {
			return Table{}, err
		}
		x = append(x, float64(at))
		ways = append(ways, l.timed(b.Slice/part, l.predict), l.timed(b.Slice/part, l.observe))
	}
	seconds, err := Alternate(more*b.Rounds, ways...)
	if err != nil {
		return Table{}, err
	}
	var predict, observe []Ratio
	for n := range x {
		predict = append(predict, Paired(seconds[2*n], seconds[0]))
		observe = append(observe, Paired(seconds[2*n+1], seconds[1]))
	}
	text := "Each figure is the time of a call in process beside that of the first row: " + s.text
	return growth(s.title, text, []string{"", "Predict", "Observe"}, s.theory, x, predict, observe), nil
}

// growth is a table of costs by x, with the exponents of x that fit them.
func growth(title, text string, columns []string, theory float64, x []float64, costs ...[]Ratio) Table {
	t := Table{title, text, columns, nil}
	fits := []Row{{Name: "exponent, all rows"}, {Name: "exponent, last two rows"}, {Name: "exponent, theory"}}
	for _, cost := range costs {
		y := make([]float64, len(x))
		for n, ratio := range cost {
			y[n] = float64(ratio.Median)
		}
		for n, p := range []float64{Exponent(x, y), Exponent(x[len(x)-2:], y[len(x)-2:]), theory} {
			fits[n].Ratios = append(fits[n].Ratios, exactly(p))
		}
	}
	for n, v := range x {
		row := Row{Name: fmt.Sprint(v)}
		for _, cost := range costs {
			row.Ratios = append(row.Ratios, cost[n])
		}
		t.Rows = append(t.Rows, row)
	}
	t.Rows = append(t.Rows, fits...)
	return t
}

// learner is a learner of a new model in this process. It learns the rows of the calls.
type learner struct {
	model.Learner

	spec       model.Spec
	state      []byte
	x          [][]float64
	y          []float64
	n          int
	prediction model.Prediction
	outcome    model.Outcome
	err        error
}

func newLearner(text string, history int) (*learner, error) {
	var spec model.Spec
	if err := json.Unmarshal([]byte(text), &spec); err != nil {
		return nil, err
	}
	// The defaults of a new model are not those of catalog.New: a version, a gate.
	spec, _, err := catalog.Complete(spec)
	if err != nil {
		return nil, err
	}
	made, err := catalog.New(spec)
	if err != nil {
		return nil, err
	}
	l := &learner{Learner: made, spec: spec}
	for _, row := range load.Rows(&hindsightv1.ModelSpec{Dimension: int32(spec.Dimension)}, rowsDrawn, 1) {
		l.x, l.y = append(l.x, row.Features), append(l.y, row.Labels[0])
	}
	for range history {
		l.observe()
	}
	if l.state, err = codec.Append(nil, l.Visit); err != nil {
		return nil, err
	}
	return l, l.err
}

// timed measures a call from the state in which the learner was made.
func (l *learner) timed(slice time.Duration, call func()) func() (float64, error) {
	return func() (float64, error) {
		var err error
		if l.Learner, err = catalog.New(l.spec); err == nil {
			err = codec.Read(l.state, l.Visit)
		}
		if err != nil {
			return 0, err
		}
		seconds := timed(slice, call)
		return seconds, l.err
	}
}

func (l *learner) predict() { l.round(func(n int) error { return l.Predict(&l.prediction, l.x[n]) }) }

func (l *learner) observe() {
	l.round(func(n int) error { return l.Observe(&l.outcome, l.x[n], l.y[n:n+1], 1) })
}

func (l *learner) round(call func(n int) error) {
	if err := call(l.n % rowsDrawn); err != nil && l.err == nil {
		l.err = err
	}
	l.n++
}

func normals(n int) []float64 {
	draw, v := rand.New(rand.NewPCG(7, 8)), make([]float64, n)
	for i := range v {
		v[i] = draw.NormFloat64()
	}
	return v
}

// scaled is v times a number.
func scaled(v []float64, by float64) []float64 {
	out := make([]float64, len(v))
	for i := range v {
		out[i] = by * v[i]
	}
	return out
}
