package drift_test

import (
	"bytes"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"hindsight/internal/engine/account/drift"
	"hindsight/internal/model/codec"
	"hindsight/internal/model/modeltest"
)

// naive is the detector by its formulas, from all losses since the last change.
// It knows no window, and ranks the statistics rounded down to three digits of
// their binary mantissa.
type naive struct {
	start      int
	losses     []float64 // All of them.
	statistics []float64 // Of the reference.
	bets       [2][]float64
	separating [2][]float64
	changes    []drift.Statistics
}

func (n *naive) observe(loss float64) {
	n.losses = append(n.losses, loss)
	if len(n.losses)%16 != 0 {
		return
	}
	statistic := 0.0
	for _, l := range n.losses[len(n.losses)-16:] {
		statistic += math.Sqrt(l)
	}
	fraction, exponent := math.Frexp(statistic / 16)
	statistic = math.Ldexp(math.Floor(fraction*16), exponent)
	n.statistics = append(n.statistics, statistic)
	size := len(n.statistics)
	if size == 1 {
		return
	}
	less, equal, greater := 0.0, 0.0, 0.0
	for _, s := range n.statistics {
		switch {
		case s < statistic:
			less++
		case s > statistic:
			greater++
		default:
			equal++
		}
	}
	u := drift.Uniform(uint64(len(n.losses)))
	for side, p := range []float64{(greater + u*equal) / float64(size), (less + (1-u)*equal) / float64(size)} {
		n.bets[side] = append(n.bets[side], 0.5/math.Sqrt(p))
		// The bet on a separation has won since the last 0 in a row.
		j := 1
		for i := len(n.separating[side]) - 1; i >= 0 && n.separating[side][i] > 0; i-- {
			j++
		}
		g := 0.0
		if p*float64(size) <= float64(j) {
			g = float64(size) / float64(j)
		}
		n.separating[side] = append(n.separating[side], g)
	}
	for side, bets := range n.bets {
		if (15*fromAll(bets)+fromAll(n.separating[side]))/16 < 25_000 {
			continue
		}
		// The change is where the sum of 1/3 − p is the largest, back from here.
		sum, best, from := 0.0, math.Inf(-1), 0
		for i, f := range slices.Backward(bets) {
			if sum += 1.0/3 - 0.25/(f*f); sum > best {
				best, from = sum, i
			}
		}
		at := n.start + 16*(from+1)
		n.changes = append(n.changes, drift.Statistics{
			Change: uint64(at + 1), Noticed: uint64(len(n.losses)), Rise: side == 0,
			Before: mean(n.losses[n.start:at]), After: mean(n.losses[at:]),
		})
		n.start, n.statistics, n.bets, n.separating = len(n.losses), nil, [2][]float64{}, [2][]float64{}
		return
	}
}

// fromAll is the e-detector of bets: the sum over all beginnings of the products from
// there on.
func fromAll(bets []float64) (sum float64) {
	product := 1.0
	for _, f := range slices.Backward(bets) {
		product *= f
		sum += product
	}
	return sum
}

func mean(values []float64) float64 {
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	return sum / float64(len(values))
}

// switching changes its size every now and then.
func switching(seed uint64, n int) []float64 {
	r := rand.New(rand.NewPCG(seed, 3))
	out := make([]float64, n)
	scale := 1.0
	for i := range out {
		if r.IntN(900) == 0 {
			scale = math.Exp(2 * r.NormFloat64())
		}
		if out[i] = scale * r.ExpFloat64(); seed%2 == 1 {
			out[i] = math.Floor(2 * out[i]) // Ties, and zeros.
		}
	}
	return out
}

func TestEqualsNaive(t *testing.T) {
	compared := 0
	for seed := range uint64(12) {
		d, n := drift.New(), &naive{}
		for i, loss := range switching(seed, 6000) {
			before := len(n.changes)
			n.observe(loss)
			got := d.Observe(loss)
			require.True(t, got == (len(n.changes) > before), "seed %d, loss %d: a change %v, want %v", seed, i+1, got, !got)
		}
		compared += len(n.changes)
		got, want, rises := d.Statistics(), n.changes[len(n.changes)-1], uint64(0)
		for _, c := range n.changes {
			if c.Rise {
				rises++
			}
		}
		if got.Detected != uint64(len(n.changes)) || got.Rises != rises ||
			got.Change != want.Change || got.Noticed != want.Noticed || got.Rise != want.Rise ||
			math.Abs(got.Before-want.Before) > 1e-9*want.Before || math.Abs(got.After-want.After) > 1e-9*want.After {
			t.Errorf("seed %d: %+v, want %d, %d rises, %+v", seed, got, len(n.changes), rises, want)
		}
	}
	assert.GreaterOrEqual(t, compared, 30, "only %d changes were compared", compared)
}

func TestWhatIsTold(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 4))
	d := drift.New()
	c := d.Statistics()
	assert.True(t, c == (drift.Statistics{}), "a change before any loss: %+v", c)
	feed := func(n int, scale float64) (changed bool) {
		for range n {
			changed = d.Observe(scale*r.ExpFloat64()) || changed
		}
		return changed
	}
	require.False(t, feed(4000, 1), "a change of nothing")
	for i, want := range []struct {
		scale float64
		rise  bool
	}{{3, true}, {0.5, false}} {
		old, at := []float64{1, 3}[i], 4001+2000*i
		require.True(t, feed(2000, want.scale), "%g times the loss is not seen", want.scale)
		c := d.Statistics()
		t.Logf("at %d: %+v", at, c)
		if c.Detected != uint64(i+1) || c.Rises != 1 || c.Rise != want.rise || math.Abs(float64(c.Change)-float64(at)) > 48 ||
			math.Abs(c.Before/old-1) > 0.2 || math.Abs(c.After/want.scale-1) > 0.3 {
			t.Errorf("%g times the loss from %d on is told as %+v", want.scale, at, c)
		}
	}
}

// Zeros, constants, outliers and the ends of the range of numbers.
func TestExtremes(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 5))
	stream := func(d *drift.Detector, n int, next func() float64) {
		for range n {
			d.Observe(next())
		}
	}
	exponential := r.ExpFloat64
	constant := func(v float64) func() float64 { return func() float64 { return v } }
	for _, v := range []float64{0, 5e-324, 1, 1e200, math.MaxFloat64, math.Inf(1), -1} {
		d := drift.New()
		stream(d, 50_000, constant(v))
		assert.Equal(t, 0, changes(d), v)
		stream(d, 300, constant(3))
		assert.Equal(t, 1, changes(d), v)
		c := d.Statistics()
		assert.False(t, math.IsNaN(c.Before+c.After) || math.IsInf(c.Before+c.After, 0) || c.Rise != (v < 3) || c.Change < 50_000-64, "from %g to 3: %+v", v, c)
	}
	// A first loss that is much larger than all others is no change, nor is one in
	// the middle. The detector still sees a change later.
	for _, outlier := range []float64{1e9, 1e200} {
		d := drift.New()
		d.Observe(outlier)
		stream(d, 3000, exponential)
		d.Observe(outlier)
		stream(d, 3000, exponential)
		assert.Equal(t, 0, changes(d), outlier)
		stream(d, 300, func() float64 { return 2.5 * r.ExpFloat64() })
		if c := d.Statistics(); changes(d) != 1 || !c.Rise {
			t.Errorf("after outliers of %g: %d changes, %+v", outlier, changes(d), c)
		}
	}
	d := drift.New()
	stream(d, 100, exponential)
	before := d.AppendBinary(nil)
	assert.True(t, !d.Observe(math.NaN()) && bytes.Equal(before, d.AppendBinary(nil)), "a loss that is no number is counted")
}

func TestLossesScaledByPowersOfFour(t *testing.T) {
	for _, power := range []int{-400, -20, 2, 400} {
		a, b := drift.New(), drift.New()
		for i, loss := range switching(8, 6000) {
			require.True(t, a.Observe(loss) == b.Observe(math.Ldexp(loss, power)), "2^%d: loss %d differs", power, i+1)
		}
		c := a.Statistics()
		c.Before, c.After = math.Ldexp(c.Before, power), math.Ldexp(c.After, power)
		got := b.Statistics()
		assert.True(t, got.Detected != 0 && got == c, "2^%d: %+v, want %+v", power, got, c)
	}
}

func TestRestoreContinues(t *testing.T) {
	all := switching(1, 6000)
	for _, cut := range []int{0, 1, 15, 16, 17, 33, 64, 480, 1000, 2500, 5555} {
		a, b := drift.New(), drift.New()
		for _, loss := range all[:cut] {
			a.Observe(loss)
		}
		for _, loss := range all[:777] {
			b.Observe(loss) // What it was is gone.
		}
		require.NoError(t, b.Restore(a.AppendBinary(nil)), cut)
		for _, loss := range all[cut:] {
			require.True(t, a.Observe(loss) == b.Observe(loss), "after %d: the restored state goes another way", cut)
		}
		assert.Equal(t, b.AppendBinary(nil), a.AppendBinary(nil), cut)
	}
}

// A state of before there were bets on a separation has none of them. It loads, and
// the next change is seen.
func TestRestoreWithoutSeparation(t *testing.T) {
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 7))
		d := drift.New()
		for range 800 {
			d.Observe(r.ExpFloat64())
		}
		for range 40 {
			d.Observe(1e3 * r.ExpFloat64())
		}
		state := d.AppendBinary(nil)
		require.Len(t, state, 8*22+4*128+32, seed)
		require.NoError(t, d.Restore(state[:len(state)-32]), seed)
		for range 300 {
			d.Observe(1e3 * r.ExpFloat64())
		}
		c := d.Statistics()
		assert.True(t, changes(d) == 1 && c.Rise && c.Noticed <= 1000, "seed %d: a change after 800 is told as %+v", seed, c)
	}
}

func TestRestoreRejects(t *testing.T) {
	d := drift.New()
	for _, loss := range switching(2, 6003) {
		d.Observe(loss)
	}
	good := d.AppendBinary(nil)
	put := func(at int, v uint64) []byte {
		return append(binary.LittleEndian.AppendUint64(slices.Clone(good[:8*at]), v), good[8*at+8:]...)
	}
	word := func(at int) uint64 { return binary.LittleEndian.Uint64(good[8*at:]) }
	require.True(t, changes(d) != 0 && word(3) != 0, "nothing to spoil")
	require.Len(t, good, 8*22+4*128, "the state has bets that were won already")
	// won appends Q and the bets won, of rise and of fall.
	won := func(rise float64, n uint64, fall float64, m uint64) []byte {
		out := binary.LittleEndian.AppendUint64(codec.AppendFloats(slices.Clone(good), rise), n)
		return binary.LittleEndian.AppendUint64(codec.AppendFloats(out, fall), m)
	}
	minus := math.Float64bits(-1)
	// Rise begins at word 5, fall at 10, the changes at 15, the counts at 22.
	for name, data := range map[string][]byte{
		"nothing":                   nil,
		"a byte less":               good[:len(good)-1],
		"a byte more":               append(slices.Clone(good), 0),
		"too many losses":           put(0, 1<<63),
		"fewer losses than blocks":  put(0, 20),
		"a whole block that is not": put(0, 6000),
		"a negative sum":            put(1, minus),
		"no sum":                    put(2, math.Float64bits(math.NaN())),
		"more blocks":               put(3, word(3)+1),
		"no blocks":                 put(3, 0),
		"no base":                   put(4, 0),
		"a base beyond":             put(4, 1<<40),
		"R at the threshold":        put(5, math.Float64bits(26_700)),
		"a negative R":              put(10, minus),
		"a bet that won nothing":    won(0, 1, 0, 0),
		"no bet that won":           won(0, 0, 0, 0),
		"Q at the threshold":        won(400_000, 3, 0, 0),
		"more bets than blocks":     won(1, word(3), 0, 0),
		"half a bet":                won(1, 1, 0, 0)[:len(good)+24],
		"a score and no blocks":     put(6, math.Float64bits(1e19)),
		"a change that is all":      put(7, word(3)),
		"a negative sum before":     put(8, minus),
		"changes that are not":      put(15, 1<<40),
		"more rises than changes":   put(16, word(15)+1),
		"a change in the first":     put(17, 1),
		"a change within a block":   put(17, word(17)+1),
		"a change to come":          put(18, 1<<40),
		"neither rise nor fall":     put(19, 2),
		"an infinite mean":          put(20, math.Float64bits(math.Inf(1))),
		"a count too many":          put(22, word(22)+1),
		"no change":                 append(append(slices.Clone(good[:8*15]), make([]byte, 16)...), good[8*17:]...),
	} {
		assert.ErrorIs(t, d.Restore(data), codec.ErrCorrupt, name)
		require.Equal(t, d.AppendBinary(nil), good, name)
	}
}

func FuzzRestore(f *testing.F) {
	for _, n := range []int{0, 7, 40, 6000} {
		d := drift.New()
		for _, loss := range switching(3, n) {
			d.Observe(loss)
		}
		f.Add(d.AppendBinary(nil))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		d := drift.New()
		if err := d.Restore(data); err != nil {
			require.ErrorIs(t, err, codec.ErrCorrupt)
			return
		}
		require.Equal(t, d.AppendBinary(nil), data, "a state is not the bytes that it came from")
		for i := range 200 {
			d.Observe(float64(i%7) * math.Pow(10, float64(i%5*40)))
		}
		c := d.Statistics()
		require.True(t, !math.IsNaN(c.Before+c.After) && !math.IsInf(c.Before+c.After, 0), "%+v", c)
		require.NoError(t, drift.New().Restore(d.AppendBinary(nil)))
	})
}

func TestSizeAndAllocations(t *testing.T) {
	d := drift.New()
	assert.Equal(t, d.Bytes(), d.Size())
	for range 16 {
		d.Observe(1)
	}
	t.Logf("%d bytes", d.Size())
	assert.True(t, d.Size() == d.Bytes() && d.Size() <= 1000, "size %d, want %d", d.Size(), d.Bytes())
	if modeltest.RaceDetector {
		return
	}
	state, losses, i := d.AppendBinary(nil), switching(4, 5000), 0
	if n := testing.AllocsPerRun(4000, func() {
		d.Observe(losses[i])
		state = d.AppendBinary(state[:0])
		i++
	}); n != 0 {
		t.Errorf("%g allocations a loss", n)
	}
}

// source makes the losses of one stream: loss t, from 0, where the mean is so many
// times what it was.
type source func(t int, factor float64) float64

// sources are streams of losses by their name, made from a seed.
type sources struct {
	name string
	make func(r *rand.Rand) source
}

// independent are losses of one distribution each.
func independent() []sources {
	each := func(draw func(r *rand.Rand) float64) func(r *rand.Rand) source {
		return func(r *rand.Rand) source { return func(_ int, factor float64) float64 { return factor * draw(r) } }
	}
	// Some losses are not 0, and there are so many times more of them.
	some := func(p float64, draw func(r *rand.Rand) float64) func(r *rand.Rand) source {
		return func(r *rand.Rand) source {
			return func(_ int, factor float64) float64 {
				if r.Float64() < p*factor {
					return draw(r)
				}
				return 0
			}
		}
	}
	return []sources{
		{"squared Gaussian", each(func(r *rand.Rand) float64 { return square(r.NormFloat64()) })},
		{"exponential", each((*rand.Rand).ExpFloat64)},
		{"log-normal, σ = 2", each(func(r *rand.Rand) float64 { return math.Exp(2 * r.NormFloat64()) })},
		{"Pareto 1.5", each(func(r *rand.Rand) float64 { return math.Pow(1-r.Float64(), -1/1.5) })},
		{"Pareto 0.8", each(func(r *rand.Rand) float64 { return math.Pow(1-r.Float64(), -1/0.8) })},
		{"squared Student t3", each(func(r *rand.Rand) float64 {
			chi := square(r.NormFloat64()) + square(r.NormFloat64()) + square(r.NormFloat64())
			return square(r.NormFloat64()) / chi * 3
		})},
		{"squared Cauchy", each(func(r *rand.Rand) float64 { return square(math.Tan(math.Pi * (r.Float64() - 0.5))) })},
		{"0 or 1, of 20 %", some(0.2, func(*rand.Rand) float64 { return 1 })},
		{"exponential, 90 % zeros", some(0.1, (*rand.Rand).ExpFloat64)},
	}
}

// dependent are stationary or periodic losses that are not independent.
func dependent() []sources {
	// A squared autoregression.
	squares := func(rho float64) func(r *rand.Rand) source {
		return func(r *rand.Rand) source {
			z := r.NormFloat64()
			return func(_ int, factor float64) float64 {
				z = rho*z + math.Sqrt(1-rho*rho)*r.NormFloat64()
				return factor * z * z
			}
		}
	}
	// Squared Gaussians whose log variance is an autoregression.
	volatility := func(rho float64) func(r *rand.Rand) source {
		return func(r *rand.Rand) source {
			h := r.NormFloat64()
			return func(_ int, factor float64) float64 {
				h = rho*h + math.Sqrt(1-rho*rho)*r.NormFloat64()
				return factor * square(r.NormFloat64()) * math.Exp(h)
			}
		}
	}
	cycle := func(period, amplitude float64) func(r *rand.Rand) source {
		return func(r *rand.Rand) source {
			return func(t int, factor float64) float64 {
				return factor * r.ExpFloat64() * (1 + amplitude*math.Sin(2*math.Pi*float64(t)/period))
			}
		}
	}
	return []sources{
		{"autoregression 0.5", squares(0.5)},
		{"autoregression 0.9", squares(0.9)},
		{"volatility 0.9", volatility(0.9)},
		{"volatility 0.98", volatility(0.98)},
		{"cycle of 24, ± 90 %", cycle(24, 0.9)},
		{"cycle of 144, ± 90 %", cycle(144, 0.9)},
	}
}

// drifting grows tenfold in 50,000 rounds.
func drifting(r *rand.Rand) source {
	return func(t int, factor float64) float64 { return factor * r.ExpFloat64() * math.Pow(10, float64(t)/50_000) }
}

func square(v float64) float64 { return v * v }
