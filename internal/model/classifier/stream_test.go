package classifier_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"hindsight/internal/model"
	"hindsight/internal/model/classifier"
	"hindsight/internal/model/feature"
	"hindsight/internal/model/kernel"
	"hindsight/internal/model/modeltest"
)

// fourier is a learner over frequencies of a Gaussian kernel whose σ² is the mean
// squared distance of the inputs.
func fourier(stream []modeltest.Sample, frequencies int, seed uint64, o rlsc) *classifier.Learner {
	rng := rand.New(rand.NewPCG(seed, 1))
	square := 0.0
	const pairs = 5000
	for range pairs {
		a, b := stream[rng.IntN(len(stream))].X, stream[rng.IntN(len(stream))].X
		for j, v := range a {
			square += (v - b[j]) * (v - b[j]) / pairs
		}
	}
	k := kernel.Kernel{Kind: kernel.Gaussian, Sigma: math.Sqrt(square)}
	return newRLSC(feature.NewFourier(k, len(stream[0].X), frequencies, true, rng), o)
}

// tally checks prequential predictions. Bins are of the probability of class 1 where
// there are two classes, and of the most probable class where there are more.
type tally struct {
	rounds, errors  int
	loss, brier     float64
	members         [10]int
	promised, found [10]float64
}

func (y *tally) add(o *model.ClassOutcome) {
	y.rounds++
	p := o.Prediction.Probabilities
	if o.Class != o.Prediction.Class {
		y.errors++
	}
	if o.Class >= len(p) || len(p) < 2 {
		return
	}
	y.loss -= math.Log(p[o.Class])
	scored := 1
	for k, v := range p {
		if len(p) > 2 && v > p[scored] {
			scored = k
		}
		miss := v
		if k == o.Class {
			miss--
		}
		y.brier += miss * miss
	}
	bin := min(int(10*p[scored]), 9)
	y.members[bin]++
	y.promised[bin] += p[scored]
	if scored == o.Class {
		y.found[bin]++
	}
}

// worst is the largest distance of a bin with at least 500 members from what it
// promised, and how many such bins there are.
func (y *tally) worst() (worst float64, bins int) {
	for b, n := range y.members {
		if n >= 500 {
			worst = math.Max(worst, math.Abs(y.found[b]-y.promised[b])/float64(n))
			bins++
		}
	}
	return worst, bins
}

func (y *tally) String() string {
	n := float64(y.rounds)
	worst, bins := y.worst()
	var text strings.Builder
	fmt.Fprintf(&text, "errors %.2f %%, log-loss %.4f, Brier score %.4f, worst bin of %d %.3f:",
		100*float64(y.errors)/n, y.loss/n, y.brier/n, bins, worst)
	for b, members := range y.members {
		if members > 0 {
			fmt.Fprintf(&text, " %d at %.3f %+.3f", members, y.promised[b]/float64(members), (y.found[b]-y.promised[b])/float64(members))
		}
	}
	return text.String()
}

// Ten digits are told apart with 200 frequencies, recoded or not, with probabilities
// that hold. Inputs are scaled to [0, 1].
func TestDigits(t *testing.T) {
	if modeltest.RaceDetector {
		t.Skip("too slow with the race detector")
	}
	stream := modeltest.Stream(t, "digits.csv.gz", -1)
	modeltest.Scale(stream)
	for _, a := range []float64{0, 0.5} {
		y := run(t, fourier(stream, 200, 1, rlsc{Lambda: 0.01, Recoding: a, MaxClasses: 256}), stream)
		t.Logf("a = %g: %s", a, y)
		assert.LessOrEqual(t, y.errors, y.rounds*25/1000, "a = %g: %d errors in %d rounds", a, y.errors, y.rounds)
		worst, bins := y.worst()
		assert.False(t, worst > 0.05 || bins == 0, "a = %g: a bin of %d is off by %.3f", a, bins, worst)
	}
	y := run(t, newRLSC(feature.NewAffine(len(stream[0].X)), rlsc{Lambda: 1, MaxClasses: 10}), stream)
	t.Logf("affine: %s", y)
	assert.LessOrEqual(t, y.errors, y.rounds*8/100, "affine: %d errors in %d rounds", y.errors, y.rounds)
}

// A digit that is withheld for 3,000 rounds is found among its first 20 with a = ½,
// at little cost afterwards. Mean of four digits.
func TestAWithheldDigitIsFound(t *testing.T) {
	if modeltest.RaceDetector {
		t.Skip("too slow with the race detector")
	}
	stream := modeltest.Stream(t, "digits.csv.gz", -1)
	modeltest.Scale(stream)
	const withheld, early = 3000, 20
	for _, c := range []struct{ a, wrong, others float64 }{{0, 1, 0.03}, {0.5, 0.25, 0.03}} {
		l := fourier(stream, 200, 2, rlsc{Lambda: 0.01, Recoding: c.a, MaxClasses: 10})
		empty := encoded(t, l)
		var missed, seen, errors, after float64
		for _, digit := range []int{0, 3, 6, 9} {
			require.NoError(t, l.Restore(empty))
			came := 0
			var o model.ClassOutcome
			for n, s := range stream {
				own := int(s.Y) == digit
				if own && n < withheld {
					continue
				}
				require.NoError(t, l.ObserveClass(&o, s.X, strconv.Itoa(int(s.Y)), 1, nil))
				wrong := 0.0
				if o.Class != o.Prediction.Class {
					wrong = 1
				}
				switch {
				case own && came < early:
					came++
					seen++
					missed += wrong
				case !own && n >= withheld:
					after++
					errors += wrong
				}
			}
		}
		t.Logf("a = %g: %.0f %% of the first %d wrong, %.1f %% of the others", c.a, 100*missed/seen, early, 100*errors/after)
		assert.False(t, missed > c.wrong*seen || errors > c.others*after, "a = %g: %g of %g wrong, %g of %g others", c.a, missed, seen, errors, after)
	}
}
