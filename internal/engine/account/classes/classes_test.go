package classes_test

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"hindsight/internal/engine/account/classes"
	"hindsight/internal/model"
	"hindsight/internal/model/codec"
)

const limit = 12

// rounds are n observations of classes that appear one after the other, predicted
// some rounds before, or not at all. The notes are those of the account that they are
// given to.
func rounds(seed uint64, n int) []classes.Round {
	rng := rand.New(rand.NewPCG(seed, 5))
	predict := func(known int) classes.Prediction {
		p := classes.Prediction{Class: model.NoClass, Probabilities: make([]float64, known)}
		sum := 0.0
		for k := range p.Probabilities {
			p.Probabilities[k] = math.Exp(2 * rng.NormFloat64())
			sum += p.Probabilities[k]
		}
		for k := range p.Probabilities {
			p.Probabilities[k] /= sum
		}
		if known > 0 {
			p.Class = rng.IntN(known)
		}
		return p
	}
	out, known := make([]classes.Round, n), 0
	for i := range out {
		out[i].Prequential = predict(known)
		if rng.IntN(3) == 0 {
			served := predict(max(known-rng.IntN(2), 0))
			out[i].Served = &served
			out[i].Notes = [][]float64{nil, {-1, -1, 0}, {0, 1, 0.25}, {2, float64(limit), 0}, {math.NaN(), 0, 0}, {0.5, 0, 0}, {1}, {0, 1, 1.5}}[rng.IntN(8)]
		}
		out[i].Class = rng.IntN(min(1+i/20, limit-2))
		known = max(known, out[i].Class+1)
	}
	return out
}

func observe(a *classes.Account, rounds []classes.Round) {
	for _, r := range rounds {
		a.Observe(r)
	}
}

// naive goes through all rounds anew for whatever is asked.
type naive []classes.Round

// baselines are what the two baselines say before round n.
func (all naive) baselines(n int) (majority, last int) {
	majority, last = model.NoClass, model.NoClass
	counts := make([]int, limit)
	for _, r := range all[:n] {
		counts[r.Class]++
		last = r.Class
	}
	for k, c := range counts {
		if c > 0 && (majority < 0 || c > counts[majority]) {
			majority = k
		}
	}
	return majority, last
}

// newClass is the posterior of the two experts since the newest class before round n.
func (all naive) newClass(n int) float64 {
	known, open, closed := 0, 1., 1.
	for i, r := range all[:n] {
		switch {
		case max(r.Class+1, len(r.Prequential.Probabilities)) > known:
			known = max(r.Class+1, len(r.Prequential.Probabilities))
			open, closed = 1, 1
		default:
			open *= 1 - (float64(known)-0.5)/float64(i)
		}
	}
	if known == 0 {
		return 0
	}
	return open / (open + closed) * (float64(known) - 0.5) / float64(n)
}

func (all naive) figures(n int, p classes.Prediction, notes []float64) (f classes.Figures) {
	class := all[n].Class
	majority, last := all.baselines(n)
	unseen := all.newClass(n)
	if len(notes) == 3 && notes[0] >= -1 && notes[1] >= -1 && notes[0] < limit && notes[1] < limit && notes[0] != 0.5 && notes[2] <= 1 {
		majority, last, unseen = int(notes[0]), int(notes[1]), notes[2]
	}
	for _, c := range []struct {
		predicted int
		errors    *float64
	}{{p.Class, &f.Errors}, {majority, &f.Majority}, {last, &f.Last}} {
		if c.predicted != class {
			*c.errors++
		}
	}
	told := append(append([]float64(nil), p.Probabilities...), make([]float64, limit-len(p.Probabilities))...)
	if class < len(p.Probabilities) {
		f.LogLoss = -math.Log(math.Max(told[class]*(1-unseen), 1e-9))
	} else {
		f.LogLoss = -math.Log(math.Max(unseen, 1e-9))
	}
	for k, v := range told {
		if k == class {
			v--
		}
		f.Brier += v * v
	}
	return f
}

func sum(fs ...classes.Figures) (total classes.Figures) {
	for _, f := range fs {
		total.Errors += f.Errors
		total.LogLoss += f.LogLoss
		total.Brier += f.Brier
		total.Majority += f.Majority
		total.Last += f.Last
	}
	return total
}

func (all naive) performance(from int) (p classes.Performance) {
	for n := max(from, 1); n < len(all); n++ { // The first is not scored.
		r := all[n]
		now := all.figures(n, r.Prequential, nil)
		told := now
		if r.Served != nil {
			told = all.figures(n, *r.Served, r.Notes)
		}
		p.Observations++
		p.Prequential, p.Served = sum(p.Prequential, now), sum(p.Served, told)
	}
	return p
}

func (all naive) summary() classes.Summary {
	s := classes.Summary{Whole: all.performance(0)}
	// Twenty full blocks of 50, and the one that is being filled.
	from := 0
	if n := len(all) - 1; n > 1050 {
		from = 1 + (n-1)/50*50 - 1000
	}
	s.Recent = all.performance(from)
	for n, r := range all {
		told := r.Prequential
		if r.Served != nil {
			told = *r.Served
		}
		if r.Served != nil && n > 0 {
			s.Predicted++
			s.Served = sum(s.Served, all.figures(n, *r.Served, r.Notes))
		}
		for len(s.Classes) < max(len(told.Probabilities), r.Class+1) {
			s.Classes = append(s.Classes, classes.Class{})
		}
		for k, v := range told.Probabilities {
			for b := range s.Reliability {
				if v >= float64(b)/10 && (v < float64(b+1)/10 || b == 9) {
					s.Reliability[b].Members++
					s.Reliability[b].Expected += v
					if k == r.Class {
						s.Reliability[b].Found++
					}
				}
			}
			s.Classes[k].Expected += v
		}
		s.Classes[r.Class].Observed++
		if told.Class != r.Class {
			s.Classes[r.Class].Errors++
		}
		if told.Class >= 0 {
			s.Classes[told.Class].Predicted++
		}
	}
	return s
}

// text is a summary, its sums to twelve digits.
func text(s classes.Summary) string {
	var out strings.Builder
	fmt.Fprintf(&out, "%d, %.11e, %.11e, %.11e", s.Predicted, s.Served, s.Whole, s.Recent)
	for _, b := range s.Reliability {
		fmt.Fprintf(&out, "\n%d of %d, %.11e", b.Found, b.Members, b.Expected)
	}
	for _, c := range s.Classes {
		fmt.Fprintf(&out, "\n%d, %d, %d, %.11e", c.Observed, c.Errors, c.Predicted, c.Expected)
	}
	return out.String()
}

// The account is what going through all rounds gives, whenever it is asked.
func TestAccountIsItsDefinition(t *testing.T) {
	all := rounds(1, 1330)
	a := classes.New(limit)
	for n, r := range all {
		if n < 5 || n%97 == 0 || n >= 1050 && n <= 1052 {
			got, want := text(a.Summary()), text(naive(all[:n]).summary())
			require.Equal(t, want, got, "after %d:\n, want\n", n)
		}
		a.Observe(r)
	}
	got, want := text(a.Summary()), text(naive(all).summary())
	require.Equal(t, want, got, "want\n")
	assert.True(t, a.Recent() == a.Summary().Recent, "Recent is another than the summary's")
}

// The notes of a prediction are the baselines of its moment, and the probability of a new class.
func TestNotes(t *testing.T) {
	all := rounds(2, 300)
	a := classes.New(limit)
	for n, r := range all {
		majority, last := naive(all).baselines(n)
		got, unseen := a.AppendNotes(nil), naive(all).newClass(n)
		if fmt.Sprint(got[:2]) != fmt.Sprint([]int{majority, last}) || len(got) != classes.NotesLength ||
			!(math.Abs(got[2]-unseen) <= 1e-12) || classes.NewClass(got) != got[2] {
			t.Fatalf("round %d: notes %g, want %d, %d and %g", n, got, majority, last, unseen)
		}
		a.Observe(r)
	}
}

// The probabilities of no new class lose at most log 2 since the newest class; all possible classes
// leave none.
func TestNewClass(t *testing.T) {
	a, lost := classes.New(3), 0.0
	for n := range 100_000 {
		p := classes.Prediction{Class: 0, Probabilities: []float64{0.5, 0.5}[:min(n, 2)]}
		if n >= 2 {
			lost -= math.Log(1 - classes.NewClass(a.AppendNotes(nil)))
		}
		a.Observe(classes.Round{Class: n % 2, Prequential: p})
	}
	assert.True(t, lost > 0.6 && lost <= math.Ln2, "a loss of %g, want log 2 nearly", lost)
	now := classes.NewClass(a.AppendNotes(nil))
	assert.True(t, now > 0, "a new class has probability %g", now)
	a.Observe(classes.Round{Class: 2, Prequential: classes.Prediction{Class: 0, Probabilities: []float64{0.5, 0.5}}})
	assert.EqualValues(t, 0, classes.NewClass(a.AppendNotes(nil)))
}

// Restored anywhere, an account continues bit for bit.
func TestRestore(t *testing.T) {
	all := rounds(3, 1200)
	whole := classes.New(limit)
	observe(whole, all)
	want := whole.AppendBinary(nil)
	for _, at := range []int{0, 1, 2, 50, 51, 700, 1050, 1051, 1199, 1200} {
		first := classes.New(limit)
		observe(first, all[:at])
		second := classes.New(limit)
		observe(second, all[:10])
		require.NoError(t, second.Restore(first.AppendBinary(nil)), at)
		assert.Equal(t, text(second.Summary()), text(first.Summary()), at)
		observe(second, all[at:])
		assert.Equal(t, want, second.AppendBinary(nil), at)
	}
	size := whole.Size()
	assert.True(t, size >= uint64(len(want)) && size <= 3*uint64(len(want)), "a size of %d bytes, %d encoded", size, len(want))
}

// Neither a round nor an encoding allocates in the steady state.
func TestAllocations(t *testing.T) {
	all := rounds(4, 1500)
	a := classes.New(limit)
	observe(a, all)
	room, n := a.AppendBinary(nil), 0
	for name, call := range map[string]func(){
		"Observe":      func() { a.Observe(all[n%len(all)]); n++ },
		"AppendBinary": func() { room = a.AppendBinary(room[:0]) },
	} {
		got := testing.AllocsPerRun(200, call)
		assert.True(t, got == 0, "%s allocates %g times", name, got)
	}
}

// What nobody should tell counts as what is nearest: no figure ends as NaN.
func TestProbabilitiesThatAreNone(t *testing.T) {
	a := classes.New(3)
	for _, v := range []float64{math.NaN(), math.Inf(1), math.Inf(-1), -1, 2} {
		served := classes.Prediction{Class: 70, Probabilities: []float64{v, 0.5, v, 0.25, v}}
		a.Observe(classes.Round{Class: 2, Served: &served})
	}
	f := a.Summary().Whole.Served
	assert.True(t, f.LogLoss >= 0 && f.Brier >= 0 && f.Errors == 4, "%+v", f)
	assert.NoError(t, classes.New(3).Restore(a.AppendBinary(nil)), "its state is rejected")
}

// The skill is against the better baseline.
func TestSkill(t *testing.T) {
	f := classes.Figures{Errors: 3, Majority: 10, Last: 6}
	assert.Equal(t, 0.5, f.Skill())
	if f.Last = 0; !math.IsNaN(f.Skill()) {
		t.Errorf("a skill of %g beside a baseline without errors", f.Skill())
	}
}

// FuzzRestore: an account takes any bytes as its state and works, or rejects them and
// stays as it was.
func FuzzRestore(f *testing.F) {
	all := rounds(6, 1100)
	for _, n := range []int{0, 1, 60, 1100} {
		a := classes.New(limit)
		observe(a, all[:n])
		f.Add(a.AppendBinary(nil))
	}
	f.Fuzz(func(t *testing.T, state []byte) {
		a := classes.New(limit)
		observe(a, all[:3])
		before := a.AppendBinary(nil)
		if err := a.Restore(state); err != nil {
			require.True(t, errors.Is(err, codec.ErrCorrupt) && bytes.Equal(before, a.AppendBinary(nil)), "%v, and the account has changed", err)
			return
		}
		require.Equal(t, a.AppendBinary(nil), state, "what was restored is encoded otherwise")
		observe(a, all)
		_, _, _ = a.Summary(), a.Size(), a.AppendNotes(nil)
	})
}

// ranked are observations of two classes with the probability of class 1, on the lower ends of
// eighths of log-odds.
func ranked(seed uint64, n int, share float64) (p []float64, class []int) {
	rng := rand.New(rand.NewPCG(seed, 7))
	for range n {
		k := 0
		if rng.Float64() < share {
			k = 1
		}
		odds := math.Floor(8*(2*float64(k)-1+2*rng.NormFloat64()))/8 + 1./16
		p, class = append(p, 1/(1+math.Exp(-odds))), append(class, k)
	}
	return p, class
}

// The area under the curve is the share of pairs in order, and F1 that of the best threshold.
func TestRankingIsItsDefinition(t *testing.T) {
	for _, share := range []float64{0.02, 0.4, 0.9} {
		p, class := ranked(4, 1500, share)
		a := classes.New(2)
		a.Observe(classes.Round{Class: 0, Prequential: classes.Prediction{Class: -1}})
		a.Observe(classes.Round{Class: 1, Prequential: classes.Prediction{Class: 0, Probabilities: []float64{1}}})
		assert.Nil(t, a.Summary().Ranking, "a ranking of no probabilities")
		for i := range p {
			a.Observe(classes.Round{Class: class[i], Prequential: classes.Prediction{Probabilities: []float64{1 - p[i], p[i]}}})
		}
		got := a.Summary().Ranking
		want := 1
		if share > 0.5 {
			want = 0
		}
		pairs, ordered, best := 0.0, 0.0, 0.0
		of := func(i int) float64 { // The probability of the rarer class.
			if want == 0 {
				return 1 - p[i]
			}
			return p[i]
		}
		for i := range p {
			found, said, all := 0.0, 0.0, 0.0
			for j := range p {
				if class[i] == want && class[j] != want {
					pairs++
					switch {
					case of(i) > of(j):
						ordered++
					case of(i) == of(j):
						ordered += 0.5
					}
				}
				if class[j] == want {
					all++
				}
				if of(j) >= of(i) {
					said++
					if class[j] == want {
						found++
					}
				}
			}
			best = math.Max(best, 2*found/(said+all))
		}
		if got == nil || got.Class != want || !(math.Abs(got.AUC-ordered/pairs) <= 1e-12) || !(math.Abs(got.F1-best) <= 1e-12) {
			t.Fatalf("share %g: %+v, want class %d, AUC %g, F1 %g", share, got, want, ordered/pairs, best)
		}
		found, said, all := 0.0, 0.0, 0.0
		for j := range p {
			if class[j] == want {
				all++
			}
			if of(j) >= got.Threshold {
				said++
				if class[j] == want {
					found++
				}
			}
		}
		if !(math.Abs(got.Precision-found/said) <= 1e-12) || !(math.Abs(got.Recall-found/all) <= 1e-12) {
			t.Errorf("share %g: %+v, want a precision of %g, a recall of %g", share, got, found/said, found/all)
		}
	}
}

// A third class ends the ranking.
func TestRankingOfThreeClasses(t *testing.T) {
	a := classes.New(3)
	for n := range 30 {
		a.Observe(classes.Round{Class: n % 2, Prequential: classes.Prediction{Probabilities: []float64{0.5, 0.5}}})
	}
	require.NotNil(t, a.Summary().Ranking, "no ranking of two classes")
	restored := classes.New(3)
	if err := restored.Restore(a.AppendBinary(nil)); err != nil || *restored.Summary().Ranking != *a.Summary().Ranking {
		t.Errorf("restored: %v, %+v", err, restored.Summary().Ranking)
	}
	a.Observe(classes.Round{Class: 2, Prequential: classes.Prediction{Probabilities: []float64{0.5, 0.5}}})
	assert.Nil(t, a.Summary().Ranking)
}
