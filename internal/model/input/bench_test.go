package input_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/structpb"

	"hindsight/internal/model"
	"hindsight/internal/model/input"
	"hindsight/internal/model/modeltest"
)

const (
	documentedHash = 0xdc68eec548e3bfdd
	documentedBits = 0x37730e8bf438e781
)

// twenty is a record of 20 inputs: twelve numbers, four categories, a hash, two
// booleans and a time.
func twenty(tb testing.TB) (*input.Schema, *structpb.Struct) {
	tb.Helper()
	var inputs []*model.Input
	m := row{}
	add := func(in *model.Input, v any) {
		inputs = append(inputs, in)
		m[in.Name] = v
	}
	for k := range 12 {
		add(&model.Input{Name: fmt.Sprint("temperature ", k), Numeric: &model.NumericInput{Log1p: ptr(k%4 == 0)}}, 21.5+float64(k))
	}
	for k := range 4 {
		add(&model.Input{Name: fmt.Sprint("city ", k), Categorical: &model.CategoricalInput{MaxCategories: ptr(16)}}, fmt.Sprint("Oslo ", k))
	}
	add(&model.Input{Name: "shop", Categorical: &model.CategoricalInput{HashBuckets: ptr(32)}}, "shop 1234")
	add(&model.Input{Name: "open", Boolean: &model.BooleanInput{}}, true)
	add(&model.Input{Name: "holiday", Boolean: &model.BooleanInput{}}, nil)
	add(&model.Input{Name: "at", Time: &model.TimeInput{}}, "2026-11-21T18:00:00Z")
	from, err := structpb.NewStruct(m)
	require.NoError(tb, err)
	return schemaOf(tb, inputs), from
}

// Beyond the decoding of the Struct, a request allocates its record and its features.
func TestARequestAllocatesTwice(t *testing.T) {
	if modeltest.RaceDetector {
		t.Skip("the race detector allocates")
	}
	s, from := twenty(t)
	e := input.NewEncoder(s)
	e.Learn(record(t, s, from.AsMap()))
	n := testing.AllocsPerRun(100, func() {
		var r input.Record
		err := fromStruct(s, &r, from)
		assert.True(t, err == nil && len(e.Encode(nil, &r)) == s.Dimension(), "features are missing: %v", err)
	})
	assert.LessOrEqual(t, n, 2.0, "%g allocations, want 2", n)
}
