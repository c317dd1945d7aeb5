package rpc

import (
	"fmt"
	"math"
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
	}
}

func statsToProto(s engine.Stats) *hindsightv1.ModelStats {
	p := &hindsightv1.ModelStats{
		Id: s.ID, Learner: s.Learner,
		Observations: s.Observations, LossSum: s.Loss,
		RegretBound: s.RegretBound, Certificate: s.Certificate,
		CertificateOk: s.CertificateOK, Certified: s.Certified,
		LogDeterminant: s.LogDeterminant, LabelBound: s.LabelBound,
		Features: int32(s.Features), EffectiveDimension: s.EffectiveDimension,
		ServedObservations: s.Served, ServedLossSum: s.ServedLoss,
		PendingLabels: s.Pending, StateBytes: s.StateBytes,
		StateDigest: fmt.Sprintf("%x", s.Digest),
		Durability:  s.Durability, SnapshotSequence: s.Snapshot,
	}
	if !math.IsNaN(s.Regret) {
		p.HindsightLoss, p.Regret, p.RegretUnpenalized = &s.HindsightLoss, &s.Regret, &s.RegretUnpenalized
	}
	if s.Dictionary > 0 {
		centres := int32(s.Dictionary)
		p.Dictionary = &centres
	}
	if s.Observations > 0 {
		p.MeanLoss = s.Loss / float64(s.Observations)
	}
	return p
}
