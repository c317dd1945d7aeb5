package kons

import (
	"cmp"
	"math"
	"slices"

	"hindsight/internal/model"
	"hindsight/internal/model/codec"
	"hindsight/internal/model/exponential"
	"hindsight/internal/model/qr"
)

// A round raises at least minRaised ridges of a factor, and more while they take at most
// shortRaise entries. A raise takes at most r² entries, from the row of the feature on.
const (
	minRaised  = 8
	shortRaise = 1 << 23
)

// ridged is the factor of A = Λ + Σ row rowᵀ with a ridge Λ_ii = αΩ_i for each feature. After
// a change of Ω the ridges follow in later rounds.
type ridged struct {
	*qr.Factor
	// units are Ω_i <= Ω. low counts those below Ω.
	units []float64
	low   int
}

func newRidged(features, labels int, alpha, unit float64) *ridged {
	return &ridged{Factor: qr.New(features, labels, float64(alpha*unit)), units: slices.Repeat([]float64{unit}, features)}
}

// add adds a feature without a past: A ← diag(A, αΩ), m ← (m, 0).
func (f *ridged) add(labels int, alpha, unit float64) {
	ridge := float64(alpha * unit)
	f.Append(make([]float64, f.Order()), ridge, make([]float64, labels), ridge)
	f.units = append(f.units, unit)
}

// reset raises the ridges of the last features to αΩ at once, and leaves the first ones to
// raise. S is the Schur complement of the first n features in A, S − Λ >= 0. If Tr(S − Λ) is
// at most α(Ω − max Ω_i), then Λ <= S <= αΩI. The factor takes αΩI for S: A grows by αΩI − S,
// which is at least 0 and at most αΩI − Λ.
func (f *ridged) reset(alpha, unit float64) {
	largest := 0.0
	for _, u := range f.units {
		largest = math.Max(largest, u)
	}
	n, excess, room := f.Order(), 0.0, float64(alpha*(unit-largest))
	for n > 0 {
		if excess += f.RowNorm2(n-1) - float64(alpha*f.units[n-1]); excess > room {
			break
		}
		n--
	}
	f.Reset(n, math.Sqrt(float64(alpha*unit)))
	for i := n; i < len(f.units); i++ {
		f.units[i] = unit
	}
	f.low = n
}

// raise raises the smallest ridges to αΩ by rows √(α(Ω−Ω_i)) e_i of label 0, and calls raised with
// the rotated labels of each. It overwrites row, features and labels, and priors.
func (f *ridged) raise(row, priors []float64, o *Options, unit float64, raised func(labels []float64, r qr.Rotation)) {
	r := f.Order()
	for range min(f.low, cmp.Or(o.raised, max(minRaised, shortRaise/max(r*r, 1)))) {
		i := 0
		for k, u := range f.units {
			if u < f.units[i] {
				i = k
			}
		}
		clear(row)
		row[i] = math.Sqrt(o.Alpha * (unit - f.units[i]))
		rotation := f.Rotate(row, priors)
		f.units[i] = unit
		f.low--
		raised(row[r:], rotation)
	}
}

// logDet is log det(A/αΩ), with the same bits on every target, because the state holds it.
func (f *ridged) logDet(ridge float64) (sum float64) {
	root := math.Sqrt(ridge)
	for _, d := range f.Diagonal() {
		sum += float64(2 * exponential.Log(d/root))
	}
	return sum
}

// missing is log det(αΩ/Λ).
func (f *ridged) missing(unit float64) (sum float64) {
	if f.low > 0 {
		for _, u := range f.units {
			sum += exponential.Log(unit / u)
		}
	}
	return sum
}

// effectiveDimension is r − Tr ΛA⁻¹, at r³/6 multiply-adds.
func (f *ridged) effectiveDimension(alpha float64, pause func()) float64 {
	return float64(f.Order()) - f.TraceInverse(func(i int) float64 { return float64(alpha * f.units[i]) }, pause)
}

func (f *ridged) visit(v *codec.Visitor, o *Options, unit float64) {
	smallest := unit
	v.FloatsWithin(unit, f.units)
	for i, u := range f.units {
		if v.Reading() && !(u >= model.MinWeight) {
			v.Corrupt("the unit of ridge %d is %g", i, u)
		}
		smallest = min(smallest, u)
	}
	if f.Visit(v, minDiagonal*math.Sqrt(float64(o.Alpha*smallest)), qr.MaxEntry); !v.Reading() {
		return
	}
	f.low = 0
	for _, u := range f.units {
		if u < unit {
			f.low++
		}
	}
}
