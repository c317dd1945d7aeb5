package rpc_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
)

// InferSpec answers what the columns are, and the values of their cells by the inferred or by another spec.
func TestInferSpec(t *testing.T) {
	c := serve(t)
	const csv = "when;city;price;id;label\n21.11.2026;Bern;1,5;t1;up\n22.11.2026;NA;0,123;t2;down\n23.11.2026;Bern;;t3;\n"
	r, err := c.models.InferSpec(t.Context(), &hindsightv1.InferSpecRequest{Csv: csv, Values: true})
	require.NoError(t, err)
	want := []hindsightv1.InferredColumn_Kind{
		hindsightv1.InferredColumn_KIND_TIME, hindsightv1.InferredColumn_KIND_CATEGORY, hindsightv1.InferredColumn_KIND_NUMBER,
		hindsightv1.InferredColumn_KIND_CATEGORY, hindsightv1.InferredColumn_KIND_CLASS,
	}
	for i, column := range r.GetColumns() {
		assert.True(t, column.GetKind() == want[i] && column.GetReason() != "", "%v, want %v", column, want[i])
	}
	assert.True(t, r.GetRows() == 3 && len(r.GetColumns()) == 5 && len(r.GetSpec().GetInputs()) == 4 && r.GetSpec().GetClasses().GetMaxClasses() == 2, r)
	line, _, _ := strings.Cut(r.GetValues(), "\n")
	assert.Equal(t, `["2026-11-21T00:00:00Z","Bern",1.5,"t1","up"]`, line, "values %s", r.GetValues())
	spec := &hindsightv1.ModelSpec{Inputs: r.GetSpec().GetInputs()[1:2]}
	r, err = c.models.InferSpec(t.Context(), &hindsightv1.InferSpecRequest{Csv: csv, Target: "price", Spec: spec, Values: true})
	require.NoError(t, err)
	line, _, _ = strings.Cut(r.GetValues(), "\n")
	assert.Equal(t, `[null,"Bern",1.5,null,null]`, line, "values %s", r.GetValues())
	digits := &hindsightv1.InferSpecRequest{Csv: "Report\n\na,b,y\n1,1,1\n2,2,2\n", Texts: []string{"b"}}
	r, err = c.models.InferSpec(t.Context(), digits)
	require.NoError(t, err)
	in := r.GetSpec().GetInputs()
	assert.True(t, in[0].GetNumeric() != nil && in[1].GetCategorical().GetMaxCategories() == 2, "%v, want a number and a category", in)
	notes := strings.Join(r.GetNotes(), " ")
	assert.True(t, strings.HasPrefix(notes, "the first line of the table is line 3: ") && strings.Contains(notes, "Is y a class?"), "notes %q", notes)
	digits.Texts = []string{"c"}
	_, err = c.models.InferSpec(t.Context(), digits)
	rejected(t, err, codes.InvalidArgument, "INVALID_REQUEST", `there is no column "c"`)
	for csv, says := range map[string]string{
		"":                  "csv: the file is empty",
		"PAR1":              "csv: the file is Parquet where CSV is expected",
		"a,b\n1\n":          "csv: line 2, column 2: 1 fields where the header has 2",
		"a,b\n1,\n2,\n":     "csv: column 2 (b): the target has no label",
		"1.5,2.5\n3,4\n":    "csv: line 1, column 1: the first line holds numbers",
		"PK\x03\x04 a\n1\n": "csv: the file is a zip file",
	} {
		_, err := c.models.InferSpec(t.Context(), &hindsightv1.InferSpecRequest{Csv: csv})
		rejected(t, err, codes.InvalidArgument, "INVALID_REQUEST", says)
	}
}
