package rpc

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
	"hindsight/internal/engine"
	"hindsight/internal/model"
	"hindsight/internal/model/input"
)

// predictions serves PredictionService.
type predictions struct {
	hindsightv1.UnimplementedPredictionServiceServer
	engine *engine.Engine
	// maxRows bounds the rows of a batch. sessionCalls bounds the calls of a session
	// whose answers are not sent.
	maxRows, sessionCalls int
	// draining is closed when sessions are to end.
	draining chan struct{}
	// records are lent to calls with named inputs.
	records records
	// receivers are the goroutines that read the requests of sessions.
	receivers sync.WaitGroup
}

func (p *predictions) Predict(ctx context.Context, r *hindsightv1.PredictRequest) (*hindsightv1.PredictResponse, error) {
	prediction, err := p.predict(ctx, r)
	if err != nil {
		return nil, err
	}
	return &hindsightv1.PredictResponse{Prediction: prediction}, nil
}

func (p *predictions) predict(ctx context.Context, r *hindsightv1.PredictRequest) (*hindsightv1.Prediction, error) {
	o, err := predictOptions(r.Remember, r.GetLabelTtl())
	if err != nil {
		return nil, err
	}
	if r.GetPredictionId() != "" {
		o.IDs = []string{r.GetPredictionId()}
	}
	schema, err := p.schema(r.GetModel(), r.GetInputs() != nil)
	if err != nil {
		return nil, err
	}
	record, err := p.records.of(schema, r.GetInputs())
	if err != nil {
		return nil, err
	}
	defer p.records.giveBack(record)
	answers, err := p.engine.Predict(ctx, r.GetModel(), []engine.Row{{Features: r.GetFeatures(), Inputs: record}}, o)
	if err != nil {
		return nil, alone(err)
	}
	return predictionToProto(answers[0]), nil
}

func (p *predictions) PredictBatch(ctx context.Context, r *hindsightv1.PredictBatchRequest) (*hindsightv1.PredictBatchResponse, error) {
	o, err := predictOptions(r.Remember, r.GetLabelTtl())
	if err != nil {
		return nil, err
	}
	rows, list, err := p.rowsFromProto(r)
	defer func() {
		for n := range rows {
			p.records.giveBack(rows[n].Inputs)
		}
	}()
	if err != nil {
		return nil, atRow(err, list)
	}
	if o.IDs = r.GetPredictionIds(); len(o.IDs) > 0 && len(o.IDs) != len(rows) {
		return nil, &model.FieldError{
			Field: "prediction_ids", Err: engine.ErrInvalidRequest,
			Got: fmt.Sprintf("%d ids", len(o.IDs)), Want: fmt.Sprintf("none, or one for each of %d rows", len(rows)),
		}
	}
	answers, err := p.engine.Predict(ctx, r.GetModel(), rows, o)
	if err != nil {
		return nil, atRow(err, list)
	}
	out := make([]*hindsightv1.Prediction, len(answers))
	for n, a := range answers {
		out[n] = predictionToProto(a)
	}
	return &hindsightv1.PredictBatchResponse{Predictions: out}, nil
}

func (p *predictions) Observe(ctx context.Context, r *hindsightv1.ObserveRequest) (*hindsightv1.ObserveResponse, error) {
	t, err := p.submit(ctx, r)
	if err != nil {
		return nil, err
	}
	answers, err := t.Wait(ctx)
	if err != nil {
		return nil, alone(err)
	}
	return &hindsightv1.ObserveResponse{Outcome: outcomeToProto(answers[0])}, nil
}

// submit queues one observation.
func (p *predictions) submit(ctx context.Context, r *hindsightv1.ObserveRequest) (*engine.Ticket, error) {
	schema, err := p.schema(r.GetModel(), r.GetInputs() != nil)
	if err != nil {
		return nil, err
	}
	o, err := p.observationFromProto(schema, r)
	if err != nil {
		return nil, err
	}
	defer p.records.giveBack(o.Inputs)
	t, err := p.engine.Submit(ctx, r.GetModel(), []engine.Observation{o})
	if err != nil {
		return nil, alone(err)
	}
	return t, nil
}

func (p *predictions) ObserveBatch(ctx context.Context, r *hindsightv1.ObserveBatchRequest) (*hindsightv1.ObserveBatchResponse, error) {
	if err := p.checkRows("observations", len(r.GetObservations())); err != nil {
		return nil, err
	}
	schema, err := p.schema(r.GetModel(), slices.ContainsFunc(r.GetObservations(), hasInputs))
	if err != nil {
		return nil, err
	}
	observations := make([]engine.Observation, len(r.GetObservations()))
	defer func() {
		for n := range observations {
			p.records.giveBack(observations[n].Inputs)
		}
	}()
	for n, row := range r.GetObservations() {
		o, err := p.observationFromProto(schema, row)
		observations[n] = o
		if err == nil && row.GetModel() != "" && row.GetModel() != r.GetModel() {
			err = &model.FieldError{
				Field: "model", Err: engine.ErrInvalidRequest,
				Got: fmt.Sprintf("%q", row.GetModel()), Want: fmt.Sprintf("the batch's model %q, or nothing", r.GetModel()),
			}
		}
		if err != nil {
			return nil, atRow(&engine.RowError{Row: n, Err: err}, "observations")
		}
	}
	answers, err := p.engine.Observe(ctx, r.GetModel(), observations)
	if err != nil {
		return nil, atRow(err, "observations")
	}
	out := make([]*hindsightv1.Outcome, len(answers))
	for n, a := range answers {
		out[n] = outcomeToProto(a)
	}
	return &hindsightv1.ObserveBatchResponse{Outcomes: out}, nil
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

// predictOptions reads what Predict and PredictBatch share.
func predictOptions(remember *bool, ttl *durationpb.Duration) (engine.PredictOptions, error) {
	o := engine.PredictOptions{Remember: remember == nil || *remember}
	var err error
	o.TTL, err = labelTTL(ttl)
	return o, err
}

// labelTTL is how long a prediction is to wait for its label, 0 if that is not said.
func labelTTL(ttl *durationpb.Duration) (time.Duration, error) {
	if ttl == nil {
		return 0, nil
	}
	if err := ttl.CheckValid(); err != nil || ttl.AsDuration() <= 0 || ttl.AsDuration() > engine.MaxLabelTTL {
		return 0, &model.FieldError{
			Field: "label_ttl", Err: engine.ErrInvalidRequest,
			Got: ttl.String(), Want: fmt.Sprintf("above 0 and at most %s", engine.MaxLabelTTL),
		}
	}
	return ttl.AsDuration(), nil
}

func predictionToProto(p engine.Prediction) *hindsightv1.Prediction {
	out := &hindsightv1.Prediction{PredictionId: p.ID, StateSequence: p.Sequence}
	if p.Leverage != model.NoLeverage {
		out.Leverage = &p.Leverage
	}
	if p.Classes != nil || len(p.Values) == 0 {
		classesToProto(out, &p)
		return out
	}
	if p.Probability > 0 {
		out.Probability = &p.Probability
	}
	out.Intervals = intervalsToProto(&p)
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

// intervalsToProto leaves out a level at which an output has no interval.
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

// observationFromProto reads an observation; the engine checks its numbers. Its
// record has to be given back.
func (p *predictions) observationFromProto(schema *input.Schema, r *hindsightv1.ObserveRequest) (engine.Observation, error) {
	o := engine.Observation{
		PredictionID: r.GetPredictionId(), Features: r.GetFeatures(),
		ObservationID: r.GetObservationId(), Weight: 1,
	}
	if r.Weight != nil {
		o.Weight = r.GetWeight()
	}
	switch target := r.GetTarget().(type) {
	case *hindsightv1.ObserveRequest_Label:
		o.Labels = []float64{target.Label}
	case *hindsightv1.ObserveRequest_Labels:
		o.Labels = target.Labels.GetValues()
	case *hindsightv1.ObserveRequest_Class:
		o.Class = target.Class
		if o.Class == "" {
			return o, model.CheckClass(o.Class)
		}
	default:
		return o, &model.FieldError{
			Field: "label", Err: engine.ErrLabelMissing, Got: "nothing", Want: "a number, 0 is one, or a class for a model of classes",
		}
	}
	var err error
	o.Inputs, err = p.records.of(schema, r.GetInputs())
	return o, err
}

func outcomeToProto(a engine.Answer) *hindsightv1.Outcome {
	o := &hindsightv1.Outcome{
		Sequence: a.Sequence, Loss: &a.Loss, Duplicate: a.Duplicate, Class: a.Class, ServedClass: a.ServedClass,
	}
	if len(a.Predictions) == 1 {
		o.Prediction = &a.Predictions[0]
	} else {
		o.Predictions = a.Predictions
	}
	if !math.IsNaN(a.Regret) {
		o.Regret = &a.Regret
	}
	o.RecentLoss, o.RecentSkill = known(a.RecentLoss), known(a.RecentSkill)
	if a.Served {
		o.ServedLoss = &a.ServedLoss
		if len(a.ServedPredictions) == 1 {
			o.ServedPrediction = &a.ServedPredictions[0]
		} else {
			o.ServedPredictions = a.ServedPredictions
		}
	}
	return o
}
