// Package loops holds the inner loops of the learners and of package qr, with assembly for
// AVX2 and, for some, for AVX-512. Rotate, Axpy and Dot have NEON for arm64. A loop and its Go twin have the
// same bits: they do the same operations on the same numbers. Every product that is added is written float64(x*y), so
// that no compiler fuses the two. The tag purego builds without the assembly. Twins of whole
// passes over a factor are in package qr.
//
// Slices that are read are at least as long as the slice that is written, and do not
// overlap it. Nothing allocates. A wrong length is a panic.
package loops

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
	if len(x) >= 4 && len(y) >= 4 {
		s0 += float64(x[0] * y[0])
		s1 += float64(x[1] * y[1])
		s2 += float64(x[2] * y[2])
		s3 += float64(x[3] * y[3])
		x, y = x[4:], y[4:]
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

func scaleGo(x []float64, by float64) {
	for i := range x {
		x[i] *= by
	}
}

func combineGo(y, columns, x []float64) {
	clear(y)
	for j, v := range x {
		Axpy(y, columns[j*len(y):], v)
	}
}

func descendGo(theta, z []float64, shrink, slope float64) float64 {
	var s0, s1, s2, s3, s4, s5, s6, s7 float64
	for len(theta) >= 8 && len(z) >= 8 {
		t0, t1, t2, t3 := theta[0], theta[1], theta[2], theta[3]
		t4, t5, t6, t7 := theta[4], theta[5], theta[6], theta[7]
		s0 += float64(t0 * t0)
		s1 += float64(t1 * t1)
		s2 += float64(t2 * t2)
		s3 += float64(t3 * t3)
		s4 += float64(t4 * t4)
		s5 += float64(t5 * t5)
		s6 += float64(t6 * t6)
		s7 += float64(t7 * t7)
		theta[0] = float64(shrink*t0) - float64(slope*z[0])
		theta[1] = float64(shrink*t1) - float64(slope*z[1])
		theta[2] = float64(shrink*t2) - float64(slope*z[2])
		theta[3] = float64(shrink*t3) - float64(slope*z[3])
		theta[4] = float64(shrink*t4) - float64(slope*z[4])
		theta[5] = float64(shrink*t5) - float64(slope*z[5])
		theta[6] = float64(shrink*t6) - float64(slope*z[6])
		theta[7] = float64(shrink*t7) - float64(slope*z[7])
		theta, z = theta[8:], z[8:]
	}
	if len(theta) >= 4 && len(z) >= 4 {
		t0, t1, t2, t3 := theta[0], theta[1], theta[2], theta[3]
		s0 += float64(t0 * t0)
		s1 += float64(t1 * t1)
		s2 += float64(t2 * t2)
		s3 += float64(t3 * t3)
		theta[0] = float64(shrink*t0) - float64(slope*z[0])
		theta[1] = float64(shrink*t1) - float64(slope*z[1])
		theta[2] = float64(shrink*t2) - float64(slope*z[2])
		theta[3] = float64(shrink*t3) - float64(slope*z[3])
		theta, z = theta[4:], z[4:]
	}
	return descendRest(((s0+s4)+(s2+s6))+((s1+s5)+(s3+s7)), theta, z, shrink, slope)
}

func descendRest(square float64, theta, z []float64, shrink, slope float64) float64 {
	z = z[:len(theta)]
	for i, t := range theta {
		square += float64(t * t)
		theta[i] = float64(shrink*t) - float64(slope*z[i])
	}
	return square
}

// Rows is the number of rows that AddSquares adds in one pass.
const Rows = 8

func addOneByOne(packed, rows []float64, stride, order int, weights []float64) {
	for n, w := range weights {
		z, rest := rows[n*stride:][:order], packed
		for i, v := range z {
			Axpy(rest[:order-i], z[i:], float64(w*v))
			rest = rest[order-i:]
		}
	}
}
