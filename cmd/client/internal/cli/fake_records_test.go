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

// fakeRecent is the number of the last rounds that the fake calls recent.
const fakeRecent = 1000

// fakeRound is what the fake keeps of an observation: the losses of the model, of
// what was served, and of the baselines.
type fakeRound struct {
	model, served, mean, last float64
	predicted                 bool
}

func square(v float64) float64 { return v * v }

// round evaluates a label before it is learned. The model is the running mean.
func (m *fakeModel) round(label float64, p *fakePrediction) fakeRound {
	r := fakeRound{model: square(label - m.mean()), mean: square(label - m.mean()), last: square(label)}
	if n := len(m.labels); n > 0 {
		r.last = square(label - m.labels[n-1])
	}
	r.served = r.model
	if p != nil {
		r.served, r.predicted = square(label-p.value), true
	}
	return r
}

// recent adds the recent figures to an outcome.
func (m *fakeModel) recent(o *hindsightv1.Outcome) {
	f := figures(m.rounds[max(0, len(m.rounds)-fakeRecent):], fakeRound.ofModel)
	o.RecentLoss, o.RecentSkill = proto.Float64(f.GetMeanLoss()), f.Skill
}

func (r fakeRound) ofModel() float64  { return r.model }
func (r fakeRound) ofServed() float64 { return r.served }

// figures are the losses of some rounds, nil if there is none.
func figures(rounds []fakeRound, loss func(fakeRound) float64) *hindsightv1.PerformanceFigures {
	if len(rounds) == 0 {
		return nil
	}
	f := &hindsightv1.PerformanceFigures{RunningMeanLoss: new(float64), LastLabelLoss: new(float64)}
	n := float64(len(rounds))
	for _, r := range rounds {
		f.MeanLoss += loss(r) / n
		*f.RunningMeanLoss += r.mean / n
		*f.LastLabelLoss += r.last / n
	}
	if baseline := min(f.GetRunningMeanLoss(), f.GetLastLabelLoss()); baseline > 0 {
		f.Skill = proto.Float64(1 - f.GetMeanLoss()/baseline)
	}
	return f
}

func performance(rounds []fakeRound) *hindsightv1.Performance {
	return &hindsightv1.Performance{
		Observations: float64(len(rounds)),
		Prequential:  figures(rounds, fakeRound.ofModel), Served: figures(rounds, fakeRound.ofServed),
	}
}

// setFigures adds to statistics how the model did.
func (m *fakeModel) setFigures(s *hindsightv1.ModelStats) {
	s.Performance = performance(m.rounds)
	s.Recent = performance(m.rounds[max(0, len(m.rounds)-fakeRecent):])
	for _, r := range m.rounds {
		if r.predicted {
			s.ServedObservations++
			s.ServedLossSum = proto.Float64(s.GetServedLossSum() + r.served)
		}
	}
}
