package rpc

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
	"hindsight/internal/auth"
	"hindsight/internal/engine"
	"hindsight/internal/model"
)

type predictions struct {
	hindsightv1.UnimplementedPredictionServiceServer
	groups  hosts
	maxRows int
}

func (p *predictions) Predict(ctx context.Context, r *hindsightv1.PredictRequest) (*hindsightv1.PredictResponse, error) {
	o, err := predictOptions(r.Remember, r.GetLabelTtl())
	if err != nil {
		return nil, err
	}
	if err := p.await(ctx, r); err != nil {
		return nil, err
	}
	o.Explain = r.GetExplain()
	if r.GetPredictionId() != "" {
		o.IDs = []string{r.GetPredictionId()}
	}
	target, err := p.resolve(ctx, r.GetModel())
	if err != nil {
		return nil, err
	}
	record, err := recordOf(target.Schema(), r.GetInputs())
	if err != nil {
		return nil, err
	}
	answers, err := target.Predict(ctx, []engine.Row{{Features: r.GetFeatures(), Inputs: record, Horizon: int(r.GetHorizon())}}, o)
	if err != nil {
		return nil, withoutRow(err)
	}
	prediction := predictionToProto(answers[0])
	prediction.Model = target.Named()
	return &hindsightv1.PredictResponse{Prediction: prediction}, nil
}

func (p *predictions) await(ctx context.Context, r fresh) error {
	if r.GetMinSequence() == 0 {
		return nil
	}
	return p.groups.engine(r.GetModel()).Await(ctx, r.GetModel(), r.GetMinSequence())
}

// resolve finds the model that a request names. It checks an alias's target again, because the
// alias may have changed since the request was checked.
func (p *predictions) resolve(ctx context.Context, name string) (engine.Target, error) {
	target, err := p.groups.engine(name).Resolve(name)
	if err != nil {
		return target, err
	}
	return target, within(ctx, target)
}

// within fails if an alias names a model that the caller may not see.
func within(ctx context.Context, target engine.Target) error {
	if named := target.Named(); named != "" {
		return auth.FromContext(ctx).Within(named)
	}
	return nil
}

func (p *predictions) PredictBatch(ctx context.Context, r *hindsightv1.PredictBatchRequest) (*hindsightv1.PredictBatchResponse, error) {
	o, err := predictOptions(r.Remember, r.GetLabelTtl())
	if err == nil {
		err = p.await(ctx, r)
	}
	if err != nil {
		return nil, err
	}
	target, err := p.resolve(ctx, r.GetModel())
	if err != nil {
		return nil, err
	}
	rows, list, err := p.rowsFromProto(target, r)
	if err != nil {
		return nil, atRow(err, list)
	}
	for n := range rows {
		if rows[n].Horizon = int(r.GetHorizon()); !r.GetAlternatives() {
			rows[n].Horizon += n
		}
	}
	if o.IDs = r.GetPredictionIds(); len(o.IDs) > 0 && len(o.IDs) != len(rows) {
		return nil, engine.Invalid("prediction_ids", strconv.Itoa(len(o.IDs)), fmt.Sprintf("none, or one for each of %d rows", len(rows)))
	}
	answers, err := target.Predict(ctx, rows, o)
	if err != nil {
		return nil, atRow(err, list)
	}
	out := make([]*hindsightv1.Prediction, len(rows))
	for n := range out {
		out[n] = predictionToProto(answers[n])
		out[n].Model = target.Named()
	}
	return &hindsightv1.PredictBatchResponse{Predictions: out}, nil
}

func (p *predictions) checkRows(field string, n int) error {
	if n >= 1 && n <= p.maxRows {
		return nil
	}
	return &model.FieldError{
		Field: field, Err: errBatchTooLarge,
		Got: fmt.Sprintf("%d rows", n), Want: fmt.Sprintf("1 to %d", p.maxRows),
	}
}

func predictOptions(remember *bool, ttl *durationpb.Duration) (engine.PredictOptions, error) {
	o := engine.PredictOptions{Remember: remember == nil || *remember}
	var err error
	o.TTL, err = labelTTL(ttl)
	return o, err
}

// labelTTL is how long a prediction waits for its label, 0 if the request does not say.
func labelTTL(ttl *durationpb.Duration) (time.Duration, error) {
	if ttl == nil {
		return 0, nil
	}
	if err := ttl.CheckValid(); err != nil || ttl.AsDuration() <= 0 || ttl.AsDuration() > engine.MaxLabelTTL {
		return 0, engine.Invalid("label_ttl", durationText(ttl), fmt.Sprintf("above 0 and at most %s", engine.MaxLabelTTL))
	}
	return ttl.AsDuration(), nil
}

func predictionToProto(p engine.Prediction) *hindsightv1.Prediction {
	out := &hindsightv1.Prediction{PredictionId: p.ID, StateSequence: p.Sequence, Ready: p.Sequence > 0}
	if p.Spread > 0 { // The learner heeds it.
		out.Horizon = uint32(min(p.Horizon, math.MaxUint32))
	}
	if p.Parts != nil {
		out.Explanation = partsToProto(p.Parts)
	}
	out.Leverage = optional(p.Leverage != model.NoLeverage, p.Leverage)
	if p.Classes != nil || len(p.Values) == 0 {
		classesToProto(out, &p)
		return out
	}
	out.Probability, out.Intervals = some(p.Probability), intervalsToProto(&p)
	if len(p.Values) > 1 {
		out.Values, out.StandardErrors, out.ParametricValues = p.Values, p.StandardErrors, p.Parametric
		return out
	}
	out.Value = &p.Values[0]
	if len(p.StandardErrors) > 0 {
		out.StandardError = &p.StandardErrors[0]
	}
	if len(p.Parametric) > 0 {
		out.ParametricValue = &p.Parametric[0]
	}
	return out
}

func intervalsToProto(p *engine.Prediction) []*hindsightv1.Interval {
	var out []*hindsightv1.Interval
	for level, coverage := range p.Levels {
		lowers, uppers := make([]float64, len(p.Values)), make([]float64, len(p.Values))
		all := true
		for j := range p.Values {
			var ok bool
			lowers[j], uppers[j], ok = p.Interval(j, level)
			all = all && ok
		}
		switch {
		case !all:
		case len(p.Values) == 1:
			out = append(out, &hindsightv1.Interval{Coverage: coverage, Lower: &lowers[0], Upper: &uppers[0]})
		default:
			out = append(out, &hindsightv1.Interval{Coverage: coverage, Lowers: lowers, Uppers: uppers})
		}
	}
	return out
}
