package catalog_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"hindsight/internal/model"
	"hindsight/internal/model/catalog"
	"hindsight/internal/model/codec"
)

// FuzzComplete: a spec of any JSON is completed or rejected with the name of a
// field. Neither writes to what was given. A completed spec is complete, it
// costs the same, and if it is small it has a learner of the stated size.
func FuzzComplete(f *testing.F) {
	data := must(os.ReadFile(filepath.Join("testdata", "completed.jsonl")))(f)
	for line := range bytes.Lines(data) {
		var c completion
		require.NoError(f, json.Unmarshal(line, &c))
		f.Add([]byte(c.Spec))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		given, err := parse(data)
		if err != nil {
			t.Skip()
		}
		before := encode(t, given)
		spec, cost, err := catalog.Complete(given)
		require.Equal(t, before, encode(t, given))
		if err != nil {
			var field *model.FieldError
			require.True(t, errors.As(err, &field) && strings.HasPrefix(field.Field, "spec."), "%v names no field", err)
			return
		}
		again, cost2, err := catalog.Complete(spec)
		if err != nil || encode(t, again) != encode(t, spec) || cost2 != cost {
			t.Fatalf("%s, %+v\nbecame %s, %+v, %v", encode(t, spec), cost, encode(t, again), cost2, err)
		}
		if cost.StateBytes > 1<<20 {
			return
		}
		learner := must(catalog.New(spec))(t)
		s := learner.Stats()
		require.True(t, s.Observations == 0 && s.StateBytes <= cost.StateBytes, "%+v costs %+v", s, cost)
	})
}

func encode(t *testing.T, s model.Spec) string {
	t.Helper()
	data := must(codec.EncodeSpec(s))(t)
	return string(data)
}
