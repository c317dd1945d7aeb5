package qr

// Shift moves the right-hand side of one label column along v, order numbers:
//
//	u_c ← u_c − by·v
//
// With v = R⁻ᵀz that is b ← b − by·z: the weights w = A⁻¹b move by −by·A⁻¹z, and so
// does their value at z by −by·‖v‖². R stays as it is. It costs order multiply-adds
// and allocates nothing. It panics when v has the wrong length or there is no such
// column.
//
// Source: the oblique projection of the online Newton step, KONS (ICML 2017), §3.
func (f *Factor) Shift(v []float64, by float64, column int) {
	if len(v) != f.order || column < 0 || column >= f.columns {
		panic("qr: Shift wants order numbers and an existing column")
	}
	at, step := f.order+column, f.order+f.columns-1 // Of the entry in row i, and to that in the next.
	for i, entry := range v {
		u := f.data[at] - float64(by*entry)
		f.data[at], f.right[i*f.columns+column] = u, u
		at += step
		step--
	}
}
