package interval_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"hindsight/internal/engine/account/interval"
)

// naiveShape goes through all rounds anew for whatever is asked. The rounds are those with an interval,
// after the first ones, whose predictions alone are known.
type naiveShape struct {
	first, predictions, scores []float64
	missed                     []bool
}

// parts are u of the knots for a prediction, after some rounds.
func (s *naiveShape) parts(value float64, rounds int) []float64 {
	before := slices.Concat(s.first, s.predictions[:rounds])
	before = before[max(0, len(before)-200):]
	rank := 0.
	for _, v := range before {
		switch {
		case v < value:
			rank += 1 / float64(len(before))
		case v == value:
			rank += 0.5 / float64(len(before))
		}
	}
	u := make([]float64, 9)
	for j := range u {
		u[j] = math.Max(0, 1-math.Abs(8*rank-float64(j)))
	}
	return u
}

func (s *naiveShape) factor(value float64) float64 {
	sums, counts, bends := make([]float64, 9), make([]float64, 9), make([]float64, 9)
	sum, count := 0., 0.
	for i, score := range s.scores {
		w := math.Pow(0.999, float64(len(s.scores)-1-i))
		sum += w * score
		count += w
		step := -0.1
		if s.missed[i] {
			step = 0.9
		}
		for j, u := range s.parts(s.predictions[i], i) {
			sums[j] += w * u * score
			counts[j] += w * u
			bends[j] = math.Max(-2, math.Min(2, bends[j]+0.02*u*step))
		}
	}
	if sum == 0 {
		return 1
	}
	size, bend := 0., 0.
	for j, u := range s.parts(value, len(s.scores)) {
		size += u * (sums[j] + 20*sum/count) / ((counts[j] + 20) * sum / count)
		bend += u * bends[j]
	}
	return size * math.Exp(bend)
}

func TestShapeEqualsNaive(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	s, n := interval.New([]float64{0.9}), &naiveShape{}
	for round := range 900 {
		value := rng.NormFloat64()
		if rng.IntN(5) == 0 {
			value = math.Round(value) // A tie, now and then.
		}
		r := interval.Round{Served: value, Label: value + math.Exp(value)*rng.NormFloat64()}
		if !s.Known() {
			n.first = append(n.first, value)
			s.Observe(r)
			continue
		}
		factor := n.factor(value)
		got, want := s.ScaleAt(value), s.Scale()*factor
		require.True(t, math.Abs(got-want) <= 1e-9*want, "round %d: %g, want %g", round, got, want)
		r.Scale, r.Radii = s.ScaleAt(value), []float64{s.Radius(0)}
		size := math.Abs(r.Label - value)
		n.predictions = append(n.predictions, value)
		n.scores = append(n.scores, math.Min(16, size/s.Scale()))
		n.missed = append(n.missed, size > r.Scale*r.Radii[0])
		s.Observe(r)
		if round%150 == 0 {
			restored := interval.New([]float64{0.9})
			require.NoError(t, restored.Restore(s.AppendBinary(nil)))
			s = restored
		}
	}
}

// Where the noise grows with the prediction, every fifth of the predictions has the coverage, and
// the intervals are narrower than with one scale for all.
func TestIntervalsFollowThePrediction(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	rows, noise := make([]float64, 20_000), make([]float64, 20_000)
	for i := range rows {
		rows[i] = math.Exp(rng.NormFloat64())
		noise[i] = 0.5 * rows[i] * rng.NormFloat64()
	}
	run := func(scale func(s *interval.State, value float64) float64) (shares []float64, width float64) {
		s := interval.New([]float64{0.9})
		bounds := slices.Sorted(slices.Values(rows))
		inside, all := make([]float64, 5), make([]float64, 5)
		for i, value := range rows {
			r := interval.Round{Served: value, Label: value + noise[i]}
			if s.Known() {
				r.Scale, r.Radii = scale(s, value), []float64{s.Radius(0)}
			}
			if s.Observe(r); i < 1000 {
				continue
			}
			at, _ := slices.BinarySearch(bounds, value)
			all[at*5/len(rows)]++
			if math.Abs(noise[i]) <= r.Scale*r.Radii[0] {
				inside[at*5/len(rows)]++
			}
		}
		for k := range inside {
			shares = append(shares, inside[k]/all[k])
		}
		return shares, s.Statistics(0).MeanWidth
	}
	shares, width := run((*interval.State).ScaleAt)
	plain, plainWidth := run(func(s *interval.State, _ float64) float64 { return s.Scale() })
	t.Logf("shares %.3f, width %.3g; of one scale %.3f, %.3g", shares, width, plain, plainWidth)
	assert.True(t, slices.Min(shares) > 0.88 && slices.Max(shares) < 0.92, "the fifths have %.3f, want .88 to .92", shares)
	assert.True(t, width < 0.9*plainWidth, "a width of %g, with one scale %g", width, plainWidth)
}
