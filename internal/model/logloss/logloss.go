// Package logloss mixes experts of the probabilities of classes by log loss. The learner below
// gives one expert, its calibrated probabilities; it minimises squared loss, which says little
// about a class of one row in a hundred. The experts are
//
//	calibrated   the probabilities of the learner below
//	logistic     online Newton logistic regression on the numbers of a row and their squares: see newton
//	effects      the logistic regression with effects of keys, for two classes
//	conditional  normal densities given the class: see conditional
//	multinomial  above 64 numbers, naive Bayes on those that count something: see multinomial
//	sparse       above 64 numbers, logistic regression on all of them: see sparse
//	words, word
//	shares       naive Bayes on the words of texts and on traits, with two priors: see texts, traits
//	word odds,
//	pair odds    logistic regression on the words, and on words and pairs
//	stacks       P_k ∝ exp(Σ_i θ_i log p_i(k) + θ_π log π_k) of the experts above and the shares
//	             π of the classes, by online Newton steps on log loss that forget at 1 − 10⁻³,
//	             1 − 10⁻⁴ and not at all
//	shares       (n_k + ½)/(n + K/2) of the sums n_k of the weights of K classes, whatever the row
//
// A row of weight w counts ω = min(1, w). With weights 1/E before, the answer and the weights after
// row t are
//
//	P_k = Σ_i w_i p_i(k),  w_i ← (1 − α) w_i p_i(c)^ω/Σ + α/E,  α = 1/(t + 1)
//
// Log loss is mixable: Σω log loss of P exceeds Σω log loss of every expert by at most ln E + ln T after T
// rows, and on every interval of rows by O(ln E + ln T).
//
// Sources: Vovk, A Game of Prediction with Expert Advice (1998), for mixing; Adamskiy, Koolen,
// Chernov and Vovk, A Closer Look at Adaptive Regret (JMLR 2016), for α; Hazan, Agarwal and Kale,
// Logarithmic Regret Algorithms for Online Convex Optimization (2007), for Newton steps.
package logloss

import (
	"slices"

	"hindsight/internal/model/calibration"
	"hindsight/internal/model/compensated"
	"hindsight/internal/model/effects"
	"hindsight/internal/model/moments"
)

// Options of a Level.
type Options struct {
	// Dimension is the number of inputs. Keys are those whose values are keys, in order.
	Dimension int
	Keys      []int
	// Squared are the numbers whose squares logistic regressions have as far as that is cheap, in order.
	Squared []int
	// Tokens is the number of tokens behind the inputs: see texts. Buckets are the inputs, ascending, that count
	// the words of a bucket: tokens replace these inputs.
	Tokens  int
	Buckets []int
	// Traits makes what a row is about and the classes before it words: see traits.
	Traits bool
	// MaxClasses is the largest number of classes, MaxKeys the largest number of keys.
	MaxClasses, MaxKeys int
}

const (
	// The least probability of an expert before the division by their sum, and a bound of its logarithm.
	leastProbability = 1e-7
	logLeast         = -16.11809565095832 // Of leastProbability.
	leastLog         = -17
	maxOdds          = 15
	maxLogit         = 1e6 // Of a logistic regression before it is cut.
	leastShare       = 1e-9
	maxCurvature     = 1 << 14 // Of classes × (numbers + 1)² with logistic regression.
	maxSquared       = 1 << 15 // Of the same with squares.
	maxWeight        = 1e3     // Larger weights make the same step.
)

// numbers are the inputs that are neither keys nor buckets.
func (o Options) numbers() []int {
	left := slices.Concat(o.Keys, o.Buckets)
	slices.Sort(left)
	var numbers []int
	for j := range o.Dimension {
		if _, leave := slices.BinarySearch(left, j); !leave {
			numbers = append(numbers, j)
		}
	}
	return numbers
}

func (o Options) countNumbers() int { return o.Dimension - len(o.Keys) - len(o.Buckets) }

// squares is the number of squares, 0 if they are expensive.
func (o Options) squares() int {
	if d := o.countNumbers() + 1 + len(o.Squared); o.logits()*d*d > maxSquared {
		return 0
	}
	return len(o.Squared)
}

// curves is the number of features of a logistic regression: the numbers, squares and 1.
func (o Options) curves() int { return o.countNumbers() + o.squares() + 1 }

// logits is the number of logistic regressions: one for two classes, one a class for more, or none.
func (o Options) logits() int {
	k, d := o.MaxClasses, o.countNumbers()+1
	if k == 2 {
		k = 1
	}
	if k*d*d > maxCurvature {
		return 0
	}
	return k
}

func (o Options) hasWords() bool { return o.Tokens > 0 || o.Traits }

func (o Options) many() bool {
	d := o.countNumbers()
	return d > fewNumbers && o.MaxClasses*d <= mostSums
}

func (o Options) keyed() int {
	if o.MaxClasses > 2 || o.logits() == 0 {
		return 0
	}
	return min(len(o.Keys), effects.MostInputs)
}

func (o Options) effects() effects.Options {
	return effects.Options{Inputs: o.keyed(), Outputs: 1, MaxKeys: o.MaxKeys, LogOdds: true}
}

// kind is an expert.
type kind int

const (
	calibrated kind = iota
	logistic
	ofKeys
	ofClasses
	ofCounts
	ofMany
	ofWords
	ofShares
	ofWordOdds
	ofPairOdds
)

func (o Options) kinds() []kind {
	kinds := []kind{calibrated, ofClasses}
	if o.many() {
		kinds = append(kinds, ofCounts, ofMany)
	}
	if o.logits() > 0 {
		kinds = append(kinds, logistic)
	}
	if o.keyed() > 0 {
		kinds = append(kinds, ofKeys)
	}
	if o.hasWords() {
		kinds = append(kinds, ofWords, ofShares, ofWordOdds, ofPairOdds)
	}
	return kinds
}

// experts is the number of experts: the kinds, the stacks and the shares.
func (o Options) experts() int { return len(o.kinds()) + stacks + 1 }

const stacks = 3

func decays() [stacks]float64 { return [...]float64{0.999, 0.9999, 1} }

// Level is the level of one classifier.
type Level struct {
	o       Options
	kinds   []kind
	numbers []int
	// squares are the places of the numbers with squares.
	squares []int
	scale   moments.Table
	logits  []newton
	centers *conditional
	// counts and many are nil without many numbers.
	counts *multinomial
	many   *sparse
	// texts is nil without words.
	texts *texts
	// before is the class of the row before, plus 1. It is 0 before the first row.
	before float64
	keys   *keyed
	stacks []calibration.Softmax
	// weights are w of the kinds, of the stacks and of the shares.
	weights []float64
	// rows is the number of rows, rounds the number of mixed rows, T. Losses are Σω log loss of
	// the weighted experts and of the answer.
	rows, rounds uint64
	losses       []compensated.Sum
}

// New has seen no rows.
func New(o Options) *Level {
	l := &Level{o: o, kinds: o.kinds(), numbers: o.numbers()}
	for _, j := range o.Squared[:o.squares()] {
		l.squares = append(l.squares, slices.Index(l.numbers, j))
	}
	d := len(l.numbers)
	l.scale = moments.NewTable(d)
	l.centers = &conditional{all: make([]float64, d), within: make([]float64, d)}
	if o.many() {
		l.counts, l.many = &multinomial{measured: make([]bool, d)}, &sparse{features: d + 1}
	}
	if o.hasWords() {
		l.texts = newTexts(o)
	}
	if o.keyed() > 0 {
		l.keys = newKeyed(o.effects())
	}
	start := make([]float64, len(l.kinds)+1)
	for i := range l.kinds {
		start[i] = 1 / float64(len(l.kinds))
	}
	for _, decay := range decays() {
		l.stacks = append(l.stacks, calibration.NewSoftmax(decay, stackRidge, start))
	}
	l.weights = uniform(len(l.kinds) + len(l.stacks) + 1)
	l.losses = make([]compensated.Sum, len(l.weights)+1)
	return l
}

// stackRidge is a₀ of the stacks.
const stackRidge = 10

func uniform(n int) []float64 {
	weights := make([]float64, n)
	for i := range weights {
		weights[i] = 1 / float64(n)
	}
	return weights
}
