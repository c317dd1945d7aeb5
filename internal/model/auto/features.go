package auto

import (
	"math"
	"math/rand/v2"
	"slices"

	"hindsight/internal/model/feature"
	"hindsight/internal/model/kernel"
	"hindsight/internal/model/loops"
	"hindsight/internal/model/trig"
	"hindsight/internal/model/ziggurat"
)

// featureMap is a map with its frequencies. Frequencies follow from the spec; bandwidths
// follow from the rows and are part of the state.
type featureMap struct {
	kind mapKind
	// size = waveCount + the size of the affine map; inputs is d.
	size, waveCount, inputs int
	fourier                 *feature.Fourier
	sparse                  []sparseFrequency
}

// sparseFrequency is the frequency a·first + b·second on two columns, or one.
type sparseFrequency struct {
	first, second int
	a, b          float64
}

// autoStream + kind is the stream of the generator that draws the frequencies of a map.
const autoStream = 0x6175746f

func newFeatureMap(o Options, kind mapKind) *featureMap {
	m := &featureMap{kind: kind, size: o.size(kind), inputs: o.Dimension, waveCount: o.size(kind) - o.affine()}
	rng := rand.New(rand.NewPCG(o.Seed, autoStream+uint64(kind)))
	gaussian := kernel.Kernel{Kind: kernel.Gaussian, Sigma: 1}
	switch kind {
	case affineMap:
	case narrowMap, wideMap:
		m.fourier = feature.NewFourier(gaussian, o.Dimension, o.Frequencies, true, rng)
	case laggedMap:
		m.fourier = feature.NewFourier(gaussian, o.columns(), o.Frequencies, true, rng)
	case sparseMap:
		m.sparse = newSparse(o, ziggurat.New(rng))
	}
	return m
}

// newSparse deals the columns to frequencies on one and on two columns in turn, from a deck
// that is shuffled anew when it is empty, so that each column is dealt equally often. Joint
// columns are one card, which stands for one of them at random.
func newSparse(o Options, rng *ziggurat.Rand) []sparseFrequency {
	out := make([]sparseFrequency, o.Frequencies)
	cards := o.cards()
	var deck []int
	deal := func() int {
		if len(deck) == 0 {
			deck = rng.Perm(len(cards))
		}
		card := cards[deck[0]]
		deck = deck[1:]
		if card.To == card.From+1 {
			return card.From
		}
		return card.From + rng.IntN(card.To-card.From)
	}
	for i := range out {
		f := &out[i]
		f.first, f.a = deal(), rng.Normal()
		f.second = f.first
		if i%2 == 1 {
			// A deck that ends between the two may deal one column twice.
			f.second, f.b = deal(), rng.Normal()
		}
	}
	return out
}

// cards are the columns, joint columns together.
func (o Options) cards() []Span {
	var cards []Span
	joint := o.Joint
	for j := 0; j < o.columns(); {
		card := Span{j, j + 1}
		if len(joint) > 0 && joint[0].From == j {
			card, joint = joint[0], joint[1:]
		}
		cards = append(cards, card)
		j = card.To
	}
	return cards
}

func (o Options) mapBytes(kind mapKind) uint64 {
	d := uint64(o.Frequencies)
	switch kind {
	case affineMap:
		return 0
	case sparseMap:
		return 32 * d
	case laggedMap:
		return 8 * d * uint64(o.columns())
	default:
		return 8 * d * uint64(o.Dimension)
	}
}

// mapFlops is the multiply-adds of a map; a sine and cosine counts as ten.
func (o Options) mapFlops(kind mapKind) uint64 {
	d := uint64(o.Frequencies)
	switch kind {
	case affineMap:
		return uint64(o.affine())
	case sparseMap:
		return 12*d + uint64(o.affine())
	default:
		return (10+uint64(o.columns()))*d + 2*uint64(o.columns())
	}
}

// lagWeight is the factor of the lags in laggedMap.
const lagWeight = 8

// bandwidths are the units that follow from the rows of a stage.
type bandwidths struct {
	// median is the median distance between the scaled inputs.
	median float64
	// lagged is the median distance between inputs with lags times lagWeight.
	lagged float64
	// sparse has the median distance between the columns of each frequency of sparseMap.
	sparse []float64
}

func newBandwidths(p Plan, o Options) bandwidths {
	b := bandwidths{median: 1, lagged: 1}
	if slices.Contains(p.maps(), sparseMap) {
		b.sparse = make([]float64, o.Frequencies)
		for i := range b.sparse {
			b.sparse[i] = 1
		}
	}
	return b
}

// fill writes the features of the columns in the scratch into z: the features of the map, then
// the features of the affine map.
func (m *featureMap) fill(z []float64, s *scratch, b *bandwidths) {
	waves := z[:len(z)-len(s.affine)]
	copy(z[len(waves):], s.affine)
	switch m.kind {
	case affineMap:
	case narrowMap:
		m.waves(waves, s, 2/b.median, 0)
	case wideMap:
		m.waves(waves, s, 0.5/b.median, 0)
	case laggedMap:
		m.waves(waves, s, 1/b.lagged, lagWeight/b.lagged)
	case sparseMap:
		m.sparseWaves(waves, s, b.sparse)
	}
}

// waves writes the Fourier features of the inputs times scale and, in laggedMap, of the lags
// times lagScale.
func (m *featureMap) waves(z []float64, s *scratch, scale, lagScale float64) {
	in := s.in[:m.fourier.Dimension()]
	for j, v := range s.columns[:m.inputs] {
		in[j] = float64(v * scale)
	}
	for j := m.inputs; j < len(in); j++ {
		in[j] = float64(s.columns[j] * lagScale)
	}
	m.fourier.Map(z, in)
}

func (m *featureMap) sparseWaves(z []float64, s *scratch, units []float64) {
	count := len(m.sparse)
	for i := range m.sparse {
		f := &m.sparse[i]
		s.angles[i] = (float64(f.a*s.columns[f.first]) + float64(f.b*s.columns[f.second])) / units[i]
	}
	trig.Sincos(z[:count], z[count:], s.angles)
	loops.Scale(z, 1/math.Sqrt(float64(count)))
}

// slope is the part of the features that first-order learners use, and its squared norm.
func (m *featureMap) slope(z []float64) (part []float64, norm float64) {
	if m.kind == affineMap {
		return z, loops.Dot(z, z)
	}
	return z[:m.waveCount], 1
}
