package feature

import (
	"math"
	"math/rand/v2"

	"hindsight/internal/model"
	"hindsight/internal/model/kernel"
	"hindsight/internal/model/loops"
	"hindsight/internal/model/trig"
	"hindsight/internal/model/ziggurat"
)

// Fourier is the random feature map of a shift-invariant kernel: with D
// frequencies, the rows of V,
//
//	z(x) = [sin(Vx); cos(Vx)]/√D ∈ R^{2D},  E z(x)·z(x') = k(x−x'),  ‖z(x)‖ = 1
//
// Source: Rahimi and Recht (NIPS 2007); orthogonal frequencies: Yu et al.
// (NIPS 2016), as AdaRaker (JMLR 2019, §3) uses them.
type Fourier struct {
	shape

	// frequencies holds V by columns.
	frequencies []float64
	scale       float64
}

// NewFourier draws the frequencies of the kernel, independent or orthogonal in blocks of
// dimension rows. It panics unless dimension and frequencies are positive and the kernel
// has a spectral density, a radial one for orthogonal frequencies.
func NewFourier(k kernel.Kernel, dimension, frequencies int, orthogonal bool, source *rand.Rand) *Fourier {
	if dimension < 1 || frequencies < 1 {
		panic("feature: NewFourier wants dimension >= 1 and frequencies >= 1")
	}
	f := &Fourier{
		shape: shape{
			dimension: dimension, size: 2 * frequencies, limit: model.MaxMagnitude, bytes: 8 * uint64(frequencies*dimension),
		},
		frequencies: make([]float64, frequencies*dimension),
		scale:       1 / math.Sqrt(float64(frequencies)),
	}
	rng := ziggurat.New(source)
	block := make([]float64, min(dimension, frequencies)*dimension)
	for start := 0; start < frequencies; start += dimension {
		rows := block[:(min(start+dimension, frequencies)-start)*dimension]
		if orthogonal {
			orthogonalRows(rows, dimension, k, rng)
		} else {
			for i := 0; i < len(rows); i += dimension {
				k.Frequency(rows[i:i+dimension], rng)
			}
		}
		for i, v := range rows {
			f.frequencies[i%dimension*frequencies+start+i/dimension] = v
		}
	}
	return f
}

// orthogonalRows fills up to dimension rows with uniform orthogonal directions of random lengths.
func orthogonalRows(rows []float64, dimension int, k kernel.Kernel, rng *ziggurat.Rand) {
	for i := 0; i < len(rows); i += dimension {
		row := rows[i : i+dimension]
		for {
			for j := range row {
				row[j] = rng.Normal()
			}
			// Twice is enough for orthogonality to working precision.
			for range 2 {
				for p := 0; p < i; p += dimension {
					reject(row, rows[p:p+dimension])
				}
			}
			if normalise(row) {
				break
			}
		}
	}
	for i := 0; i < len(rows); i += dimension {
		length := k.Radius(dimension, rng)
		for j := range dimension {
			rows[i+j] *= length
		}
	}
}

// reject subtracts the component along the unit vector u from v.
func reject(v, u []float64) {
	along := 0.0
	for j, w := range u {
		along += float64(v[j] * w)
	}
	for j, w := range u {
		v[j] -= float64(along * w)
	}
}

// normalise scales v to length 1. It returns false if v is almost 0.
func normalise(v []float64) bool {
	sum := 0.0
	for _, w := range v {
		sum += float64(w * w)
	}
	if sum < 1e-12 {
		return false
	}
	length := math.Sqrt(sum)
	for j := range v {
		v[j] /= length
	}
	return true
}

// Map writes the features of x into z: a matrix-vector product of Dd multiply-adds, D sines
// and cosines, and a product with the scale.
func (f *Fourier) Map(z, x []float64) {
	count := f.size / 2
	if len(x) != f.dimension || len(z) != f.size {
		panic("feature: Fourier.Map wants dimension inputs and size features")
	}
	sines, cosines := z[:count], z[count:]
	loops.Combine(sines, f.frequencies, x)
	trig.Sincos(sines, cosines, sines)
	loops.Scale(z, f.scale)
}
