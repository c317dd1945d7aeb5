package logloss_test

import (
	"bytes"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"hindsight/internal/model/codec"
	"hindsight/internal/model/logloss"
)

const slotsOfText = 1024

// textRows are rows of one number and of words, some of which occur with one class more than with others.
func textRows(seed uint64, classes, n int) []row {
	rng := rand.New(rand.NewPCG(seed, 11))
	rows, seen := make([]row, n), 0
	for t := range rows {
		class := min(rng.IntN(classes), seen)
		seen = max(seen, class+1)
		var text []int
		for range rng.IntN(7) {
			w := 1 + rng.IntN(20)
			if rng.IntN(2) == 0 {
				w = 21 + 3*class + rng.IntN(4)
			}
			text = append(text, w)
		}
		rows[t] = textRow(float64(class)+rng.NormFloat64(), class, text)
		rows[t].weight = 0.5 + rng.Float64()
		for range classes {
			rows[t].calibrated = append(rows[t].calibrated, 1/float64(classes))
		}
	}
	return rows
}

func textRow(number float64, class int, text []int) row {
	r := row{x: make([]float64, 1+slotsOfText), class: class, weight: 1}
	r.x[0] = number
	for i, w := range text {
		r.x[1+i] = float64(w)
		if i > 0 {
			r.x[slotsOfText/2+i] = float64(1000*text[i-1] + w)
		}
	}
	return r
}

// occurrences are how often each word, and each pair as −1 times its token, occurs in a row.
func occurrences(r row) map[int]float64 {
	n := map[int]float64{}
	for i, v := range r.x[1:] {
		switch {
		case v != 0 && i < slotsOfText/2:
			n[int(v)]++
		case v != 0:
			n[-int(v)]++
		}
	}
	return n
}

// naiveBayes is log p by the formula of texts, from all rows before. Of shared the priors are the shares of the words.
func naiveBayes(before []row, r row, shared bool, shares []float64) []float64 {
	logs := make([]float64, len(shares))
	sums, total, known, all := make([]map[int]float64, len(shares)), make([]float64, len(shares)), map[int]float64{}, 0.0
	for k := range sums {
		sums[k] = map[int]float64{}
	}
	for _, b := range before {
		for token, n := range occurrences(b) {
			if token > 0 {
				sums[b.class][token] += b.weight * n
				total[b.class] += b.weight * n
				known[token] += b.weight * n
				all += b.weight * n
			}
		}
	}
	words := float64(len(known))
	for k := range logs {
		logs[k] = math.Log(shares[k])
		for token, n := range occurrences(r) {
			sum, occurred := known[token]
			if !occurred {
				continue
			}
			prior, of := 1.0, words
			if shared {
				prior, of = 3*words*(1+sum)/(words+all), 3*words
			}
			logs[k] += n * math.Log((sums[k][token]+prior)/(total[k]+of))
		}
	}
	return softmax(logs)
}

// naiveOdds are the weights and the curvatures of the regressions, by tokens, the number and 1 being theNumber and one.
type naiveOdds struct{ weights, curvatures []map[int]float64 }

const theNumber, one = 1 << 30, 1<<30 + 1

func (n *naiveOdds) features(r row, z float64) map[int]float64 {
	v, words, pairs := occurrences(r), 0.0, 0.0
	for token, count := range v {
		if token > 0 {
			words += count
		} else {
			pairs += count
		}
	}
	for token, count := range v {
		if v[token] = math.Sqrt(count / words); token < 0 {
			v[token] = math.Sqrt(count / pairs)
		}
	}
	v[theNumber], v[one] = z, 1
	return v
}

func (n *naiveOdds) odds(v map[int]float64, pairs bool, classes int) []float64 {
	odds := make([]float64, classes)
	for k := range min(classes, len(n.weights)) {
		for _, token := range slices.Sorted(maps.Keys(v)) {
			if token > 0 || pairs {
				odds[k] += n.weights[k][token] * v[token]
			}
		}
	}
	return softmax(odds)
}

func (n *naiveOdds) learn(v map[int]float64, r row, classes int) {
	for len(n.weights) < classes {
		n.weights, n.curvatures = append(n.weights, map[int]float64{}), append(n.curvatures, map[int]float64{})
	}
	words, all := n.odds(v, false, classes), n.odds(v, true, classes)
	for k := range classes {
		y := 0.0
		if k == r.class {
			y = 1
		}
		spread := map[bool]float64{} // Of pairs, and of all others.
		for token, f := range v {
			spread[token < 0] += f * f / (0.25 + n.curvatures[k][token])
		}
		for token, f := range v {
			p := words[k]
			if token < 0 {
				p = all[k]
			}
			h := r.weight * math.Max(0.1, p*(1-p))
			n.weights[k][token] += f / (0.25 + n.curvatures[k][token]) * r.weight * (y - p) / (1 + h*spread[token < 0])
			n.curvatures[k][token] += h * f * f
		}
	}
}

func TestTextsAreTheNaiveOnes(t *testing.T) {
	const classes = 3
	l, odds, want := start(logloss.Options{Dimension: 1, MaxClasses: classes, Tokens: slotsOfText}), naiveOdds{}, map[string]float64{}
	var before []row
	mean, squares, counted := 0.0, 0.0, 0.0
	for _, r := range textRows(1, classes, 90) {
		z, known := 0.0, len(l.counts)
		if squares > 0 {
			z = math.Max(-8, math.Min(8, (r.x[0]-mean)/math.Sqrt(squares/counted)))
		}
		v := odds.features(r, z)
		if l.mix(r) != nil && r.class < known {
			shares := make([]float64, known)
			for k, c := range l.counts {
				shares[k] = c / l.total
			}
			for name, p := range map[string][]float64{
				"words": naiveBayes(before, r, false, shares), "word_shares": naiveBayes(before, r, true, shares),
				"word_odds": odds.odds(v, false, known), "pair_odds": odds.odds(v, true, known),
			} {
				want[name] -= math.Min(1, r.weight) * math.Log(p[r.class])
			}
		}
		l.learn(r, nil)
		before = append(before, r)
		odds.learn(v, r, len(l.counts))
		part := math.Min(1, r.weight)
		counted += part
		off := r.x[0] - mean
		mean += part / counted * off
		squares += part * off * (r.x[0] - mean)
	}
	for name, loss := range want {
		if got := lossOf(t, l.level, name); math.Abs(got-loss) > 1e-4*loss { // Probabilities below 1e-7 are raised.
			t.Errorf("%s: a loss of %g, want %g", name, got, loss)
		}
	}
}

func TestStatesOfTextsContinue(t *testing.T) {
	o := logloss.Options{Dimension: 1, MaxClasses: 3, Tokens: slotsOfText}
	plain := continues(t, o, textRows(2, 3, 100))
	if got, most := plain.level.Bytes(3), o.Bytes(); got > most || got < uint64(len(plain.state(t))) {
		t.Errorf("%d bytes, of at most %d, and a state of %d", got, most, len(plain.state(t)))
	}
}

// The class depends on pairs of words: a word means the opposite behind another word.
func TestPairsDecide(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 11))
	l, wrong, bayes := start(logloss.Options{Dimension: 1, MaxClasses: 2, Tokens: slotsOfText}), 0, 0
	const not, rows = 1, 1200
	var before []row
	for n := range rows {
		class, text := rng.IntN(2), []int{10 + rng.IntN(50), 10 + rng.IntN(50)}
		word := 100 + rng.IntN(10)
		if rng.IntN(2) == 0 {
			text, word = append(text, not), word+10*(1-class)
		} else {
			text, word = append(text, 2+rng.IntN(8)), word+10*class
		}
		r := textRow(0, min(class, len(l.counts)), append(text, word, 10+rng.IntN(50)))
		r.calibrated = []float64{0.5, 0.5}
		if p := l.mix(r); p != nil && n >= rows/2 {
			if best(p) != r.class {
				wrong++
			}
			if n%4 == 0 && best(naiveBayes(before, r, false, []float64{0.5, 0.5})) != r.class {
				bayes += 4
			}
		}
		l.learn(r, nil)
		before = append(before, r)
	}
	assert.True(t, wrong <= rows/2/10 && bayes >= 5*wrong, "%d of %d rows are wrong, %d by naive Bayes", wrong, rows/2, bayes)
}

func TestStatesOfTextsThatCannotBe(t *testing.T) {
	o := logloss.Options{Dimension: 1, MaxClasses: 2, Tokens: slotsOfText}
	l := start(o)
	for _, r := range textRows(5, 2, 40) {
		l.mix(r)
		l.learn(r, nil)
	}
	state, rejected := l.state(t), 0
	for at := 0; at < len(state); at += 7 {
		damaged := bytes.Clone(state)
		damaged[at] ^= 0xff
		other := start(o)
		if err := codec.Read(damaged, func(v *codec.Visitor) { other.level.Visit(v, 2) }); err != nil {
			rejected++
			require.Contains(t, err.Error(), "corrupt", "%v %v", at, err)
		}
	}
	assert.NotEqual(t, 0, rejected, "no state is rejected")
}

// Rare words decide: each occurs in 1 of 60 words, and only in texts of its class.
func TestRareWordsDecide(t *testing.T) {
	rng := rand.New(rand.NewPCG(6, 11))
	l, wrong, bayes := start(logloss.Options{Dimension: 1, MaxClasses: 9, Tokens: slotsOfText}), 0, 0
	const rows = 1500
	var before []row
	for n := range rows {
		class, text := min(rng.IntN(9), len(l.counts)), []int(nil)
		for range 20 {
			if rng.IntN(10) == 0 {
				text = append(text, 5000+100*class+rng.IntN(40))
			} else {
				text = append(text, 1+int(3000*rng.Float64()*rng.Float64()*rng.Float64()))
			}
		}
		r := textRow(0, class, text)
		for range max(1, len(l.counts)) {
			r.calibrated = append(r.calibrated, 1/float64(max(1, len(l.counts))))
		}
		if p := l.mix(r); p != nil && n >= rows/2 {
			if best(p) != r.class {
				wrong++
			}
			if n%5 == 0 {
				shares := make([]float64, len(l.counts))
				for k, c := range l.counts {
					shares[k] = c / l.total
				}
				if best(naiveBayes(before, r, false, shares)) != r.class {
					bayes += 5
				}
			}
		}
		l.learn(r, nil)
		before = append(before, r)
	}
	assert.LessOrEqual(t, float64(wrong), 0.95*float64(bayes), "%d of %d rows are wrong, %d by naive Bayes", wrong, rows/2, bayes)
}
