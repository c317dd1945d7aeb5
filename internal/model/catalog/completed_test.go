package catalog_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"hindsight/internal/model"
	"hindsight/internal/model/catalog"
	"hindsight/internal/model/codec"
)

// completion is a line of testdata/completed.jsonl: a spec as given and what
// the catalogue makes of it. Either it is completed or Field and Error are set.
type completion struct {
	Spec      json.RawMessage `json:"spec"`
	Completed json.RawMessage `json:"completed,omitempty"`
	Cost      *model.Cost     `json:"cost,omitempty"`
	Field     string          `json:"field,omitempty"`
	Error     string          `json:"error,omitempty"`
}

// Defaults, rejections and costs are part of the API, and completed specs are on
// disk: every later version completes a completed spec to itself. A new line needs its "spec" alone; -update fills in the rest.
func TestCompletedSpecsStayAsTheyAre(t *testing.T) {
	path := filepath.Join("testdata", "completed.jsonl")
	data := must(os.ReadFile(path))(t)
	var now bytes.Buffer
	covered := map[string]bool{}
	lines := bufio.NewScanner(bytes.NewReader(data))
	for lines.Scan() {
		var c completion
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			t.Fatalf("%v in %s", err, lines.Bytes())
		}
		got := complete(t, c.Spec, covered)
		line := must(json.Marshal(got))(t)
		if !*update && !bytes.Equal(line, lines.Bytes()) {
			t.Errorf("got  %s\nwant %s", line, lines.Bytes())
		}
		now.Write(append(line, '\n'))
	}
	require.NoError(t, lines.Err())
	if *update {
		require.NoError(t, os.WriteFile(path, now.Bytes(), 0o600))
	}
	for _, name := range model.LearnerNames() {
		assert.True(t, covered[name], "no line completes a spec of %s", name)
	}
}

func complete(t *testing.T, given json.RawMessage, covered map[string]bool) completion {
	t.Helper()
	spec := sent(t, given)
	c := completion{Spec: given}
	done, cost, err := catalog.Complete(spec)
	if err != nil {
		var field *model.FieldError
		require.True(t, errors.As(err, &field), "%s: %v names no field", given, err)
		c.Field, c.Error = field.Field, field.Err.Error()+": "+err.Error()
		return c
	}
	c.Completed, err = codec.EncodeSpec(done)
	require.NoError(t, err)
	c.Cost = &cost
	covered[done.Name()] = true
	stored(t, done)
	return c
}

// sent is the spec of a client that sends it as JSON.
func sent(t *testing.T, data []byte) model.Spec {
	t.Helper()
	spec, err := parse(data)
	require.NoError(t, err, data)
	return spec
}

func parse(data []byte) (spec model.Spec, err error) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	return spec, d.Decode(&spec)
}

// stored checks that a completed spec is complete when it is read again.
func stored(t *testing.T, spec model.Spec) {
	t.Helper()
	read := func(data string) model.Spec {
		s, err := codec.DecodeSpec([]byte(data))
		if err == nil {
			s, _, err = catalog.Complete(s)
		}
		require.NoError(t, err, data)
		return s
	}
	want := encode(t, spec)
	assert.Equal(t, want, encode(t, read(want)))
}

// Every learner of a spec has a row in the catalogue, and a name alone is a
// model of it.
func TestEveryLearnerHasARow(t *testing.T) {
	for _, name := range model.LearnerNames() {
		spec := sent(t, []byte(`{"dimension": 2, "`+name+`": {}}`))
		assert.Equal(t, name, spec.Name())
		learner, err := catalog.New(spec)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var p model.Prediction
		assert.NoError(t, learner.Predict(&p, []float64{1, 2}), name)
		_, classifies := learner.(model.Classifier)
		assert.Equal(t, (name == "rlsc"), classifies, name)
	}
	assert.EqualValues(t, model.DefaultLearner, (model.Spec{Scaling: &model.Scaling{}}).Name())
}

// The documentation says of every learner when to use it, what it computes and
// what the bytes of its state are.
func TestEveryLearnerIsDocumented(t *testing.T) {
	for _, file := range []string{"using.md", "theory.md", "format/snapshot.md"} {
		text := must(os.ReadFile(filepath.Join("..", "..", "..", "docs", file)))(t)
		for _, name := range model.LearnerNames() {
			assert.True(t, bytes.Contains(text, []byte("`"+name+"`")), "docs/%s does not mention `%s`", file, name)
		}
	}
}
