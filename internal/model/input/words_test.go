package input_test

import (
	"bytes"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"hindsight/internal/model"
	"hindsight/internal/model/input"
)

func textSchema(tb testing.TB, buckets int) *input.Schema {
	tb.Helper()
	return schemaOf(tb, []*model.Input{{Name: "note", Text: &model.TextInput{HashBuckets: &buckets}}})
}

func textRecord(text string) *input.Record {
	r := new(input.Record)
	r.Reset(1)
	r.SetText(0, text)
	return r
}

// bucket is the bucket of a word, by the description of package input.
func bucket(word string, buckets int) int {
	h := uint64(14695981039346656037)
	for i := range len(word) {
		h = (h ^ uint64(word[i])) * 1099511628211
	}
	h = (h ^ h>>33) * 0xff51afd7ed558ccd
	h = (h ^ h>>33) * 0xc4ceb9fe1a85ec53
	h ^= h >> 33
	return int((h >> 1) % uint64(buckets))
}

func TestTextsCountWords(t *testing.T) {
	const buckets = 50
	s := textSchema(t, buckets)
	e := input.NewEncoder(s)
	for text, words := range map[string][]string{
		"":                             nil,
		" .,!  ":                       nil,
		"free":                         {"free"},
		"Win £100 NOW, now! Call 0800": {"win", "£100", "now", "now", "call", "0800"},
		"l'été à Oslo":                 {"l", "été", "à", "oslo"},
		strings.Repeat("a ", 8000):     strings.Fields(strings.Repeat("a ", 8000)),
	} {
		want := make([]float64, buckets+2)
		for _, w := range words {
			want[bucket(w, buckets)]++
		}
		want[buckets] = math.Log1p(float64(len(words)))
		r := textRecord(text)
		require.NoError(t, s.Settle(r), text)
		got := e.Encode(nil, r)
		require.Equal(t, len(want), len(got))
		for k, v := range got {
			if math.Abs(v-want[k]) > 1e-12 || v > s.Bounds()[k] {
				t.Errorf("%.20q: feature %d is %g, want %g of at most %g", text, k, v, want[k], s.Bounds()[k])
			}
		}
		e.Learn(r)
	}
	names := e.Names()
	assert.True(t, names[0] == "note#0" && names[buckets] == "note.words" && names[buckets+1] == "note.missing", "names %q", names)
}

func TestTextsThatAreMissingHaveNoWords(t *testing.T) {
	s := textSchema(t, 3)
	e := input.NewEncoder(s)
	r := new(input.Record)
	r.Reset(1)
	for range 2 {
		require.NoError(t, s.Settle(r))
		got := e.Encode(nil, r)
		assert.True(t, len(got) == 5 && got[4] == 1 && got[0]+got[1]+got[2]+got[3] == 0, "features %g, want none but the last", got)
		e.Learn(r)
		e.Learn(textRecord("a b"))
	}
	got := e.Statistics(0)
	assert.True(t, got.Missing == 2 && got.Seen == 2 && !got.ShiftKnown && !got.NumbersKnown, "%+v", got)
}

func TestTextsHaveBounds(t *testing.T) {
	s := textSchema(t, 3)
	assert.NoError(t, s.Settle(textRecord(strings.Repeat("x", 1<<14))))
	for text, want := range map[string]error{strings.Repeat("x", 1<<14+1): input.ErrInputTooLarge, "\xff": input.ErrInputType} {
		assert.ErrorIs(t, s.Settle(textRecord(text)), want, text)
	}
	r := new(input.Record)
	r.Reset(1)
	r.SetNumber(0, 7)
	assert.NoError(t, s.Settle(r))
	seven := input.NewEncoder(s).Encode(nil, r)
	got := input.NewEncoder(s).Encode(nil, textRecord("7"))
	assert.True(t, got[bucket("7", 3)] == 1 && seven[bucket("7", 3)] == 1, "7 is %g, and the text %g", seven, got)
}

func TestStatesOfTextsContinue(t *testing.T) {
	s := textSchema(t, 8)
	e := input.NewEncoder(s)
	for _, text := range []string{"a b", "c", "a"} {
		e.Learn(textRecord(text))
	}
	state, err := e.AppendBinary(nil)
	require.NoError(t, err)
	read := input.NewEncoder(s)
	require.NoError(t, read.Restore(state))
	again, err := read.AppendBinary(nil)
	assert.True(t, err == nil && bytes.Equal(state, again), "another state, %v", err)
	if most := s.MaxBytes(); e.Size() > most || read.Size() != e.Size() {
		t.Errorf("%d and %d bytes, of at most %d", e.Size(), read.Size(), most)
	}
}

func TestTextsHaveTokens(t *testing.T) {
	completed, err := input.Complete([]*model.Input{{Name: "a", Text: &model.TextInput{}}, {Name: "b", Text: &model.TextInput{}}}, true)
	require.NoError(t, err)
	s := input.NewSchema(completed, 10, true)
	tokens := func(a, b string) (words, pairs, others []float64) {
		r := new(input.Record)
		r.Reset(2)
		r.SetText(0, a)
		r.SetText(1, b)
		x := input.NewEncoder(s).Encode(nil, r)[s.Dimension():]
		require.True(t, len(x) == 2048 && s.Tokens() == 2048, "%d tokens", len(x))
		return x[:512], x[512:1024], x[1024:]
	}
	token := func(text string) float64 { return float64(max(1, input.Hash(text)>>12)) }
	for _, c := range []struct {
		text         string
		words, pairs []string
	}{
		{"", nil, nil},
		{"Not GOOD; not bad", []string{"not", "good", "not", "bad"}, []string{"not good", "good not", "not bad"}},
		{strings.Repeat("a b ", 300), strings.Fields(strings.Repeat("a b ", 256)), strings.Split(strings.Repeat("a b,b a,", 255)+"a b", ",")},
	} {
		words, pairs, others := tokens(c.text, "")
		for i := range words {
			want, wantPair := 0.0, 0.0
			if i < len(c.words) {
				want = token(c.words[i])
			}
			if i < len(c.pairs) {
				wantPair = token(c.pairs[i])
			}
			require.True(t, words[i] == want && pairs[i] == wantPair && others[i] == 0, "%.20q: tokens %d are %g, %g, %g, want %g, %g, 0", c.text, i, words[i], pairs[i], others[i], want, wantPair)
		}
	}
	words, _, others := tokens("a", "a")
	assert.True(t, words[0] != others[0] && others[0] != 0, "in two texts a word is %g and %g", words[0], others[0])
}
