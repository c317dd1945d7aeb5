package rpc

import (
	"reflect"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
	"hindsight/internal/engine"
	"hindsight/internal/model"
)

// specFromProto translates a spec as it was given. The catalogue completes and checks it.
func specFromProto(p *hindsightv1.ModelSpec) (model.Spec, error) {
	if p == nil {
		return model.Spec{}, &model.FieldError{
			Field: "spec", Err: model.ErrInvalidSpec, Got: "nothing", Want: "inputs or a dimension; the learner is auto by default",
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

func infoToProto(i *engine.Info) *hindsightv1.Model {
	out := &hindsightv1.Model{
		Id: i.ID, Spec: specToProto(i.Spec), CreateTime: timeToProto(i.Created),
		Sequence: i.Sequence, Learner: i.Learner,
		Inputs: inputsToProto(&i.Spec, i.Inputs), Classes: i.Classes,
		DisplayName: i.DisplayName, Labels: i.Labels, Annotations: i.Annotations,
		Etag: i.ETag, UpdateTime: timeToProto(i.Updated), DeleteTime: timeToProto(i.Deleted), PurgeTime: timeToProto(i.Purge),
		Aliases: i.Aliases, Follows: i.Follows, MaxPendingLabels: some(i.MaxPending),
	}
	if i.LabelTTL > 0 {
		out.LabelTtl = durationpb.New(time.Duration(i.LabelTTL))
	}
	if i.Figures != nil {
		out.Summary = figuresToProto(i.Figures)
	}
	return out
}

func timeToProto(t time.Time) *timestamppb.Timestamp {
	if t.IsZero() {
		return nil
	}
	return timestamppb.New(t)
}
