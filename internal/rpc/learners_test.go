package rpc_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
	"hindsight/internal/model"
)

// ListLearners lists every learner that a spec may name, the default first, and describes
// every field, so that a form can be made from it.
func TestListLearners(t *testing.T) {
	s := serve(t)
	r := must(s.models.ListLearners(t.Context(), &hindsightv1.ListLearnersRequest{}))(t)
	var names []string
	fields := map[string]*hindsightv1.LearnerField{}
	for _, l := range r.GetLearners() {
		names = append(names, l.GetName())
		assert.True(t, l.GetDescription() != "" && len(l.GetFields()) != 0, "%s: described as %q, with %d fields", l.GetName(), l.GetDescription(), len(l.GetFields()))
		for _, f := range l.GetFields() {
			fields[l.GetName()+"."+f.GetName()] = f
			if f.GetType() == "" || f.GetDescription() == "" || strings.Contains(f.GetDescription(), "\n") || (f.GetType() == "enum" || f.GetType() == "Kernel") != (len(f.GetValues()) > 0) {
				t.Errorf("%s has the field %v", l.GetName(), f)
			}
		}
	}
	assert.Equal(t, model.DefaultLearner, names[0], "the first")
	want := model.LearnerNames()
	slices.Sort(names)
	slices.Sort(want)
	assert.True(t, slices.Equal(names, want), "%v, want %v", names, want)
	for name, want := range map[string]*hindsightv1.LearnerField{
		"linear_awv.lambda": {Type: "double"},
		"raker.kernels": {Type: "Kernel", Repeated: true, Values: []string{
			"KIND_GAUSSIAN", "KIND_LAPLACIAN", "KIND_MATERN_12", "KIND_MATERN_32", "KIND_MATERN_52", "KIND_CAUCHY",
			"KIND_RATIONAL_QUADRATIC", "KIND_POLYNOMIAL", "KIND_LINEAR",
		}},
		"fourier_kons.loss":  {Type: "enum", Values: []string{"LOSS_SQUARED", "LOSS_LOGISTIC", "LOSS_HINGE", "LOSS_SQUARED_HINGE"}},
		"linear_awv.lambdas": {Type: "double", Repeated: true},
	} {
		f := fields[name]
		assert.True(t, f.GetType() == want.GetType() && f.GetRepeated() == want.GetRepeated() && slices.Equal(f.GetValues(), want.GetValues()), "%s is %v, want %v", name, f, want)
	}
}
