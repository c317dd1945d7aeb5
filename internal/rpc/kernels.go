package rpc

import (
	"strings"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
	"hindsight/internal/model"
)

// The names of kernels and histories are those of the enums, without prefix
// and in lower case; unspecified is left to the catalogue's default.
const (
	kernelPrefix  = "KIND_"
	historyPrefix = "HISTORY_"
	unspecified   = "unspecified"
)

func nameOf(enum, prefix string) string {
	name := strings.ToLower(strings.TrimPrefix(enum, prefix))
	if name == unspecified {
		return ""
	}
	return name
}

func kernelFromProto(p *hindsightv1.Kernel) *model.Kernel {
	if p == nil {
		return nil
	}
	return &model.Kernel{
		Kind: nameOf(p.GetKind().String(), kernelPrefix), Sigma: p.Sigma, Alpha: p.Alpha,
		Degree: intFrom(p.Degree), Offset: p.Offset, //nolint:protogetter // Presence matters.
	}
}

func kernelToProto(k *model.Kernel) *hindsightv1.Kernel {
	kind := hindsightv1.Kernel_Kind_value[kernelPrefix+strings.ToUpper(k.Kind)]
	return &hindsightv1.Kernel{
		Kind: hindsightv1.Kernel_Kind(kind), Sigma: k.Sigma, Alpha: k.Alpha,
		Degree: intTo(k.Degree), Offset: k.Offset,
	}
}

func nystromFromProto(p *hindsightv1.PkawvNystrom) *model.PKAWVNystrom {
	s := &model.PKAWVNystrom{
		Kernel: kernelFromProto(p.GetKernel()), Lambda: p.Lambda,
		Mu: p.Mu, Epsilon: p.Epsilon, Beta: p.Beta, Horizon: p.Horizon, Delta: p.Delta, Forgetting: p.Forgetting,
		MaxDictionary: intFrom(p.MaxDictionary),                                                                //nolint:protogetter // Presence matters.
		History:       nameOf(p.GetHistory().String(), historyPrefix), HistoryWindow: intFrom(p.HistoryWindow), //nolint:protogetter // Presence matters.
	}
	for _, row := range p.GetDictionary() {
		s.Dictionary = append(s.Dictionary, row.GetFeatures())
	}
	return s
}

func nystromToProto(s *model.PKAWVNystrom) *hindsightv1.PkawvNystrom {
	history := hindsightv1.PkawvNystrom_History_value[historyPrefix+strings.ToUpper(s.History)]
	p := &hindsightv1.PkawvNystrom{
		Kernel: kernelToProto(s.Kernel), Lambda: s.Lambda,
		Mu: s.Mu, Epsilon: s.Epsilon, Beta: s.Beta, Horizon: s.Horizon, Delta: s.Delta, Forgetting: s.Forgetting,
		MaxDictionary: intTo(s.MaxDictionary),
		History:       hindsightv1.PkawvNystrom_History(history), HistoryWindow: intTo(s.HistoryWindow),
	}
	for _, centre := range s.Dictionary {
		p.Dictionary = append(p.Dictionary, &hindsightv1.Row{Features: centre})
	}
	return p
}
