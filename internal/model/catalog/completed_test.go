package catalog_test

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"hindsight/internal/model"
	"hindsight/internal/model/catalog"
	"hindsight/internal/model/codec"
	"hindsight/internal/model/input"
	"hindsight/internal/model/modeltest"
	"hindsight/internal/model/snapshot"
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
	c.Completed, err = snapshot.EncodeSpec(done)
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
		s, err := snapshot.DecodeSpec([]byte(data))
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
	data := must(snapshot.EncodeSpec(s))(t)
	return string(data)
}

// Snapshots of a warm-up, of what catches up after it, and of a running scaling
// are read for ever: the golden ones are restored to the byte, and go on as if
// nothing had happened.
func TestGoldenWarmup(t *testing.T) {
	warmup := &model.Scaling{Warmup: &model.WarmupScaling{Observations: 70}}
	for name, c := range map[string]struct {
		scaling *model.Scaling
		at      int
	}{
		"warming_up":  {warmup, 20},
		"catching_up": {warmup, 71},
		"running":     {&model.Scaling{Running: &model.RunningScaling{}}, 50},
	} {
		t.Run(name, func(t *testing.T) { golden(t, name, c.scaling, c.at) })
	}
}

func golden(t *testing.T, name string, scaling *model.Scaling, at int) {
	t.Helper()
	spec, _, err := catalog.Complete(model.Spec{Dimension: 2, LinearAWV: &model.LinearAWV{}, Scaling: scaling})
	require.NoError(t, err)
	samples := modeltest.Samples(99, 2, 90)
	learn := func(l model.Learner, samples []modeltest.Sample) []byte {
		t.Helper()
		for _, s := range samples {
			must(modeltest.Observe(l, s.X, s.Y, s.Weight))(t)
		}
		return modeltest.State(t, l.Visit)
	}
	fresh := func() model.Learner { return must(catalog.New(spec))(t) }
	path := filepath.Join("testdata", name+".v1.hs")
	if *update {
		state := learn(fresh(), samples[:at])
		data, err := snapshot.Encode(snapshot.Snapshot{
			Spec: spec, Sequence: uint64(at), Digest: snapshot.Digest(state), Learner: state, Account: []byte("account"),
		})
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(path, data, 0o600))
	}
	data := must(os.ReadFile(path))(t)
	s, err := snapshot.Decode(data)
	require.NoError(t, err)
	restored := fresh()
	err = codec.Read(s.Learner, restored.Visit)
	require.True(t, err == nil && s.Sequence == uint64(at), "sequence %d: %v", s.Sequence, err)
	assert.Equal(t, s.Learner, learn(restored, nil), "another state is encoded than was restored")
	whole := fresh()
	got, want := learn(restored, samples[at:]), learn(whole, samples)
	assert.Equal(t, want, got, "restored, it ends elsewhere")
	for _, s := range samples {
		p := must(modeltest.Predict(restored, s.X))(t)
		require.Equal(t, must(modeltest.Predict(whole, s.X))(t), p)
	}
}

// longRow is an observation of a long stream.
type longRow struct {
	x, y   []float64
	class  string
	weight float64
}

// longStream is a spec with a stream whose labels come late rows late.
type longStream struct {
	spec model.Spec
	late int
	row  func(rng *rand.Rand, n int) longRow
}

// bell is a number of mean 0 and variance 1 by additions alone: the same bits everywhere.
func bell(rng *rand.Rand) float64 {
	sum := -6.0
	for range 12 {
		sum += rng.Float64()
	}
	return sum
}

// longStreams cover what auto does with its rows: several outputs, weights and late labels;
// classes and a category; a walk, whose level changes and whose labels repeat.
func longStreams(t *testing.T) map[string]longStream {
	t.Helper()
	level := 0.0
	named, err := input.Complete([]*model.Input{
		{Name: "kind", Categorical: &model.CategoricalInput{MaxCategories: ptr(3)}},
		{Name: "size", Numeric: &model.NumericInput{}},
		{Name: "open", Boolean: &model.BooleanInput{}},
	}, input.Options{Keys: true})
	require.NoError(t, err)
	schema := input.NewSchema(named, 100, false)
	key, _ := schema.Key(0)
	return map[string]longStream{
		"outputs": {model.Spec{Dimension: 4, Outputs: 2, Seed: 3, Auto: &model.Auto{}}, 7, func(rng *rand.Rand, n int) longRow {
			x := []float64{10 + bell(rng), rng.Float64(), float64(rng.IntN(2)), float64(n / 100)}
			first := math.Abs(x[0]-10) + float64(3*x[1]) + 0.25*bell(rng)
			return longRow{x: x, y: []float64{first, float64(100*first) + float64(x[2]*x[3])}, weight: 0.5 + rng.Float64()}
		}},
		"classes": {model.Spec{Seed: 4, Classes: &model.Classes{MaxClasses: ptr(3)}, Auto: &model.Auto{}, Inputs: named}, 0, func(rng *rand.Rand, n int) longRow {
			kind, size, open := rng.IntN(3), bell(rng), rng.IntN(2)
			x := make([]float64, schema.Dimension())
			for i, v := range []float64{1, size, float64(open)} {
				if from, _ := schema.Span(i); i == 0 {
					x[from+kind] = v
				} else {
					x[from] = v
				}
			}
			x[key] = float64(1 + kind)
			k := 0
			switch score := size + float64(open); {
			case n >= 500 && score > 1.5:
				k = 2
			case score > float64(kind)/2-0.5:
				k = 1
			}
			return longRow{x: x, class: fmt.Sprint("class ", k), weight: 1}
		}},
		"walk": {model.Spec{Dimension: 2, Seed: 5, Auto: &model.Auto{Lags: ptr(3)}}, 0, func(rng *rand.Rand, n int) longRow {
			if n%3 == 0 {
				level += bell(rng)
			}
			shift := 0.0
			if n > 1500 {
				shift = 20
			}
			x := []float64{bell(rng), float64(n % 24)}
			return longRow{x: x, y: []float64{level + shift + x[0]}, weight: 1}
		}},
	}
}

// digests are, at rows 400 and 3,000, the digest of the state and a hash of all predictions
// before, with the probabilities and the outcomes.
func (s longStream) digests(t *testing.T, last int) string {
	t.Helper()
	spec, _, err := catalog.Complete(s.spec)
	require.NoError(t, err)
	learner, err := catalog.New(spec)
	require.NoError(t, err)
	var out strings.Builder
	rng, said := rand.New(rand.NewPCG(spec.Seed, 36)), fnv.New64a()
	rows, predictions := make([]longRow, s.late+1), make([]model.ClassPrediction, s.late+1)
	for n := range last {
		at := n % len(rows)
		rows[at] = s.row(rng, n)
		if c, ok := learner.(model.Classifier); ok {
			err = c.PredictClass(&predictions[at], rows[at].x)
		} else {
			err = learner.Predict(&predictions[at].Prediction, rows[at].x)
		}
		require.NoError(t, err)
		p := &predictions[at]
		add(said, p.Values)
		add(said, append([]float64{p.Probability}, p.Probabilities...))
		if at = (n + 1) % len(rows); n < s.late {
			continue
		}
		add(said, learnLate(t, learner, rows[at], predictions[at].Advice))
		if n+1 != 400 && n+1 != last {
			continue
		}
		state := modeltest.State(t, learner.Visit)
		fmt.Fprintf(&out, "%d rows: state %x, predictions %x\n", n+1, snapshot.Digest(state), said.Sum64())
	}
	return out.String()
}

func add(h hash.Hash, numbers []float64) {
	for _, v := range numbers {
		_ = binary.Write(h, binary.LittleEndian, v) // A hash never fails.
	}
}

// learnLate teaches a row, and returns the loss and the prequential predictions.
func learnLate(t *testing.T, l model.Learner, r longRow, advice []float64) []float64 {
	t.Helper()
	var o model.Outcome
	if c, ok := l.(model.Classifier); ok {
		var of model.ClassOutcome
		require.NoError(t, c.ObserveClass(&of, r.x, r.class, r.weight, advice))
		return []float64{of.Loss, float64(of.Class)}
	}
	require.NoError(t, model.ObserveAdvised(l, &o, r.x, r.y, r.weight, advice))
	return append([]float64{o.Loss, o.Regret}, o.Predictions...)
}

// After 3,000 rows the states and the predictions of auto have the bits that they had when
// the golden files were written, on every machine.
func TestGoldenSnapshotsOfLongStreams(t *testing.T) {
	for name, s := range longStreams(t) {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join("testdata", "auto_"+name+".digests.txt")
			last := 3000
			if testing.Short() && !*update {
				last = 400
			}
			got := []byte(s.digests(t, last))
			if *update {
				require.NoError(t, os.WriteFile(path, got, 0o600))
			}
			want := must(os.ReadFile(path))(t)
			assert.True(t, bytes.HasPrefix(want, got), "%s\nwant %s", got, want)
		})
	}
}
