package rpc

import (
	"strings"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
	"hindsight/internal/model"
)

const (
	lossPrefix    = "LOSS_"
	restartPrefix = "RESTART_"
)

func kernelsFromProto(list []*hindsightv1.Kernel) []*model.Kernel {
	var out []*model.Kernel
	for _, k := range list {
		out = append(out, kernelFromProto(k))
	}
	return out
}

func kernelsToProto(list []*model.Kernel) []*hindsightv1.Kernel {
	var out []*hindsightv1.Kernel
	for _, k := range list {
		out = append(out, kernelToProto(k))
	}
	return out
}

func lossToProto(name string) hindsightv1.Loss {
	return hindsightv1.Loss(hindsightv1.Loss_value[lossPrefix+strings.ToUpper(name)])
}

func rakerFromProto(p *hindsightv1.Raker) *model.Raker {
	return &model.Raker{
		Kernels: kernelsFromProto(p.GetKernels()),
		FirstOrder: model.FirstOrder{
			Frequencies: intFrom(p.Frequencies), Loss: nameOf(p.GetLoss().String(), lossPrefix), //nolint:protogetter // Presence matters.
			Step: p.Step, Lambda: p.Lambda, TrackRegret: p.TrackRegret,
		},
		WeightStep: p.WeightStep,
	}
}

func rakerToProto(s *model.Raker) *hindsightv1.Raker {
	return &hindsightv1.Raker{
		Kernels: kernelsToProto(s.Kernels), Frequencies: intTo(s.Frequencies), Loss: lossToProto(s.Loss),
		Step: s.Step, WeightStep: s.WeightStep, Lambda: s.Lambda, TrackRegret: s.TrackRegret,
	}
}

func adaRakerFromProto(p *hindsightv1.AdaRaker) *model.AdaRaker {
	return &model.AdaRaker{
		Raker: model.Raker{
			Kernels: kernelsFromProto(p.GetKernels()),
			FirstOrder: model.FirstOrder{
				Frequencies: intFrom(p.Frequencies), Loss: nameOf(p.GetLoss().String(), lossPrefix), //nolint:protogetter // Presence matters.
				Step: p.Step, Lambda: p.Lambda, TrackRegret: p.TrackRegret,
			},
			WeightStep: p.WeightStep,
		},
		StepCap: p.StepCap, BaseInterval: intFrom(p.BaseInterval), //nolint:protogetter // Presence matters.
		Restart: nameOf(p.GetRestart().String(), restartPrefix),
	}
}

func adaRakerToProto(s *model.AdaRaker) *hindsightv1.AdaRaker {
	restart := hindsightv1.AdaRaker_Restart_value[restartPrefix+strings.ToUpper(s.Restart)]
	return &hindsightv1.AdaRaker{
		Kernels: kernelsToProto(s.Kernels), Frequencies: intTo(s.Frequencies), Loss: lossToProto(s.Loss),
		Step: s.Step, StepCap: s.StepCap, WeightStep: s.WeightStep, Lambda: s.Lambda,
		BaseInterval: intTo(s.BaseInterval), Restart: hindsightv1.AdaRaker_Restart(restart), TrackRegret: s.TrackRegret,
	}
}

func fogdFromProto(p *hindsightv1.Fogd) *model.FOGD {
	return &model.FOGD{
		Kernel: kernelFromProto(p.GetKernel()),
		FirstOrder: model.FirstOrder{
			Frequencies: intFrom(p.Frequencies), Loss: nameOf(p.GetLoss().String(), lossPrefix), //nolint:protogetter // Presence matters.
			Step: p.Step, Lambda: p.Lambda, TrackRegret: p.TrackRegret,
		},
	}
}

func fogdToProto(s *model.FOGD) *hindsightv1.Fogd {
	return &hindsightv1.Fogd{
		Kernel: kernelToProto(s.Kernel), Frequencies: intTo(s.Frequencies), Loss: lossToProto(s.Loss),
		Step: s.Step, Lambda: s.Lambda, TrackRegret: s.TrackRegret,
	}
}
