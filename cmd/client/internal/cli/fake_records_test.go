package cli_test

import (
	"context"
	"fmt"
	"slices"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
)

// fakeInput is an input of either kind.
type fakeInput struct {
	features []float64
	inputs   *structpb.Struct
}

func (i fakeInput) given() bool { return len(i.features) > 0 || i.inputs != nil }

func (i fakeInput) equal(other fakeInput) bool {
	return slices.Equal(i.features, other.features) && proto.Equal(i.inputs, other.inputs)
}

// PredictBatch answers what Predict answers.
func (f *fake) PredictBatch(_ context.Context, r *hindsightv1.PredictBatchRequest) (*hindsightv1.PredictBatchResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	m, err := f.model(r.GetModel())
	if err != nil {
		return nil, err
	}
	var inputs []fakeInput
	for _, row := range r.GetRows() {
		inputs = append(inputs, fakeInput{features: row.GetFeatures()})
	}
	for _, record := range r.GetInputs() {
		inputs = append(inputs, fakeInput{inputs: record})
	}
	answer := &hindsightv1.PredictBatchResponse{}
	for _, input := range inputs {
		if err := m.checkInput(input); err != nil {
			return nil, err
		}
		p := &hindsightv1.Prediction{Value: proto.Float64(m.mean())}
		if m.model.GetSpec().GetClasses() != nil {
			p = &hindsightv1.Prediction{Class: m.majority(), Scores: m.shares()}
		}
		if f.prediction != nil {
			f.prediction(p)
		}
		answer.Predictions = append(answer.Predictions, p)
	}
	f.batched = append(f.batched, inputs...)
	return answer, nil
}

// checkInput wants the declared inputs, or as many features as there are dimensions.
func (m *fakeModel) checkInput(i fakeInput) error {
	declared := m.model.GetSpec().GetInputs()
	if len(declared) == 0 {
		if want := m.model.GetSpec().GetDimension(); int(want) != len(i.features) {
			return reject(codes.InvalidArgument, "DIMENSION_MISMATCH",
				fmt.Sprintf("%d features where the model has %d", len(i.features), want), "features")
		}
		return nil
	}
	for _, in := range declared {
		if i.inputs.GetFields()[in.GetName()] == nil {
			return reject(codes.InvalidArgument, "MISSING_INPUT", "missing input", "inputs."+in.GetName())
		}
	}
	if len(i.features) > 0 || len(i.inputs.GetFields()) != len(declared) {
		return reject(codes.InvalidArgument, "UNKNOWN_INPUT", "unknown input", "inputs")
	}
	return nil
}

// majority is the most frequent class so far, the first of those that are as
// frequent, and empty before the first.
func (m *fakeModel) majority() string {
	best, bestShare := "", 0.0
	for _, class := range m.classes {
		if share := m.shares()[class]; share > bestShare {
			best, bestShare = class, share
		}
	}
	return best
}

// shares are those of the classes so far.
func (m *fakeModel) shares() map[string]float64 {
	shares := make(map[string]float64)
	for _, class := range m.classes {
		shares[class] += 1 / float64(len(m.classes))
	}
	return shares
}

// classOutcome learns a class. The loss is 1 for an error.
func (m *fakeModel) classOutcome(class string, p *fakePrediction) *hindsightv1.Outcome {
	wrong := func(predicted string) float64 {
		if predicted == class {
			return 0
		}
		return 1
	}
	outcome := &hindsightv1.Outcome{
		Sequence: uint64(len(m.ids)), Class: m.majority(), Loss: proto.Float64(wrong(m.majority())),
	}
	if p != nil {
		outcome.ServedClass, outcome.ServedLoss = p.class, proto.Float64(wrong(p.class))
	}
	m.lossSum += outcome.GetLoss()
	m.classes = append(m.classes, class)
	return outcome
}
