package rpc

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"

	"hindsight/api/openapi"
	hindsightv1 "hindsight/api/proto/hindsight/v1"
	"hindsight/internal/model"
)

func (m *models) ListLearners(context.Context, *hindsightv1.ListLearnersRequest) (*hindsightv1.ListLearnersResponse, error) {
	learners, err := m.learners()
	if err != nil {
		return nil, err
	}
	return &hindsightv1.ListLearnersResponse{Learners: learners}, nil
}

// schema is a message or a field in the OpenAPI document, which carries the comments of the
// proto files.
type schema struct {
	Description string            `json:"description"`
	Properties  map[string]schema `json:"properties"`
}

func (s schema) text() string { return strings.ReplaceAll(s.Description, "\n", " ") }

// describeLearners reads the OpenAPI document, which takes milliseconds.
func describeLearners() ([]*hindsightv1.Learner, error) {
	var document struct {
		Components struct {
			Schemas map[protoreflect.Name]schema `json:"schemas"`
		} `json:"components"`
	}
	if err := json.Unmarshal(openapi.Document(), &document); err != nil {
		return nil, fmt.Errorf("the description of the API: %w", err)
	}
	var out []*hindsightv1.Learner
	each := (*hindsightv1.ModelSpec)(nil).ProtoReflect().Descriptor().Oneofs().ByName("learner").Fields()
	for i := range each.Len() {
		message, described := each.Get(i).Message(), document.Components.Schemas[each.Get(i).Message().Name()]
		learner := &hindsightv1.Learner{Name: string(each.Get(i).Name()), Description: described.text()}
		for j := range message.Fields().Len() {
			f := message.Fields().Get(j)
			field := &hindsightv1.LearnerField{
				Name: string(f.Name()), Type: f.Kind().String(), Repeated: f.IsList(), Description: described.Properties[f.JSONName()].text(),
			}
			enum := f.Enum()
			if f.Message() != nil {
				field.Type = string(f.Message().Name())
				if kind := f.Message().Fields().ByName("kind"); kind != nil {
					enum = kind.Enum()
				}
			}
			for k := 1; enum != nil && k < enum.Values().Len(); k++ { // The first value is "unspecified".
				field.Values = append(field.Values, string(enum.Values().Get(k).Name()))
			}
			learner.Fields = append(learner.Fields, field)
		}
		out = append(out, learner)
	}
	first := slices.IndexFunc(out, func(l *hindsightv1.Learner) bool { return l.GetName() == model.DefaultLearner })
	return slices.Concat(out[first:first+1], out[:first], out[first+1:]), nil
}
