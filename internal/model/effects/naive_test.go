package effects_test

import (
	"fmt"
	"math"
	"slices"

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
	// pair shares keys, with gains of its own; next begins its trial. Met and checked are by pairs.
	pair         []int
	sharedGains  [][6]float64
	sharedPaid   int
	next         int
	met, checked map[string]float64
}

var naiveVariants = [6][2]float64{{.1, 0}, {1, 0}, {10, 0}, {1, .03}, {3, .3}, {10, 3}}

func newNaive(o effects.Options) *naive {
	n := &naive{
		o: o, keys: map[string]*naiveKey{}, losses: make([][6]float64, o.Outputs), gains: map[string][][6]float64{},
		paid: map[string]int{}, wakes: map[string]int{}, sharedGains: make([][6]float64, o.Outputs), next: 64,
		met: map[string]float64{}, checked: map[string]float64{},
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
	if n.pair != nil {
		base = n.sharedEffects(x, output)[largest(n.sharedGains[output], 1)]
	}
	return append(out, base)
}

// shared are the shared keys of a row by their inputs.
func (n *naive) shared(x []float64) map[int]string {
	names := map[int]string{}
	for _, i := range n.pair {
		if x[i] != 0 && x[n.pair[0]] != x[n.pair[1]] {
			names[i] = fmt.Sprint("shared ", n.pair[0], " ", n.pair[1], ":", x[i])
		}
	}
	return names
}

// sign is σ of an input of the pair in a variant.
func (n *naive) sign(input, variant int) float64 {
	if input == n.pair[1] && variant < 3 {
		return -1
	}
	return 1
}

func (n *naive) sharedEffects(x []float64, output int) (said [6]float64) {
	others := slices.Clone(x)
	others[n.pair[0]], others[n.pair[1]] = 0, 0
	rest := n.effects(others, output)[largest(n.losses[output], -1)]
	for v := range said {
		said[v] = rest
		for input, name := range n.shared(x) {
			if k := n.keys[name]; k != nil {
				said[v] += n.sign(input, v) * k.mu[output][v]
			}
		}
	}
	return said
}

func (n *naive) learnShared(x []float64, counts float64, y, v []float64) {
	if n.pair == nil {
		return
	}
	names, total := n.shared(x), [6]float64{}
	for i := range total {
		total[i] = 1 / counts
		for _, name := range names {
			total[i] += n.keys[name].s[i]
		}
	}
	for j := range y {
		left, said := y[j]-v[j]-n.effects(x, j)[largest(n.losses[j], -1)], n.sharedEffects(x, j)
		for i := range said {
			miss := y[j] - v[j] - said[i]
			n.sharedGains[j][i] = .9995*n.sharedGains[j][i] + counts*(left*left-miss*miss)
			for input, name := range names {
				n.keys[name].mu[j][i] += n.sign(input, i) * n.keys[name].s[i] / total[i] * miss
			}
		}
	}
	for _, name := range names {
		k := n.keys[name]
		for i, s := range k.s {
			k.s[i] = (1-s/total[i])*s + counts*naiveVariants[1+i%3][1]
		}
		k.count += counts
	}
}

// begin gives a new shared key what the single keys of its value know.
func (n *naive) begin(k *naiveKey, name string) {
	var value float64
	var pair [2]int
	if _, err := fmt.Sscanf(name, "shared %d %d:%g", &pair[0], &pair[1], &value); err != nil {
		return
	}
	for i := range 6 {
		precision := 1 / naiveVariants[1+i%3][0]
		k.s[i] = precision
		for _, input := range pair {
			if single := n.keys[fmt.Sprint(input, ":", value)]; single != nil {
				s := min(single.s[1+i%3], 1/precision)
				k.s[i] += 1/s - precision
				for j := range k.mu {
					k.mu[j][i] += n.sign(input, i) * single.mu[j][1+i%3] / s
				}
			}
		}
		k.s[i] = 1 / k.s[i]
		for j := range k.mu {
			k.mu[j][i] *= k.s[i]
		}
	}
}

// meet begins and ends the trials of pairs after so many rows.
func (n *naive) meet(x []float64, rows int) {
	var pairs [][]int
	for i := range min(8, n.o.Inputs) {
		for j := range i {
			pairs = append(pairs, []int{j, i})
		}
	}
	if len(pairs) == 0 {
		return
	}
	if n.pair != nil {
		for j, gains := range n.sharedGains {
			if gains[largest(gains, 1)] > n.losses[j][largest(n.losses[j], -1)]/1000 {
				n.sharedPaid = rows
			}
		}
		if rows-n.sharedPaid == 1000 {
			n.pair, n.next, n.sharedGains = nil, 2*rows, make([][6]float64, n.o.Outputs)
		}
		return
	}
	pair := pairs[rows%len(pairs)]
	if a := x[pair[0]]; a != 0 && a != x[pair[1]] {
		n.checked[fmt.Sprint(pair)]++
		if n.keys[fmt.Sprint(pair[1], ":", a)] != nil {
			n.met[fmt.Sprint(pair)]++
		}
	}
	if rows == n.next {
		most := .5
		for _, pair := range pairs {
			if share := n.met[fmt.Sprint(pair)] / max(1, n.checked[fmt.Sprint(pair)]); share > most {
				n.pair, most = pair, share
			}
		}
		n.sharedPaid, n.next = rows, 2*rows
		clear(n.met)
		clear(n.checked)
	}
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
	for _, i := range n.pair {
		if name, ok := n.shared(x)[i]; ok {
			names = append(names, name)
		}
	}
	n.touch(names, row)
	names = names[:len(names)-len(n.shared(x))]
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
	n.learnShared(x, counts, y, v)
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
	n.meet(x, row+1)
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
				n.begin(k, name)
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
