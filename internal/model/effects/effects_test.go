package effects_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"hindsight/internal/model/effects"
)

// naiveKey is a key of the naive table.
type naiveKey struct {
	count      float64
	s          [6]float64
	mu         [][6]float64
	mean, last []float64
	decayed    []float64
	// b and t are the slopes and the factors with their variances, by outputs.
	b, t           [][4][]float64
	seen, sequence int
}

// naive is the table of effects as the package comment tells it, in maps: it finds the oldest key
// by looking at every key.
type naive struct {
	o        effects.Options
	keys     map[string]*naiveKey
	sequence int
	losses   [][6]float64
	// gains, paid and wakes are those of the joint key and of pairs.
	gains       map[string][][6]float64
	paid, wakes map[string]int
}

var naiveVariants = [6][2]float64{{.1, 0}, {1, 0}, {10, 0}, {1, .03}, {3, .3}, {10, 3}}

func newNaive(o effects.Options) *naive {
	n := &naive{
		o: o, keys: map[string]*naiveKey{}, losses: make([][6]float64, o.Outputs), gains: map[string][][6]float64{},
		paid: map[string]int{}, wakes: map[string]int{},
	}
	for _, source := range n.several() {
		n.gains[source] = make([][6]float64, o.Outputs)
	}
	return n
}

// several are the sources of several inputs: "all" is the joint key.
func (n *naive) several() (sources []string) {
	if n.o.Inputs > 1 {
		sources = append(sources, "all")
	}
	if n.o.Inputs > 2 {
		for i := range min(8, n.o.Inputs) {
			for j := range i {
				sources = append(sources, fmt.Sprint("pair ", j, " ", i))
			}
		}
	}
	return sources
}

// singles and pairs are the names of the keys of a row, by source.
func (n *naive) singles(x []float64) (names []string) {
	for i, v := range x {
		if v != 0 {
			names = append(names, fmt.Sprint(i, ":", v))
		}
	}
	return names
}

func (n *naive) of(source string, x []float64) string {
	if n.wakes[source] > 0 {
		return ""
	}
	values := x
	if source != "all" {
		var i, j int
		_, _ = fmt.Sscanf(source, "pair %d %d", &i, &j)
		values = []float64{x[i], x[j]}
	}
	if !slices.ContainsFunc(values, func(v float64) bool { return v != 0 }) {
		return ""
	}
	return fmt.Sprint(source, ":", values)
}

func (n *naive) effects(x []float64, output int) (said [6]float64) {
	for _, name := range n.singles(x) {
		if k := n.keys[name]; k != nil {
			for v := range said {
				said[v] += k.mu[output][v]
			}
		}
	}
	return said
}

// products are what slopes and factors say, and z of each slope and factor of each key.
func (n *naive) products(x, numbers []float64, output int, v float64, before effects.Labels) (said [4]float64, z map[string][4][]float64) {
	best := largest(n.losses[output], -1)
	e := n.effects(x, output)[best]
	said, z = [4]float64{e, e, e, e}, map[string][4][]float64{}
	for _, name := range n.singles(x) {
		k := n.keys[name]
		if k == nil {
			continue
		}
		h := max(-3, min(3, (v+e-k.mu[output][best]-before.Mean)/before.Deviation))
		all := [4][]float64{{h}, {h}, {h}, make([]float64, 8)}
		for _, number := range numbers {
			all[2] = append(all[2], max(-3, min(3, number)))
		}
		for _, other := range n.singles(x) {
			if o := n.keys[other]; o != nil && o != k && n.o.Inputs > 1 {
				for i, p := range o.b[output][3] {
					all[3][i] += p
				}
			}
		}
		for i := range all {
			for j, z := range all[i] {
				said[i] += k.b[output][i][j] * z * before.Deviation * []float64{1, 1, 1, .5}[i] // Factors meet twice.
			}
		}
		z[name] = all
	}
	return said, z
}

// learnProducts learns as the comments of slopes and factors say, given Σ s + 1/ω.
func (n *naive) learnProducts(x, numbers []float64, output int, total [6]float64, y, v float64, before effects.Labels) {
	said, z := n.products(x, numbers, output, v, before)
	for i := range said {
		sum := total[largest(n.losses[output], -1)]
		for name, all := range z {
			t := n.keys[name].t[output][i]
			for j, z := range all[i] {
				sum += t[j] * z * z
			}
			for other := range z {
				for j, t := range t {
					if i == 3 && other != name {
						sum += t * n.keys[other].t[output][i][j] / 2
					}
				}
			}
		}
		for name, z := range z {
			for j, z := range z[i] {
				b, t := &n.keys[name].b[output][i][j], &n.keys[name].t[output][i][j]
				*b += *t * z / sum * (y - v - said[i]) / before.Deviation
				*t -= *t * z / sum * z * *t
			}
		}
	}
}

// sloped are the labels before of the outputs with slopes.
func sloped(o effects.Options) (all []effects.Labels) {
	for j := range o.Sloped {
		all = append(all, effects.Labels{Mean: .2 + float64(j), Deviation: .5})
	}
	return all
}

func largest(values [6]float64, sign float64) int {
	best := 0
	for i, v := range values {
		if sign*v > sign*values[best] {
			best = i
		}
	}
	return best
}

// gain is the largest gain of a source, or 0 if it does not pay.
func (n *naive) gain(source string, output int) float64 {
	gains := n.gains[source][output]
	losses := n.losses[output]
	if g := gains[largest(gains, 1)]; g > losses[largest(losses, -1)]/1000 {
		return g
	}
	return 0
}

func (n *naive) say(x []float64, output int) []float64 {
	said := n.effects(x, output)
	out := slices.Clone(said[:])
	if n.o.Inputs == 1 {
		return out
	}
	base, best, most := said[largest(n.losses[output], -1)], "", 0.0
	for _, source := range n.several() {
		if g := n.gain(source, output); g > most {
			best, most = source, g
		}
	}
	for v := range 6 {
		e := base
		if best != "" {
			if k := n.keys[n.of(best, x)]; k != nil {
				e += k.mu[output][v]
			}
		}
		out = append(out, e)
	}
	return out
}

func (n *naive) fill(x []float64, output, row int, mean float64) []float64 {
	kinds := make([][]float64, 6)
	var pairs []float64
	add := func(name string, variant int) {
		column := []float64{0, mean, mean, mean, 0, math.Log1p(float64(row))}
		if k := n.keys[name]; k != nil {
			column = []float64{
				k.mu[output][variant], k.decayed[output], (5*mean + k.count*k.mean[output]) / (5 + k.count), k.last[output],
				math.Log1p(k.count), math.Log1p(float64(row - k.seen)),
			}
		}
		for i, v := range column {
			kinds[i] = append(kinds[i], v)
		}
	}
	for i, v := range x {
		name := ""
		if v != 0 {
			name = fmt.Sprint(i, ":", v)
		}
		add(name, largest(n.losses[output], -1))
	}
	for _, source := range n.several() {
		variant, name := largest(n.gains[source][output], 1), n.of(source, x)
		if source == "all" {
			add(name, variant)
			continue
		}
		mu := 0.0
		if k := n.keys[name]; k != nil {
			mu = k.mu[output][variant]
		}
		pairs = append(pairs, mu)
	}
	return append(slices.Concat(kinds...), pairs...)
}

func (n *naive) learn(x, numbers []float64, row int, counts float64, y, v, served []float64) {
	singles, several := n.singles(x), map[string]string{}
	names := slices.Clone(singles)
	for _, source := range n.several() {
		if name := n.of(source, x); name != "" {
			several[source] = name
			names = append(names, name)
		}
	}
	n.touch(names, row)
	total := [6]float64{}
	for i := range total {
		total[i] = 1 / counts
		for _, name := range singles {
			total[i] += n.keys[name].s[i]
		}
	}
	for j, before := range sloped(n.o) {
		n.learnProducts(x, numbers, j, total, y[j], v[j], before)
	}
	for j := range y {
		said, losses := n.effects(x, j), &n.losses[j]
		left := y[j] - v[j] - said[largest(*losses, -1)]
		for i := range 6 {
			miss := y[j] - served[j*len(served)/len(y)+i]
			losses[i] = .9995*losses[i] + counts*miss*miss
			for _, name := range singles {
				k := n.keys[name]
				k.mu[j][i] += k.s[i] / total[i] * (y[j] - v[j] - said[i])
			}
			for source, name := range several {
				k, g := n.keys[name], &n.gains[source][j][i]
				after := left - k.mu[j][i]
				*g = .9995**g + counts*(left*left-after*after)
				k.mu[j][i] += k.s[i] / (total[i] + k.s[i]) * after
			}
		}
		for _, name := range names {
			n.keys[name].label(j, counts, y[j])
		}
	}
	for i, variant := range naiveVariants {
		for _, name := range singles {
			k := n.keys[name]
			k.s[i] = (1-k.s[i]/total[i])*k.s[i] + counts*variant[1]
		}
		for _, name := range several {
			k := n.keys[name]
			k.s[i] = (1-k.s[i]/(total[i]+k.s[i]))*k.s[i] + counts*variant[1]
		}
	}
	for _, name := range names {
		n.keys[name].count += counts
	}
	n.try(row + 1)
}

func (k *naiveKey) label(j int, counts, y float64) {
	if k.count == 0 {
		k.mean[j], k.last[j], k.decayed[j] = y, y, y
		return
	}
	k.mean[j] = (k.count*k.mean[j] + counts*y) / (k.count + counts)
	k.decayed[j] += .1 * counts * (y - k.decayed[j])
	if counts >= 1e-3 {
		k.last[j] = y
	}
}

// touch finds or adds the keys of a row: known keys come before new ones.
func (n *naive) touch(names []string, row int) {
	touch := func(known bool) {
		for _, name := range names {
			k := n.keys[name]
			if (k != nil && k.sequence >= 0) != known {
				continue
			}
			if k == nil {
				if len(n.keys) == n.o.MaxKeys {
					oldest := ""
					for other, o := range n.keys {
						if oldest == "" || o.sequence < n.keys[oldest].sequence {
							oldest = other
						}
					}
					delete(n.keys, oldest)
				}
				k = &naiveKey{
					mu: make([][6]float64, n.o.Outputs), mean: make([]float64, n.o.Outputs),
					last: make([]float64, n.o.Outputs), decayed: make([]float64, n.o.Outputs),
				}
				for range n.o.Outputs {
					k.b = append(k.b, [4][]float64{{0}, {0}, make([]float64, 1+n.o.Numbers), n.factors(name)})
					k.t = append(k.t, [4][]float64{{.1}, {1}, slices.Repeat([]float64{.1}, 1+n.o.Numbers), slices.Repeat([]float64{.3}, 8)})
				}
				for i, variant := range naiveVariants {
					k.s[i] = variant[0]
				}
				n.keys[name] = k
			}
			n.sequence++
			k.seen, k.sequence = row, n.sequence
		}
	}
	touch(true)
	touch(false)
}

// factors are those of a new single key.
func (n *naive) factors(name string) []float64 {
	var input int
	var value float64
	if _, err := fmt.Sscanf(name, "%d:%g", &input, &value); err != nil || n.o.Inputs == 1 {
		return make([]float64, 8)
	}
	factors := slices.Repeat([]float64{.07}, 8)
	for i := range factors {
		if effects.Signs(input, value)>>i&1 == 1 {
			factors[i] = -.07
		}
	}
	return factors
}

func (n *naive) try(rows int) {
	for _, source := range n.several() {
		if n.wakes[source] > 0 {
			if n.wakes[source] == rows {
				n.wakes[source], n.paid[source] = 0, rows
			}
			continue
		}
		for j := range n.o.Outputs {
			if n.gain(source, j) > 0 {
				n.paid[source] = rows
			}
		}
		if rows-n.paid[source] == 1000 {
			n.wakes[source] = 2 * rows
			n.gains[source] = make([][6]float64, n.o.Outputs)
		}
	}
}

// stream draws rows of inputs, in which the label depends on the first input and on the pair of
// the first two. Some values are missing, and some rows are light.
func draw(rng *rand.Rand, o effects.Options) (x, y, v []float64, counts float64) {
	for range o.Inputs {
		x = append(x, float64(rng.IntN(12)))
	}
	for j := range o.Outputs {
		effect := math.Sin(3*x[0]) + float64(j)
		if o.Inputs > 1 {
			effect += 2 * math.Sin(5*x[0]*x[1])
		}
		y, v = append(y, effect+.3*rng.NormFloat64()), append(v, float64(j)+.3*rng.NormFloat64())
	}
	counts = []float64{1, 1, .5, 1e-4}[rng.IntN(4)]
	return x, y, v, counts
}

// TestNaive compares the table with maps through evictions, sleep and trials.
func TestNaive(t *testing.T) {
	for _, o := range []effects.Options{
		{Inputs: 1, Outputs: 2, MaxKeys: 7, Kinds: effects.ColumnsEach, Sloped: 1, Numbers: 3},
		{Inputs: 2, Outputs: 1, MaxKeys: 100, Kinds: effects.ColumnsEach, Sloped: 1},
		{Inputs: 3, Outputs: 1, MaxKeys: 300, Kinds: effects.ColumnsEach},
		{Inputs: 10, Outputs: 2, MaxKeys: 500, Kinds: effects.ColumnsEach, Sloped: 2, Numbers: 2},
	} {
		t.Run(fmt.Sprint(o), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(uint64(o.Inputs), 36))
			e, plain, r := effects.New(o), newNaive(o), effects.NewRow(o)
			said, columns, slept := make([]float64, o.Experts()), make([]float64, o.Columns()), 0
			for row := range 2600 {
				x, y, v, counts := draw(rng, o)
				numbers := make([]float64, o.Numbers)
				for i := range numbers {
					numbers[i] = 2 * rng.NormFloat64()
				}
				e.Find(r, x, numbers)
				var served []float64
				for j := range o.Outputs {
					e.Say(said, r, j)
					near(t, row, "effects", said, plain.say(x, j))
					e.Fill(columns, r, j, uint64(row), 0.5)
					near(t, row, "columns", columns, plain.fill(x, j, row, 0.5))
					for _, s := range said {
						served = append(served, v[j]+s)
					}
				}
				for j, before := range sloped(o) {
					got := make([]float64, o.Products())
					e.SayProducts(got, r, j, v[j], before)
					want, _ := plain.products(x, numbers, j, v[j], before)
					near(t, row, "products", got, want[:len(got)])
				}
				e.Learn(r, uint64(row), counts, y, v, served, sloped(o))
				plain.learn(x, numbers, row, counts, y, v, served)
				if e.Keys() != len(plain.keys) {
					t.Fatalf("row %d: %d keys, want %d", row, e.Keys(), len(plain.keys))
				}
				for _, wakes := range plain.wakes {
					slept += min(wakes, 1)
				}
			}
			assert.True(t, o.Inputs != 10 || slept != 0, "no source slept")
		})
	}
}

func near(t *testing.T, row int, what string, got, want []float64) {
	t.Helper()
	require.Equal(t, len(want), len(got), "%v %v", row, what)
	for i := range got {
		require.True(t, math.Abs(got[i]-want[i]) <= 1e-9*(1+math.Abs(want[i])), "row %d: %s %d: %g, want %g", row, what, i, got[i], want[i])
	}
}

// one learns labels of one key, with v = 0, and returns the effects of the variants.
func one(weights, labels []float64) []float64 {
	o := effects.Options{Inputs: 1, Outputs: 1, MaxKeys: 1, Kinds: effects.ColumnsEach}
	e, r, said := effects.New(o), effects.NewRow(o), make([]float64, o.Experts())
	for n, y := range labels {
		e.Find(r, []float64{5}, nil)
		e.Say(said, r, 0)
		e.Learn(r, uint64(n), weights[n], []float64{y}, []float64{0}, said, sloped(o))
	}
	e.Find(r, []float64{5}, nil)
	e.Say(said, r, 0)
	return said
}

// Without drift the mean of a key is that of ridge regression: Σωy/(Σω + 1/s_0). With a large
// drift it is close to the last label.
func TestOneKey(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for range 200 {
		var weights, labels []float64
		sum, total := 0.0, 0.0
		for range 1 + rng.IntN(30) {
			w, y := rng.Float64(), rng.NormFloat64()
			weights, labels = append(weights, w), append(labels, y)
			sum, total = sum+w*y, total+w
		}
		said := one(weights, labels)
		for i, s := range []float64{.1, 1, 10} {
			require.InDelta(t, sum/(total+1/s), said[i], 1e-12, i)
		}
		for i := range weights {
			weights[i] = 1
		}
		last := labels[len(labels)-1]
		labels = append(labels, last, last)
		weights = append(weights, 1, 1)
		said = one(weights, labels)
		require.False(t, math.Abs(said[5]-last) > 0.1*(1+math.Abs(slices.Max(labels))), "the largest drift says %g after %g", said[5], labels)
	}
}

// The residuals of keys add up: after many rows without drift e is the effect of the row.
func TestEffectsAdd(t *testing.T) {
	o := effects.Options{Inputs: 2, Outputs: 1, MaxKeys: 1000, Kinds: effects.ColumnsEach}
	e, r, said := effects.New(o), effects.NewRow(o), make([]float64, o.Experts())
	rng := rand.New(rand.NewPCG(2, 2))
	for n := range 20_000 {
		x := []float64{float64(1 + rng.IntN(20)), float64(1 + rng.IntN(20))}
		y := math.Sin(3*x[0]) + math.Cos(2*x[1])
		e.Find(r, x, nil)
		e.Say(said, r, 0)
		require.False(t, n > 15_000 && math.Abs(said[1]-y) > 0.05, "row %d: %v say %g, want %g", n, x, said[1], y)
		e.Learn(r, uint64(n), 1, []float64{y}, []float64{0}, said, sloped(o))
	}
}

// Slopes of numbers and factors of two keys leave less than half of what effects alone leave.
func TestProductsLearn(t *testing.T) {
	for name, c := range map[string]struct {
		o     effects.Options
		label func(a, b int, x float64) float64
		of    int
	}{
		"slopes":  {effects.Options{Inputs: 1, Numbers: 1}, func(a, _ int, x float64) float64 { return math.Sin(float64(5*a)) * x }, 2},
		"factors": {effects.Options{Inputs: 2}, func(a, b int, _ float64) float64 { return 2 * math.Sin(float64(5*a)) * math.Cos(float64(7*b)) }, 3},
	} {
		t.Run(name, func(t *testing.T) {
			o := c.o
			o.Outputs, o.Sloped, o.MaxKeys = 1, 1, 1000
			rng := rand.New(rand.NewPCG(36, 1))
			e, r, said, products := effects.New(o), effects.NewRow(o), make([]float64, o.Experts()), make([]float64, o.Products())
			single, product := 0.0, 0.0
			const rows = 8000
			for n := range uint64(rows) {
				a, b, x := rng.IntN(50), rng.IntN(50), rng.NormFloat64()
				y := c.label(a, b, x) + .1*rng.NormFloat64()
				e.Find(r, []float64{float64(a + 1), float64(b + 1)}[:o.Inputs], []float64{x}[:o.Numbers])
				e.Say(said, r, 0)
				e.SayProducts(products, r, 0, 0, effects.Labels{Deviation: 1})
				if n >= rows/2 {
					single += (y - said[1]) * (y - said[1])
					product += (y - products[c.of]) * (y - products[c.of])
				}
				e.Learn(r, n, 1, []float64{y}, []float64{0}, said, []effects.Labels{{Deviation: 1}})
			}
			require.Less(t, product, single/2)
			t.Log(product / single)
		})
	}
}
