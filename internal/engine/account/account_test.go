package account_test

import (
	"bytes"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"hindsight/internal/engine/account"
	"hindsight/internal/engine/account/recent"
	"hindsight/internal/model"
	"hindsight/internal/model/codec"
)

func absolute(prediction, label float64) float64 { return math.Abs(label - prediction) }

func squared(prediction, label float64) float64 { return (label - prediction) * (label - prediction) }

// served is a prediction whose label comes later.
type served struct {
	values, notes []float64
	means, last   []float64
}

// naive keeps all rounds and sums them up when it is asked.
type naive struct {
	rounds  []account.Performance // without the first observation
	labels  [][]float64
	weights []float64
}

func (n *naive) baselines(outputs int) (means, last []float64) {
	means, last = make([]float64, outputs), make([]float64, outputs)
	sum := 0.0
	for t, y := range n.labels {
		sum += n.weights[t]
		for j := range y {
			means[j] += n.weights[t] * y[j]
		}
		copy(last, y)
	}
	for j := range means {
		means[j] /= max(sum, 1e-300)
	}
	return means, last
}

func weighted(loss account.Loss, predictions, labels []float64, weight float64) (sum float64) {
	for j, y := range labels {
		sum += weight * loss(predictions[j], y)
	}
	return sum
}

func (n *naive) total(from int, discount float64) account.Performance {
	var p account.Performance
	for t := max(from, 0); t < len(n.rounds); t++ {
		w := math.Pow(discount, float64(len(n.rounds)-1-t))
		r := n.rounds[t]
		p.Observations += w
		p.Prequential.Loss += w * r.Prequential.Loss
		p.Prequential.RunningMean += w * r.Prequential.RunningMean
		p.Prequential.LastLabel += w * r.Prequential.LastLabel
		p.Served.Loss += w * r.Served.Loss
		p.Served.RunningMean += w * r.Served.RunningMean
		p.Served.LastLabel += w * r.Served.LastLabel
		p.Weight += w * r.Weight
		p.Prequential.Squared += w * r.Prequential.Squared
		p.Prequential.Absolute += w * r.Prequential.Absolute
		p.Served.Squared += w * r.Served.Squared
		p.Served.Absolute += w * r.Served.Absolute
	}
	return p
}

func numbers(p account.Performance) []float64 {
	return []float64{
		p.Observations, p.Prequential.Loss, p.Prequential.RunningMean, p.Prequential.LastLabel,
		p.Served.Loss, p.Served.RunningMean, p.Served.LastLabel,
		p.Weight, p.Prequential.Squared, p.Prequential.Absolute, p.Served.Squared, p.Served.Absolute,
	}
}

func same(t *testing.T, what string, got, want account.Performance) {
	t.Helper()
	a, b := numbers(got), numbers(want)
	for i := range a {
		require.True(t, math.Abs(a[i]-b[i]) <= 1e-9*(1+math.Abs(b[i])), "%s: got %+v, want %+v", what, got, want)
	}
}

// The account is that of one who keeps all rounds. Some labels come late, some
// observations had not been predicted.
func TestAccountIsThatOfAllRounds(t *testing.T) {
	const rounds = 3000
	for _, outputs := range []int{1, 3} {
		rng := rand.New(rand.NewPCG(1, uint64(outputs)))
		levels := []float64{0.5, 0.9}
		a := account.New(outputs, levels, nil)
		var n naive
		var waiting []served
		var predicted uint64
		var only account.Figures
		var excess float64
		for round := range rounds {
			if rng.IntN(4) > 0 {
				s := served{values: draw(rng, outputs)}
				s.notes = a.AppendNotes(nil, s.values, 1)
				s.means, s.last = n.baselines(outputs)
				require.True(t, len(s.notes) == account.NotesLength(outputs, len(levels)), "%d notes", len(s.notes))
				waiting = append(waiting, s)
			}
			y, weight := draw(rng, outputs), math.Exp(rng.NormFloat64())
			first := len(n.labels) == 0 // All answer it before any label: only the regret counts it.
			r := account.Round{Labels: y, Predictions: draw(rng, outputs), Weight: weight, SquaredLoss: true, SetAside: rng.IntN(20) == 0}
			r.Loss = weighted(squared, r.Predictions, y, weight)
			means, last := n.baselines(outputs)
			now := account.Figures{
				Loss: r.Loss, RunningMean: weighted(squared, means, y, weight), LastLabel: weighted(squared, last, y, weight),
				Squared: r.Loss, Absolute: weighted(absolute, r.Predictions, y, weight),
			}
			p := account.Performance{Observations: 1, Weight: weight * float64(outputs), Prequential: now, Served: now}
			if (first || len(waiting) > 20) && len(waiting) > 0 && rng.IntN(3) > 0 {
				s := waiting[0]
				waiting = waiting[1:]
				r.Served, r.Notes = s.values, s.notes
				p.Served = account.Figures{
					Loss:        weighted(squared, s.values, y, weight),
					RunningMean: weighted(squared, s.means, y, weight), LastLabel: weighted(squared, s.last, y, weight),
					Squared: weighted(squared, s.values, y, weight), Absolute: weighted(absolute, s.values, y, weight),
				}
				if !r.SetAside && !first {
					predicted++
					only.Loss += p.Served.Loss
					only.RunningMean += p.Served.RunningMean
					only.LastLabel += p.Served.LastLabel
				}
			}
			r.ServedLoss = p.Served.Loss
			if r.Served == nil {
				r.ServedLoss = 0
			}
			if r.SetAside || first {
				p = account.Performance{}
			} else {
				n.rounds = append(n.rounds, p)
			}
			if r.Served != nil && !r.SetAside {
				excess += r.ServedLoss - r.Loss
			}
			if got, _ := a.Observe(r, squared); got.Observations != p.Observations {
				t.Fatalf("observation %d counts as %g, want %g", round+1, got.Observations, p.Observations)
			} else {
				same(t, "the observation", got, p)
			}
			if !r.SetAside { // The baselines do not learn what was set aside.
				n.labels, n.weights = append(n.labels, y), append(n.weights, weight)
			}
			if round%97 != 0 && round != rounds-1 {
				continue
			}
			s := a.Summary()
			covered := int(s.Recent.Observations)
			require.True(t, covered >= min(len(n.rounds), recent.Observations) && covered <= recent.Observations+50, "the recent figures are of %d of %d observations", covered, round+1)
			same(t, "whole", s.Whole, n.total(0, 1))
			same(t, "recent", s.Recent, n.total(len(n.rounds)-covered, 1))
			require.True(t, s.Predicted == predicted && near(s.Served, only), "%d had been predicted, %+v; want %d, %+v", s.Predicted, s.Served, predicted, only)
			require.InDelta(t, excess, s.Excess, 1e-9*(1+math.Abs(excess)), "excess %g, want %g", s.Excess, excess)
		}
		if len(a.Intervals()) != outputs || len(a.Summary().Intervals) != len(levels) {
			t.Errorf("statistics of %d outputs and %d levels", len(a.Intervals()), len(a.Summary().Intervals))
		}
	}
}

// The first observation, of which all predict 0, leaves every figure that people read alone: labels about
// 450 are predicted with an RMSE of 4 from the second observation on. The regret counts it.
func TestTheFirstObservationIsNotScored(t *testing.T) {
	a := account.New(1, nil, nil)
	rng := rand.New(rand.NewPCG(4, 5))
	prediction := 0.0
	for n := range 500 {
		y := 450 + 4*rng.NormFloat64()
		loss := squared(prediction, y)
		a.Observe(account.Round{
			Labels: []float64{y}, Predictions: []float64{prediction}, Weight: 1, Loss: loss,
			Served: []float64{0}, Notes: a.AppendNotes(nil, []float64{0}, 1), ServedLoss: squared(0, y), SquaredLoss: true, SetAside: n == 7,
		}, squared)
		if n == 0 {
			s := a.Summary()
			assert.True(t, s.Predicted == 0 && s.Whole == (account.Performance{}) && s.Recent == s.Whole, "after the first: %+v", s)
			assert.True(t, s.Excess == squared(0, y)-loss, "an excess of %g", s.Excess)
			if !math.IsNaN(s.Whole.MeanLoss(&s.Whole.Served)) || math.Float64bits(s.Whole.MeanLoss(&s.Whole.Served)) != math.Float64bits(math.NaN()) {
				t.Error("the mean loss of none has other bits than math.NaN")
			}
		}
		prediction = 450
	}
	s := a.Summary()
	for what, p := range map[string]account.Performance{"whole": s.Whole, "recent": s.Recent} {
		if got := p.RMSE(&p.Prequential); p.Observations != 498 || !(got > 3.5 && got < 4.5) || p.Prequential.RunningMean > 2*p.Prequential.Loss {
			t.Errorf("%s: RMSE %g of %g observations, %+v", what, got, p.Observations, p.Prequential)
		}
	}
}

func near(a, b account.Figures) bool {
	within := func(a, b float64) bool { return math.Abs(a-b) <= 1e-9*(1+math.Abs(b)) }
	return within(a.Loss, b.Loss) && within(a.RunningMean, b.RunningMean) && within(a.LastLabel, b.LastLabel)
}

func draw(rng *rand.Rand, k int) []float64 {
	x := make([]float64, k)
	for i := range x {
		x[i] = 3 + rng.NormFloat64()
	}
	return x
}

func TestSkill(t *testing.T) {
	for _, c := range []struct {
		f    account.Figures
		want float64
	}{
		{account.Figures{Loss: 1, RunningMean: 4, LastLabel: 2}, 0.5},
		{account.Figures{Loss: 6, RunningMean: 4, LastLabel: 3}, -1},
		{account.Figures{Loss: 0, RunningMean: 4, LastLabel: 3}, 1},
		{account.Figures{Loss: 1, RunningMean: 0, LastLabel: 3}, math.NaN()},
		{account.Figures{}, math.NaN()},
	} {
		got := c.f.Skill()
		assert.True(t, got == c.want || math.IsNaN(got) && math.IsNaN(c.want), "%+v has skill %g, want %g", c.f, got, c.want)
	}
}

// trained is an account of some rounds.
func trained(outputs int, levels []float64, rounds int) *account.Account {
	a := account.New(outputs, levels, nil)
	rng := rand.New(rand.NewPCG(7, 8))
	for n := range rounds {
		a.Time = int64(n)
		r := account.Round{Labels: draw(rng, outputs), Predictions: draw(rng, outputs), Weight: 1 + rng.Float64()}
		r.Loss = weighted(squared, r.Predictions, r.Labels, r.Weight)
		if n%2 == 0 {
			r.Served = draw(rng, outputs)
			r.Notes = a.AppendNotes(nil, r.Served, 1)
		}
		a.Observe(r, squared)
	}
	return a
}

// decode reads the bytes that Append wrote of a model with these outputs and levels.
func decode(data []byte, outputs int, levels []float64) (*account.Account, error) {
	a := account.New(outputs, levels, nil)
	return a, codec.Read(data, a.Visit)
}

// An account that is written and read goes on bit for bit.
func TestRoundTrip(t *testing.T) {
	for _, c := range []struct {
		outputs int
		levels  []float64
	}{{1, nil}, {1, []float64{0.9}}, {2, []float64{0.5, 0.99}}} {
		for _, rounds := range []int{0, 1, 9, 49, 50, 51, 1050, 1051, 1500} {
			a := trained(c.outputs, c.levels, rounds)
			data := a.Append(nil)
			b, err := decode(data, c.outputs, c.levels)
			require.NoError(t, err, rounds)
			rng := rand.New(rand.NewPCG(9, 9))
			for range 60 {
				r := account.Round{Labels: draw(rng, c.outputs), Predictions: draw(rng, c.outputs), Weight: 2}
				r.Notes = a.AppendNotes(nil, r.Predictions, 1)
				r.Served = r.Predictions
				a.Observe(r, squared)
				b.Observe(r, squared)
			}
			if !bytes.Equal(a.Append(nil), b.Append(nil)) || !reflect.DeepEqual(a.AppendNotes(nil, make([]float64, c.outputs), 1), b.AppendNotes(nil, make([]float64, c.outputs), 1)) {
				t.Fatalf("%d rounds: it goes on otherwise", rounds)
			}
			for n := 0; n < len(data); n += 1 + len(data)/50 {
				_, err := decode(data[:n], c.outputs, c.levels)
				require.Error(t, err, "%v %v", n, len(data))
			}
		}
	}
}

// Notes that no account gives count as none.
func TestNotesOfAnotherShape(t *testing.T) {
	good := trained(1, []float64{0.9}, 100).AppendNotes(nil, []float64{0}, 1)
	spoilt := slices.Clone(good)
	spoilt[len(spoilt)-1] = math.NaN()
	want := trained(1, []float64{0.9}, 100)
	r := account.Round{Labels: []float64{1}, Predictions: []float64{2}, Weight: 1, Loss: 1, ServedLoss: 4, Served: []float64{3}}
	want.Observe(r, squared)
	for _, notes := range [][]float64{{}, good[1:], append(slices.Clone(good), 1), spoilt} {
		got := trained(1, []float64{0.9}, 100)
		r.Notes = notes
		got.Observe(r, squared)
		assert.Equal(t, want.Append(nil), got.Append(nil), notes)
	}
}

// An interval is around what was said, and absent until it is known.
func TestInterval(t *testing.T) {
	_, _, ok := account.Interval(1, account.New(1, []float64{0.9}, nil).AppendNotes(nil, []float64{1}, 1), 1, 1, 0, 0, nil)
	assert.False(t, ok, "an account of no rounds has an interval")
	notes := trained(2, []float64{0.5, 0.9}, 500).AppendNotes(nil, []float64{5, 5}, 1)
	for output := range 2 {
		lower, upper, ok := account.Interval(5, notes, 2, 2, output, 0, nil)
		wideLower, wideUpper, wideOK := account.Interval(5, notes, 2, 2, output, 1, nil)
		assert.True(t, ok && wideOK && wideLower < lower && lower < 5 && 5 < upper && upper < wideUpper, "output %d: [%g, %g] within [%g, %g]", output, lower, upper, wideLower, wideUpper)
		assert.InDelta(t, (upper - 5), 5-lower, 1e-12, "[%g, %g] is not around 5", lower, upper)
	}
}

// Intervals of counts are served as whole numbers of at least 0, and scored as they are served.
func TestIntervalsOfPossibleLabels(t *testing.T) {
	counts := &model.Label{Min: new(float64), Integer: true}
	levels := []float64{0.9}
	a := account.New(1, levels, counts)
	rng := rand.New(rand.NewPCG(8, 9))
	scored, inside, width, score := 0.0, 0.0, 0.0, 0.0
	for range 3000 {
		value, y := 2*rng.Float64(), math.Floor(3*rng.ExpFloat64())
		notes := a.AppendNotes(nil, []float64{value}, 1)
		if lower, upper, ok := account.Interval(value, notes, 1, 1, 0, 0, counts); ok {
			require.True(t, counts.Check([]float64{lower, upper}) == nil && lower <= upper, "[%g, %g] are no counts", lower, upper)
			scored++
			width += upper - lower
			score += upper - lower
			if lower <= y && y <= upper {
				inside++
			} else {
				score += 20 * math.Max(lower-y, y-upper)
			}
		}
		a.Observe(account.Round{Labels: []float64{y}, Predictions: []float64{value}, Weight: 1, Served: []float64{value}, Notes: notes}, squared)
	}
	got := a.Summary().Intervals[0]
	for what, c := range map[string][2]float64{
		"coverage": {got.Coverage, inside / scored}, "width": {got.MeanWidth, width / scored}, "score": {got.MeanScore, score / scored},
	} {
		assert.True(t, math.Abs(c[0]-c[1]) <= 1e-9*(1+c[1]), "%s %g, want %g", what, c[0], c[1])
	}
	assert.True(t, got.Coverage > 0.87, "%+v", got)
}

// Labels as large as a model takes keep every figure finite.
func TestLargeNumbers(t *testing.T) {
	a := account.New(1, []float64{0.9}, nil)
	for n := range 2000 {
		y := 1e100 * float64(n%3-1)
		r := account.Round{Labels: []float64{y}, Predictions: []float64{-y}, Weight: 1e9, Notes: a.AppendNotes(nil, []float64{-y}, 1)}
		r.Loss = r.Weight * squared(-y, y)
		r.Served = r.Predictions
		a.Observe(r, squared)
	}
	for _, v := range append(numbers(a.Summary().Whole), a.AppendNotes(nil, []float64{1}, 1)...) {
		require.True(t, !math.IsNaN(v) && !math.IsInf(v, 0), "a figure of %g", v)
	}
	_, err := decode(a.Append(nil), 1, []float64{0.9})
	assert.NoError(t, err)
}

// FuzzDecode: an account takes any bytes; what it takes it gives back.
func FuzzDecode(f *testing.F) {
	f.Add(trained(1, []float64{0.9}, 60).Append(nil))
	f.Add(account.New(1, []float64{0.9}, nil).Append(nil))
	f.Add([]byte{1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, data []byte) {
		a, err := decode(data, 1, []float64{0.9})
		if err != nil {
			return
		}
		b, err := decode(a.Append(nil), 1, []float64{0.9})
		require.True(t, err == nil && bytes.Equal(a.Append(nil), b.Append(nil)), "%x is read and cannot be read again: %v", data, err)
		r := account.Round{Labels: []float64{1}, Predictions: []float64{2}, Weight: 1, Loss: 1, ServedLoss: 4, Served: []float64{3}, Notes: a.AppendNotes(nil, []float64{3}, 1)}
		a.Observe(r, squared)
		a.Summary()
	})
}
