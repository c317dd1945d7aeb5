package raker

import (
	"math"
	"slices"

	"hindsight/internal/model/codec"
	"hindsight/internal/model/ledger"
)

// grid has the moments at multiples of a length of rounds, so that the best function of every
// interval between two of them can be solved for. At marked multiples the length doubles.
type grid struct {
	length uint64
	// marks are the count marks, and room for the others.
	marks [marked]mark
	count int
}

const (
	// At marked multiples the length doubles, so that afterwards there are marked/2 to marked−1.
	marked = 16
	// A grid begins with firstLength.
	firstLength = 64
)

// mark are the sums of all rounds up to one: C of every kernel, b of every output, and Σ w y².
type mark struct {
	grams, rights [][]float64
	energies      []float64
}

func (r *Raker) newMark() mark {
	k := mark{energies: make([]float64, len(r.accounts))}
	for p := range r.hindsight.kernels {
		k.grams = append(k.grams, make([]float64, len(r.hindsight.kernels[p].packed)))
	}
	for range r.accounts {
		k.rights = append(k.rights, make([]float64, r.total()))
	}
	return k
}

// copyTo makes a mark one of all rounds so far.
func (r *Raker) copyTo(k *mark) {
	for p := range r.hindsight.kernels {
		r.hindsight.gram(k.grams[p], &r.hindsight.kernels[p])
	}
	for j := range r.accounts {
		copy(k.rights[j], r.hindsight.b[j])
		k.energies[j] = r.accounts[j].Energy.Value()
	}
}

// follow ends a round: it marks a multiple of the length, and copies the moments for it.
func (r *Raker) follow() {
	g := r.grid
	if r.accounts[0].Rounds%g.length != 0 {
		return
	}
	r.copyTo(&g.marks[g.count])
	if g.count++; g.count < marked {
		return
	}
	for n := range marked / 2 {
		g.marks[n], g.marks[2*n+1] = g.marks[2*n+1], g.marks[n]
	}
	g.count, g.length = marked/2, 2*g.length
}

// visitGrid visits the marks and the room, so that a state has one size. The number of marks and
// the length follow from the number of rounds.
func (r *Raker) visitGrid(v *codec.Visitor) {
	g := r.grid
	if v.Reading() && v.Err() == nil {
		rounds := r.accounts[0].Rounds
		for rounds/g.length >= marked {
			g.length *= 2
		}
		g.count = int(rounds / g.length)
	}
	for n := range g.marks {
		g.marks[n].visit(v)
	}
}

func (k *mark) visit(v *codec.Visitor) {
	for _, gram := range k.grams {
		v.FloatsWithin(ledger.MaxSum, gram)
	}
	for _, right := range k.rights {
		v.FloatsWithin(ledger.MaxSum, right)
	}
	v.FloatsWithin(ledger.MaxSum, k.energies)
}

// switchingRegret is the regret against the best sequence of at most m functions after the first
// one, m = 0 …, that switch at marks: each of its pieces has the best function of the best kernel of
// each output, penalised once. It is nil without a grid. It solves for every interval between two
// marks, by differences of their moments, and adds up
//
//	D_0(j) = L*(0, j),  D_m(j) = min(D_{m−1}(j), min_{i<j} D_{m−1}(i) + L*(i, j))
//
// Source: AdaRaker (JMLR 2019), the m-switching benchmark of Theorem 3.
func (r *Raker) switchingRegret(loss float64, pause func()) []float64 {
	if r.grid == nil {
		return nil
	}
	ends := slices.Clone(r.grid.marks[:r.grid.count])
	if r.accounts[0].Rounds%r.grid.length != 0 {
		now := r.newMark()
		r.copyTo(&now)
		ends = append(ends, now)
	}
	regrets := make([]float64, max(1, len(ends)))
	for m := range regrets {
		regrets[m] = loss
	}
	if len(ends) == 0 {
		return regrets
	}
	// pieces[i][j] is L* of each output from end i, exclusive, to end j; before end 0 is nothing.
	pieces := make([][][]float64, len(ends))
	for i := range ends {
		pieces[i] = make([][]float64, len(ends))
		for j := i; j < len(ends); j++ {
			var from *mark
			if i > 0 {
				from = &ends[i-1]
			}
			pieces[i][j] = r.piece(from, &ends[j], pause)
		}
	}
	for output := range r.accounts {
		least := make([]float64, len(ends)) // D_m.
		for j := range ends {
			least[j] = pieces[0][j][output]
		}
		for m := range regrets {
			regrets[m] -= least[len(ends)-1]
			for j := len(ends) - 1; j > 0; j-- {
				for i := range j {
					least[j] = math.Min(least[j], least[i]+pieces[i+1][j][output])
				}
			}
		}
	}
	return regrets
}

// piece is L* of each output over the rounds from one mark, nil for the start, to another.
func (r *Raker) piece(from, to *mark, pause func()) []float64 {
	least := make([]float64, len(r.accounts))
	energies := slices.Clone(to.energies)
	subtract := func(dst, b []float64) {
		for i := range dst {
			dst[i] -= b[i]
		}
	}
	if from != nil {
		subtract(energies, from.energies)
	}
	for p := range r.hindsight.kernels {
		k := &r.hindsight.kernels[p]
		gram, rights := slices.Clone(to.grams[p]), make([][]float64, len(r.accounts))
		for j := range rights {
			rights[j] = slices.Clone(to.rights[j][k.offset : k.offset+k.size])
			if from != nil {
				subtract(rights[j], from.rights[j][k.offset:])
			}
		}
		if from != nil {
			subtract(gram, from.grams[p])
		}
		s := solve(gram, rights, r.options.Lambda, energies, pause)
		for j, loss := range s.losses {
			if p == 0 || loss < least[j] || math.IsNaN(loss) {
				least[j] = loss
			}
		}
	}
	return least
}
