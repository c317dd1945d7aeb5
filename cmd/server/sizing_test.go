package main_test

import (
	"fmt"
	"io/fs"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/structpb"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
	"hindsight/cmd/internal/sizing"
)

// What "hindsight size" says of the disk of 20,000 rounds is what a server takes for them, to
// a factor: the rounds come in batches, which share the head of a record, and texts have
// lengths of their own. So it is for fewer rounds of other models.
func TestSizeOfDisk(t *testing.T) {
	endToEnd(t)
	const factor = 1.3
	for name, spec := range map[string]string{
		"vectors": `{"dimension": 10, "linear_awv": {}, "coverage": [0.9]}`,
		"outputs": `{"dimension": 2, "outputs": 3, "linear_awv": {}}`,
		"classes": `{"dimension": 3, "rlsc": {}, "classes": {"max_classes": 4}}`,
		"records": `{"inputs": [{"name": "v", "vector": {"length": 4}}, {"name": "n", "numeric": {}}, {"name": "c", "categorical": {}}], "linear_awv": {}}`,
		"advice":  `{"dimension": 4}`,
	} {
		t.Run(name, func(t *testing.T) {
			dir, rounds := t.TempDir(), 6_000
			if name == "vectors" {
				rounds = 20_000
			}
			// No snapshot cuts the log.
			p := launch(t, dir, "--snapshot-replay", "1h")
			wanted := new(hindsightv1.ModelSpec)
			if err := protojson.Unmarshal([]byte(spec), wanted); err != nil {
				t.Fatal(err)
			}
			v, err := p.models.ValidateSpec(t.Context(), &hindsightv1.ValidateSpecRequest{Spec: wanted})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := p.models.CreateModel(t.Context(), &hindsightv1.CreateModelRequest{Id: "m", Spec: wanted}); err != nil {
				t.Fatal(err)
			}
			m, random := sizing.Of(v), rand.New(rand.NewPCG(1, 1))
			if classes := v.GetSpec().GetClasses(); classes != nil {
				seeClasses(t, p, v.GetSpec())
			}
			if name == "advice" {
				wake(t, p, v.GetSpec(), random)
			}
			predictRounds(t, p, v.GetSpec(), random, rounds)
			waiting := m.Disk(sizing.Held{Pending: float64(rounds), Predicted: float64(rounds)})
			within(t, "waiting predictions", float64(filesBelow(t, filepath.Join(dir, "pending"))), waiting.Total, factor)
			observeRounds(t, p, v.GetSpec(), random, rounds)
			learned := m.Disk(sizing.Held{Observations: float64(rounds), IDs: float64(rounds), Learned: float64(rounds)})
			within(t, "log and ids", float64(filesBelow(t, filepath.Join(dir, "log"))), learned.Total, factor)
			all := sizing.Estimate(m, sizing.Load{Rate: 1, Models: 1}, sizing.Defaults())
			if state := float64(p.stats(t).GetStateBytes()); state > all.Memory.PerModel {
				t.Errorf("the state takes %g bytes, above the answer %g", state, all.Memory.PerModel)
			}
		})
	}
}

const batchRounds = 200

// predictRounds asks for predictions in batches.
func predictRounds(t *testing.T, p *process, spec *hindsightv1.ModelSpec, random *rand.Rand, rounds int) {
	t.Helper()
	for at := 0; at < rounds; at += batchRounds {
		r := &hindsightv1.PredictBatchRequest{Model: "m"}
		for n := range batchRounds {
			r.PredictionIds = append(r.PredictionIds, roundID(at+n))
			if len(spec.GetInputs()) > 0 {
				record, err := structpb.NewStruct(map[string]any{
					"n": random.Float64(), "c": fmt.Sprint("category ", random.IntN(9)),
					"v": []any{random.Float64(), random.Float64(), random.Float64(), random.Float64()},
				})
				if err != nil {
					t.Fatal(err)
				}
				r.Inputs = append(r.Inputs, record)
				continue
			}
			row := &hindsightv1.Row{}
			for range spec.GetDimension() {
				row.Features = append(row.Features, random.NormFloat64())
			}
			r.Rows = append(r.Rows, row)
		}
		if _, err := p.predictor.PredictBatch(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
}

// seeClasses makes the classes known: what a prediction says of each of them is kept.
func seeClasses(t *testing.T, p *process, spec *hindsightv1.ModelSpec) {
	t.Helper()
	for n := range spec.GetClasses().GetMaxClasses() {
		o := &hindsightv1.ObserveRequest{
			Model: "m", Features: make([]float64, spec.GetDimension()), Target: &hindsightv1.ObserveRequest_Class{Class: fmt.Sprint("class ", n)},
		}
		if _, err := p.predictor.Observe(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
}

// wake observes 128 rows. Level 2 of auto sleeps until then, and the advice of a prediction has level 1 alone.
func wake(t *testing.T, p *process, spec *hindsightv1.ModelSpec, random *rand.Rand) {
	t.Helper()
	const asleep = 128
	r := &hindsightv1.ObserveBatchRequest{Model: "m"}
	for range asleep {
		o := &hindsightv1.ObserveRequest{Target: &hindsightv1.ObserveRequest_Label{Label: random.NormFloat64()}}
		for range spec.GetDimension() {
			o.Features = append(o.Features, random.NormFloat64())
		}
		r.Observations = append(r.Observations, o)
	}
	if _, err := p.predictor.ObserveBatch(t.Context(), r); err != nil {
		t.Fatal(err)
	}
}

// observeRounds sends the labels of predictions in batches.
func observeRounds(t *testing.T, p *process, spec *hindsightv1.ModelSpec, random *rand.Rand, rounds int) {
	t.Helper()
	for at := 0; at < rounds; at += batchRounds {
		r := &hindsightv1.ObserveBatchRequest{Model: "m"}
		for n := range batchRounds {
			o := &hindsightv1.ObserveRequest{PredictionId: roundID(at + n)}
			switch {
			case spec.GetClasses() != nil:
				o.Target = &hindsightv1.ObserveRequest_Class{Class: fmt.Sprint("class ", random.IntN(4))}
			case spec.GetOutputs() > 1:
				o.Target = &hindsightv1.ObserveRequest_Labels{Labels: &hindsightv1.Labels{Values: []float64{random.NormFloat64(), 1, random.NormFloat64()}}}
			default:
				o.Target = &hindsightv1.ObserveRequest_Label{Label: random.NormFloat64()}
			}
			r.Observations = append(r.Observations, o)
		}
		if _, err := p.predictor.ObserveBatch(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
}

// roundID is the id of a prediction, as long as those that clients draw.
func roundID(n int) string { return fmt.Sprintf("01890a5d-ac96-774b-bcce-%012d", n) }

// within compares sizes.
func within(t *testing.T, what string, measured, answered, factor float64) {
	t.Helper()
	t.Logf("%s: %.0f bytes, the answer is %.2f of it", what, measured, answered/measured)
	if answered > factor*measured || measured > factor*answered {
		t.Errorf("%s take %.0f bytes, the answer is %.0f", what, measured, answered)
	}
}

// filesBelow is the size of the files below a directory.
func filesBelow(t *testing.T, dir string) (sum int64) {
	t.Helper()
	err := filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err == nil {
			sum += info.Size()
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return sum
}
