package auto

import (
	"math"
	"slices"

	"hindsight/internal/model"
	"hindsight/internal/model/codec"
	"hindsight/internal/model/mix"
	"hindsight/internal/model/trees"
)

// The staleness of a prediction is the number of rows between the newest label and the input. Most
// experts read the newest labels, and say of an input many rows later what they would say of the
// next one; trees/plain reads the inputs alone. For each bucket of staleness the learner mixes the
// answer of the levels, trees/plain, the mean label and the last one by ML-Poly, and compares the
// errors of the mixture with the errors of fresh predictions.
//
// The bucket of the delay learns from labels that come that late. Every simulateEvery rounds, and more
// often at first, the learner asks itself what it would have said age rows after the newest label, of
// one bucket after the other: with the labels of then, and without the last residual.

const (
	buckets       = 5
	simulateEvery = 16
	// The first simulateOften rounds simulate every fourth.
	simulateOften = 1024
	staleRounds   = 10 // Before a bucket answers.
	staleDecay    = 0.99
	maxSpread     = 64
	staleBytes    = 40 // Of a bucket beside its mixture.
)

// staleAges are the staleness that is simulated for the buckets 1 to 3, 4 to 15, 16 to 63, 64 to
// 255, and more.
func staleAges() [buckets]uint64 { return [buckets]uint64{2, 8, 32, 128, 512} }

// bucketOf is the bucket of a staleness, −1 for none.
func bucketOf(rows uint64) int {
	for b := range buckets {
		if rows < 1<<(2*b) {
			return b - 1
		}
	}
	return buckets - 1
}

// opinions are the answer of the levels, and what trees/plain, the mean label and the last one say.
type opinions [4]float64

// A simulation flatters the levels in the buckets from farFrom on: they forget within some hundred
// rows, and know what the rows since have shown. If they err more than steady times as much as
// fresh ones, trees/plain stand for them there.
const (
	farFrom = 3
	steady  = 1.1
)

// stale is a bucket of an output.
type stale struct {
	mixture *mix.Mixture
	rounds  uint64
	// errors and fresh are the discounted sums of |y − ŷ| of the mixture and of the predictions
	// without a horizon of the same rows.
	errors, fresh float64
	// levels is the discounted sum of |y − ŷ| of the answer of the levels.
	levels float64
}

// newStale are the buckets of the outputs, nil without level 2.
func (o Options) newStale(l lineup) [][buckets]stale {
	if l.empty() {
		return nil
	}
	s := make([][buckets]stale, o.Outputs)
	for j := range s {
		for b := range s[j] {
			s[j][b].mixture = mix.New(len(opinions{}))
		}
	}
	return s
}

// plain is the column of trees/plain, or −1.
func (l lineup) plain() int { return slices.Index(l.columns, trees.Plain) }

// admitted are the opinions that are mixed in a bucket.
func (s *stale) admitted(bucket int, said opinions) opinions {
	if bucket >= farFrom && s.levels > float64(steady*s.fresh) {
		said[0] = said[1]
	}
	return said
}

func (s *stale) answer(admitted opinions) float64 {
	var weights opinions
	s.mixture.Weights(weights[:], nil)
	return mix.Mean(weights[:], admitted[:])
}

// spread is how many times as large as without a horizon the errors of the bucket are.
func (s *stale) spread() float64 {
	if !(s.errors > 0 && s.fresh > 0) {
		return 1
	}
	return math.Max(1./maxSpread, math.Min(maxSpread, s.errors/s.fresh))
}

// learn learns a label, given what the opinions said and the prediction without a horizon.
func (s *stale) learn(bucket int, said opinions, fresh, y, counts float64) {
	admitted := s.admitted(bucket, said)
	value := s.answer(admitted)
	s.mixture.Update(float64(2*counts)*(value-y), value, admitted[:], nil)
	s.levels = float64(staleDecay*s.levels) + float64(counts*math.Abs(y-said[0]))
	s.rounds++
	s.errors = float64(staleDecay*s.errors) + float64(counts*math.Abs(y-value))
	s.fresh = float64(staleDecay*s.fresh) + float64(counts*math.Abs(y-fresh))
}

// ahead is the bucket of a prediction whose input comes horizon rows after the next one, the farthest
// that has learned up to it, or −1: in the bucket of the delay the levels answer, which have learned
// with the delay.
func (l *Learner) ahead(horizon int) int {
	if horizon == 0 || l.stale == nil || !l.awake() {
		return -1
	}
	delay := l.delay()
	at, levels := bucketOf(delay+uint64(horizon)), bucketOf(delay)
	for at > levels && l.stale[0][at].rounds < staleRounds { // All outputs have as many.
		at--
	}
	if at == levels {
		return -1
	}
	return at
}

// delay is the median of the newest delays, so that one late label changes no prediction.
func (l *Learner) delay() uint64 {
	d := l.delays
	slices.Sort(d[:])
	return d[len(d)/2]
}

// age mixes the values of a prediction in a bucket.
func (l *Learner) age(p *model.Prediction, s *scratch, bucket int) {
	if l.stale == nil || !l.awake() {
		return
	}
	p.Spread = 1
	if bucket < 0 {
		return
	}
	nearest := max(0, bucketOf(l.delay()))
	for j := range l.stale {
		at := &l.stale[j][bucket]
		p.Values[j] = at.answer(at.admitted(bucket, l.opinions(s, j, p.Values[j])))
		for b := nearest; b <= bucket; b++ { // The spread never falls with the horizon.
			p.Spread = math.Max(p.Spread, l.stale[j][b].spread())
		}
	}
}

// explainAhead changes the parts of the levels' answer to the parts of a mixture of a bucket.
func (l *Learner) explainAhead(all []model.Part, a *advice, horizon int) {
	bucket := l.ahead(horizon)
	if bucket < 0 {
		return
	}
	for j := range l.stale {
		b := &l.stale[j][bucket]
		_, lineup, _, value := a.level2.of(j)
		_, level1, _, _ := a.level1.of(j)
		given := l.opinionsOf(j, value, lineup, level1)
		said := b.admitted(bucket, given)
		var w opinions
		b.mixture.Weights(w[:], nil)
		if said != given { // Trees/plain stand for the levels.
			w[0], w[1] = 0, w[0]+w[1]
		}
		for i := range all {
			all[i].Weights[j] *= w[0]
			all[i].Contributions[j] *= w[0]
		}
		add := func(family string, weight, said float64) {
			if i := slices.IndexFunc(all, func(p model.Part) bool { return p.Family == family }); i >= 0 {
				all[i].Weights[j] += weight
				all[i].Contributions[j] += float64(weight * said)
			}
		}
		if l.lineup.plain() >= 0 {
			add("trees", w[1], said[1])
		} else {
			add("baselines", w[1], said[1])
		}
		add("baselines", w[2], said[2])
		add("baselines", w[3], said[3])
	}
}

func (l *Learner) opinions(s *scratch, output int, answer float64) opinions {
	return l.opinionsOf(output, answer, l.lineupOf(l.expertsOf(s, output)), s.advice[output*l.plan.experts():])
}

// opinionsOf have the mean label in place of trees/plain if the lineup has none.
func (l *Learner) opinionsOf(output int, answer float64, lineup, level1 []float64) opinions {
	plain := level1[meanBaseline]
	if k := l.lineup.plain(); k >= 0 {
		plain = l.mixers[output].value(lineup[k])
	}
	return opinions{answer, plain, level1[meanBaseline], level1[lastBaseline]}
}

// simulated is what a bucket would have said of a row, by outputs, or no bucket.
type simulated struct {
	bucket int
	said   []opinions
}

// simulate asks the learner about an input as age rows after the newest label. It costs a Predict in
// every simulateEvery-th round.
func (l *Learner) simulate(s *scratch, x []float64) {
	s.simulated.bucket = -1
	every := uint64(simulateEvery)
	if l.n < simulateOften {
		every = simulateEvery / 4
	}
	if l.stale == nil || !l.awake() || l.n%every != 0 {
		return
	}
	bucket := int(l.n / every % buckets)
	age := staleAges()[bucket]
	if l.n < lastStage+age {
		return
	}
	given := s.level2.present
	s.level2.present = block{}
	seen, k := l.n-age, l.o.Outputs
	for i := range s.simulatedLags {
		s.simulatedLags[i] = l.memories[i%k].window.Label(seen, uint64(i/k)+1)
	}
	l.answer(s, x, s.simulatedLags, seen, false)
	s.level2.present = given
	s.simulated.bucket = bucket
	for j := range s.simulated.said {
		s.simulated.said[j] = l.opinions(s, j, s.answers[j])
	}
}

// learnStale teaches the bucket of a late label and the simulated bucket, given the predictions without
// a horizon.
func (l *Learner) learnStale(s *scratch, predictions []float64, r row, served *advice) {
	if l.stale == nil {
		return
	}
	delay := uint64(0)
	late := served != nil && len(served.level2.numbers) > 0
	if served != nil {
		delay = l.n - 1 - served.seen
	}
	l.delays[l.n%uint64(len(l.delays))] = delay
	delayed := bucketOf(delay)
	for j := range l.stale {
		fresh, y := predictions[j], r.y[j]
		if late && delayed >= 0 {
			_, lineup, _, value := served.level2.of(j)
			_, level1, _, _ := served.level1.of(j)
			said := l.opinionsOf(j, value, lineup, level1)
			fresh = value
			l.stale[j][delayed].learn(delayed, said, fresh, y, r.counts)
		}
		if b := s.simulated.bucket; b >= 0 && b != delayed {
			l.stale[j][b].learn(b, s.simulated.said[j], fresh, y, r.counts)
		}
	}
}

func (l *state) visitStale(v *codec.Visitor) {
	for i := range l.delays {
		v.Uint64(&l.delays[i])
	}
	if v.Reading() && slices.Max(l.delays[:]) > l.n {
		v.Corrupt("labels of %d labels ago after %d observations", l.delays, l.n)
	}
	for j := range l.stale {
		for b := range l.stale[j] {
			s := &l.stale[j][b]
			s.mixture.Visit(v)
			v.Uint64(&s.rounds)
			v.Within(maxEntry, &s.errors, &s.fresh, &s.levels)
			if v.Reading() && (s.rounds > l.n || s.errors < 0 || s.fresh < 0 || s.levels < 0) {
				v.Corrupt("errors of %g and %g in %d rounds", s.errors, s.fresh, s.rounds)
			}
		}
	}
}
