package input_test

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/structpb"

	"hindsight/internal/model"
	"hindsight/internal/model/codec"
	"hindsight/internal/model/input"
	"hindsight/internal/model/modeltest"
)

// keyOf is the key of a text, after the package comment.
func keyOf(text string) float64 {
	if key := input.Hash(text) >> 12; key > 0 {
		return float64(key)
	}
	return 1
}

func TestCompleteWithKeys(t *testing.T) {
	inputs := []*model.Input{
		{Name: "city", Categorical: &model.CategoricalInput{}},
		{Name: "shop", Categorical: &model.CategoricalInput{HashBuckets: ptr(7), Key: true}},
		{Name: "user", Categorical: &model.CategoricalInput{Key: true}},
		{Name: "x", Numeric: &model.NumericInput{}},
	}
	got, err := input.Complete(inputs, input.Options{Keys: true})
	require.NoError(t, err)
	want := []*model.CategoricalInput{
		{MaxCategories: ptr(64), Key: true, JointScale: ptr(true)}, {HashBuckets: ptr(7), Key: true, JointScale: ptr(true)}, {Key: true}, nil,
	}
	for i, in := range got {
		assert.Equal(t, want[i], in.Categorical, in.Name)
	}
	again, err := input.Complete(got, input.Options{Keys: true})
	assert.True(t, err == nil && reflect.DeepEqual(again, got), "completed again: %+v, %v", again, err)
	// A learner without keys has the same inputs by their encodings.
	without, err := input.Complete(got[:2], input.Options{})
	assert.True(t, err == nil && !without[0].Categorical.Key && !without[1].Categorical.Key && *without[0].Categorical.MaxCategories == 64, "%+v, %v", without, err)
	_, err = input.Complete(got, input.Options{})
	assert.True(t, err != nil && strings.Contains(err.Error(), "hash_buckets"), "a key alone without keys: %v", err)
	scaled := &model.Input{Name: "user", Categorical: &model.CategoricalInput{Key: true, JointScale: ptr(true)}}
	_, err = input.Complete([]*model.Input{scaled}, input.Options{Keys: true})
	assert.Error(t, err, "a key alone has a scale")
}

// The key of an input follows its other features, and depends on the text of the category
// alone, whatever was learned.
func TestKeys(t *testing.T) {
	s := keysOf(t, []*model.Input{
		{Name: "city", Categorical: &model.CategoricalInput{MaxCategories: ptr(2)}},
		{Name: "shop", Categorical: &model.CategoricalInput{HashBuckets: ptr(3)}, Missing: model.MissingReject},
		{Name: "user", Categorical: &model.CategoricalInput{Key: true}},
		{Name: "x", Numeric: &model.NumericInput{}},
	}, 100)
	e := input.NewEncoder(s)
	for range 2 {
		for _, c := range []struct {
			value any
			text  string
		}{
			{"Oslo", "Oslo"},
			{1000185.0, "1000185"},
			{"1000185", "1000185"},
			{true, "true"},
			{"true", "true"},
			{0.5, "0.5"},
			{math.Copysign(0, -1), "0"},
			{"", ""},
			{nil, "\xff"},
			{"Rome", "Rome"},
			{1e21 / 1e6, "1000000000000000"},
		} {
			shop := c.value
			if shop == nil {
				shop = "\u00ff"
			}
			r := record(t, s, row{"city": c.value, "shop": shop, "user": c.value, "x": 1.0})
			x, want := e.Encode(nil, r), keyOf(c.text)
			assert.True(t, x[4] == want && x[9] == want && (c.value == nil || x[8] == want), "%v has the features %v, want the key %g", c.value, x, want)
			assert.True(t, x[4] >= 1 && x[4] < 1<<52, "the key of %v is %g", c.value, x[4])
			e.Learn(r)
		}
	}
	names := strings.Join(e.Names(), " ")
	assert.Equal(t, "city=Oslo city=1000185 city.other city.missing city.key shop#0 shop#1 shop#2 shop.key user.key x x.missing", names)
	for i, want := range map[int]int{0: 4, 1: 8, 2: 9} {
		got, ok := s.Key(i)
		assert.True(t, ok && got == want, "the key of input %d is feature %d, %t", i, got, ok)
		from, to := s.Span(i)
		assert.True(t, want == to-1 && want >= from, "input %d has the features %d to %d", i, from, to)
		b := s.Bounds()[want]
		assert.True(t, b == 1<<52, "the bound of a key is %g", b)
	}
	_, ok := s.Key(3)
	assert.False(t, ok, "a number has a key")
	got := e.Statistics(2)
	assert.True(t, got.Outside == 8 && got.Keys == 8 && got.Categories == 0 && got.Seen == 20 && got.Missing == 2 && !got.NumbersKnown, "%+v", got)
}

// The texts are those of the keys that were observed last: a naive list of them says so.
func TestTextsOfKeys(t *testing.T) {
	for _, most := range []int{1, 2, 7, 60} {
		s := keysOf(t, []*model.Input{
			{Name: "a", Categorical: &model.CategoricalInput{Key: true}}, {Name: "b", Categorical: &model.CategoricalInput{MaxCategories: ptr(1)}},
		}, most)
		e := input.NewEncoder(s)
		rng := rand.New(rand.NewPCG(uint64(most), 7))
		type seen struct {
			input int
			text  string
		}
		var newest []seen // The last is the newest.
		bytes := func() (n int) {
			for _, k := range newest {
				n += len(k.text)
			}
			return n
		}
		outside := uint64(0)
		for n := range 3000 {
			values := row{}
			var came []seen
			for i := range 2 {
				text := strconv.Itoa(int(8*rng.ExpFloat64()) * 1_000_003)
				if rng.IntN(20) == 0 {
					text = strings.Repeat(text, 20)[:min(20*len(text), 200)]
				}
				values[s.Name(i)] = text
				came = append(came, seen{i, text})
			}
			if rng.IntN(10) == 0 {
				values["b"], came = nil, came[:1]
			}
			e.Learn(record(t, s, values))
			for _, k := range came {
				at := slices.Index(newest, k)
				if at >= 0 {
					newest = slices.Delete(newest, at, at+1)
				} else if k.input == 0 {
					outside++
				}
				newest = append(newest, k)
				for len(newest) > most || bytes() > max(32*most, 256) {
					newest = newest[1:]
				}
			}
			if n%17 == 0 {
				if e2 := input.NewEncoder(s); codec.Read(modeltest.State(t, e.Visit), e2.Visit) != nil {
					t.Fatal("rejected")
				} else {
					e = e2
				}
			}
			counts := [2]int{}
			for _, k := range newest {
				counts[k.input]++
				feature, _ := s.Key(k.input)
				got, ok := e.KeyOf(feature, uint64(keyOf(k.text)))
				want := (input.Key{Input: k.input, Text: k.text, Known: true})
				require.True(t, ok && got == want, "record %d of %d texts: %+v, want %+v", n, most, got, want)
			}
			if e.Statistics(0).Keys != counts[0] || e.Statistics(1).Keys != counts[1] || e.Statistics(0).Outside != outside {
				t.Fatalf("record %d of %d texts: %+v and %+v, want %v texts, %d outside", n, most, e.Statistics(0), e.Statistics(1), counts, outside)
			}
			require.LessOrEqual(t, e.Size(), s.MaxBytes())
		}
		got, ok := e.KeyOf(0, uint64(keyOf("never")))
		assert.True(t, ok && !got.Known && got.Text == "", "a key that never came: %+v", got)
		got, ok = e.KeyOf(0, uint64(keyOf("\xff")))
		assert.True(t, ok && got.Missing && got.Known, "the key of missing values: %+v", got)
		_, ok = e.KeyOf(1, 1)
		assert.False(t, ok, "a column of a category is a key")
	}
}

// A state of keys that cannot be is rejected: each number of it is changed in turn.
func TestRestoreOfOneWrongByte(t *testing.T) {
	s := keysOf(t, []*model.Input{{Name: "a", Categorical: &model.CategoricalInput{Key: true}}}, 4)
	e := input.NewEncoder(s)
	for n := range 20 {
		e.Learn(record(t, s, row{"a": fmt.Sprint("user ", n%6)}))
	}
	good := modeltest.State(t, e.Visit)
	restored := 0
	for at := range good {
		for _, by := range []byte{1, 2, 0x80, 0xff} {
			bad := slices.Clone(good)
			bad[at] ^= by
			other := input.NewEncoder(s)
			if codec.Read(bad, other.Visit) != nil {
				continue
			}
			restored++
			same(t, "restored", modeltest.State(t, other.Visit), bad)
			for n := range 20 {
				other.Learn(record(t, s, row{"a": fmt.Sprint("user ", n)}))
			}
			require.NoError(t, codec.Read(modeltest.State(t, other.Visit), input.NewEncoder(s).Visit), at)
		}
	}
	assert.True(t, restored != 0 && restored <= 2*len(good), "%d changed states are taken, of %d", restored, 4*len(good))
}

// The index of an input that has its key alone tells a change of the categories.
func TestShiftOfKeys(t *testing.T) {
	s := keysOf(t, []*model.Input{{Name: "a", Categorical: &model.CategoricalInput{Key: true}}}, 1000)
	e := input.NewEncoder(s)
	rng := rand.New(rand.NewPCG(8, 9))
	take := func(n, from int) {
		for range n {
			e.Learn(record(t, s, row{"a": float64(from + int(3*rng.ExpFloat64()))}))
		}
	}
	take(5000, 0)
	got := e.Statistics(0)
	assert.True(t, got.ShiftKnown && got.Shift <= 0.1, "%+v without a change", got)
	take(600, 1000)
	got = e.Statistics(0)
	assert.GreaterOrEqual(t, got.Shift, 0.25, "%+v after a change", got)
}

const (
	documentedHash = 0xdc68eec548e3bfdd
	documentedBits = 0x37730e8bf438e781
)

// twenty is a record of 20 inputs: twelve numbers, four categories, a hash, two
// booleans and a time.
func twenty(tb testing.TB) (*input.Schema, *structpb.Struct) {
	tb.Helper()
	var inputs []*model.Input
	m := row{}
	add := func(in *model.Input, v any) {
		inputs = append(inputs, in)
		m[in.Name] = v
	}
	for k := range 12 {
		add(&model.Input{Name: fmt.Sprint("temperature ", k), Numeric: &model.NumericInput{Log1p: ptr(k%4 == 0)}}, 21.5+float64(k))
	}
	for k := range 4 {
		add(&model.Input{Name: fmt.Sprint("city ", k), Categorical: &model.CategoricalInput{MaxCategories: ptr(16)}}, fmt.Sprint("Oslo ", k))
	}
	add(&model.Input{Name: "shop", Categorical: &model.CategoricalInput{HashBuckets: ptr(32)}}, "shop 1234")
	add(&model.Input{Name: "open", Boolean: &model.BooleanInput{}}, true)
	add(&model.Input{Name: "holiday", Boolean: &model.BooleanInput{}}, nil)
	add(&model.Input{Name: "at", Time: &model.TimeInput{}}, "2026-11-21T18:00:00Z")
	from, err := structpb.NewStruct(m)
	require.NoError(tb, err)
	return schemaOf(tb, inputs), from
}

// Beyond the decoding of the Struct, a request allocates its record and its features.
func TestARequestAllocatesTwice(t *testing.T) {
	if modeltest.RaceDetector {
		t.Skip("the race detector allocates")
	}
	s, from := twenty(t)
	e := input.NewEncoder(s)
	e.Learn(record(t, s, from.AsMap()))
	n := testing.AllocsPerRun(100, func() {
		var r input.Record
		err := fromStruct(s, &r, from)
		assert.True(t, err == nil && len(e.Encode(nil, &r)) == s.Dimension(), "features are missing: %v", err)
	})
	assert.LessOrEqual(t, n, 2.0, "%g allocations, want 2", n)
}

// An integer and its text are one category.
func TestNumberAsCategory(t *testing.T) {
	s := schemaOf(t, []*model.Input{{Name: "c", Categorical: &model.CategoricalInput{MaxCategories: ptr(2)}}})
	for text, number := range map[string]float64{"7": 7, "1000185": 1000185, "-20000000": -2e7, "9007199254740991": 1<<53 - 1, "0.5": 0.5} {
		e := input.NewEncoder(s)
		e.Learn(record(t, s, row{"c": text}))
		got := e.Encode(nil, record(t, s, row{"c": number}))
		assert.EqualValues(t, 1, got[0], "%s: the number has the features %v, want the category of the text", text, got)
	}
}

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
		require.NoError(t, s.Accept(r), text)
		got := e.Encode(nil, r)
		require.Equal(t, len(want), len(got))
		for k, v := range got {
			assert.True(t, math.Abs(v-want[k]) <= 1e-12 && v <= s.Bounds()[k], "%.20q: feature %d is %g, want %g of at most %g", text, k, v, want[k], s.Bounds()[k])
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
		require.NoError(t, s.Accept(r))
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
	assert.NoError(t, s.Accept(textRecord(strings.Repeat("x", 1<<14))))
	for text, want := range map[string]error{strings.Repeat("x", 1<<14+1): input.ErrInputTooLarge, "\xff": input.ErrInputType} {
		assert.ErrorIs(t, s.Accept(textRecord(text)), want, text)
	}
	r := new(input.Record)
	r.Reset(1)
	r.SetNumber(0, 7)
	assert.NoError(t, s.Accept(r))
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
	state := modeltest.State(t, e.Visit)
	read := input.NewEncoder(s)
	require.NoError(t, codec.Read(state, read.Visit))
	again, err := codec.Append(nil, read.Visit)
	assert.True(t, err == nil && bytes.Equal(state, again), "another state, %v", err)
	if most := s.MaxBytes(); e.Size() > most || read.Size() != e.Size() {
		t.Errorf("%d and %d bytes, of at most %d", e.Size(), read.Size(), most)
	}
}

func TestTextsHaveTokens(t *testing.T) {
	completed, err := input.Complete([]*model.Input{{Name: "a", Text: &model.TextInput{}}, {Name: "b", Text: &model.TextInput{}}}, input.Options{Keys: true})
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
