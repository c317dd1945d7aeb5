package rpc

import (
	"reflect"

	"google.golang.org/protobuf/types/known/timestamppb"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
	"hindsight/internal/engine"
	"hindsight/internal/model"
)

// specFromProto is the spec as it was given. The catalogue fills in its
// defaults and says what is wrong with it.
func specFromProto(p *hindsightv1.ModelSpec) (model.Spec, error) {
	if p == nil {
		return model.Spec{}, &model.FieldError{
			Field: "spec", Err: model.ErrInvalidSpec, Got: "nothing", Want: "a dimension and a learner",
		}
	}
	var s model.Spec
	fromMessage(p.ProtoReflect(), reflect.ValueOf(&s).Elem())
	return s, nil
}

func specToProto(s model.Spec) *hindsightv1.ModelSpec {
	p := new(hindsightv1.ModelSpec)
	toMessage(reflect.ValueOf(s), p.ProtoReflect())
	return p
}

func infoToProto(i engine.Info) *hindsightv1.Model {
	return &hindsightv1.Model{
		Id: i.ID, Spec: specToProto(i.Spec), CreateTime: timestamppb.New(i.Created),
		Sequence: i.Sequence, Learner: i.Learner,
		Inputs: inputsToProto(&i.Spec, i.Inputs), Classes: i.Classes,
	}
}
