package records

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
	"hindsight/cmd/research/markdown"
	"hindsight/cmd/research/papers"
	"hindsight/cmd/research/remote"
	"hindsight/internal/infer"
)

// game is what came of a stream through a model.
type game struct {
	// rows is the number of rounds, loss the sum of their losses, wrong how many
	// classes were not the one that came.
	rows, wrong int
	loss        float64
	elapsed     time.Duration
	stats       *hindsightv1.ModelStats
	rejected    string
}

// rateDigits is how many digits a rate has: it changes from run to run.
const rateDigits = 4

// rate is in rounds per second.
func (g *game) rate() float64 {
	if g.elapsed <= 0 {
		return math.NaN()
	}
	return markdown.Round(float64(g.rows)/g.elapsed.Seconds(), rateDigits)
}

// share is the share of wrong classes.
func (g *game) share() float64 { return float64(g.wrong) / float64(g.rows) }

// play takes rounds through a new model, in their order. It calls each, if that is not
// nil, with every round and its outcome. A rejection of the server becomes part of
// the game.
func (b *Bench) play(ctx context.Context, id string, spec *hindsightv1.ModelSpec, rounds []*hindsightv1.ObserveRequest,
	each func(round int, o *hindsightv1.Outcome),
) (g *game, err error) {
	g = &game{}
	id = b.Run + "-" + strings.ReplaceAll(id, plus, "-")
	if _, err := b.Create(ctx, id, spec); err != nil {
		g.rejected, err = remote.Rejected(err, 0)
		return g, err
	}
	defer func() { err = errors.Join(err, b.Remove(ctx, id)) }()
	for from := 0; from < len(rounds); from += remote.BatchRows {
		batch := rounds[from:min(len(rounds), from+remote.BatchRows)]
		first, err := b.predict(ctx, id, batch[0])
		if err != nil {
			g.rejected, err = remote.Rejected(err, g.rows)
			return g, err
		}
		outcomes, took, err := b.ObserveBatch(ctx, id, batch)
		if err != nil {
			g.rejected, err = remote.Rejected(err, g.rows)
			return g, err
		}
		if err := agree(first, outcomes[0]); err != nil {
			return g, fmt.Errorf("round %d: %w", from+1, err)
		}
		g.elapsed += took
		for i, o := range outcomes {
			g.rows++
			g.loss += o.GetLoss()
			if c, ok := batch[i].GetTarget().(*hindsightv1.ObserveRequest_Class); ok && o.GetClass() != c.Class {
				g.wrong++
			}
			if each != nil {
				each(from+i, o)
			}
		}
	}
	g.stats, err = b.Stats(ctx, id)
	return g, err
}

// predict asks for a prediction of a round that is observed next.
func (b *Bench) predict(ctx context.Context, id string, round *hindsightv1.ObserveRequest) (*hindsightv1.Prediction, error) {
	request := &hindsightv1.PredictBatchRequest{Model: id, Remember: proto.Bool(false)}
	if round.GetInputs() != nil {
		request.Inputs = []*structpb.Struct{round.GetInputs()}
	} else {
		request.Rows = []*hindsightv1.Row{{Features: round.GetFeatures()}}
	}
	var answer *hindsightv1.PredictBatchResponse
	err := b.Call(ctx, func(ctx context.Context) (err error) {
		answer, err = b.Predictions.PredictBatch(ctx, request)
		return err
	})
	if err != nil {
		return nil, err
	}
	if n := len(answer.GetPredictions()); n != 1 {
		return nil, fmt.Errorf("the server answered %d predictions to 1 row", n)
	}
	return answer.GetPredictions()[0], nil
}

// rounding is how much two sums of the same numbers may differ.
const rounding = 1e-9

// agree checks that what Predict said of a round is what Observe says that it
// predicted, to rounding, and that probabilities sum to 1.
func agree(p *hindsightv1.Prediction, o *hindsightv1.Outcome) error {
	if math.Abs(p.GetValue()-o.GetPrediction()) > rounding*max(1, math.Abs(p.GetValue())) || p.GetClass() != o.GetClass() {
		return fmt.Errorf("PredictBatch says %v %q, the prequential prediction is %v %q",
			p.GetValue(), p.GetClass(), o.GetPrediction(), o.GetClass())
	}
	sum := 0.0
	for _, score := range p.GetScores() {
		sum += score
	}
	if len(p.GetScores()) > 0 && math.Abs(sum-1) > rounding {
		return fmt.Errorf("the probabilities sum to %v", sum)
	}
	return nil
}

// nameRLSC is the learner that the papers do not have, as the API spells it.
const nameRLSC = "rlsc"

// with is a spec with a learner: every default, but for the loss of first-order
// learners of classes, which is the logistic one.
func (s set) with(learner string) *hindsightv1.ModelSpec {
	spec := proto.CloneOf(infer.For(s.spec, learner))
	spec.Seed = papers.Seed
	var loss hindsightv1.Loss
	if spec.GetClasses() != nil {
		loss = hindsightv1.Loss_LOSS_LOGISTIC
	}
	switch learner {
	case papers.NameLinear:
		spec.Learner = &hindsightv1.ModelSpec_LinearAwv{LinearAwv: &hindsightv1.LinearAwv{}}
	case papers.NameTaylor:
		spec.Learner = &hindsightv1.ModelSpec_PkawvTaylor{PkawvTaylor: &hindsightv1.PkawvTaylor{}}
	case papers.NameFourier:
		spec.Learner = &hindsightv1.ModelSpec_FourierAwv{FourierAwv: &hindsightv1.FourierAwv{}}
	case papers.NameAdaRaker:
		spec.Learner = &hindsightv1.ModelSpec_AdaRaker{AdaRaker: &hindsightv1.AdaRaker{Loss: loss}}
	case papers.NameFogd:
		spec.Learner = &hindsightv1.ModelSpec_Fogd{Fogd: &hindsightv1.Fogd{Loss: loss}}
	case nameRLSC:
		spec.Learner = &hindsightv1.ModelSpec_Rlsc{Rlsc: &hindsightv1.Rlsc{}}
	}
	return spec
}
