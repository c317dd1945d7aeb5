package qr

// rotateGo turns a pair of rows:
//
//	for j := range a { a[j], b[j] = ca*a[j] + s*b[j], c*b[j] - sa*a[j] }
//
// b is at least as long as a and does not overlap it.
func rotateGo(a, b []float64, ca, sa, c, s float64) {
	for len(a) >= 4 && len(b) >= 4 {
		a0, a1, a2, a3 := a[0], a[1], a[2], a[3]
		b0, b1, b2, b3 := b[0], b[1], b[2], b[3]
		a[0] = float64(ca*a0) + float64(s*b0)
		a[1] = float64(ca*a1) + float64(s*b1)
		a[2] = float64(ca*a2) + float64(s*b2)
		a[3] = float64(ca*a3) + float64(s*b3)
		b[0] = float64(c*b0) - float64(sa*a0)
		b[1] = float64(c*b1) - float64(sa*a1)
		b[2] = float64(c*b2) - float64(sa*a2)
		b[3] = float64(c*b3) - float64(sa*a3)
		a, b = a[4:], b[4:]
	}
	b = b[:len(a)]
	for j, v := range a {
		w := b[j]
		a[j] = float64(ca*v) + float64(s*w)
		b[j] = float64(c*w) - float64(sa*v)
	}
}

// axpyGo adds a times x to y:
//
//	for j := range y { y[j] += a * x[j] }
//
// x is at least as long as y and does not overlap it.
func axpyGo(y, x []float64, a float64) {
	for len(y) >= 4 && len(x) >= 4 {
		y[0] += float64(a * x[0])
		y[1] += float64(a * x[1])
		y[2] += float64(a * x[2])
		y[3] += float64(a * x[3])
		y, x = y[4:], x[4:]
	}
	x = x[:len(y)]
	for j, v := range x {
		y[j] += float64(a * v)
	}
}

// dotGo is x·y, summed in eight parts, so that the additions need not wait for
// one another, and the rest behind them. Both have the same length.
func dotGo(x, y []float64) float64 {
	var s0, s1, s2, s3, s4, s5, s6, s7 float64
	for len(x) >= 8 && len(y) >= 8 {
		s0 += float64(x[0] * y[0])
		s1 += float64(x[1] * y[1])
		s2 += float64(x[2] * y[2])
		s3 += float64(x[3] * y[3])
		s4 += float64(x[4] * y[4])
		s5 += float64(x[5] * y[5])
		s6 += float64(x[6] * y[6])
		s7 += float64(x[7] * y[7])
		x, y = x[8:], y[8:]
	}
	return dotRest(((s0+s4)+(s2+s6))+((s1+s5)+(s3+s7)), x, y)
}

func dotRest(sum float64, x, y []float64) float64 {
	y = y[:len(x)]
	for j, v := range x {
		sum += float64(v * y[j])
	}
	return sum
}
