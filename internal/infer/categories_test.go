package infer_test

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
	"hindsight/internal/infer"
)

// The Python client reads the same cases.
func TestCategoriesAndKeys(t *testing.T) {
	raw, err := os.ReadFile("testdata/categories.json")
	require.NoError(t, err)
	var cases []struct {
		Case, Name, Kind string
		Cells, Labels    []any
	}
	require.NoError(t, json.Unmarshal(raw, &cases))
	for _, c := range cases {
		var b strings.Builder
		w := csv.NewWriter(&b)
		o := infer.Options{}
		for i, cell := range c.Cells {
			row, head := []string{fmt.Sprint(cell), "0.5"}, []string{c.Name, "other"}
			if len(c.Labels) > 0 {
				row, head, o.Target = append(row, fmt.Sprint(c.Labels[i])), append(head, "y"), "y"
			}
			if i == 0 {
				_ = w.Write(head)
			}
			_ = w.Write(row)
		}
		w.Flush()
		column := read(t, b.String(), o).Columns[0]
		got := string(column.Kind)
		if column.Input.GetCategorical().GetKey() {
			got = "key"
		}
		assert.Equal(t, c.Kind, got, "%v %v", c.Case, column.Reason)
	}
}

// Learners without keys have the same inputs by their first categories.
func TestForALearner(t *testing.T) {
	spec := &hindsightv1.ModelSpec{Inputs: []*hindsightv1.Input{
		{Name: "user", Kind: &hindsightv1.Input_Categorical{Categorical: &hindsightv1.CategoricalInput{Key: true}}, Missing: hindsightv1.Input_MISSING_REJECT},
		{Name: "x", Kind: &hindsightv1.Input_Numeric{}},
	}}
	if got := infer.For(spec, "auto"); got != spec {
		t.Errorf("for auto: %v", got)
	}
	got := infer.For(spec, "linear_awv")
	user := got.GetInputs()[0]
	assert.False(t, user.GetCategorical().GetKey() || user.GetCategorical().GetMaxCategories() != 64 || user.GetName() != "user" || user.GetMissing() == 0, "for linear_awv: %v", got)
	assert.True(t, spec.GetInputs()[0].GetCategorical().GetKey(), "the spec has changed")
	got = infer.For(&hindsightv1.ModelSpec{Inputs: spec.GetInputs()[1:]}, "linear_awv")
	assert.Len(t, got.GetInputs(), 1, "without keys: %v", got)
}

// Texts of which most do not repeat are keys if labels depend on them, and a quarter of the cells repeat one.
func TestSeldomTexts(t *testing.T) {
	for _, c := range []struct {
		texts  int
		effect float64
		want   infer.Kind
	}{{800, 1, infer.Category}, {800, 0, infer.LeftOut}, {1600, 1, infer.LeftOut}} {
		var b strings.Builder
		b.WriteString("id,y\n")
		rng := rand.New(rand.NewPCG(1, 36))
		for range 1000 {
			id := rng.IntN(c.texts)
			fmt.Fprintf(&b, "t%d,%g\n", id, c.effect*math.Sin(float64(id))+.3*rng.NormFloat64())
		}
		column := read(t, b.String(), infer.Options{Target: "y"}).Columns[0]
		assert.Equal(t, c.want, column.Kind, "%v %v", c, column.Reason)
	}
}
