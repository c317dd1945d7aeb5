package auto_test

import "math"

// dense is a forecaster: A, and b of each column.
type dense struct {
	kind       int
	forgetting float64
	lambda     float64
	a, b       [][]float64
	ridge      []float64
	rounds     int
	turn       int
}

func newDense(kind, r, columns int, lambda, forgetting float64) *dense {
	d := &dense{kind: kind, forgetting: forgetting, lambda: lambda, a: matrix(r, r), b: matrix(columns, r), ridge: make([]float64, r)}
	for i := range d.a {
		d.a[i][i], d.ridge[i] = lambda, lambda
	}
	return d
}

func matrix(rows, columns int) [][]float64 {
	m := make([][]float64, rows)
	for i := range m {
		m[i] = make([]float64, columns)
	}
	return m
}

// predict is zᵀ(fA + zzᵀ)⁻¹ f b of each column.
func (d *dense) predict(z []float64) []float64 {
	r := len(z)
	m := matrix(r, r)
	for i := range m {
		for j := range m[i] {
			m[i][j] = d.forgetting*d.a[i][j] + z[i]*z[j]
		}
	}
	w := solve(m, z)
	out := make([]float64, len(d.b))
	for c, b := range d.b {
		for i, v := range w {
			out[c] += d.forgetting * v * b[i]
		}
	}
	return out
}

// solve is m⁻¹z by elimination, with m positive definite.
func solve(m [][]float64, z []float64) []float64 {
	x := append([]float64(nil), z...)
	for i := range m {
		for k := i + 1; k < len(m); k++ {
			f := m[k][i] / m[i][i]
			for j := i; j < len(m); j++ {
				m[k][j] -= f * m[i][j]
			}
			x[k] -= f * x[i]
		}
	}
	for i := len(m) - 1; i >= 0; i-- {
		for j := i + 1; j < len(m); j++ {
			x[i] -= m[i][j] * x[j]
		}
		x[i] /= m[i][i]
	}
	return x
}

func (d *dense) learn(z, y []float64, weight float64) {
	for i := range d.a {
		d.ridge[i] *= d.forgetting
		for j := range d.a[i] {
			d.a[i][j] = d.forgetting*d.a[i][j] + weight*z[i]*z[j]
		}
		for c := range d.b {
			d.b[c][i] = d.forgetting*d.b[c][i] + weight*z[i]*y[c]
		}
	}
	d.rounds++
	if d.forgetting == 1 {
		return
	}
	rounds, r, batch := int(math.Floor(math.Log(1e-3)/math.Log(d.forgetting))), len(z), 1
	period := rounds / r
	if period == 0 {
		period, batch = 1, (r+rounds-1)/rounds
	}
	if d.rounds%period == 0 {
		for range batch {
			i := d.turn % r
			d.a[i][i] += d.lambda - d.ridge[i]
			d.ridge[i] = d.lambda
			d.turn++
		}
	}
}
