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
// Word i occurs n_i times in a row of weight ω. N_ki = Σω n_i over the rows of class k, V is the number of words
// that have occurred, and q_i = (1 + Σ_k N_ki)/(V + Σ_ki N_ki) is the share of a word in all classes. Two experts
// are naive Bayes
//
//	log p(k) = log π_k + Σ_i n_i log (N_ki + μ_i)/(Σ_i N_ki + Σ_i μ_i),  μ_i = 1 or 3V q_i
//
// With μ_i = 1 a rare word is evidence for the classes of few words. Both experts
// ignore new words. Two logistic regressions are regressions of each class. Their features are v_i = √(n_i/Σn), with Σv² = 1
// over the words and over the pairs, the standardized numbers divided by the root of their count, and 1. The
// second regression adds weights of the pairs to the first. Learning a row costs O(K) for each token.
//
// Sources: Weinberger, Dasgupta, Langford, Smola and Attenberg, Feature Hashing for Large Scale
// Multitask Learning (ICML 2009); Zhai and Lafferty, A Study of Smoothing Methods for Language Models
// Applied to Information Retrieval (TOIS 22, 2004), §3, for q; Wang and Manning, Baselines and Bigrams: Simple,
// Good Sentiment and Topic Classification (ACL 2012), for pairs.
type texts struct {
	buckets uint32
	numbers int
	// tokens have occurred, in the order of their first rows. at has their places.
	tokens []uint32
	at     map[uint32]int32
	words  int // Of the tokens.
	// last are the last classes of the words of keys, plus 1, by their places.
	last    []uint32
	classes []textClass
}

// textClass holds the sums and weights of one class, by the places of the tokens.
type textClass struct {
	// sums are N_k, 0 of pairs, and total is their sum.
	sums  []float64
	total float64
	// tokens and numbers are the weights of the regressions, of the tokens and of the numbers and 1.
	tokens, numbers regression
}

const (
	// B ≤ mostBuckets, and 2B · MaxClasses ≤ mostCells.
	mostBuckets = 1 << 17
	mostCells   = 1 << 20
	// B of traits alone is at least leastBuckets, if MaxClasses allows.
	leastBuckets = 1 << 12
)

// textBuckets is B. Traits alone have no more tokens than keys are allowed.
func (o Options) textBuckets() uint32 {
	b := uint32(mostBuckets)
	for o.Tokens == 0 && b > leastBuckets && uint64(2*b) > uint64(o.MaxKeys) {
		b /= 2
	}
	for uint64(b)*uint64(2*o.MaxClasses) > mostCells {
		b /= 2
	}
	return max(1, b)
}

func newTexts(o Options) *texts {
	return &texts{buckets: o.textBuckets(), numbers: o.countNumbers(), at: map[uint32]int32{}}
}

// textScratch has the tokens of a row in order, words before pairs, and how often each occurs.
type textScratch struct {
	all, tokens []uint32
	counts      []float64
	// features are v of the tokens, by their places; numbers are the features of the numbers, and 1.
	features, numbers []entry
	words             int // Of the tokens.
	// words and all words and pairs say these probabilities of the classes.
	ofWords, ofAll []float64
}

// find fills s with the tokens and features of a row, given its traits and the standardized numbers and 1 in z. The slots have the words of each
// text and behind them as many pairs, 0 for none.
func (t *texts) find(s *textScratch, row *traits, z, slots []float64) {
	s.all, s.tokens, s.counts, s.words = s.all[:0], s.tokens[:0], s.counts[:0], 0
	words, pairs := 0.0, 0.0
	for i, v := range slots {
		if v == 0 {
			continue
		}
		if i%slotsOfText >= slotsOfText/2 {
			s.all = append(s.all, t.pair(uint64(v)))
			pairs++
		} else {
			s.all = append(s.all, t.word(uint64(v)))
			words++
		}
	}
	for _, hash := range row.words {
		s.all = append(s.all, t.word(hash))
	}
	for _, hash := range row.pairs {
		s.all = append(s.all, t.pair(hash))
	}
	words, pairs = words+float64(len(row.words)), pairs+float64(len(row.pairs))
	slices.Sort(s.all)
	for _, token := range s.all {
		if n := len(s.tokens); n > 0 && s.tokens[n-1] == token {
			s.counts[n-1]++
			continue
		}
		if s.tokens, s.counts = append(s.tokens, token), append(s.counts, 1); token < t.buckets {
			s.words++
		}
	}
	s.features = s.features[:0]
	for i, token := range s.tokens {
		place, known := t.at[token]
		if !known {
			place = -1
		}
		all := words
		if i >= s.words {
			all = pairs
		}
		s.features = append(s.features, entry{int(place), math.Sqrt(s.counts[i] / all)})
	}
	s.numbers = s.numbers[:0]
	for j, v := range z[:t.numbers] {
		s.numbers = append(s.numbers, entry{j, v / math.Sqrt(float64(t.numbers))})
	}
	s.numbers = append(s.numbers, entry{t.numbers, 1})
}

const slotsOfText = 1024

// bayes writes log p of naive Bayes, normalized, given the logarithms of the shares: of plain with μ_i = 1, of
// shared with μ_i = 3V q_i.
func (t *texts) bayes(plain, shared, each []float64, s *textScratch, shares []float64) {
	const strength = 3
	words, all := float64(t.words), 0.0
	for k := range plain {
		plain[k], shared[k] = shares[k], shares[k]
		all += t.classes[k].total
	}
	for i, e := range s.features[:s.words] {
		if e.number < 0 {
			continue
		}
		sum := 1.0
		for k := range t.classes {
			sum += t.classes[k].sums[e.number]
		}
		mu := float64(float64(strength*words)*sum) / (words + all)
		for k := range plain {
			n, of := t.classes[k].sums[e.number], t.classes[k].total
			plain[k] += float64(s.counts[i] * exponential.Log((n+1)/(of+words)))
			shared[k] += float64(s.counts[i] * exponential.Log((n+mu)/(of+float64(strength*words))))
		}
	}
	normalize(plain, each)
	normalize(shared, each)
}

func (t *texts) odds(dst []float64, s *textScratch, pairs bool) {
	row := s.features[:s.words]
	if pairs {
		row = s.features
	}
	clear(dst)
	for k := range t.classes[:min(len(dst), len(t.classes))] {
		c := &t.classes[k]
		dst[k] = c.tokens.odds(row) + c.numbers.odds(s.numbers)
	}
}

// learn learns a row of a class, given the number of known classes with this one.
func (t *texts) learn(s *textScratch, class, classes int, weight float64) {
	for len(t.classes) < classes {
		t.classes = append(t.classes, t.newClass())
	}
	for i := range s.features {
		if e := &s.features[i]; e.number < 0 {
			e.number = t.add(s.tokens[i])
		}
	}
	t.probabilities(&s.ofWords, s, classes, false)
	t.probabilities(&s.ofAll, s, classes, true)
	words, pairs := s.features[:s.words], s.features[s.words:]
	for k := range t.classes {
		c, y := &t.classes[k], indicator(class, k)
		spread := c.tokens.spread(words) + c.numbers.spread(s.numbers)
		c.tokens.learn(words, s.ofWords[k], y, spread, weight)
		c.numbers.learn(s.numbers, s.ofWords[k], y, spread, weight)
		c.tokens.learn(pairs, s.ofAll[k], y, c.tokens.spread(pairs), weight)
	}
	seen := &t.classes[class]
	for i, e := range words {
		part := float64(weight * s.counts[i])
		seen.sums[e.number] = math.Min(maxCount, seen.sums[e.number]+part)
		seen.total = math.Min(maxCount, seen.total+part)
	}
}

func (t *texts) newClass() textClass {
	n := len(t.tokens)
	return textClass{sums: make([]float64, n), tokens: newRegression(n), numbers: newRegression(t.numbers + 1)}
}

func (t *texts) probabilities(dst *[]float64, s *textScratch, classes int, pairs bool) {
	*dst = slices.Grow((*dst)[:0], classes)[:classes]
	t.odds(*dst, s, pairs)
	mix.Exponential(*dst)
	mix.Normalize(*dst)
}

func (t *texts) add(token uint32) int {
	place := len(t.tokens)
	t.tokens, t.last, t.at[token] = append(t.tokens, token), append(t.last, 0), int32(place)
	if token < t.buckets {
		t.words++
	}
	for k := range t.classes {
		c := &t.classes[k]
		c.sums = append(c.sums, 0)
		c.tokens.add()
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
	tokens := 2 * uint64(o.textBuckets())
	if o.Tokens+len(o.Keys) == 0 {
		tokens = uint64(o.MaxClasses) // The class before is the only word.
	}
	return tokens*(tokenBytes+cellBytes*uint64(o.MaxClasses)) + scratches*32*uint64(o.Tokens)
}

func (t *texts) visit(v *codec.Visitor, classes int) {
	n := len(t.tokens)
	if v.Count(&n, 4); v.Reading() && n > 2*int(t.buckets) {
		v.Corrupt("%d tokens of %d", n, 2*t.buckets)
	}
	if v.Reading() {
		t.tokens, t.last, t.at, t.words, t.classes = nil, nil, make(map[uint32]int32, n), 0, nil
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
	v.Within(maxCount, &c.total)
	c.tokens.visit(v)
	c.numbers.visit(v)
	if !v.Reading() {
		return
	}
	sum := 0.0
	for i, n := range c.sums {
		if sum += n; !(n >= 0) || n > 0 && t.tokens[i] >= t.buckets {
			v.Corrupt("token %d counts %g", t.tokens[i], n)
			return
		}
	}
	if !(math.Abs(sum-c.total) <= 1e-6*(1+sum)) {
		v.Corrupt("tokens of sum %g, not %g", sum, c.total)
	}
}
