package rpc

import (
	"fmt"
	"math"

	"google.golang.org/protobuf/types/known/timestamppb"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
	"hindsight/internal/engine"
	"hindsight/internal/model"
)

// specFromProto takes a spec over, defaults not yet filled in.
func specFromProto(p *hindsightv1.ModelSpec) (model.Spec, error) {
	if p == nil {
		return model.Spec{}, &model.FieldError{
			Field: "spec", Err: model.ErrInvalidSpec, Got: "nothing", Want: "a dimension and a learner",
		}
	}
	s := model.Spec{
		Dimension: int(p.GetDimension()),
		Outputs:   int(p.GetOutputs()),
		Seed:      p.GetSeed(),
		Scaling:   scalingFromProto(p.GetScaling()),
	}
	switch learner := p.GetLearner().(type) {
	case nil:
		return s, nil // The catalogue says what is missing.
	case *hindsightv1.ModelSpec_PkawvTaylor:
		l := learner.PkawvTaylor
		s.PKAWVTaylor = &model.PKAWVTaylor{
			Sigma: l.Sigma, Degree: intFrom(l.Degree), Lambda: l.Lambda, MaxFeatures: intFrom(l.MaxFeatures), Forgetting: l.Forgetting,
		}
	case *hindsightv1.ModelSpec_PkawvNystrom:
		s.PKAWVNystrom = nystromFromProto(learner.PkawvNystrom)
	case *hindsightv1.ModelSpec_FourierAwv:
		l := learner.FourierAwv
		s.FourierAWV = &model.FourierAWV{
			Kernel: kernelFromProto(l.GetKernel()), Frequencies: intFrom(l.Frequencies), Orthogonal: l.Orthogonal, Lambda: l.Lambda, Forgetting: l.Forgetting,
		}
	case *hindsightv1.ModelSpec_LinearAwv:
		l := learner.LinearAwv
		s.LinearAWV = &model.LinearAWV{Lambda: l.Lambda, Forgetting: l.Forgetting}
	case *hindsightv1.ModelSpec_KernelAwv:
		l := learner.KernelAwv
		s.KernelAWV = &model.KernelAWV{
			Kernel: kernelFromProto(l.GetKernel()), Lambda: l.Lambda, MaxObservations: intFrom(l.MaxObservations),
		}
	case *hindsightv1.ModelSpec_Raker:
		s.Raker = rakerFromProto(learner.Raker)
	case *hindsightv1.ModelSpec_AdaRaker:
		s.AdaRaker = adaRakerFromProto(learner.AdaRaker)
	case *hindsightv1.ModelSpec_Fogd:
		s.FOGD = fogdFromProto(learner.Fogd)
	}
	return s, nil
}

func specToProto(s model.Spec) *hindsightv1.ModelSpec {
	p := &hindsightv1.ModelSpec{
		Dimension: int32(s.Dimension),
		Outputs:   int32(s.Outputs),
		Seed:      s.Seed,
		Scaling:   scalingToProto(s.Scaling),
	}
	switch {
	case s.PKAWVTaylor != nil:
		l := s.PKAWVTaylor
		p.Learner = &hindsightv1.ModelSpec_PkawvTaylor{PkawvTaylor: &hindsightv1.PkawvTaylor{
			Sigma: l.Sigma, Degree: intTo(l.Degree), Lambda: l.Lambda, MaxFeatures: intTo(l.MaxFeatures), Forgetting: l.Forgetting,
		}}
	case s.PKAWVNystrom != nil:
		p.Learner = &hindsightv1.ModelSpec_PkawvNystrom{PkawvNystrom: nystromToProto(s.PKAWVNystrom)}
	case s.FourierAWV != nil:
		l := s.FourierAWV
		p.Learner = &hindsightv1.ModelSpec_FourierAwv{FourierAwv: &hindsightv1.FourierAwv{
			Kernel: kernelToProto(l.Kernel), Frequencies: intTo(l.Frequencies), Orthogonal: l.Orthogonal, Lambda: l.Lambda, Forgetting: l.Forgetting,
		}}
	case s.LinearAWV != nil:
		p.Learner = &hindsightv1.ModelSpec_LinearAwv{LinearAwv: &hindsightv1.LinearAwv{
			Lambda: s.LinearAWV.Lambda, Forgetting: s.LinearAWV.Forgetting,
		}}
	case s.KernelAWV != nil:
		l := s.KernelAWV
		p.Learner = &hindsightv1.ModelSpec_KernelAwv{KernelAwv: &hindsightv1.KernelAwv{
			Kernel: kernelToProto(l.Kernel), Lambda: l.Lambda, MaxObservations: intTo(l.MaxObservations),
		}}
	case s.Raker != nil:
		p.Learner = &hindsightv1.ModelSpec_Raker{Raker: rakerToProto(s.Raker)}
	case s.AdaRaker != nil:
		p.Learner = &hindsightv1.ModelSpec_AdaRaker{AdaRaker: adaRakerToProto(s.AdaRaker)}
	case s.FOGD != nil:
		p.Learner = &hindsightv1.ModelSpec_Fogd{Fogd: fogdToProto(s.FOGD)}
	}
	return p
}

func scalingFromProto(p *hindsightv1.Scaling) *model.Scaling {
	switch kind := p.GetKind().(type) {
	case *hindsightv1.Scaling_Fixed:
		f := kind.Fixed
		return &model.Scaling{Fixed: &model.FixedScaling{
			Offset: f.GetOffset(), Scale: f.GetScale(), LabelOffset: f.GetLabelOffset(), LabelScale: f.LabelScale,
		}}
	case *hindsightv1.Scaling_Warmup:
		return &model.Scaling{Warmup: &model.WarmupScaling{
			Observations: int(kind.Warmup.GetObservations()), Labels: kind.Warmup.Labels,
		}}
	}
	if p != nil {
		return &model.Scaling{} // The catalogue says what is missing.
	}
	return nil
}

func scalingToProto(s *model.Scaling) *hindsightv1.Scaling {
	switch {
	case s == nil:
		return nil
	case s.Fixed != nil:
		return &hindsightv1.Scaling{Kind: &hindsightv1.Scaling_Fixed{Fixed: &hindsightv1.FixedScaling{
			Offset: s.Fixed.Offset, Scale: s.Fixed.Scale, LabelOffset: s.Fixed.LabelOffset, LabelScale: s.Fixed.LabelScale,
		}}}
	default:
		return &hindsightv1.Scaling{Kind: &hindsightv1.Scaling_Warmup{Warmup: &hindsightv1.WarmupScaling{
			Observations: int32(s.Warmup.Observations), Labels: s.Warmup.Labels,
		}}}
	}
}

func intFrom(v *int32) *int {
	if v == nil {
		return nil
	}
	n := int(*v)
	return &n
}

func intTo(v *int) *int32 {
	if v == nil {
		return nil
	}
	n := int32(*v)
	return &n
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
