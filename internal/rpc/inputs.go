package rpc

import (
	"fmt"
	"maps"

	"google.golang.org/protobuf/types/known/structpb"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
	"hindsight/internal/engine"
	"hindsight/internal/model"
	"hindsight/internal/model/input"
)

// recordOf returns the record of a request's inputs, nil if the request has none. The engine checks the values, and rejects
// the empty record of a model without named inputs. The names must be the names of the schema.
func recordOf(schema *input.Schema, inputs *structpb.Struct) (*input.Record, error) {
	if inputs == nil {
		return nil, nil
	}
	record := new(input.Record)
	if schema == nil {
		return record, nil
	}
	values, known := inputs.GetFields(), 0
	record.Reset(schema.Len())
	for i := range schema.Len() {
		if v, ok := values[schema.Name(i)]; ok {
			setValue(record, i, v)
			known++
		}
	}
	if known < schema.Len() || known < len(values) {
		return record, schema.Check(record, maps.Keys(values))
	}
	return record, nil
}

// setValue sets input i. A value without a kind is null.
func setValue(record *input.Record, i int, v *structpb.Value) {
	switch kind := v.GetKind().(type) {
	case nil, *structpb.Value_NullValue:
	case *structpb.Value_NumberValue:
		record.SetNumber(i, kind.NumberValue)
	case *structpb.Value_BoolValue:
		record.SetBoolean(i, kind.BoolValue)
	case *structpb.Value_StringValue:
		record.SetText(i, kind.StringValue)
	case *structpb.Value_ListValue:
		setList(record, i, kind.ListValue.GetValues())
	default:
		record.SetOther(i, "an object")
	}
}

func setList(record *input.Record, i int, values []*structpb.Value) {
	list := record.SetNumbers(i, len(values))
	for n, v := range values {
		number, ok := v.GetKind().(*structpb.Value_NumberValue)
		if !ok {
			record.SetOther(i, fmt.Sprintf("a list whose item %d is no number", n))
			return
		}
		list[n] = number.NumberValue
	}
}

func recordToProto(schema *input.Schema, encoded []byte) (*structpb.Struct, error) {
	var record input.Record
	if _, err := record.Decode(encoded); err != nil {
		return nil, fmt.Errorf("rpc: inputs: %w", err)
	}
	values := make(map[string]any, record.Len())
	for i := range record.Len() {
		values[schema.Name(i)] = record.Plain(i)
	}
	out, err := structpb.NewStruct(values)
	if err != nil {
		return nil, fmt.Errorf("rpc: inputs: %w", err)
	}
	return out, nil
}

func hasInputs(r *hindsightv1.ObserveRequest) bool { return r.GetInputs() != nil }

// rowsFromProto returns the rows of a batch, and the name of their field.
func (p *predictions) rowsFromProto(t engine.Target, r *hindsightv1.PredictBatchRequest) (rows []engine.Row, list string, err error) {
	list = "rows"
	n := len(r.GetRows())
	if inputs := len(r.GetInputs()); inputs > 0 {
		if n > 0 {
			return nil, list, engine.Invalid("rows", fmt.Sprintf("%d rows beside %d inputs", n, inputs), "one of them: inputs for a model with named inputs")
		}
		list, n = "inputs", inputs
	}
	if err := p.checkRows(list, n); err != nil {
		return nil, list, err
	}
	rows = make([]engine.Row, n)
	for n, row := range r.GetRows() {
		rows[n].Features = row.GetFeatures()
	}
	return rows, list, engine.CheckRows(len(r.GetInputs()), func(n int) (err error) {
		rows[n].Inputs, err = recordOf(t.Schema(), r.GetInputs()[n])
		return err
	})
}

func inputsToProto(spec *model.Spec, inputs []engine.LearnedInput) []*hindsightv1.LearnedInput {
	var out []*hindsightv1.LearnedInput
	for n := range inputs {
		in := &inputs[n]
		p := &hindsightv1.LearnedInput{Name: in.Name, Features: in.Features}
		for _, c := range in.Categories {
			p.Categories = append(p.Categories, &hindsightv1.Category{Name: c.Name, Observations: c.Observations})
		}
		if declared := spec.Inputs[n]; in.Statistics.Seen > 0 && declared.Categorical == nil && declared.Time == nil {
			p.Mean, p.Deviation = &in.Statistics.Mean, &in.Statistics.Deviation
		}
		out = append(out, p)
	}
	return out
}

func classesToProto(out *hindsightv1.Prediction, p *engine.Prediction) {
	out.Class, out.Scores = p.Name(), make(map[string]float64, len(p.Classes))
	for k, name := range p.Classes {
		out.Scores[name] = p.Probabilities[k]
	}
	unseen := p.NewClass()
	out.NewClassProbability = &unseen
}
