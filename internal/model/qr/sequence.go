package qr

import (
	"math"

	"hindsight/internal/model/loops"
)

// groups is how many groups of observations share a pass. The rows of a group of order 2048
// take 64 KB.
const groups = 8

// RotateSequence is Rotate of every turn in order, bit for bit, in fewer passes over R. All
// turns are of one factor, and none discounts. In a pass row i takes all turns before row i+1
// takes the first:
//
//	turn t of row i needs turn t of row i−1 and turn t−1 of row i
//
// Row i stays in the cache meanwhile, a sweep over it takes several turns, and the square roots
// and divisions of a group run beside the sweeps of others. RotateSequence allocates nothing. It
// panics where Rotate does.
//
// A Householder reflection takes several rows at once with fewer operations, but not with these
// bits.
func RotateSequence(turns []Turn) {
	for i := range turns {
		if turns[i].Factor != turns[0].Factor || turns[i].Root != 1 {
			panic("qr: RotateSequence wants turns of one factor without a discount")
		}
	}
	for len(turns) >= loops.Turns {
		var room [groups]loops.Group
		pass := room[:min(groups, len(turns)/loops.Turns)]
		taken := turns[:len(pass)*loops.Turns]
		turns[0].Factor.turnGroups(pass, taken)
		turns = turns[len(taken):]
	}
	for i := range turns {
		RotateTogether(turns[i : i+1])
	}
}

func (f *Factor) turnGroups(groups []loops.Group, turns []Turn) {
	first := f.order
	for n := range turns {
		first = min(first, turns[n].begin())
	}
	for n := range turns {
		g, at, p := &groups[n/loops.Turns], n%loops.Turns, &turns[n].pass
		g.Rows[at], g.Priors[at] = p.Row, p.Priors
		g.Gamma[at], g.Left[at] = p.Gamma, p.Left
		if first < f.order {
			f.annihilate(g, at, turns[n].Row, first)
		}
	}
	for i := first; i < f.order; i++ {
		own, right := f.rowSlice(i), f.right[i*f.columns:][:f.columns]
		for done := 0; done < len(groups); {
			if done += loops.TurnGroups(groups[done:], own, i, f.order, right, f.diagonal); done < len(groups) {
				f.turnRow(&groups[done], turns[done*loops.Turns:], i)
				done++
			}
		}
	}
	for n := range turns {
		g, at := &groups[n/loops.Turns], n%loops.Turns
		turns[n].Rotation = rotation(g.Gamma[at], g.Leverage[at])
	}
}

// annihilate is Turn.find for a turn of a group, without the predictions.
func (f *Factor) annihilate(g *loops.Group, at int, row []float64, i int) {
	z := row[i]
	if g.Still &^= 1 << at; z == 0 {
		g.Still |= 1 << at
		return
	}
	own := &f.data[f.row(i)]
	d := *own
	norm := math.Sqrt(float64(d*d) + float64(z*z))
	c, s := d/norm, z/norm
	g.V[at] = z / (d * g.Gamma[at])
	*own, f.diagonal[i] = norm, norm
	g.C[at], g.S[at] = c, s
	g.Gamma[at] *= c
	g.Leverage[at] += float64(g.Left[at] * float64(s*s))
	g.Left[at] *= float64(c * c)
}

func (f *Factor) turnRow(g *loops.Group, turns []Turn, i int) {
	own, labels := f.rowSlice(i), f.order-i
	for at := range loops.Turns {
		row, c, s := turns[at].Row[i:], g.C[at], g.S[at]
		if g.Still>>at&1 == 0 {
			for j, u := range own[labels:] {
				turns[at].Priors[j] += float64(g.V[at] * u)
			}
			loops.Rotate(own[1:], row[1:], c, s, c, s)
		}
		if i+1 < f.order {
			f.annihilate(g, at, turns[at].Row, i+1)
		}
	}
	copy(f.right[i*f.columns:], own[labels:])
}
