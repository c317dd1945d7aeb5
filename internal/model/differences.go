package model

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
)

// Differences are the fields of other that s has otherwise, or the learner alone if the learners differ. Both specs are completed.
func (s Spec) Differences(other Spec) FieldErrors {
	if reflect.DeepEqual(s, other) {
		return nil
	}
	if s.Name() != other.Name() {
		return FieldErrors{{Field: "spec", Got: other.Name(), Want: s.Name()}}
	}
	var out FieldErrors
	differ("spec", tree(s), tree(other), &out)
	if len(out) > 1 && s.Inputs != nil && other.Inputs != nil {
		// The dimension follows from the inputs, and is not in the caller's spec.
		out = slices.DeleteFunc(out, func(e *FieldError) bool { return e.Field == "spec.dimension" })
	}
	return out
}

// tree is a spec as JSON has it.
func tree(s Spec) (out any) {
	raw, err := json.Marshal(s)
	if err == nil {
		exact := json.NewDecoder(bytes.NewReader(raw))
		exact.UseNumber() // Seeds have up to 64 bits.
		err = exact.Decode(&out)
	}
	if err != nil {
		panic(err) // Specs are stored as JSON.
	}
	return out
}

func differ(field string, want, got any, out *FieldErrors) {
	a, isObject := want.(map[string]any)
	b, ok := got.(map[string]any)
	if isObject && ok {
		both := maps.Clone(a)
		maps.Copy(both, b)
		for _, name := range slices.Sorted(maps.Keys(both)) {
			differ(field+"."+name, a[name], b[name], out)
		}
		return
	}
	list, isList := want.([]any)
	if others, ok := got.([]any); isList && ok && len(list) == len(others) {
		for i := range list {
			differ(fmt.Sprintf("%s[%d]", field, i), list[i], others[i], out)
		}
		return
	}
	if !reflect.DeepEqual(want, got) {
		*out = append(*out, &FieldError{Field: field, Got: brief(got), Want: brief(want)})
	}
}

// brief is the JSON of a value, of a list its length.
func brief(v any) string {
	switch v := v.(type) {
	case nil:
		return "nothing"
	case []any:
		return fmt.Sprintf("%d elements", len(v))
	default:
		raw, _ := json.Marshal(v) // It was JSON.
		return string(raw)
	}
}
