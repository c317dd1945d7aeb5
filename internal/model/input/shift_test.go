package input_test

import (
	"math"
	"math/rand/v2"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"hindsight/internal/model"
	"hindsight/internal/model/input"
)

// The index is small as long as nothing changes, and large after a change, of values
// and of how many are missing.
func TestShift(t *testing.T) {
	inputs := []*model.Input{
		{Name: "x", Numeric: &model.NumericInput{}},
		{Name: "c", Categorical: &model.CategoricalInput{}},
		{Name: "h", Categorical: &model.CategoricalInput{HashBuckets: ptr(16)}},
		{Name: "b", Boolean: &model.BooleanInput{}},
		{Name: "v", Vector: &model.VectorInput{Length: ptr(2)}},
		{Name: "gaps", Numeric: &model.NumericInput{}},
	}
	s := schemaOf(t, inputs)
	e := input.NewEncoder(s)
	rng := rand.New(rand.NewPCG(8, 8))
	take := func(n int, by float64) {
		for range n {
			m := row{
				"x": rng.NormFloat64() + by, "c": strconv.Itoa(int(2*rng.ExpFloat64() + by)), "h": strconv.Itoa(rng.IntN(8) + int(3*by)),
				"b": rng.Float64() < 0.5+0.3*by, "v": []any{rng.NormFloat64() + by, rng.NormFloat64() + by}, "gaps": rng.ExpFloat64(),
			}
			if rng.Float64() < 0.1+0.4*by {
				m["gaps"] = nil
			}
			e.Learn(record(t, s, m))
		}
	}
	take(1000, 0)
	assert.False(t, e.Statistics(1).ShiftKnown, "a shift is known before two windows")
	take(9000, 0)
	for i := range s.Len() {
		if got := e.Statistics(i); !got.ShiftKnown || got.Shift > 0.1 {
			t.Errorf("%s: a shift of %g without a change", s.Name(i), got.Shift)
		}
	}
	take(1024, 1)
	for i := range s.Len() {
		if got := e.Statistics(i); !(got.Shift > 0.25) || math.IsInf(got.Shift, 0) {
			t.Errorf("%s: a shift of %g after a change", s.Name(i), got.Shift)
		}
	}
}

// The index is of the last 512 records at every record, not at every 512th alone.
func TestShiftFollowsEveryRecord(t *testing.T) {
	s := schemaOf(t, []*model.Input{{Name: "x", Numeric: &model.NumericInput{}}, {Name: "b", Boolean: &model.BooleanInput{}}})
	for _, before := range []int{10 * 512, 10*512 + 1, 10*512 + 200, 11*512 - 1} {
		e := input.NewEncoder(s)
		rng := rand.New(rand.NewPCG(uint64(before), 9))
		take := func(n int, by float64, want func(n int, name string, psi float64)) {
			for k := range n {
				e.Learn(record(t, s, row{"x": rng.NormFloat64() + by, "b": rng.Float64() < 0.2+by/200}))
				for i := range s.Len() {
					if got := e.Statistics(i); got.ShiftKnown {
						want(k+1, s.Name(i), got.Shift)
					}
				}
			}
		}
		take(before, 0, func(n int, name string, psi float64) {
			assert.LessOrEqual(t, psi, 0.1, "seed %d, record %d: %s has a shift of %g without a change", before, n, name, psi)
		})
		take(511, 100, func(n int, name string, psi float64) {
			assert.False(t, n >= 256 && psi < 0.25 || math.IsInf(psi, 0) || math.IsNaN(psi), "seed %d: %s has a shift of %g after %d records at 100 deviations", before, name, psi, n)
			if n == 511 {
				t.Logf("after %d records and 511 at 100 deviations: %s has a shift of %.3g", before, name, psi)
			}
		})
	}
}

// Of values that do not change within a window the index is that of the formula.
func TestShiftIsTheFormula(t *testing.T) {
	s := schemaOf(t, []*model.Input{{Name: "b", Boolean: &model.BooleanInput{}}})
	e := input.NewEncoder(s)
	var all []bool
	for n := range 3000 {
		b := n >= 1536
		all = append(all, b)
		e.Learn(record(t, s, row{"b": b}))
		got := e.Statistics(0)
		if !got.ShiftKnown {
			require.Less(t, n, 1023, "no shift is known after %d records", n+1)
			continue
		}
		part := func(values []bool) (bins [11]float64) {
			for _, v := range values {
				if v {
					bins[1]++
				} else {
					bins[0]++
				}
			}
			for i := range bins {
				bins[i] = (bins[i] + 0.5) / (float64(len(values)) + 5.5)
			}
			return bins
		}
		p, q, want := part(all[len(all)-512:]), part(all[:len(all)-512]), 0.0
		for i := range p {
			want += (p[i] - q[i]) * math.Log(p[i]/q[i])
		}
		require.InDelta(t, want, got.Shift, 1e-12*max(1, want), "after %d records: a shift of %.17g, want %.17g", n+1, got.Shift, want)
	}
}
