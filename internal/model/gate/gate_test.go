package gate_test

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"hindsight/internal/model"
	"hindsight/internal/model/auto"
	"hindsight/internal/model/catalog"
	"hindsight/internal/model/codec"
	"hindsight/internal/model/gate"
	"hindsight/internal/model/modeltest"
)

// dirtyLabels draws labels with outliers, sentinels, stretches that stand still, changes of
// level and of unit.
func dirtyLabels(rng *rand.Rand, n int) []float64 {
	level, unit, still := 0.0, 1.0, 0
	labels := make([]float64, n)
	for i := range labels {
		switch r := rng.Float64(); {
		case r < 0.0005:
			level += 1e3 * rng.NormFloat64()
		case r < 0.001:
			unit *= []float64{1e3, 1e-3}[rng.IntN(2)]
		case r < 0.002:
			still = rng.IntN(200)
		}
		if still--; still > 0 && i > 0 {
			labels[i] = labels[i-1]
			continue
		}
		labels[i] = (level + rng.NormFloat64()) * unit
		switch r := rng.Float64(); {
		case r < 0.005:
			labels[i] = -99999
		case r < 0.01:
			labels[i] *= math.Pow(10, 6*rng.Float64())
		}
	}
	return labels
}

// The gate sets aside what the naive rule sets aside, and the learner has learned the
// labels that the naive rule has learned. The inputs are more than the gate compares, so
// that it lets no foretold events in. Odd seeds have rare amounts too, the last ones nothing
// else beside zeros.
func TestNaive(t *testing.T) {
	for seed := range uint64(16) {
		rng := rand.New(rand.NewPCG(seed, 4))
		l, now := recorded(1025, 1)
		var n naive
		var o model.Outcome
		x := make([]float64, 1025)
		for row, y := range dirtyLabels(rng, 3000) {
			if seed%2 == 1 && rng.IntN(30) == 0 {
				y = 1e4 * rng.ExpFloat64()
			}
			if seed >= 12 {
				if y = 0; rng.IntN(20+int(seed)) == 0 {
					y = float64(10 + rng.IntN(3))
				}
			}
			require.NoError(t, l.Observe(&o, x, []float64{y}, 1))
			want := n.observe(y)
			require.True(t, o.SetAside == want, "seed %d, row %d: label %g set aside %v, want %v", seed, row, y, o.SetAside, want)
			s := l.Stats().Gate
			require.True(t, int(s.Starts) == n.starts, "seed %d, row %d: %d starts, want %d", seed, row, s.Starts, n.starts)
			if row%97 != 0 {
				continue
			}
			same := slices.EqualFunc(now().labels, n.learned, func(y []float64, want float64) bool { return y[0] == want })
			require.True(t, same, "seed %d, row %d: learned %v, want %v", seed, row, now().labels, n.learned)
		}
		s := l.Stats()
		assert.True(t, s.Observations == 3000 && s.Gate.SetAside != 0, "seed %d: %+v", seed, s)
	}
}

// What every learner keeps to, auto and another one keep to behind a gate.
func TestConform(t *testing.T) {
	o := auto.Options{Dimension: 3, Outputs: 2, Lags: 2, Frequencies: 4, Microseconds: 500}
	rejects := func(magnitude float64) bool { return magnitude > model.MaxMagnitude }
	subjects := map[string]modeltest.Subject{"linear_awv": {
		New: func() model.Learner {
			l, err := catalog.New(model.Spec{Dimension: 3, LabelGate: model.GateOn, LinearAWV: &model.LinearAWV{}})
			require.NoError(t, err)
			return l
		},
		Dimension: 3, Warm: 140, Rejects: rejects,
	}}
	for _, v := range versions() {
		subjects[v.name] = modeltest.Subject{
			New: func() model.Learner { return v.gated(o) }, Dimension: 3, Outputs: 2, Warm: 300, Full: v.full, Grows: v.full > 0, Rejects: rejects,
		}
	}
	for name, s := range subjects { // With the race detector make selects the tests of a subject by their depth.
		t.Run(name, func(t *testing.T) { modeltest.Conform(t, s) })
	}
}

// A learner that is restored in the middle of dirt goes on bit for bit. In the second seed a
// label is set aside before auto's second level wakes up.
func TestRestoreAmongDirt(t *testing.T) {
	for _, v := range versions() {
		for seed := range uint64(2) {
			t.Run(fmt.Sprintf("%s/%d", v.name, seed), func(t *testing.T) { restoresAmongDirt(t, v, seed) })
		}
	}
}

func restoresAmongDirt(t *testing.T, v version, seed uint64) {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 5))
	o := auto.Options{Dimension: 2, Outputs: 1, Lags: 1, Frequencies: 3, Microseconds: 500}
	l := v.gated(o)
	var out, again model.Outcome
	var twin *gate.Learner
	labels := dirtyLabels(rng, 2500)
	if seed == 1 {
		labels[100] = 1e9
	}
	for row, y := range labels {
		x := []float64{rng.Float64(), rng.NormFloat64()}
		if rng.IntN(40) == 0 {
			twin = v.gated(o)
			require.NoError(t, codec.Read(modeltest.State(t, l.Visit), twin.Visit), row)
		}
		require.NoError(t, l.Observe(&out, x, []float64{y}, 1))
		if twin == nil {
			continue
		}
		require.NoError(t, twin.Observe(&again, x, []float64{y}, 1))
		if out.Loss != again.Loss || out.SetAside != again.SetAside || out.Regret != again.Regret ||
			(row%50 == 0 && !bytes.Equal(modeltest.State(t, l.Visit), modeltest.State(t, twin.Visit))) {
			t.Fatalf("row %d: %+v, restored %+v", row, out, again)
		}
	}
}

// spy is auto that remembers the rows that were passed.
type spy struct {
	advised
	rows []passedRow
}

// advised is what both versions of auto have.
type advised interface {
	model.Learner
	ObserveAdvised(o *model.Outcome, x, y []float64, weight float64, advice []float64) error
	Pass(y []float64, weight float64, advice []float64)
	Passed() float64
	HindsightOf(y []float64, weight float64, advice []float64) float64
}

type passedRow struct {
	y, advice []float64
	weight    float64
}

func (s *spy) Pass(y []float64, weight float64, advice []float64) {
	s.rows = append(s.rows, passedRow{slices.Clone(y), slices.Clone(advice), weight})
	s.advised.Pass(y, weight, advice)
}

// Loss is that of what was predicted at every row. Regret, certificate and bound are sums over
// the learners of the starts, and RegretBeside is what is missing to the regret over all
// rows, each counted once.
func TestAccount(t *testing.T) {
	draws := uint64(2)
	if modeltest.Long() {
		draws = 4
	}
	for _, v := range versions() {
		for seed := range draws {
			t.Run(fmt.Sprintf("%s/%d", v.name, seed), func(t *testing.T) { accounts(t, v, seed) })
		}
	}
}

func accounts(t *testing.T, v version, seed uint64) {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 6))
	o := auto.Options{Dimension: 1, Outputs: 2, Lags: 1, Frequencies: 3, Microseconds: 500}
	var learners []*spy
	l := v.before(o, func() model.Learner {
		learners = append(learners, &spy{advised: v.auto(o).(advised)})
		return learners[len(learners)-1]
	})
	var out model.Outcome
	loss, largest := 0.0, 0.0
	first, second := dirtyLabels(rng, 2500), dirtyLabels(rng, 2500)
	starts, closed := uint64(0), []*spy{}
	for row, y := range first {
		weight := math.Exp(rng.NormFloat64())
		before := learners[len(learners)-1]
		require.NoError(t, l.Observe(&out, []float64{rng.Float64()}, []float64{y, second[row]}, weight))
		loss, largest = loss+out.Loss, math.Max(largest, out.Loss)
		if s := l.Stats(); s.Gate.Starts > starts {
			starts, closed = s.Gate.Starts, append(closed, before)
		}
	}
	now := learners[len(learners)-1]
	var regret, certificate, bound, beside, hindsight float64
	for _, s := range append(closed, now) {
		stats := s.Stats()
		regret, certificate, bound = regret+stats.Regret, certificate+stats.Certificate, bound+stats.RegretBound
		beside -= stats.Loss
		hindsight += stats.HindsightLoss
		for _, r := range s.rows {
			beside -= s.HindsightOf(r.y, r.weight, r.advice)
		}
	}
	s := l.Stats()
	near := func(what string, got, want float64) {
		t.Helper()
		assert.True(t, math.Abs(got-want) <= 1e-9*(math.Abs(want)+loss), "%s %g, want %g", what, got, want)
	}
	near("loss", s.Loss, loss)
	near("regret", s.Regret, regret)
	near("outcome's regret", out.Regret, regret)
	near("certificate", s.Certificate, certificate)
	near("bound", s.RegretBound, bound)
	near("loss in hindsight", s.HindsightLoss, hindsight)
	// Rows that may still be learned are compared too, and are not passed yet.
	assert.LessOrEqual(t, s.Gate.RegretBeside, loss+beside+1e-9*loss, "regret beside %g, want at most %g", s.Gate.RegretBeside, loss+beside)
	assert.True(t, s.Certified && s.CertificateOK && starts != 0, "%+v", s)
}

// One output whose label is strange sets the row aside.
func TestOneOfSeveralOutputs(t *testing.T) {
	l, now := recorded(1, 3)
	rng := rand.New(rand.NewPCG(1, 7))
	var o model.Outcome
	for row := range 400 {
		y := []float64{rng.NormFloat64(), 100 + rng.NormFloat64(), 1}
		if row == 300 {
			y[1] = 1e6
		}
		require.NoError(t, l.Observe(&o, []float64{0}, y, 1))
		assert.Equal(t, (row == 300), o.SetAside, row)
	}
	assert.Equal(t, 399, len(now().labels))
}

// Advice of a learner that was replaced is not learned, and labels that come late are
// checked like others.
func TestLateLabels(t *testing.T) {
	for _, v := range versions() {
		t.Run(v.name, func(t *testing.T) { learnsLate(t, v) })
	}
}

func learnsLate(t *testing.T, v version) {
	t.Helper()
	const delay = 20
	l, rng := v.gated(options(2)), rand.New(rand.NewPCG(1, 9))
	predictions, rows := make([]model.Prediction, delay), make([][]float64, delay)
	var o model.Outcome
	loss, counted := 0.0, 0
	for row := range 3000 {
		at := row % delay
		if row >= delay {
			x := rows[at]
			y := math.Sin(3*x[0]) + x[1] + 0.1*rng.NormFloat64()
			bad := row%250 == 0 || (row >= 1500 && row < 1512)
			if bad {
				y = -999
			}
			require.NoError(t, l.ObserveAdvised(&o, x, []float64{y}, 1, predictions[at].Advice))
			if miss := predictions[at].Values[0] - y; row > 2000 && !bad {
				loss, counted = loss+miss*miss, counted+1
			}
		}
		rows[at] = []float64{2*rng.Float64() - 1, 2*rng.Float64() - 1}
		require.NoError(t, l.Predict(&predictions[at], rows[at]))
	}
	s := l.Stats()
	mean := loss / float64(counted)
	assert.True(t, mean <= 0.05 && s.Gate.Starts != 0 && s.Gate.SetAside >= 8 && s.CertificateOK, "mean squared error %g, %+v", mean, s)
}

// FuzzRestore takes any bytes. Odd versions have level 2.
func FuzzRestore(f *testing.F) {
	o := auto.Options{Dimension: 2, Outputs: 1, Lags: 1, Frequencies: 2, Microseconds: 58}
	all := versions()
	for n, v := range all {
		for _, rows := range []int{0, 5, 60, 400} {
			l, rng := v.gated(o), rand.New(rand.NewPCG(1, 2))
			var out model.Outcome
			for _, y := range dirtyLabels(rng, rows) {
				require.NoError(f, l.Observe(&out, []float64{rng.Float64(), rng.Float64()}, []float64{y}, 1))
			}
			state := modeltest.State(f, l.Visit)
			f.Add(uint8(n), state)
		}
	}
	f.Fuzz(func(t *testing.T, version uint8, state []byte) {
		l := all[int(version)%len(all)].gated(o)
		if codec.Read(state, l.Visit) != nil {
			return
		}
		var out model.Outcome
		for row := range 200 {
			err := l.Observe(&out, []float64{1, 2}, []float64{float64(row % 7)}, 1)
			require.True(t, err == nil && !math.IsNaN(out.Predictions[0]), "row %d: %+v, %v", row, out, err)
		}
	})
}

// Rows of next to no weight, with any labels, change no decision of the gate on the other rows.
func TestLightRowsAreNoEvidence(t *testing.T) {
	for seed := range uint64(6) {
		rng := rand.New(rand.NewPCG(seed, 8))
		alone, _ := recorded(2, 1)
		beside, _ := recorded(2, 1)
		var o, p model.Outcome
		for row, y := range dirtyLabels(rng, 3000) {
			x := []float64{rng.NormFloat64(), float64(rng.IntN(2))}
			require.NoError(t, alone.Observe(&o, x, []float64{y}, 1))
			require.NoError(t, beside.Observe(&p, x, []float64{y}, 1))
			require.Equal(t, p.SetAside, o.SetAside, "seed %d, row %d: label %g set aside, beside light rows", seed, row, y)
			for range rng.IntN(3) {
				light := math.Pow(10, 12*rng.Float64()) * rng.NormFloat64()
				require.NoError(t, beside.Observe(&p, x, []float64{light}, model.MinWeight))
			}
			a, b := alone.Stats().Gate, beside.Stats().Gate
			require.Equal(t, b.Starts, a.Starts, "seed %d, row %d starts beside light rows", seed, row)
		}
	}
}

// counting counts the rows that a learner learns together.
type counting struct {
	model.Learner
	together *int
}

func (c counting) Together() int { return model.Together(c.Learner) }

func (c counting) ObserveAll(outcomes []model.Outcome, all []model.Observation) error {
	*c.together += len(all)
	return model.ObserveAll(c.Learner, outcomes, all)
}

// counted is a gate before a counted learner of a spec.
func counted(t *testing.T, s model.Spec, together *int) *gate.Learner {
	t.Helper()
	return gate.New(gate.Options{Dimension: s.Dimension, Outputs: max(s.Outputs, 1), New: func() model.Learner {
		l, err := catalog.New(s)
		require.NoError(t, err)
		return counting{l, together}
	}})
}

// Rows behind a gate that come together leave the bits of as many single rows, through every
// row that is set aside, every event and every new start. The learner learns the rows between
// these together.
func TestTogetherAmongDirt(t *testing.T) {
	specs := map[string]model.Spec{
		"linear":      {Dimension: 1, LinearAWV: &model.LinearAWV{}},
		"two outputs": {Dimension: 1, Outputs: 2, LinearAWV: &model.LinearAWV{}},
	}
	streams := append(mixtures(), mixture{"a smaller unit", 3000, func(rng *rand.Rand) func(int) (float64, float64) {
		return func(row int) (float64, float64) {
			unit := 1.0
			if row >= 1700 {
				unit = 1e-4
			}
			return rng.NormFloat64(), unit * rng.NormFloat64()
		}
	}}, mixture{"rare amounts", 3000, func(rng *rand.Rand) func(int) (float64, float64) {
		return func(int) (float64, float64) {
			x, y := rng.NormFloat64(), 0.01*rng.NormFloat64()
			if rng.IntN(40) == 0 {
				y = 100 * rng.ExpFloat64()
			}
			return x, y
		}
	}})
	for name, s := range specs {
		for _, d := range streams {
			var total model.Gate
			t.Run(fmt.Sprint(name, ", ", d.name), func(t *testing.T) {
				for seed := range uint64(8) {
					g := observesTogether(t, s, d, seed)
					total.SetAside += g.SetAside
					total.Starts += g.Starts
				}
				assert.True(t, total.SetAside != 0 || total.Starts != 0, "the gate let every row in: the test tests nothing")
			})
		}
	}
}

func observesTogether(t *testing.T, s model.Spec, d mixture, seed uint64) model.Gate {
	t.Helper()
	var alone, together int
	one, many := counted(t, s, &alone), counted(t, s, &together)
	draw, sizes := d.draw(rand.New(rand.NewPCG(seed, 34))), rand.New(rand.NewPCG(seed, 35))
	batched := 0
	for row := 0; row < d.rows; {
		count := min(1+sizes.IntN(many.Together()), d.rows-row)
		all := make([]model.Observation, count)
		got, want := make([]model.Outcome, count), make([]model.Outcome, count)
		for n := range all {
			x, label := draw(row + n)
			y := make([]float64, max(s.Outputs, 1))
			for j := range y {
				y[j] = label
			}
			all[n] = model.Observation{X: []float64{x}, Y: y, Weight: 0.5 + sizes.Float64()}
			require.NoError(t, one.Observe(&want[n], all[n].X, all[n].Y, all[n].Weight))
		}
		require.NoError(t, many.ObserveAll(got, all))
		for n := range want {
			require.Equal(t, fmt.Sprint(want[n]), fmt.Sprint(got[n]), "seed %d, row %d, %d of %d: %+v, alone %+v", seed, row, n, count, got[n], want[n])
		}
		require.Equal(t, modeltest.State(t, many.Visit), modeltest.State(t, one.Visit), "%v %v %v", seed, count, row)
		if row += count; count > 1 {
			batched += count
		}
	}
	g := one.Stats().Gate
	assert.True(t, alone == 0 && together >= batched/2 && batched >= d.rows/3, "seed %d: %d of %d rows reached the learner together, %d alone; %+v", seed, together, batched, alone, g)
	return g
}

// A rejected row in the middle leaves the gate as it was.
func TestRejectedTogether(t *testing.T) {
	var together int
	l, rng := counted(t, model.Spec{Dimension: 1, LinearAWV: &model.LinearAWV{}}, &together), rand.New(rand.NewPCG(1, 2))
	var o model.Outcome
	for range 200 {
		require.NoError(t, l.Observe(&o, []float64{rng.NormFloat64()}, []float64{rng.NormFloat64()}, 1))
	}
	before := modeltest.State(t, l.Visit)
	for bad := range 4 {
		all := make([]model.Observation, 4)
		for n := range all {
			all[n] = model.Observation{X: []float64{0}, Y: []float64{1e6 * float64(n%2)}, Weight: 1}
		}
		all[bad].Y[0] = math.NaN()
		err := l.ObserveAll(make([]model.Outcome, 4), all)
		require.True(t, err != nil && bytes.Equal(modeltest.State(t, l.Visit), before), "row %d is no number: %v, or another state", bad, err)
	}
}
