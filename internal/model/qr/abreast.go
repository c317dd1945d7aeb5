package qr

import "hindsight/internal/model/loops"

// Abreast is how many observations SolveAbreast takes.
const Abreast = loops.Abreast

// SolveAbreast is Solve of Abreast observations with one factor, bit for bit: one pass over R serves
// all of them. Entry i of observation n is z[i·Abreast + n], its prediction of column c
// priors[c·Abreast + n], its square squares[n]. It panics where Solve does, and without label columns.
func (f *Factor) SolveAbreast(z, priors []float64, squares *[Abreast]float64) {
	if len(z) != f.order*Abreast || len(priors) != f.columns*Abreast || f.columns == 0 {
		panic("qr: SolveAbreast wants order features and columns predictions of each observation")
	}
	clear(priors)
	*squares = [Abreast]float64{}
	if f.order == 0 || loops.SubstituteAbreast(z, f.data[f.row(0):], priors, squares, f.order, f.columns) {
		return
	}
	for i, row := range f.rows {
		own, behind := z[i*Abreast:][:Abreast], z[(i+1)*Abreast:]
		for n, v := range own {
			v /= row[0]
			own[n] = v
			squares[n] += float64(v * v)
			for j, r := range row[1 : f.order-i] {
				behind[j*Abreast+n] -= float64(v * r)
			}
			for c, u := range row[f.order-i:] {
				priors[c*Abreast+n] += float64(v * u)
			}
		}
	}
}
