package logloss_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"hindsight/internal/model/logloss"
)

// traitRows have a number, three keys and, as tokens, what traits says of them.
func traitRows(keyed []row, delay int) (texts []row) {
	ids := map[string]float64{}
	id := func(format string, a ...any) float64 {
		word := fmt.Sprintf(format, a...)
		if ids[word] == 0 {
			ids[word] = float64(len(ids) + 1)
		}
		return ids[word]
	}
	last, before := map[string]int{}, 0
	for t, r := range keyed {
		if learned := learnedAt(t-1, delay); learned >= 0 {
			before = keyed[learned].class + 1
			for j, v := range keyed[learned].x[1:] {
				last[fmt.Sprint(j, v)] = before
			}
		}
		var words, pairs []float64
		var own []string
		for j, v := range r.x[1:] {
			if v != 0 {
				own = append(own, fmt.Sprint(j, v))
				if k := last[fmt.Sprint(j, v)]; k > 0 {
					words, pairs = append(words, id("last of %d: %d", j, k)), append(pairs, id("%d %g %d", j, v, k))
				}
			}
		}
		if before > 0 {
			own = append(own, fmt.Sprint("before", before))
		}
		for i, a := range own {
			words = append(words, id("%s", a))
			for _, b := range own[:i] {
				pairs = append(pairs, id("%s, %s", a, b))
			}
		}
		text := row{x: make([]float64, 1+slotsOfText), class: r.class, weight: r.weight, calibrated: r.calibrated}
		text.x[0] = r.x[0]
		copy(text.x[1:], words)
		copy(text.x[1+slotsOfText/2:], pairs)
		texts = append(texts, text)
	}
	return texts
}

// learnedAt is the row that is learned after the prediction of row n, or -1. Labels are late once all classes are known.
func learnedAt(n, delay int) int {
	const known = 60
	switch {
	case n < known:
		return n
	case n < known+delay:
		return -1
	default:
		return n - delay
	}
}

// Traits are the words and pairs of texts that say the same, when labels are late too.
func TestTraitsAreWords(t *testing.T) {
	o := logloss.Options{Dimension: 4, Keys: []int{1, 2, 3}, MaxClasses: 4, MaxKeys: 1 << 18, Traits: true}
	rows := stream(5, 1, 3, 4, 300)
	for _, r := range rows {
		for j, v := range r.x[1:] {
			r.x[1+j] = math.Mod(v, 4) // 0 is a missing key.
		}
	}
	for _, delay := range []int{0, 7} {
		texts := traitRows(rows, delay)
		got, want := start(o), start(logloss.Options{Dimension: 1, Tokens: slotsOfText, MaxClasses: 4})
		served, other := make([][]float64, len(rows)), make([][]float64, len(rows))
		for n := range rows {
			p := got.mix(rows[n])
			for k, v := range want.mix(texts[n]) {
				require.InDelta(t, v, p[k], 1e-9, "delay %d, row %d", delay, n)
			}
			served[n] = got.level.Append(nil, got.scratch, len(got.counts))
			other[n] = want.level.Append(nil, want.scratch, len(want.counts))
			late := learnedAt(n, delay)
			if late < 0 {
				continue
			}
			for _, l := range []struct {
				*run
				row    row
				served []float64
			}{{got, rows[late], served[late]}, {want, texts[late], other[late]}} {
				l.mix(l.row)
				_, tail := l.level.Split(l.served)
				l.learn(l.row, tail)
			}
		}
	}
	continues(t, o, rows)
}
