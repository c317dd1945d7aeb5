package client

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/google/uuid"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
)

// Model is a model of a server, by its id or an alias of it. It is safe for
// concurrent use.
type Model struct {
	client *Client
	id     string
}

// Model returns the model with an id or an alias. It makes no call.
func (c *Client) Model(id string) *Model { return &Model{client: c, id: id} }

// ID is the id or the alias.
func (m *Model) ID() string { return m.id }

// Input is the input of a prediction or an observation. The zero value is no input.
type Input struct {
	features []float64
	record   *structpb.Struct
	err      error
}

// Features returns an input of numbers, one for each dimension of the model.
func Features(x ...float64) Input { return Input{features: slices.Clone(x)} }

// Inputs returns an input by names, for a model with named inputs. Values are numbers,
// booleans, texts, times, lists of numbers, and nil where a value is missing.
func Inputs(values map[string]any) Input {
	fields := make(map[string]*structpb.Value, len(values))
	for name, v := range values {
		value, err := inputValue(v)
		if err != nil {
			return Input{err: fmt.Errorf("input %q: %w", name, err)}
		}
		fields[name] = value
	}
	return Record(&structpb.Struct{Fields: fields})
}

// Record returns an input by names from a message. The receiver owns the message.
func Record(record *structpb.Struct) Input { return Input{record: record} }

func inputValue(v any) (*structpb.Value, error) {
	switch v := v.(type) {
	case time.Time:
		return structpb.NewStringValue(v.Format(time.RFC3339Nano)), nil
	case []float64:
		list := &structpb.ListValue{}
		for _, x := range v {
			list.Values = append(list.Values, structpb.NewNumberValue(x))
		}
		return structpb.NewListValue(list), nil
	default:
		return structpb.NewValue(v)
	}
}

func (i Input) given() bool { return len(i.features) > 0 || i.record != nil || i.err != nil }

// Target is what happened: a label, several labels, or a class.
type Target struct {
	set func(*hindsightv1.ObserveRequest)
}

// Label is the target of a model with one output.
func Label(y float64) Target {
	return Target{func(r *hindsightv1.ObserveRequest) { r.Target = &hindsightv1.ObserveRequest_Label{Label: y} }}
}

// Labels are the target of a model with several outputs.
func Labels(y ...float64) Target {
	values := slices.Clone(y)
	return Target{func(r *hindsightv1.ObserveRequest) {
		r.Target = &hindsightv1.ObserveRequest_Labels{Labels: &hindsightv1.Labels{Values: values}}
	}}
}

// Class is the target of a classifier.
func Class(class string) Target {
	return Target{func(r *hindsightv1.ObserveRequest) { r.Target = &hindsightv1.ObserveRequest_Class{Class: class} }}
}

// Observation is a target of a prediction, of an input, or of both. With both, the client sends
// the input only if the server has forgotten the prediction of a very late label. The server
// learns the observation once all the same.
type Observation struct {
	Prediction string // The id of the prediction.
	Input      Input
	Target     Target
	// ID is the id of an observation without a prediction. If it is empty, the call draws an id.
	ID     string
	Weight float64 // The importance; 0 means 1.
	// Key chooses the model like ByKey, for an alias with a share and an observation without a pending prediction.
	Key string
}

// ByPrediction returns the observation of what was predicted.
func ByPrediction(id string, target Target) Observation {
	return Observation{Prediction: id, Target: target}
}

// ByInput returns the observation of an input that was not predicted.
func ByInput(input Input, target Target) Observation {
	return Observation{Input: input, Target: target}
}

// request is the call for an observation. It draws the id before the first try. Late, if not nil,
// is the same observation by its input, for a server that has forgotten the prediction.
func (m *Model) request(o Observation) (request, late *hindsightv1.ObserveRequest, err error) {
	request = &hindsightv1.ObserveRequest{Model: m.id, Key: o.Key}
	if o.Target.set != nil {
		o.Target.set(request)
	}
	if o.Weight != 0 {
		request.Weight = &o.Weight
	}
	if o.Prediction != "" {
		request.PredictionId = o.Prediction
		if !o.Input.given() || o.Input.err != nil {
			return request, nil, o.Input.err
		}
		late = proto.CloneOf(request)
		late.PredictionId, late.ObservationId = "", o.Prediction
		late.Features, late.Inputs = o.Input.features, o.Input.record
		return request, late, nil
	}
	request.Features, request.Inputs, request.ObservationId = o.Input.features, o.Input.record, o.ID
	if o.ID == "" {
		if request.ObservationId, err = newID(); err != nil {
			return nil, nil, err
		}
	}
	return request, nil, o.Input.err
}

// PredictOption changes a Predict or PredictBatch.
type PredictOption func(*predictCall)

type predictCall struct {
	*hindsightv1.PredictRequest
	alternatives bool
}

// PredictionID chooses the id of a prediction. Without it the call draws an id, a batch an id for
// each input.
func PredictionID(id string) PredictOption { return func(r *predictCall) { r.PredictionId = id } }

// ByKey chooses the model behind an alias with a share: one key, one model. Without a key the
// prediction id chooses.
func ByKey(key string) PredictOption { return func(r *predictCall) { r.Key = key } }

// LabelTTL says how long the server waits for the label.
func LabelTTL(ttl time.Duration) PredictOption {
	return func(r *predictCall) { r.LabelTtl = durationpb.New(ttl) }
}

// WithoutLabel says that no label will come: the server stores nothing, and the
// prediction has no id.
func WithoutLabel() PredictOption { return func(r *predictCall) { r.Remember = new(bool) } }

// AtSequence asks for the prediction of a state with at least so many observations, for example the
// Sequence of an Outcome. Without AtSequence, a server of a cluster may answer before it has
// learned what another server has acknowledged.
func AtSequence(sequence uint64) PredictOption {
	return func(r *predictCall) { r.MinSequence = sequence }
}

// NotOlder bounds the age of the state from which a server of a cluster answers.
func NotOlder(age time.Duration) PredictOption {
	return func(r *predictCall) { r.MaxStaleness = durationpb.New(age) }
}

// Ahead says how many rows come between the next row and this one, of a batch the first one, without
// their labels.
func Ahead(rows int) PredictOption {
	return func(r *predictCall) { r.Horizon = uint32(max(0, min(rows, math.MaxInt32))) }
}

// Alternatives says that the rows of a batch are alternatives of one moment. Else they follow one
// another, and each is one row further ahead.
func Alternatives() PredictOption { return func(r *predictCall) { r.alternatives = true } }

// Explained also asks what each family of auto's experts and each key say: Prediction.Explanation.
func Explained() PredictOption { return func(r *predictCall) { r.Explain = true } }

// predictRequest is the call for a prediction. It draws the id before the first try.
func (m *Model) predictRequest(input Input, options []PredictOption) (*predictCall, error) {
	r := &predictCall{PredictRequest: &hindsightv1.PredictRequest{Model: m.id, Features: input.features, Inputs: input.record}}
	for _, option := range options {
		option(r)
	}
	var err error
	if r.GetPredictionId() == "" && (r.Remember == nil || r.GetRemember()) {
		r.PredictionId, err = newID()
	}
	if err == nil {
		err = input.err
	}
	return r, err
}

// newID draws an id. Ids that are drawn later are larger.
func newID() (string, error) {
	id, err := uuid.NewV7()
	if err != nil {
		return "", fmt.Errorf("draw an id: %w", err)
	}
	return id.String(), nil
}

// Predict asks for a prediction. It does not change the model.
func (m *Model) Predict(ctx context.Context, input Input, options ...PredictOption) (*hindsightv1.Prediction, error) {
	request, err := m.predictRequest(input, options)
	if err != nil {
		return nil, err
	}
	answer, err := invoke(ctx, m.client, true, m.client.predictions.Predict, request.PredictRequest)
	return answer.GetPrediction(), err
}

// Observe sends a target. The model learns the observation once, however often the call is sent.
// The answer comes when the observation is durable.
func (m *Model) Observe(ctx context.Context, o Observation) (*hindsightv1.Outcome, error) {
	request, late, err := m.request(o)
	if err != nil {
		return nil, err
	}
	ctx, cancel := m.client.bounded(ctx) // Of both calls.
	defer cancel()
	answer, err := invoke(ctx, m.client, true, m.client.predictions.Observe, request)
	if late != nil && isForgotten(err) {
		answer, err = invoke(ctx, m.client, true, m.client.predictions.Observe, late)
	}
	return answer.GetOutcome(), err
}

func isForgotten(err error) bool {
	e := FromError(err)
	return e != nil && e.Is(ErrPredictionNotFound)
}

// PredictBatch asks for a prediction of each input. All are answered from one state, or from one of each
// model behind an alias with a share.
func (m *Model) PredictBatch(ctx context.Context, inputs []Input, options ...PredictOption) ([]*hindsightv1.Prediction, error) {
	batch := &hindsightv1.PredictBatchRequest{Model: m.id}
	for i, input := range inputs {
		r, err := m.predictRequest(input, options)
		if err != nil {
			return nil, fmt.Errorf("input %d: %w", i, err)
		}
		if input.record != nil {
			batch.Inputs = append(batch.Inputs, input.record)
		} else {
			batch.Rows = append(batch.Rows, &hindsightv1.Row{Features: input.features})
		}
		if r.GetPredictionId() != "" {
			batch.PredictionIds = append(batch.PredictionIds, r.GetPredictionId())
		}
		if r.GetKey() != "" {
			batch.Keys = append(batch.Keys, r.GetKey())
		}
		batch.LabelTtl, batch.Remember, batch.MinSequence, batch.MaxStaleness = r.GetLabelTtl(), r.Remember, r.GetMinSequence(), r.GetMaxStaleness()
		batch.Horizon, batch.Alternatives = r.GetHorizon(), r.alternatives
	}
	answer, err := invoke(ctx, m.client, true, m.client.predictions.PredictBatch, batch)
	if err == nil && len(answer.GetPredictions()) != len(inputs) {
		err = fmt.Errorf("%w: %d predictions of %d inputs", ErrProtocol, len(answer.GetPredictions()), len(inputs))
	}
	return answer.GetPredictions(), err
}

// ObserveBatch learns observations in their order, all or none. A prediction that the
// server has forgotten rejects the batch, even if its observation has an input.
func (m *Model) ObserveBatch(ctx context.Context, observations []Observation) ([]*hindsightv1.Outcome, error) {
	batch := &hindsightv1.ObserveBatchRequest{Model: m.id}
	for i, o := range observations {
		r, _, err := m.request(o)
		if err != nil {
			return nil, fmt.Errorf("observation %d: %w", i, err)
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
