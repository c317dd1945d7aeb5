package client

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"google.golang.org/protobuf/proto"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
)

// Model is a model of a server, by its id or an alias of it. It is safe for
// concurrent use. A call fills in the model of its request, which stays as it is.
type Model struct {
	client *Client
	id     string
}

// Model returns the model with an id or an alias. It makes no call.
func (c *Client) Model(id string) *Model { return &Model{client: c, id: id} }

// ID is the id or the alias.
func (m *Model) ID() string { return m.id }

// Label is the Target of an observation of a model with one output.
func Label(y float64) *hindsightv1.ObserveRequest_Label {
	return &hindsightv1.ObserveRequest_Label{Label: y}
}

// Labels are the Target of an observation of a model with several outputs.
func Labels(y ...float64) *hindsightv1.ObserveRequest_Labels {
	return &hindsightv1.ObserveRequest_Labels{Labels: &hindsightv1.Labels{Values: y}}
}

// Class is the Target of an observation of a classifier.
func Class(class string) *hindsightv1.ObserveRequest_Class {
	return &hindsightv1.ObserveRequest_Class{Class: class}
}

// newID draws an id. Ids that are drawn later are larger.
func newID() (string, error) {
	id, err := uuid.NewV7()
	if err != nil {
		return "", fmt.Errorf("draw an id: %w", err)
	}
	return id.String(), nil
}

// Predict asks for a prediction. It does not change the model. It draws an id for a prediction without one, unless
// Remember is false: then no label will come, and the server stores nothing.
func (m *Model) Predict(ctx context.Context, request *hindsightv1.PredictRequest) (*hindsightv1.Prediction, error) {
	r := filled(request)
	r.Model = m.id
	if r.GetPredictionId() == "" && (r.Remember == nil || r.GetRemember()) {
		var err error
		if r.PredictionId, err = newID(); err != nil {
			return nil, err
		}
	}
	answer, err := invoke(ctx, m.client, true, m.client.predictions.Predict, r)
	return answer.GetPrediction(), err
}

// Observe sends a target of a prediction, of an input, or of both. The model learns the observation once, however often
// the call is sent. The answer comes when the observation is durable. It draws an id for an observation without one.
// With a prediction and an input, the client sends the input only if the server has forgotten the prediction of a very
// late label.
func (m *Model) Observe(ctx context.Context, request *hindsightv1.ObserveRequest) (*hindsightv1.Outcome, error) {
	r, late, err := m.observation(request)
	if err != nil {
		return nil, err
	}
	ctx, cancel := m.client.bounded(ctx) // Of both calls.
	defer cancel()
	answer, err := invoke(ctx, m.client, true, m.client.predictions.Observe, r)
	if late != nil && isForgotten(err) {
		answer, err = invoke(ctx, m.client, true, m.client.predictions.Observe, late)
	}
	return answer.GetOutcome(), err
}

// observation returns the call for an observation. Late, if not nil, is the same observation by its input, for a server
// that has forgotten the prediction.
func (m *Model) observation(request *hindsightv1.ObserveRequest) (r, late *hindsightv1.ObserveRequest, err error) {
	r = filled(request)
	r.Model = m.id
	switch {
	case r.GetPredictionId() != "":
		if len(r.GetFeatures()) > 0 || r.GetInputs() != nil {
			late = proto.CloneOf(r)
			late.PredictionId, late.ObservationId = "", r.GetPredictionId()
			r.Features, r.Inputs = nil, nil
		}
	case r.GetObservationId() == "":
		r.ObservationId, err = newID()
	}
	return r, late, err
}

func isForgotten(err error) bool {
	e := FromError(err)
	return e != nil && e.Is(ErrPredictionNotFound)
}

// PredictBatch asks for a prediction of each row. All are answered from one state, or from one of each
// model behind an alias with a share. It draws ids as Predict does, if the request has none.
func (m *Model) PredictBatch(ctx context.Context, request *hindsightv1.PredictBatchRequest) ([]*hindsightv1.Prediction, error) {
	r := filled(request)
	r.Model = m.id
	rows := max(len(r.GetRows()), len(r.GetInputs()))
	if len(r.GetPredictionIds()) == 0 && (r.Remember == nil || r.GetRemember()) {
		for range rows {
			id, err := newID()
			if err != nil {
				return nil, err
			}
			r.PredictionIds = append(r.PredictionIds, id)
		}
	}
	answer, err := invoke(ctx, m.client, true, m.client.predictions.PredictBatch, r)
	if err == nil && len(answer.GetPredictions()) != rows {
		err = fmt.Errorf("%w: %d predictions of %d rows", ErrProtocol, len(answer.GetPredictions()), rows)
	}
	return answer.GetPredictions(), err
}

// ObserveBatch learns observations in their order, all or none. It draws ids as Observe does. A prediction that the
// server has forgotten rejects the batch, even if its observation has an input.
func (m *Model) ObserveBatch(ctx context.Context, observations []*hindsightv1.ObserveRequest) ([]*hindsightv1.Outcome, error) {
	batch := &hindsightv1.ObserveBatchRequest{Model: m.id}
	for _, o := range observations {
		r, _, err := m.observation(o)
		if err != nil {
			return nil, err
		}
		r.Model = ""
		batch.Observations = append(batch.Observations, r)
	}
	answer, err := invoke(ctx, m.client, true, m.client.predictions.ObserveBatch, batch)
	if err == nil && len(answer.GetOutcomes()) != len(observations) {
		err = fmt.Errorf("%w: %d outcomes of %d observations", ErrProtocol, len(answer.GetOutcomes()), len(observations))
	}
	return answer.GetOutcomes(), err
}
