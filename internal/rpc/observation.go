package rpc

import (
	"context"
	"fmt"
	"slices"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
	"hindsight/internal/engine"
	"hindsight/internal/model"
	"hindsight/internal/model/input"
)

func (p *predictions) Observe(ctx context.Context, r *hindsightv1.ObserveRequest) (*hindsightv1.ObserveResponse, error) {
	ticket, named, err := p.submit(ctx, r)
	if err != nil {
		return nil, err
	}
	answers, err := ticket.Wait(ctx)
	if err != nil {
		return nil, withoutRow(err)
	}
	outcome := outcomeToProto(answers[0])
	outcome.Model = named
	return &hindsightv1.ObserveResponse{Outcome: outcome}, nil
}

// submit queues one observation. If the request named an alias, named is the model's id.
func (p *predictions) submit(ctx context.Context, r *hindsightv1.ObserveRequest) (ticket *engine.Ticket, named string, err error) {
	route, err := p.groups.engine(r.GetModel()).Route(ctx, r.GetModel())
	if err != nil {
		return nil, "", err
	}
	defer route.Done()
	target, err := route.For(r.GetPredictionId(), r.GetObservationId())
	if err == nil {
		err = within(ctx, target)
	}
	if err != nil {
		return nil, "", err
	}
	o, err := observationFromProto(target.Schema(), r)
	if err != nil {
		return nil, "", err
	}
	if ticket, err = target.Submit(ctx, []engine.Observation{o}); err != nil {
		return nil, "", withoutRow(err)
	}
	return ticket, target.Named(), nil
}

func (p *predictions) ObserveBatch(ctx context.Context, r *hindsightv1.ObserveBatchRequest) (*hindsightv1.ObserveBatchResponse, error) {
	if err := p.checkRows("observations", len(r.GetObservations())); err != nil {
		return nil, err
	}
	b, err := p.submitBatch(ctx, r)
	if err != nil {
		return nil, atRow(err, "observations")
	}
	outcomes := make([]*hindsightv1.Outcome, len(r.GetObservations()))
	for _, part := range b {
		answers, err := part.ticket.Wait(ctx)
		if err != nil {
			return nil, atRow(part.rowOf(err), "observations")
		}
		for n, a := range answers {
			o := outcomeToProto(a)
			o.Model = part.target.Named()
			outcomes[part.rows[n]] = o
		}
	}
	return &hindsightv1.ObserveBatchResponse{Outcomes: outcomes}, nil
}

// part is the part of a batch that one model answers, or learns, all rows or none.
type part struct {
	target       engine.Target
	rows         []int
	observations []engine.Observation
	ticket       *engine.Ticket
}

func (b *part) rowOf(err error) error {
	for _, row := range engine.RejectedRows(err) {
		row.Row = b.rows[row.Row]
	}
	return err
}

// submitBatch queues a batch. If the request names an alias, some rows may belong to the alias's
// previous model.
func (p *predictions) submitBatch(ctx context.Context, r *hindsightv1.ObserveBatchRequest) (parts []*part, err error) {
	route, err := p.groups.engine(r.GetModel()).Route(ctx, r.GetModel())
	if err != nil {
		return nil, err
	}
	defer route.Done()
	if err := engine.CheckRows(len(r.GetObservations()), func(n int) error {
		row := r.GetObservations()[n]
		if err := sameModel(r, row); err != nil {
			return err
		}
		target, err := route.For(row.GetPredictionId(), row.GetObservationId())
		if err == nil {
			err = within(ctx, target)
		}
		if err != nil {
			return err
		}
		at := slices.IndexFunc(parts, func(b *part) bool { return b.target == target })
		if at < 0 {
			left := len(r.GetObservations()) - n
			at, parts = len(parts), append(parts, &part{target: target, rows: make([]int, 0, left), observations: make([]engine.Observation, 0, left)})
		}
		o, err := observationFromProto(target.Schema(), row)
		b := parts[at]
		b.rows, b.observations = append(b.rows, n), append(b.observations, o)
		return err
	}); err != nil {
		return parts, err
	}
	for _, b := range parts {
		if b.ticket, err = b.target.Submit(ctx, b.observations); err != nil {
			return parts, b.rowOf(err)
		}
	}
	return parts, nil
}

func sameModel(r *hindsightv1.ObserveBatchRequest, row *hindsightv1.ObserveRequest) error {
	if row.GetModel() == "" || row.GetModel() == r.GetModel() {
		return nil
	}
	return engine.Invalid("model", fmt.Sprintf("%q", row.GetModel()), fmt.Sprintf("the batch's model %q, or nothing", r.GetModel()))
}

// observationFromProto reads an observation; the engine checks its numbers.
func observationFromProto(schema *input.Schema, r *hindsightv1.ObserveRequest) (engine.Observation, error) {
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
	o.Inputs, err = recordOf(schema, r.GetInputs())
	return o, err
}

func outcomeToProto(a engine.Answer) *hindsightv1.Outcome {
	o := &hindsightv1.Outcome{
		Sequence: a.Sequence, Loss: &a.Loss, Duplicate: a.Duplicate, Class: a.Class, ServedClass: a.ServedClass, SetAside: a.SetAside,
		Regret: known(a.Regret), RecentLoss: known(a.Recent.Loss), RecentSkill: known(a.Recent.Skill),
	}
	if len(a.Predictions) == 1 {
		o.Prediction = &a.Predictions[0]
	} else {
		o.Predictions = a.Predictions
	}
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
