package logloss

import (
	"math"
	"slices"

	"hindsight/internal/model/codec"
	"hindsight/internal/model/exponential"
	"hindsight/internal/model/mix"
)

// texts are the experts of the words of texts and of the pairs of neighboring words. A token stands for a
// word or a pair: the token of a word is its hash modulo B, the token of a pair is B plus its hash modulo B.
// Token i occurs n_i times in a row of weight ω. N_ki = Σω n_i over the rows of class k, and V is the number
// of tokens that have occurred,
//
//	naive Bayes  log p(k) = log π_k + Σ_i n_i log (N_ki + 1)/(Σ_i N_ki + V)
//
// One expert sums over the words, another over the words and the pairs. Both ignore new tokens. Two logistic
// regressions take the steps of sparse. Their features are v_i = √(n_i/Σn), with Σv² = 1 over the words and
// over the pairs, the standardized numbers divided by the root of their count, and 1. The second regression
// adds weights of the pairs to the first. Learning a row costs O(K) for each token.
//
// Sources: Weinberger, Dasgupta, Langford, Smola and Attenberg, Feature Hashing for Large Scale
// Multitask Learning (ICML 2009); Wang and Manning, Baselines and Bigrams: Simple, Good Sentiment and
// Topic Classification (ACL 2012), for pairs.
type texts struct {
	buckets uint32
	numbers int
	// tokens have occurred, in the order of their first rows. at has their places.
	tokens  []uint32
	at      map[uint32]int32
	words   int // Of the tokens.
	classes []textClass
}

// textClass holds the sums and weights of one class, by the places of the tokens.
type textClass struct {
	// sums are N_k. squares are the sums of the squared gradients of weights.
	sums, weights, squares []float64
	// ofWords is ΣN_k over the words, ofAll over all tokens.
	ofWords, ofAll float64
	// The weights and squares of the numbers, and of 1.
	numbers, numberSquares []float64
}

const (
	// B ≤ mostBuckets, and 2B · MaxClasses ≤ mostCells.
	mostBuckets = 1 << 17
	mostCells   = 1 << 20
)

// textBuckets is B.
func (o Options) textBuckets() uint32 {
	b := uint32(mostBuckets)
	for uint64(b)*uint64(2*o.MaxClasses) > mostCells {
		b /= 2
	}
	return max(1, b)
}

func newTexts(o Options) *texts {
	return &texts{buckets: o.textBuckets(), numbers: o.countNumbers(), at: map[uint32]int32{}}
}

// textScratch has the tokens of a row in order, how often each occurs, and their places, or −1.
type textScratch struct {
	all, tokens []uint32
	counts      []float64
	places      []int32
	// features are v of the tokens; numbers are the features of the numbers, and 1.
	features, numbers []float64
	// misses are p − y of the regressions.
	misses, pairMisses []float64
}

// find fills s with the tokens and features of a row, given the standardized numbers and 1 in z. The slots have the words of each
// text and behind them as many pairs, 0 for none.
func (t *texts) find(s *textScratch, z, slots []float64) {
	s.all, s.tokens, s.counts, s.places = s.all[:0], s.tokens[:0], s.counts[:0], s.places[:0]
	words, pairs := 0.0, 0.0
	for i, v := range slots {
		if v == 0 {
			continue
		}
		token := uint32(uint64(v) % uint64(t.buckets))
		if i%slotsOfText >= slotsOfText/2 {
			token += t.buckets
			pairs++
		} else {
			words++
		}
		s.all = append(s.all, token)
	}
	slices.Sort(s.all)
	for _, token := range s.all {
		if n := len(s.tokens); n > 0 && s.tokens[n-1] == token {
			s.counts[n-1]++
			continue
		}
		place, known := t.at[token]
		if !known {
			place = -1
		}
		s.tokens, s.counts, s.places = append(s.tokens, token), append(s.counts, 1), append(s.places, place)
	}
	s.features = s.features[:0]
	for i, token := range s.tokens {
		all := words
		if token >= t.buckets {
			all = pairs
		}
		s.features = append(s.features, math.Sqrt(s.counts[i]/all))
	}
	s.numbers = append(s.numbers[:0], z...)
	for j := range z[:t.numbers] {
		s.numbers[j] /= math.Sqrt(float64(t.numbers))
	}
}

// slotsOfText is the number of slots of a text.
const slotsOfText = 1024

// bayes writes log p of naive Bayes, normalized.
func (t *texts) bayes(dst, each []float64, s *textScratch, pairs bool, shares []float64, total float64) {
	kinds := t.words
	if pairs {
		kinds = len(t.tokens)
	}
	for k := range dst {
		c, sum := &t.classes[k], 0.0
		all := c.ofWords
		if pairs {
			all = c.ofAll
		}
		logAll := exponential.Log(all + float64(kinds))
		for i, place := range s.places {
			if place < 0 {
				continue
			}
			if !pairs && s.tokens[i] >= t.buckets {
				break
			}
			sum += float64(s.counts[i] * (exponential.Log(c.sums[place]+1) - logAll))
		}
		dst[k] = exponential.Log(math.Max(leastShare, shares[k]/total)) + sum
	}
	normalize(dst, each)
}

// odds writes w_k·v of the words, with pairs or without.
func (t *texts) odds(dst []float64, s *textScratch, pairs bool) {
	for k := range dst {
		dst[k] = 0
		if k >= len(t.classes) {
			continue
		}
		c := &t.classes[k]
		for i, place := range s.places {
			if !pairs && s.tokens[i] >= t.buckets {
				break
			}
			if place >= 0 {
				dst[k] += float64(c.weights[place] * s.features[i])
			}
		}
		for j, v := range s.numbers {
			dst[k] += float64(c.numbers[j] * v)
		}
	}
}

// learn learns a row of a class, given the number of known classes with this one.
func (t *texts) learn(s *textScratch, class, classes int, weight float64) {
	for len(t.classes) < classes {
		t.classes = append(t.classes, t.newClass())
	}
	for i, place := range s.places {
		if place < 0 {
			s.places[i] = t.add(s.tokens[i])
		}
	}
	t.miss(&s.misses, s, class, classes, false)
	t.miss(&s.pairMisses, s, class, classes, true)
	for k := range t.classes {
		c, miss := &t.classes[k], float64(weight*s.misses[k])
		for i, place := range s.places {
			if s.tokens[i] >= t.buckets {
				miss = float64(weight * s.pairMisses[k])
			}
			step(&c.weights[place], &c.squares[place], float64(miss*s.features[i]))
		}
		miss = float64(weight * s.misses[k])
		for j, v := range s.numbers {
			step(&c.numbers[j], &c.numberSquares[j], float64(miss*v))
		}
	}
	seen := &t.classes[class]
	for i, place := range s.places {
		part := float64(weight * s.counts[i])
		seen.sums[place] = math.Min(maxCount, seen.sums[place]+part)
		if seen.ofAll = math.Min(maxCount, seen.ofAll+part); s.tokens[i] < t.buckets {
			seen.ofWords = math.Min(maxCount, seen.ofWords+part)
		}
	}
}

func (t *texts) newClass() textClass {
	floats := func(n int) []float64 { return make([]float64, n) }
	n, d := len(t.tokens), t.numbers+1
	return textClass{sums: floats(n), weights: floats(n), squares: floats(n), numbers: floats(d), numberSquares: floats(d)}
}

// miss writes p − y of the classes.
func (t *texts) miss(dst *[]float64, s *textScratch, class, classes int, pairs bool) {
	*dst = slices.Grow((*dst)[:0], classes)[:classes]
	t.odds(*dst, s, pairs)
	mix.Exponential(*dst)
	mix.Normalize(*dst)
	(*dst)[class]--
}

// add adds a token and returns its place.
func (t *texts) add(token uint32) int32 {
	place := int32(len(t.tokens))
	t.tokens, t.at[token] = append(t.tokens, token), place
	if token < t.buckets {
		t.words++
	}
	for k := range t.classes {
		c := &t.classes[k]
		c.sums, c.weights, c.squares = append(c.sums, 0), append(c.weights, 0), append(c.squares, 0)
	}
	return place
}

// A token takes tokenBytes with its place in the map, and cellBytes in each class. Slices grow by more than they need.
const tokenBytes, cellBytes = 48, 32

func (t *texts) bytes(classes int) uint64 {
	return uint64(len(t.tokens)) * (tokenBytes + cellBytes*uint64(max(2, classes)))
}

// textBytes is the memory with all tokens and classes.
func (o Options) textBytes() uint64 {
	return 2*uint64(o.textBuckets())*(tokenBytes+cellBytes*uint64(o.MaxClasses)) + scratches*32*uint64(o.Tokens)
}

func (t *texts) visit(v *codec.Visitor, classes int) {
	n := len(t.tokens)
	if v.Count(&n, 4); v.Reading() && n > 2*int(t.buckets) {
		v.Corrupt("%d tokens of %d", n, 2*t.buckets)
	}
	if v.Reading() {
		t.tokens, t.at, t.words, t.classes = nil, make(map[uint32]int32, n), 0, nil
	}
	for i := range n {
		var token uint32
		if !v.Reading() {
			token = t.tokens[i]
		}
		if v.Uint32(&token); !v.Reading() {
			continue
		}
		if _, twice := t.at[token]; twice || token >= 2*t.buckets {
			v.Corrupt("token %d among %d", token, 2*t.buckets)
			return
		}
		t.add(token)
	}
	if v.Reading() && v.Left()/24 < classes*n {
		v.Corrupt("%d classes of %d tokens", classes, n)
	}
	if v.Err() != nil {
		return
	}
	if v.Reading() {
		t.classes = make([]textClass, classes)
	}
	for k := range t.classes {
		t.visitClass(v, &t.classes[k])
	}
}

func (t *texts) visitClass(v *codec.Visitor, c *textClass) {
	if v.Reading() {
		*c = t.newClass()
	}
	v.FloatsWithin(maxCount, c.sums)
	v.FloatsWithin(maxSparseWeight, c.weights)
	v.FloatsWithin(maxCount, c.squares)
	v.FloatsWithin(maxSparseWeight, c.numbers)
	v.FloatsWithin(maxCount, c.numberSquares)
	v.Within(maxCount, &c.ofWords, &c.ofAll)
	if !v.Reading() {
		return
	}
	all, words := 0.0, 0.0
	for i, n := range c.sums {
		if !(n >= 0) || !(c.squares[i] >= 0) {
			v.Corrupt("token %d counts %g, squared gradients %g", t.tokens[i], n, c.squares[i])
			return
		}
		if all += n; t.tokens[i] < t.buckets {
			words += n
		}
	}
	if !(math.Abs(all-c.ofAll) <= 1e-6*(1+all) && math.Abs(words-c.ofWords) <= 1e-6*(1+words) && slices.Min(c.numberSquares) >= 0) {
		v.Corrupt("tokens of sum %g, not %g", all, c.ofAll)
	}
}
